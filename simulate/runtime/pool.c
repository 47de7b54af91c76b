/* Stream-ordered memory. Runtime and driver share the layouts and numbers of pools' types. */
#include "runtime.h"

_Static_assert(sizeof(struct cudaMemPoolProps) == sizeof(CUmemPoolProps), "the driver's layout");
_Static_assert(sizeof(struct cudaMemAccessDesc) == sizeof(CUmemAccessDesc), "the driver's layout");
_Static_assert(sizeof(struct cudaMemLocation) == sizeof(CUmemLocation), "the driver's layout");

/* As the plain one and as the copy for the per-thread default stream, which asks another driver function. */
#define BOTH(name, parameters, call, call_ptsz)                                                              \
    cudaError_t name parameters                                                                              \
    {                                                                                                        \
        RUNTIME_CALL();                                                                                      \
        RECORD(runtime_driver.call);                                                                         \
    }                                                                                                        \
    cudaError_t name##_ptsz parameters;                                                                      \
    cudaError_t name##_ptsz parameters                                                                       \
    {                                                                                                        \
        RUNTIME_CALL();                                                                                      \
        RECORD(runtime_driver.call_ptsz);                                                                    \
    }

static CUresult allocate(PFN_cuMemAllocAsync_v11020 allocate_async, void **out, size_t size,
                         cudaStream_t stream)
{
    CUdeviceptr address = 0;
    if (out == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = size != 0 ? allocate_async(&address, size, stream) : CUDA_SUCCESS;
    *out = (void *)(uintptr_t)address;
    return result;
}

cudaError_t cudaMallocAsync(void **devPtr, size_t size, cudaStream_t hStream)
{
    RUNTIME_CALL();
    RECORD(allocate(runtime_driver.MemAllocAsync, devPtr, size, hStream));
}

cudaError_t cudaMallocAsync_ptsz(void **devPtr, size_t size, cudaStream_t hStream);
cudaError_t cudaMallocAsync_ptsz(void **devPtr, size_t size, cudaStream_t hStream)
{
    RUNTIME_CALL();
    RECORD(allocate(runtime_driver.MemAllocAsync_ptsz, devPtr, size, hStream));
}

BOTH(cudaMallocFromPoolAsync, (void **ptr, size_t size, cudaMemPool_t memPool, cudaStream_t stream),
     MemAllocFromPoolAsync((CUdeviceptr *)ptr, size, memPool, stream),
     MemAllocFromPoolAsync_ptsz((CUdeviceptr *)ptr, size, memPool, stream))
BOTH(cudaFreeAsync, (void *devPtr, cudaStream_t hStream), MemFreeAsync(ADDRESS(devPtr), hStream),
     MemFreeAsync_ptsz(ADDRESS(devPtr), hStream))

#define POOL_CALL(name, parameters, call)                                                                    \
    cudaError_t name parameters                                                                              \
    {                                                                                                        \
        RUNTIME_CALL();                                                                                      \
        RECORD(runtime_driver.call);                                                                         \
    }

POOL_CALL(cudaMemPoolCreate, (cudaMemPool_t * memPool, const struct cudaMemPoolProps *poolProps),
          MemPoolCreate(memPool, (const CUmemPoolProps *)poolProps))
POOL_CALL(cudaMemPoolDestroy, (cudaMemPool_t memPool), MemPoolDestroy(memPool))
POOL_CALL(cudaMemPoolTrimTo, (cudaMemPool_t memPool, size_t minBytesToKeep),
          MemPoolTrimTo(memPool, minBytesToKeep))
POOL_CALL(cudaMemPoolSetAttribute, (cudaMemPool_t memPool, enum cudaMemPoolAttr attr, void *value),
          MemPoolSetAttribute(memPool, (CUmemPool_attribute)attr, value))
POOL_CALL(cudaMemPoolGetAttribute, (cudaMemPool_t memPool, enum cudaMemPoolAttr attr, void *value),
          MemPoolGetAttribute(memPool, (CUmemPool_attribute)attr, value))
POOL_CALL(cudaMemPoolSetAccess,
          (cudaMemPool_t memPool, const struct cudaMemAccessDesc *descList, size_t count),
          MemPoolSetAccess(memPool, (const CUmemAccessDesc *)descList, count))
POOL_CALL(cudaMemPoolGetAccess,
          (enum cudaMemAccessFlags * flags, cudaMemPool_t memPool, struct cudaMemLocation *location),
          MemPoolGetAccess((CUmemAccess_flags *)flags, memPool, (CUmemLocation *)location))
POOL_CALL(cudaMemPoolExportToShareableHandle,
          (void *shareableHandle, cudaMemPool_t memPool, enum cudaMemAllocationHandleType handleType,
           unsigned int flags),
          MemPoolExportToShareableHandle(shareableHandle, memPool, (CUmemAllocationHandleType)handleType,
                                         flags))
POOL_CALL(cudaMemPoolImportFromShareableHandle,
          (cudaMemPool_t * memPool, void *shareableHandle, enum cudaMemAllocationHandleType handleType,
           unsigned int flags),
          MemPoolImportFromShareableHandle(memPool, shareableHandle, (CUmemAllocationHandleType)handleType,
                                           flags))
POOL_CALL(cudaMemPoolExportPointer, (struct cudaMemPoolPtrExportData * exportData, void *ptr),
          MemPoolExportPointer((CUmemPoolPtrExportData *)exportData, ADDRESS(ptr)))
POOL_CALL(cudaMemPoolImportPointer,
          (void **ptr, cudaMemPool_t memPool, struct cudaMemPoolPtrExportData *exportData),
          MemPoolImportPointer((CUdeviceptr *)ptr, memPool, (CUmemPoolPtrExportData *)exportData))
POOL_CALL(cudaMemGetDefaultMemPool,
          (cudaMemPool_t * memPool, struct cudaMemLocation *location, enum cudaMemAllocationType type),
          MemGetDefaultMemPool(memPool, (CUmemLocation *)location, (CUmemAllocationType)type))
POOL_CALL(cudaMemGetMemPool,
          (cudaMemPool_t * memPool, struct cudaMemLocation *location, enum cudaMemAllocationType type),
          MemGetMemPool(memPool, (CUmemLocation *)location, (CUmemAllocationType)type))
POOL_CALL(cudaMemSetMemPool,
          (struct cudaMemLocation * location, enum cudaMemAllocationType type, cudaMemPool_t memPool),
          MemSetMemPool((CUmemLocation *)location, (CUmemAllocationType)type, memPool))
POOL_CALL(cudaDeviceGetDefaultMemPool, (cudaMemPool_t * memPool, int device),
          DeviceGetDefaultMemPool(memPool, device))
POOL_CALL(cudaDeviceGetMemPool, (cudaMemPool_t * memPool, int device), DeviceGetMemPool(memPool, device))
POOL_CALL(cudaDeviceSetMemPool, (int device, cudaMemPool_t memPool), DeviceSetMemPool(device, memPool))
