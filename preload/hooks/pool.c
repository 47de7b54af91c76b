/* Stream-ordered allocations, and the pools that they come from. */
#include "guard.h"
#include "hooks/graph_memory.h"
#include "hooks/pool_table.h"
#include "hooks/shared_identity.h"
#include "hooks/wrap.h"

struct call {
    enum vt_function function;
    int8_t device_index;
    uint8_t flags;
    struct vt_pool *pool;
    uint64_t pool_handle;
};

typedef CUresult is_capturing_function(CUstream stream, CUstreamCaptureStatus *status);
typedef CUresult stream_device_function(CUstream stream, CUdevice *device);

static bool is_captured(CUstream stream, bool per_thread)
{
    VT_NEED(is_capturing, cuStreamIsCapturing);
    VT_NEED(is_capturing_ptsz, cuStreamIsCapturing_ptsz);
    is_capturing_function *query = per_thread ? is_capturing_ptsz : is_capturing;
    CUstreamCaptureStatus status;
    return query != NULL && query(stream, &status) == CUDA_SUCCESS &&
           status == CU_STREAM_CAPTURE_STATUS_ACTIVE;
}

/* Default streams (small numbers as handles) belong to the current device. Older drivers do not report the
 * device of other streams; it is taken to be the current one. */
static int8_t stream_device(CUstream stream, bool per_thread, int8_t current_device)
{
    VT_NEED(get_device, cuStreamGetDevice);
    VT_NEED(get_device_ptsz, cuStreamGetDevice_ptsz);
    stream_device_function *query = per_thread ? get_device_ptsz : get_device;
    CUdevice device;
    if ((uintptr_t)stream <= (uintptr_t)CU_STREAM_PER_THREAD || query == NULL ||
        query(stream, &device) != CUDA_SUCCESS || vt_device_index(device) == VT_NO_DEVICE)
        return current_device;
    return (int8_t)device;
}

/* `pool_handle` NULL means the device's current pool. */
static struct call begin_call(enum vt_function function, CUstream stream, bool per_thread,
                              CUmemoryPool pool_handle)
{
    struct call call = {
        .function = function, .device_index = vt_before_any_allocation(), .flags = VT_FLAG_ASYNC};
    struct vt_query query = vt_query_begin();
    if (!query.begun)
        return call;
    if (is_captured(stream, per_thread))
        call.flags |= VT_FLAG_CAPTURED;
    else
        call.device_index = stream_device(stream, per_thread, call.device_index);
    VT_NEED(get_pool, cuDeviceGetMemPool);
    if (pool_handle == NULL && (get_pool == NULL || call.device_index < 0 ||
                                get_pool(&pool_handle, call.device_index) != CUDA_SUCCESS))
        pool_handle = NULL;
    if (pool_handle != NULL) {
        call.pool_handle = (uintptr_t)pool_handle;
        call.pool = vt_pool_add(call.pool_handle, call.device_index, 0);
    }
    if (call.pool != NULL) {
        call.device_index = call.pool->device_index;
        call.flags |= call.pool->flags;
    }
    vt_query_end(&query);
    return call;
}

static void end_call(const struct call *call, CUresult result, const CUdeviceptr *address, size_t bytes)
{
    vt_after_allocation(&(struct vt_observation){.function = call->function,
                                                 .flags = call->flags,
                                                 .device_index = call->device_index,
                                                 .address = result == CUDA_SUCCESS ? *address : 0,
                                                 .bytes = bytes,
                                                 .detail = call->pool_handle},
                        result);
    if (result == CUDA_SUCCESS && (call->flags & VT_FLAG_CAPTURED))
        vt_graph_node_made(call->device_index);
    if (call->pool == NULL || result != CUDA_SUCCESS || (call->flags & VT_FLAG_CAPTURED))
        return;
    struct vt_query query = vt_query_begin();
    if (query.begun)
        vt_pool_poll(call->pool, call->function);
    vt_query_end(&query);
}

