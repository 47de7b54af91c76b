/* Stream-ordered memory pools. A pool's reserved bytes are physical; they grow in steps and go back when a
 * stream, event or context is synchronized and more than the release threshold is held, or on a trim. A
 * free takes effect at once: no kernel runs here that could still use it. */
#include "standin.h"

#include <stdlib.h>
#include <string.h>

static CUmemoryPool pools;

static bool on_device(CUmemoryPool pool)
{
    return pool->location.type == CU_MEM_LOCATION_TYPE_DEVICE;
}

static bool pool_known(CUmemoryPool pool)
{
    CUmemoryPool at = pools;
    while (at != NULL && at != pool)
        at = at->next;
    return at != NULL && !at->destroyed;
}

CUmemoryPool standin_pool_new(CUdevice device, bool built_in)
{
    CUmemoryPool pool = calloc(1, sizeof(*pool));
    if (pool == NULL)
        abort();
    pool->location = (CUmemLocation){.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device};
    pool->built_in = built_in;
    pool->flags[0] = pool->flags[1] = pool->flags[2] = 1;
    pool->next = pools;
    pools = pool;
    return pool;
}

static void set_reserved(CUmemoryPool pool, uint64_t bytes)
{
    pool->reserved_bytes = bytes;
    if (bytes > pool->reserved_high_bytes)
        pool->reserved_high_bytes = bytes;
}

static void shrink(CUmemoryPool pool, uint64_t keep_bytes)
{
    uint64_t keep = pool->used_bytes > keep_bytes ? pool->used_bytes : keep_bytes;
    if (keep >= pool->reserved_bytes)
        return;
    keep = standin_round_up(keep, STANDIN_POOL_STEP_BYTES);
    if (keep >= pool->reserved_bytes)
        return;
    if (on_device(pool) && !pool->imported)
        standin_give(pool->location.id, USE_POOL, pool->reserved_bytes - keep);
    else if (!pool->imported)
        standin_host_used_bytes -= pool->reserved_bytes - keep;
    set_reserved(pool, keep);
}

/* Makes room for this many more used bytes. */
CUresult standin_pool_reserve(CUmemoryPool pool, uint64_t bytes)
{
    uint64_t used = pool->used_bytes + bytes;
    uint64_t need = standin_round_up(used, STANDIN_POOL_STEP_BYTES);
    if (pool->maximum_bytes != 0 && used > pool->maximum_bytes)
        return CUDA_ERROR_OUT_OF_MEMORY;
    if (need > pool->reserved_bytes && !pool->imported) {
        uint64_t more = need - pool->reserved_bytes;
        if (!on_device(pool))
            standin_host_used_bytes += more;
        else if (!standin_take(pool->location.id, USE_POOL, more))
            return CUDA_ERROR_OUT_OF_MEMORY;
        set_reserved(pool, need);
    }
    pool->used_bytes = used;
    if (used > pool->used_high_bytes)
        pool->used_high_bytes = used;
    return CUDA_SUCCESS;
}

void standin_pool_unuse(CUmemoryPool pool, uint64_t bytes)
{
    pool->used_bytes -= bytes;
}

static void remove_pool(CUmemoryPool pool)
{
    shrink(pool, 0);
    CUmemoryPool *link = &pools;
    while (*link != pool)
        link = &(*link)->next;
    *link = pool->next;
    standin_free_handle(pool);
}

void standin_pool_free(struct standin_range *range)
{
    CUmemoryPool pool = range->owner;
    standin_pool_unuse(pool, standin_round_up(range->bytes, 512));
    pool->allocations--;
    standin_unmap((void *)range->start, range->bytes);
    standin_range_remove(range);
    if (pool->destroyed && pool->allocations == 0)
        remove_pool(pool);
}

void standin_pools_synchronize(void)
{
    for (CUmemoryPool pool = pools; pool != NULL; pool = pool->next) {
        bool graphs = on_device(pool) && pool == standin_devices[pool->location.id].graph_pool;
        if (!graphs && pool->reserved_bytes > pool->release_threshold_bytes)
            shrink(pool, pool->release_threshold_bytes);
    }
}

