/* What a host has in errno and dlerror is left alone. */
#include "driver_calls.h"

#include <dlfcn.h>
#include <errno.h>
#include <string.h>

/* The first call of all, with nothing known yet, and later ones, good and bad. */
void leaves_errno(void)
{
    CUdeviceptr address, pooled, none;
    CUmemoryPool pool;
    size_t too_much = (size_t)1 << 50;
#define ERRNO_AFTER(call)                                                                                    \
    errno = 4711;                                                                                            \
    printf("%s: result %d, errno %d\n", #call, call, errno)
    ERRNO_AFTER(cuMemAlloc_v2(&address, MIB));
    ERRNO_AFTER(cuMemAlloc_v2(&none, too_much));
    ERRNO_AFTER(cuMemAllocAsync(&pooled, MIB, NULL));
    ERRNO_AFTER(cuDeviceGetDefaultMemPool(&pool, 0));
    ERRNO_AFTER(cuMemFreeAsync(pooled, NULL));
    ERRNO_AFTER(cuMemPoolTrimTo(pool, 0));
    ERRNO_AFTER(cuMemFree_v2(address + 1));
    ERRNO_AFTER(cuMemFree_v2(address));
    ERRNO_AFTER(cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, 64 * MIB));
    errno = 4711;
    printf("dlsym %d, errno %d\n", dlsym(RTLD_DEFAULT, "cuMemAlloc_v2") != NULL, errno);
}

/* An error that the host has not read yet outlives as many calls as it likes to make. */
void leaves_dlerror(void)
{
    CUdeviceptr address, pooled, none;
    size_t too_much = (size_t)1 << 50;
    if (dlsym(RTLD_DEFAULT, "no_such_name") != NULL)
        return;
    for (int i = 0; i < 400; i++) {
        GOOD(cuMemAlloc_v2(&address, MIB));
        GOOD(cuMemAllocAsync(&pooled, MIB, NULL));
        cuMemAlloc_v2(&none, too_much);
        GOOD(cuMemFreeAsync(pooled, NULL));
        GOOD(cuMemFree_v2(address));
    }
    const char *error = dlerror();
    const char *text = error != NULL ? strstr(error, "undefined symbol") : NULL;
    printf("dlerror %s\n", text != NULL ? text : "nothing");
}