#define ALLOCATE(symbol, per_thread, pool_value, parameters, arguments)                                      \
    VT_HOOK(symbol, parameters)                                                                              \
    {                                                                                                        \
        VT_REAL(symbol);                                                                                     \
        struct call call = begin_call(VT_FUNCTION_##symbol, stream, per_thread, pool_value);                 \
        CUresult result = real arguments;                                                                    \
        end_call(&call, result, address, bytes);                                                             \
        return result;                                                                                       \
    }
#define ALLOCATE_ASYNC(symbol, per_thread)                                                                   \
    ALLOCATE(symbol, per_thread, NULL, (CUdeviceptr * address, size_t bytes, CUstream stream),               \
             (address, bytes, stream))
ALLOCATE_ASYNC(cuMemAllocAsync, false)
ALLOCATE_ASYNC(cuMemAllocAsync_ptsz, true)
#define ALLOCATE_FROM_POOL(symbol, per_thread)                                                               \
    ALLOCATE(symbol, per_thread, pool,                                                                       \
             (CUdeviceptr * address, size_t bytes, CUmemoryPool pool, CUstream stream),                      \
             (address, bytes, pool, stream))
ALLOCATE_FROM_POOL(cuMemAllocFromPoolAsync, false)
ALLOCATE_FROM_POOL(cuMemAllocFromPoolAsync_ptsz, true)

static struct vt_observation before_free(enum vt_function function, CUdeviceptr address, CUstream stream,
                                         bool per_thread)
{
    struct vt_observation freed = {.function = function,
                                   .kind = VT_EVENT_FREE,
                                   .flags = VT_FLAG_ASYNC,
                                   .device_index = VT_NO_DEVICE,
                                   .address = address};
    int saved_errno;
    if (vt_enter(&saved_errno)) {
        if (is_captured(stream, per_thread))
            freed.flags |= VT_FLAG_CAPTURED;
        vt_leave(saved_errno);
    }
    vt_before_free(&freed);
    return freed;
}

#define FREE(symbol, per_thread)                                                                             \
    VT_HOOK(symbol, (CUdeviceptr address, CUstream stream))                                                  \
    {                                                                                                        \
        VT_REAL(symbol);                                                                                     \
        struct vt_observation freed = before_free(VT_FUNCTION_##symbol, address, stream, per_thread);        \
        CUresult result = real(address, stream);                                                             \
        vt_after_free(&freed, result);                                                                       \
        if (!(freed.flags & VT_FLAG_CAPTURED))                                                               \
            vt_poll_pools(VT_FUNCTION_##symbol, false);                                                      \
        return result;                                                                                       \
    }
FREE(cuMemFreeAsync, false)
FREE(cuMemFreeAsync_ptsz, true)

static void pool_made(enum vt_function function, CUmemoryPool handle, int8_t device_index, uint8_t flags)
{
    vt_pool_add((uintptr_t)handle, device_index, flags);
    vt_driver_event(&(struct vt_observation){.function = function,
                                             .kind = VT_EVENT_POOL,
                                             .flags = flags,
                                             .device_index = device_index,
                                             .address = (uintptr_t)handle});
}

VT_HOOK(cuMemPoolCreate, (CUmemoryPool * pool, const CUmemPoolProps *properties))
{
    VT_REAL(cuMemPoolCreate);
    vt_before_any_allocation();
    CUresult result = real(pool, properties);
    if (result == CUDA_SUCCESS) {
        bool on_device = vt_is_on_device(properties->location);
        pool_made(VT_FUNCTION_cuMemPoolCreate, *pool,
                  on_device ? (int8_t)properties->location.id : VT_NO_DEVICE, on_device ? 0 : VT_FLAG_HOST);
    }
    return result;
}

VT_HOOK(cuMemPoolImportFromShareableHandle,
        (CUmemoryPool * pool, void *handle, CUmemAllocationHandleType handle_type, unsigned long long flags))
{
    VT_REAL(cuMemPoolImportFromShareableHandle);
    int8_t device_index = vt_before_any_allocation();
    CUresult result = real(pool, handle, handle_type, flags);
    if (result == CUDA_SUCCESS)
        pool_made(VT_FUNCTION_cuMemPoolImportFromShareableHandle, *pool, device_index, VT_FLAG_FOREIGN);
    return result;
}

VT_HOOK_ALLOCATE(cuMemPoolImportPointer,
                 (CUdeviceptr * address, CUmemoryPool pool, CUmemPoolPtrExportData *shared),
                 (address, pool, shared), .flags = VT_FLAG_ASYNC | VT_FLAG_FOREIGN,
                 .address = done ? *address : 0, .bytes = done ? vt_range_bytes(*address) : 0,
                 .detail = (uintptr_t)pool,
                 .total_bytes = done ? vt_identity_of_bytes(shared, sizeof(*shared)) : 0)
VT_HOOK_EVENT(cuMemPoolExportPointer, VT_EVENT_EXPORT, VT_NO_DEVICE,
              (CUmemPoolPtrExportData * shared, CUdeviceptr address), (shared, address), .address = address,
              .bytes = vt_range_bytes(address), .detail = vt_identity_of_bytes(shared, sizeof(*shared)))

VT_HOOK(cuMemPoolDestroy, (CUmemoryPool pool))
{
    VT_REAL(cuMemPoolDestroy);
    struct vt_observation freed = {.function = VT_FUNCTION_cuMemPoolDestroy,
                                   .kind = VT_EVENT_POOL_DESTROY,
                                   .device_index = VT_NO_DEVICE,
                                   .address = (uintptr_t)pool};
    const struct vt_observation was = vt_pool_remove((uintptr_t)pool);
    vt_before_free(&freed);
    CUresult result = real(pool);
    vt_after_free(&freed, result);
    if (result != CUDA_SUCCESS && was.device_index != VT_NO_DEVICE) { /* the pool is still there */
        vt_pool_add((uintptr_t)pool, was.device_index, was.flags);
        vt_poll_pools(VT_FUNCTION_cuMemPoolDestroy, true);
    }
    return result;
}

VT_HOOK(cuMemPoolTrimTo, (CUmemoryPool pool, size_t bytes_to_keep))
{
    VT_REAL(cuMemPoolTrimTo);
    CUresult result = real(pool, bytes_to_keep);
    if (result == CUDA_SUCCESS)
        vt_poll_pools(VT_FUNCTION_cuMemPoolTrimTo, true);
    return result;
}