static CUresult allocate(CUdeviceptr *address, size_t bytes, CUmemoryPool pool, CUstream stream)
{
    REQUIRE(address != NULL && pool_known(pool));
    REQUIRE(bytes != 0);
    if (standin_fails())
        return CUDA_ERROR_OUT_OF_MEMORY;
    CUgraph graph = standin_capturing(stream);
    if (graph != NULL)
        return standin_graph_allocate(graph, pool->location.id, bytes, address);
    CUresult result = standin_pool_reserve(pool, standin_round_up(bytes, 512));
    if (result != CUDA_SUCCESS)
        return result;
    void *start = standin_map(bytes, 0, false);
    CUdevice device = on_device(pool) ? pool->location.id : -1;
    struct standin_range *range =
        start != NULL ? standin_range_add((uintptr_t)start, bytes, KIND_POOL, device) : NULL;
    if (range == NULL) {
        standin_pool_unuse(pool, standin_round_up(bytes, 512));
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    range->owner = pool;
    pool->allocations++;
    *address = (CUdeviceptr)(uintptr_t)start;
    return CUDA_SUCCESS;
}

CUresult cuMemAllocAsync(CUdeviceptr *dptr, size_t bytesize, CUstream hStream)
{
    CONTEXT_CALL();
    CUdevice device; /* the stream's, whatever the current context's is */
    return cuStreamGetDevice(hStream, &device) == CUDA_SUCCESS
               ? allocate(dptr, bytesize, standin_devices[device].current_pool, hStream)
               : CUDA_ERROR_INVALID_HANDLE;
}

CUresult cuMemAllocFromPoolAsync(CUdeviceptr *dptr, size_t bytesize, CUmemoryPool pool, CUstream hStream)
{
    CONTEXT_CALL();
    return allocate(dptr, bytesize, pool, hStream);
}

CUresult cuMemFreeAsync(CUdeviceptr dptr, CUstream hStream)
{
    CONTEXT_CALL();
    if (dptr == 0)
        return CUDA_ERROR_INVALID_VALUE;
    CUgraph graph = standin_capturing(hStream);
    if (graph != NULL)
        return standin_graph_free(graph, dptr);
    struct standin_range *range = standin_range_find((uintptr_t)dptr);
    REQUIRE(range != NULL && range->start == (uintptr_t)dptr);
    return standin_free_range(range); /* memory of cuMemAlloc too, as with the real driver */
}

/* ---- Pools themselves. */

void standin_write_pools(FILE *out)
{
    for (CUmemoryPool pool = pools; pool != NULL; pool = pool->next) {
        bool graphs = on_device(pool) && pool == standin_devices[pool->location.id].graph_pool;
        if (!pool->imported)
            fprintf(out, "%s %p %lu %d\n", graphs ? "graphs" : "reserved", (void *)pool,
                    (unsigned long)pool->reserved_bytes, on_device(pool) ? pool->location.id : -1);
    }
}

CUresult cuMemPoolCreate(CUmemoryPool *pool, const CUmemPoolProps *poolProps)
{
    DRIVER_CALL();
    REQUIRE(pool != NULL && poolProps != NULL);
    const CUmemLocation *location = &poolProps->location;
    REQUIRE(location->type != CU_MEM_LOCATION_TYPE_INVALID);
    REQUIRE(location->type != CU_MEM_LOCATION_TYPE_DEVICE || standin_device_valid(location->id));
    CUmemoryPool made = standin_pool_new(0, false);
    made->location = *location;
    made->handle_types = poolProps->handleTypes;
    made->maximum_bytes = poolProps->maxSize;
    *pool = made;
    return CUDA_SUCCESS;
}

CUresult cuMemPoolDestroy(CUmemoryPool pool)
{
    DRIVER_CALL();
    REQUIRE(pool_known(pool) && !pool->built_in);
    for (int i = 0; i < standin_settings.devices; i++) {
        if (standin_devices[i].current_pool == pool)
            standin_devices[i].current_pool = standin_devices[i].default_pool;
    }
    pool->destroyed = true;
    if (pool->allocations == 0)
        remove_pool(pool);
    return CUDA_SUCCESS;
}

CUresult cuMemPoolTrimTo(CUmemoryPool pool, size_t minBytesToKeep)
{
    DRIVER_CALL();
    REQUIRE(pool_known(pool));
    shrink(pool, minBytesToKeep);
    return CUDA_SUCCESS;
}

/* The attributes of 64 bits, or NULL for the flags. */
static uint64_t *attribute_bytes(CUmemoryPool pool, CUmemPool_attribute attribute)
{
    switch (attribute) {
    case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
        return &pool->release_threshold_bytes;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT:
        return &pool->reserved_bytes;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
        return &pool->reserved_high_bytes;
    case CU_MEMPOOL_ATTR_USED_MEM_CURRENT:
        return &pool->used_bytes;
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
        return &pool->used_high_bytes;
    default:
        return NULL;
    }
}

CUresult cuMemPoolGetAttribute(CUmemoryPool pool, CUmemPool_attribute attr, void *value)
{
    DRIVER_CALL();
    REQUIRE(pool_known(pool) && value != NULL);
    if (attr >= CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES &&
        attr <= CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES) {
        *(int *)value = (int)pool->flags[attr - CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES];
        return CUDA_SUCCESS;
    }
    const uint64_t *bytes = attribute_bytes(pool, attr);
    REQUIRE(bytes != NULL);
    *(cuuint64_t *)value = *bytes;
    return CUDA_SUCCESS;
}

CUresult cuMemPoolSetAttribute(CUmemoryPool pool, CUmemPool_attribute attr, void *value)
{
    DRIVER_CALL();
    REQUIRE(pool_known(pool) && value != NULL);
    switch (attr) {
    case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES:
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC:
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES:
        pool->flags[attr - CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES] = *(int *)value != 0;
        return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
        pool->release_threshold_bytes = *(cuuint64_t *)value;
        return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH: /* the high marks can only be reset */
        REQUIRE(*(cuuint64_t *)value == 0);
        pool->reserved_high_bytes = pool->reserved_bytes;
        return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
        REQUIRE(*(cuuint64_t *)value == 0);
        pool->used_high_bytes = pool->used_bytes;
        return CUDA_SUCCESS;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

CUresult cuMemPoolSetAccess(CUmemoryPool pool, const CUmemAccessDesc *map, size_t count)
{
    DRIVER_CALL();
    REQUIRE(pool_known(pool) && (map != NULL || count == 0));
    return CUDA_SUCCESS;
}

CUresult cuMemPoolGetAccess(CUmemAccess_flags *flags, CUmemoryPool memPool, CUmemLocation *location)
{
    DRIVER_CALL();
    REQUIRE(flags != NULL && location != NULL && pool_known(memPool));
    *flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetDefaultMemPool(CUmemoryPool *pool_out, CUdevice dev)
{
    DRIVER_CALL();
    REQUIRE(pool_out != NULL);
    if (!standin_device_valid(dev))
        return CUDA_ERROR_INVALID_DEVICE;
    *pool_out = standin_devices[dev].default_pool;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetMemPool(CUmemoryPool *pool, CUdevice dev)
{
    DRIVER_CALL();
    REQUIRE(pool != NULL);
    if (!standin_device_valid(dev))
        return CUDA_ERROR_INVALID_DEVICE;
    *pool = standin_devices[dev].current_pool;
    return CUDA_SUCCESS;
}

CUresult cuDeviceSetMemPool(CUdevice dev, CUmemoryPool pool)
{
    DRIVER_CALL();
    if (!standin_device_valid(dev))
        return CUDA_ERROR_INVALID_DEVICE;
    REQUIRE(pool_known(pool) && on_device(pool) && pool->location.id == dev);
    standin_devices[dev].current_pool = pool;
    return CUDA_SUCCESS;
}

/* The same by location (13.0): only pinned device memory has pools here. */
static bool location_valid(const CUmemLocation *location, CUmemAllocationType type)
{
    return location != NULL && location->type == CU_MEM_LOCATION_TYPE_DEVICE &&
           type == CU_MEM_ALLOCATION_TYPE_PINNED && standin_device_valid(location->id);
}

CUresult cuMemGetDefaultMemPool(CUmemoryPool *pool_out, CUmemLocation *location, CUmemAllocationType type)
{
    DRIVER_CALL();
    REQUIRE(pool_out != NULL && location_valid(location, type));
    *pool_out = standin_devices[location->id].default_pool;
    return CUDA_SUCCESS;
}

CUresult cuMemGetMemPool(CUmemoryPool *pool, CUmemLocation *location, CUmemAllocationType type)
{
    DRIVER_CALL();
    REQUIRE(pool != NULL && location_valid(location, type));
    *pool = standin_devices[location->id].current_pool;
    return CUDA_SUCCESS;
}

CUresult cuMemSetMemPool(CUmemLocation *location, CUmemAllocationType type, CUmemoryPool pool)
{
    DRIVER_CALL();
    REQUIRE(location_valid(location, type) && pool_known(pool));
    standin_devices[location->id].current_pool = pool;
    return CUDA_SUCCESS;
}
