/* What some frameworks bring: functions named as libcuda's that load it when first called. */
#include <dlfcn.h>
#include <stddef.h>

typedef unsigned long long device_pointer;

static void *find(const char *name)
{
    return dlsym(dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL), name);
}

#define LAZY(name, parameters, arguments)                                                                    \
    int name parameters;                                                                                     \
    int name parameters                                                                                      \
    {                                                                                                        \
        static int(*real) parameters;                                                                        \
        if (real == NULL)                                                                                    \
            real = (int(*) parameters)find(#name);                                                           \
        return real != NULL ? real arguments : 1;                                                            \
    }

LAZY(cuInit, (unsigned flags), (flags))
LAZY(cuDevicePrimaryCtxRetain, (void **context, int device), (context, device))
LAZY(cuCtxSetCurrent, (void *context), (context))
LAZY(cuMemAlloc_v2, (device_pointer * address, size_t bytes), (address, bytes))
LAZY(cuMemAllocManaged, (device_pointer * address, size_t bytes, unsigned flags), (address, bytes, flags))
LAZY(cuMemHostAlloc, (void **address, size_t bytes, unsigned flags), (address, bytes, flags))
LAZY(cuMemFree_v2, (device_pointer address), (address))
LAZY(cuMemFreeHost, (void *address), (address))
