/* Loads a real libcudart (the argument) over the stand-in driver and lets it look up its functions. It then
 * refuses the stand-in, which is right and left alone; what it keeps of its lookups is in its data. Prints
 * every pointer there to a function of libcuda or of the recorder:
 *   driver NAME | recorder NAME */
#include <dlfcn.h>
#include <link.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *library_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash != NULL ? slash + 1 : path;
}

static void print_pointer(uintptr_t value)
{
    Dl_info info;
    if (value < 4096 || dladdr((void *)value, &info) == 0 || info.dli_saddr != (void *)value)
        return;
    const char *library = library_name(info.dli_fname);
    if (strcmp(library, "libcuda.so.1") == 0)
        printf("driver %s\n", info.dli_sname);
    else if (strcmp(library, "libvramtrace.so") == 0)
        printf("recorder %s\n", info.dli_sname);
}

static int scan(struct dl_phdr_info *info, size_t size, void *wanted_base)
{
    (void)size;
    if (info->dlpi_addr != *(uintptr_t *)wanted_base)
        return 0;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &info->dlpi_phdr[i];
        if (part->p_type != PT_LOAD || !(part->p_flags & PF_W))
            continue;
        uintptr_t start = (info->dlpi_addr + part->p_vaddr + 7) & ~(uintptr_t)7;
        uintptr_t end = info->dlpi_addr + part->p_vaddr + part->p_memsz;
        for (uintptr_t place = start; place + 8 <= end; place += 8)
            print_pointer(*(const uintptr_t *)place);
    }
    return 1;
}

int main(int argc, char **argv)
{
    /* libcudart closes the driver that it refuses; names are wanted after that. */
    if (dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL) == NULL)
        return 1;
    void *runtime = argc > 1 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : NULL;
    if (runtime == NULL) {
        printf("missing %s\n", dlerror());
        return 1;
    }
    int (*get_device_count)(int *) = (int (*)(int *))dlsym(runtime, "cudaGetDeviceCount");
    int count = -1;
    printf("result %d\n", get_device_count(&count));
    uintptr_t base = ((struct link_map *)runtime)->l_addr;
    dl_iterate_phdr(scan, &base);
    return 0;
}
