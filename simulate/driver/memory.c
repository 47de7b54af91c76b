/* Device, managed and pitched memory, and what cuMemFree takes back. */
#include "standin.h"

static CUresult allocate(CUdeviceptr *address, size_t bytes, enum standin_kind kind, bool low)
{
    CUcontext context = standin_current_context();
    enum standin_use use = kind == KIND_MANAGED ? USE_MANAGED : USE_ALLOCATION;
    if (standin_fails() || !standin_take(context->device, use, bytes))
        return CUDA_ERROR_OUT_OF_MEMORY;
    /* The real driver hands out 2 MiB pages for what is that large, and so starts it on such a boundary. */
    void *start = standin_map(bytes, bytes >= STANDIN_GRANULARITY_BYTES ? STANDIN_GRANULARITY_BYTES : 0, low);
    struct standin_range *range =
        start != NULL ? standin_range_add((uintptr_t)start, bytes, kind, context->device) : NULL;
    if (range == NULL) {
        standin_give(context->device, use, bytes);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    range->context = context;
    *address = (CUdeviceptr)(uintptr_t)start;
    return CUDA_SUCCESS;
}

CUresult cuMemAlloc_v2(CUdeviceptr *dptr, size_t bytesize)
{
    CONTEXT_CALL();
    REQUIRE(dptr != NULL && bytesize != 0);
    return allocate(dptr, bytesize, KIND_DEVICE, false);
}

CUresult cuMemAlloc(CUdeviceptr_v1 *dptr, unsigned int bytesize)
{
    CONTEXT_CALL();
    REQUIRE(dptr != NULL && bytesize != 0);
    CUdeviceptr address = 0;
    CUresult result = allocate(&address, bytesize, KIND_DEVICE, true);
    if (result == CUDA_SUCCESS)
        *dptr = (CUdeviceptr_v1)address;
    return result;
}

static CUresult allocate_pitched(CUdeviceptr *address, size_t *pitch, size_t width, size_t height, bool low)
{
    REQUIRE(width != 0 && height != 0);
    *pitch = standin_round_up(width, 512);
    size_t bytes;
    if (__builtin_mul_overflow(*pitch, height, &bytes))
        return CUDA_ERROR_OUT_OF_MEMORY;
    return allocate(address, bytes, KIND_DEVICE, low);
}

CUresult cuMemAllocPitch_v2(CUdeviceptr *dptr, size_t *pPitch, size_t WidthInBytes, size_t Height,
                            unsigned int ElementSizeBytes)
{
    CONTEXT_CALL();
    REQUIRE(dptr != NULL && pPitch != NULL);
    REQUIRE(ElementSizeBytes == 4 || ElementSizeBytes == 8 || ElementSizeBytes == 16);
    return allocate_pitched(dptr, pPitch, WidthInBytes, Height, false);
}

CUresult cuMemAllocPitch(CUdeviceptr_v1 *dptr, unsigned int *pPitch, unsigned int WidthInBytes,
                         unsigned int Height, unsigned int ElementSizeBytes)
{
    CONTEXT_CALL();
    REQUIRE(dptr != NULL && pPitch != NULL && ElementSizeBytes != 0);
    CUdeviceptr address = 0;
    size_t pitch = 0;
    CUresult result = allocate_pitched(&address, &pitch, WidthInBytes, Height, true);
    if (result == CUDA_SUCCESS) {
        *dptr = (CUdeviceptr_v1)address;
        *pPitch = (unsigned int)pitch;
    }
    return result;
}

CUresult cuMemAllocManaged(CUdeviceptr *dptr, size_t bytesize, unsigned int flags)
{
    CONTEXT_CALL();
    REQUIRE(dptr != NULL && bytesize != 0);
    REQUIRE(flags == CU_MEM_ATTACH_GLOBAL || flags == CU_MEM_ATTACH_HOST);
    return allocate(dptr, bytesize, KIND_MANAGED, false);
}

CUresult standin_free_range(struct standin_range *range)
{
    switch (range->kind) {
    case KIND_DEVICE:
    case KIND_MANAGED:
        standin_give(range->device, range->kind == KIND_MANAGED ? USE_MANAGED : USE_ALLOCATION, range->bytes);
        standin_unmap((void *)range->start, range->bytes);
        standin_range_remove(range);
        return CUDA_SUCCESS;
    case KIND_POOL:
        standin_pool_free(range);
        return CUDA_SUCCESS;
    case KIND_GRAPH:
        REQUIRE(range->live);
        standin_graph_memory_freed(range);
        return CUDA_SUCCESS;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

static CUresult free_at(CUdeviceptr address)
{
    if (address == 0)
        return CUDA_SUCCESS;
    struct standin_range *range = standin_range_find((uintptr_t)address);
    REQUIRE(range != NULL && range->start == (uintptr_t)address);
    if (range->kind == KIND_FOREIGN && range->owner != NULL) { /* a buffer of an external memory */
        standin_unmap((void *)range->start, range->bytes);
        standin_range_remove(range);
        return CUDA_SUCCESS;
    }
    return standin_free_range(range);
}

CUresult cuMemFree_v2(CUdeviceptr dptr)
{
    CONTEXT_CALL();
    return free_at(dptr);
}

CUresult cuMemFree(CUdeviceptr_v1 dptr)
{
    CONTEXT_CALL();
    return free_at(dptr);
}

CUresult cuMemGetInfo_v2(size_t *free, size_t *total)
{
    CONTEXT_CALL();
    REQUIRE(free != NULL && total != NULL);
    *total = standin_devices[context->device].total_bytes;
    *free = *total - standin_used(context->device) - standin_used_by_others(context->device);
    return CUDA_SUCCESS;
}

CUresult cuMemGetInfo(unsigned int *free, unsigned int *total)
{
    CONTEXT_CALL();
    REQUIRE(free != NULL && total != NULL);
    uint64_t all = standin_devices[context->device].total_bytes;
    uint64_t left = all - standin_used(context->device) - standin_used_by_others(context->device);
    *total = all > UINT32_MAX ? UINT32_MAX : (unsigned int)all;
    *free = left > UINT32_MAX ? UINT32_MAX : (unsigned int)left;
    return CUDA_SUCCESS;
}

CUresult cuMemGetAddressRange_v2(CUdeviceptr *pbase, size_t *psize, CUdeviceptr dptr)
{
    CONTEXT_CALL();
    struct standin_range *range = standin_range_find((uintptr_t)dptr);
    if (range == NULL || range->kind == KIND_REGISTERED)
        return CUDA_ERROR_NOT_FOUND;
    if (pbase != NULL)
        *pbase = (CUdeviceptr)range->start;
    if (psize != NULL)
        *psize = range->bytes;
    return CUDA_SUCCESS;
}

CUresult cuMemGetAddressRange(CUdeviceptr_v1 *pbase, unsigned int *psize, CUdeviceptr_v1 dptr)
{
    CONTEXT_CALL();
    CUdeviceptr base;
    size_t bytes;
    CUresult result = cuMemGetAddressRange_v2(&base, &bytes, dptr);
    if (result == CUDA_SUCCESS && pbase != NULL)
        *pbase = (CUdeviceptr_v1)base;
    if (result == CUDA_SUCCESS && psize != NULL)
        *psize = (unsigned int)bytes;
    return result;
}

/* ---- Managed memory's residency: hints, and nothing moves here. */

CUresult cuMemAdvise_v2(CUdeviceptr devPtr, size_t count, CUmem_advise advice, CUmemLocation location)
{
    (void)advice;
    (void)location;
    CONTEXT_CALL();
    REQUIRE(count != 0 && standin_range_find((uintptr_t)devPtr) != NULL);
    return CUDA_SUCCESS;
}

CUresult cuMemAdvise(CUdeviceptr devPtr, size_t count, CUmem_advise advice, CUdevice device)
{
    (void)advice;
    (void)device;
    CONTEXT_CALL();
    REQUIRE(count != 0 && standin_range_find((uintptr_t)devPtr) != NULL);
    return CUDA_SUCCESS;
}

CUresult cuMemPrefetchAsync_v2(CUdeviceptr devPtr, size_t count, CUmemLocation location, unsigned int flags,
                               CUstream hStream)
{
    (void)location;
    (void)flags;
    (void)hStream;
    CONTEXT_CALL();
    struct standin_range *range = standin_range_find((uintptr_t)devPtr);
    REQUIRE(count != 0 && range != NULL && range->kind == KIND_MANAGED);
    return CUDA_SUCCESS;
}

CUresult cuMemPrefetchAsync(CUdeviceptr devPtr, size_t count, CUdevice dstDevice, CUstream hStream)
{
    (void)dstDevice;
    (void)hStream;
    CONTEXT_CALL();
    struct standin_range *range = standin_range_find((uintptr_t)devPtr);
    REQUIRE(count != 0 && range != NULL && range->kind == KIND_MANAGED);
    return CUDA_SUCCESS;
}

CUresult cuStreamAttachMemAsync(CUstream hStream, CUdeviceptr dptr, size_t length, unsigned int flags)
{
    (void)hStream;
    (void)length;
    (void)flags;
    CONTEXT_CALL();
    REQUIRE(standin_range_find((uintptr_t)dptr) != NULL);
    return CUDA_SUCCESS;
}
