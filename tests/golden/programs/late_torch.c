/* Tells of memory as PyTorch's allocator does, by the first definition in the process: before and after each
 * of the libraries named by its arguments is loaded. */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

enum { CUDA_DEVICE_1 = 0x0101 };

static void tell(int round)
{
    void (*usage)(void *, int64_t, uint64_t, uint64_t, uint16_t) =
        (void (*)(void *, int64_t, uint64_t, uint64_t, uint16_t))dlsym(
            RTLD_DEFAULT, "_ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE");
    void (*oom)(int64_t, uint64_t, uint64_t, uint16_t) =
        (void (*)(int64_t, uint64_t, uint64_t, uint16_t))dlsym(
            RTLD_DEFAULT, "_ZN3c1027reportOutOfMemoryToProfilerElmmNS_6DeviceE");
    uint64_t bytes = 512 * (uint64_t)(round + 1);
    printf("round %d\n", round);
    if (usage != NULL)
        usage((void *)(uintptr_t)0x10000, (int64_t)bytes, bytes, 4096, CUDA_DEVICE_1);
    if (oom != NULL)
        oom((int64_t)bytes, bytes, 4096, CUDA_DEVICE_1);
    if (usage != NULL)
        usage((void *)(uintptr_t)0x10000, -(int64_t)bytes, 0, 4096, CUDA_DEVICE_1);
}

int main(int argc, char **argv)
{
    tell(0);
    for (int i = 1; i < argc; i++) {
        if (dlopen(argv[i], RTLD_NOW | RTLD_LOCAL) == NULL) {
            printf("missing %s\n", dlerror());
            return 1;
        }
        usleep(300000); /* what was loaded is looked for ten times a second */
        tell(i);
    }
    return 0;
}
