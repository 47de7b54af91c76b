/* Code and contexts: memory that no allocation asks for. */
#include "driver_calls.h"

/* PTX: the stand-in does not read it, a GPU's driver compiles it. */
#define KERNEL(name) ".visible .entry " name "() { ret; }\n"
static const char image[] = ".version 8.0\n.target sm_80\n.address_size 64\n" KERNEL("one") KERNEL("two")
    KERNEL("three") KERNEL("four") KERNEL("five") KERNEL("six") KERNEL("seven");

void loads(void)
{
    CUmodule module;
    CUlibrary library;
    uint64_t before = device_bytes(0);
    GOOD(cuModuleLoadData(&module, image));
    check_value("module", device_bytes(0) - before);
    GOOD(cuModuleUnload(module));
    before = device_bytes(0);
    GOOD(cuLibraryLoadData(&library, image, NULL, NULL, 0, NULL, NULL, 0));
    GOOD(cuLibraryGetModule(&module, library));
    check_value("library", device_bytes(0) - before);
    GOOD(cuLibraryUnload(library));
    before = device_bytes(0);
    GOOD(cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, 512 * MIB));
    check_value("limit", device_bytes(0) - before);
}

/* Each way to a kernel's first use; what comes after costs nothing. */
void kernels(void)
{
    CUmodule module;
    CUlibrary library;
    CUkernel kernel;
    CUfunction function;
    CUlaunchConfig configuration = {1, 1, 1, 1, 1, 1, 0, NULL, NULL, 0};
    GOOD(cuModuleLoadData(&module, image));
    GOOD(cuLibraryLoadData(&library, image, NULL, NULL, 0, NULL, NULL, 0));
#define FIRST(name, call)                                                                                    \
    for (int times = 0; times < 3; times++) {                                                                \
        uint64_t before = device_bytes(0);                                                                   \
        GOOD(call);                                                                                          \
        check_value(name, device_bytes(0) - before);                                                         \
    }
    FIRST("cuModuleGetFunction", cuModuleGetFunction(&function, module, "one"))
    FIRST("nothing", cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL))
    FIRST("cuModuleGetFunction", cuModuleGetFunction(&function, module, "two"))
    FIRST("nothing", cuLibraryGetKernel(&kernel, library, "three"))
    FIRST("cuKernelGetFunction", cuKernelGetFunction(&function, kernel))
    FIRST("nothing", cuLibraryGetKernel(&kernel, library, "four"))
    FIRST("cuLaunchKernel", cuLaunchKernel((CUfunction)kernel, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL))
    FIRST("nothing", cuLibraryGetKernel(&kernel, library, "five"))
    FIRST("cuLaunchKernelEx", cuLaunchKernelEx(&configuration, (CUfunction)kernel, NULL, NULL))
    FIRST("nothing", cuLibraryGetKernel(&kernel, library, "six"))
    if (standin_device_bytes != NULL) /* a GPU's driver wants a function, which is loaded already */
        FIRST("cuFuncLoad", cuFuncLoad((CUfunction)kernel))
    FIRST("nothing", cuLibraryGetKernel(&kernel, library, "seven"))
    FIRST("cuLaunchCooperativeKernel_ptsz",
          cuLaunchCooperativeKernel_ptsz((CUfunction)kernel, 1, 1, 1, 1, 1, 1, 0, NULL, NULL))
    /* Handles may come again after an unloading. */
    GOOD(cuModuleUnload(module));
    GOOD(cuModuleLoadData(&module, image));
    FIRST("cuModuleGetFunction", cuModuleGetFunction(&function, module, "one"))
    check_value("all", device_bytes(0));
}

/* Launches of one kernel, for their cost. */
void launches(void)
{
    CUmodule module;
    CUfunction function;
    GOOD(cuModuleLoadData(&module, ""));
    GOOD(cuModuleGetFunction(&function, module, "one"));
    for (int i = 0; i < 100000; i++)
        GOOD(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
}

/* On an H100 each of the first ones takes 2 MiB. */
void streams(void)
{
    enum { STREAMS = 48 };
    CUstream made[STREAMS];
    uint64_t before = device_bytes(0);
    for (int i = 0; i < STREAMS; i++)
        GOOD(i % 2 ? cuStreamCreate(&made[i], CU_STREAM_NON_BLOCKING)
                   : cuStreamCreateWithPriority(&made[i], CU_STREAM_NON_BLOCKING, -1));
    check_value("made", device_bytes(0) - before);
    before = device_bytes(0);
    for (int i = 0; i < STREAMS; i++)
        GOOD(cuStreamDestroy_v2(made[i]));
    check_value("destroyed", before - device_bytes(0));
}

void contexts(void)
{
    CUcontext own, again;
    check_value("primary", (uintptr_t)primary_context);
    GOOD(cuDevicePrimaryCtxRetain(&again, 0));
    GOOD(cuDevicePrimaryCtxRelease_v2(0));
    GOOD(cuCtxCreate_v2(&own, 0, 0));
    check_value("own", (uintptr_t)own);
    GOOD(cuCtxDestroy_v2(own));
    GOOD(cuCtxCreate_v4(&own, NULL, 0, 0));
    check_value("own", (uintptr_t)own);
    GOOD(cuCtxDestroy_v2(own));
    GOOD(cuDevicePrimaryCtxRelease_v2(0));
    GOOD(cuDevicePrimaryCtxRetain(&again, 0));
    GOOD(cuDevicePrimaryCtxReset_v2(0));
}
