/* Linked to libcuda: calls its symbols. Also built as a plugin, with an entry of its own, and as a library
 * that allocates in its constructor. */
#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>

#include "way.h"

static int retain(void **context, int device)
{
    return cuDevicePrimaryCtxRetain((CUcontext *)context, device);
}

static int set_current(void *context)
{
    return cuCtxSetCurrent(context);
}

static int init(unsigned flags)
{
    return cuInit(flags);
}

static int allocate(device_pointer *address, size_t bytes)
{
    return cuMemAlloc_v2(address, bytes);
}

static int allocate_managed(device_pointer *address, size_t bytes, unsigned flags)
{
    return cuMemAllocManaged(address, bytes, flags);
}

static int allocate_host(void **address, size_t bytes, unsigned flags)
{
    return cuMemHostAlloc(address, bytes, flags);
}

static int free_device(device_pointer address)
{
    return cuMemFree_v2(address);
}

static int free_host(void *address)
{
    return cuMemFreeHost(address);
}

static void run(void)
{
    const struct way way = {.init = init,
                            .retain = retain,
                            .set_current = set_current,
                            .allocate = allocate,
                            .allocate_managed = allocate_managed,
                            .allocate_host = allocate_host,
                            .free = free_device,
                            .free_host = free_host};
#ifdef ALLOCATE_FIRST
    device_pointer none;
    printf("before cuInit %d\n", allocate(&none, 4096));
#endif
    begin(&way);
    allocate_and_free(&way, 3);
    fflush(stdout);
}

#if defined(PLUGIN)
void plugin_run(void);
void plugin_run(void)
{
    run();
}
#elif defined(CONSTRUCTOR)
__attribute__((constructor)) static void constructed(void)
{
    run();
}
#else
int main(void)
{
    run();
    return 0;
}
#endif
