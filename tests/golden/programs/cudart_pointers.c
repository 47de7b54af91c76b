/* Loads a library of NVIDIA's and calls a function of it, by which it looks up functions of libcuda: with
 * arguments that can be read and are 0. It then fails: a libcudart refuses the stand-in driver, which is
 * right and left alone, and a real driver has no GPU. What was kept of the lookups is in data. Prints every
 * pointer there, of any library, to a function of libcuda or of the recorder: driver NAME LIBRARY | recorder
 * NAME LIBRARY */
#include <dlfcn.h>
#include <link.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const char *library_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash != NULL ? slash + 1 : path;
}

static void print_pointer(uintptr_t value, const char *holder)
{
    Dl_info info;
    if (value < 4096 || dladdr((void *)value, &info) == 0 || info.dli_saddr != (void *)value)
        return;
    const char *library = library_name(info.dli_fname);
    if (strcmp(library, "libcuda.so.1") == 0)
        printf("driver %s %s\n", info.dli_sname, holder);
    else if (strcmp(library, "libvramtrace.so") == 0)
        printf("recorder %s %s\n", info.dli_sname, holder);
}

static int scan(struct dl_phdr_info *info, size_t size, void *unused)
{
    const char *name = library_name(info->dlpi_name);
    (void)size, (void)unused;
    if (strcmp(name, "libcuda.so.1") == 0 || strcmp(name, "libvramtrace.so") == 0)
        return 0;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &info->dlpi_phdr[i];
        if (part->p_type != PT_LOAD || !(part->p_flags & PF_W))
            continue;
        uintptr_t start = (info->dlpi_addr + part->p_vaddr + 7) & ~(uintptr_t)7;
        uintptr_t end = info->dlpi_addr + part->p_vaddr + part->p_memsz;
        for (uintptr_t place = start; place + 8 <= end; place += 8)
            print_pointer(*(const uintptr_t *)place, name);
    }
    return 0;
}

int main(int argc, char **argv)
{
    /* libcudart closes the driver that it refuses; names are wanted after that. */
    if (dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL) == NULL)
        return 1;
    void *used = argc == 3 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : NULL;
    int (*function)(void *, void *, void *, void *) =
        used != NULL ? (int (*)(void *, void *, void *, void *))dlsym(used, argv[2]) : NULL;
    if (function == NULL) {
        printf("missing %s\n", dlerror());
        return 1;
    }
    static char arguments[4][4096];
    printf("result %d\n", function(arguments[0], arguments[1], arguments[2], arguments[3]));
    fflush(stdout);
    dl_iterate_phdr(scan, NULL);
    fflush(stdout);
    _exit(0); /* what failed half-way may crash at its end, with the recorder and without */
}
