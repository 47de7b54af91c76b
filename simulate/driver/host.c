/* Page-locked host memory: the driver's own, and the application's registered. */
#include "standin.h"

static CUresult allocate_host(void **address, size_t bytes, unsigned flags)
{
    REQUIRE(address != NULL && bytes != 0);
    if (standin_fails())
        return CUDA_ERROR_OUT_OF_MEMORY;
    void *start = standin_map(bytes, 0, false);
    struct standin_range *range =
        start != NULL ? standin_range_add((uintptr_t)start, bytes, KIND_HOST, -1) : NULL;
    if (range == NULL)
        return CUDA_ERROR_OUT_OF_MEMORY;
    range->context = standin_current_context();
    range->flags = flags;
    standin_host_used_bytes += bytes;
    *address = start;
    return CUDA_SUCCESS;
}

CUresult cuMemHostAlloc(void **pp, size_t bytesize, unsigned int Flags)
{
    CONTEXT_CALL();
    REQUIRE(Flags <= 7);
    return allocate_host(pp, bytesize, Flags);
}

CUresult cuMemAllocHost_v2(void **pp, size_t bytesize)
{
    CONTEXT_CALL();
    return allocate_host(pp, bytesize, 0);
}

CUresult cuMemAllocHost(void **pp, unsigned int bytesize)
{
    CONTEXT_CALL();
    return allocate_host(pp, bytesize, 0);
}

CUresult cuMemFreeHost(void *p)
{
    CONTEXT_CALL();
    if (p == NULL)
        return CUDA_SUCCESS;
    struct standin_range *range = standin_range_at((uintptr_t)p, KIND_HOST);
    REQUIRE(range != NULL);
    standin_host_used_bytes -= range->bytes;
    standin_unmap(p, range->bytes);
    standin_range_remove(range);
    return CUDA_SUCCESS;
}

static CUresult register_host(void *address, size_t bytes, unsigned flags)
{
    REQUIRE(address != NULL && bytes != 0);
    struct standin_range *range = standin_range_add((uintptr_t)address, bytes, KIND_REGISTERED, -1);
    if (range == NULL)
        return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
    range->context = standin_current_context();
    range->flags = flags;
    standin_registered_used_bytes += bytes;
    return CUDA_SUCCESS;
}

CUresult cuMemHostRegister_v2(void *p, size_t bytesize, unsigned int Flags)
{
    CONTEXT_CALL();
    return register_host(p, bytesize, Flags);
}

CUresult cuMemHostRegister(void *p, size_t bytesize, unsigned int Flags)
{
    CONTEXT_CALL();
    return register_host(p, bytesize, Flags);
}

CUresult cuMemHostUnregister(void *p)
{
    CONTEXT_CALL();
    REQUIRE(p != NULL);
    struct standin_range *range = standin_range_at((uintptr_t)p, KIND_REGISTERED);
    if (range == NULL)
        return CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
    standin_registered_used_bytes -= range->bytes;
    standin_range_remove(range);
    return CUDA_SUCCESS;
}

CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr *pdptr, void *p, unsigned int Flags)
{
    CONTEXT_CALL();
    REQUIRE(pdptr != NULL && Flags == 0);
    struct standin_range *range = standin_range_find((uintptr_t)p);
    REQUIRE(range != NULL && range->device == -1);
    *pdptr = (CUdeviceptr)(uintptr_t)p;
    return CUDA_SUCCESS;
}

CUresult cuMemHostGetDevicePointer(CUdeviceptr_v1 *pdptr, void *p, unsigned int Flags)
{
    CONTEXT_CALL();
    CUdeviceptr address;
    REQUIRE(pdptr != NULL);
    CUresult result = cuMemHostGetDevicePointer_v2(&address, p, Flags);
    if (result == CUDA_SUCCESS)
        *pdptr = (CUdeviceptr_v1)address;
    return result;
}

CUresult cuMemHostGetFlags(unsigned int *pFlags, void *p)
{
    CONTEXT_CALL();
    REQUIRE(pFlags != NULL);
    struct standin_range *range = standin_range_find((uintptr_t)p);
    REQUIRE(range != NULL && range->kind == KIND_HOST);
    *pFlags = range->flags | CU_MEMHOSTALLOC_DEVICEMAP;
    return CUDA_SUCCESS;
}
