/* Stream-ordered memory. */
#include "driver_calls.h"

void pools(void)
{
    CUmemoryPool pool, default_pool;
    CUmemPoolProps properties = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                                 .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}};
    cuuint64_t keep = UINT64_MAX;
    CUdeviceptr first, second, third;
    CUstream stream;
    GOOD(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    GOOD(cuStreamSynchronize(CU_STREAM_PER_THREAD)); /* which makes that stream: 2 MiB of an H100 */
    count_from_here();
    GOOD(cuDeviceGetDefaultMemPool(&default_pool, 0));
    GOOD(cuMemPoolSetAttribute(default_pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &keep));
    GOOD(cuMemPoolCreate(&pool, &properties));
    GOOD(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &keep));
    check_value("default_pool", (uintptr_t)default_pool);
    check_value("pool", (uintptr_t)pool);
    GOOD(cuMemAllocAsync(&first, 5 * MIB, stream));
    say_alloc(first, 5 * MIB, 4);
    GOOD(cuMemAllocFromPoolAsync(&second, 40 * MIB, pool, stream));
    say_alloc(second, 40 * MIB, 4);
    GOOD(cuMemAllocAsync_ptsz(&third, MIB, NULL));
    say_alloc(third, MIB, 4);
    check_value("reserved", allocation_bytes());
    say_free(first);
    GOOD(cuMemFreeAsync(first, stream));
    say_free(second);
    GOOD(cuMemFreeAsync_ptsz(second, stream));
    say_free(third);
    GOOD(cuMemFree_v2(third));
    GOOD(cuStreamSynchronize(stream));
    GOOD(cuMemPoolTrimTo(pool, 0));
    GOOD(cuMemPoolTrimTo(default_pool, 0));
    check_value("reserved_after_trim", allocation_bytes());
    GOOD(cuMemPoolDestroy(pool));
}
