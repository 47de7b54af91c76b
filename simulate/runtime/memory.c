/* Memory, each call by the driver function that NVIDIA's runtime uses for it. */
#include "runtime.h"

#include <string.h>

cudaError_t cudaMalloc(void **devPtr, size_t size)
{
    REQUIRE(devPtr != NULL);
    RUNTIME_CALL();
    CUdeviceptr address = 0;
    CUresult result = size != 0 ? runtime_driver.MemAlloc(&address, size) : CUDA_SUCCESS;
    *devPtr = (void *)(uintptr_t)address;
    RECORD(result);
}

cudaError_t cudaFree(void *devPtr)
{
    RUNTIME_CALL();
    RECORD(devPtr != NULL ? runtime_driver.MemFree(ADDRESS(devPtr)) : CUDA_SUCCESS);
}

cudaError_t cudaMallocManaged(void **devPtr, size_t size, unsigned int flags)
{
    REQUIRE(devPtr != NULL);
    RUNTIME_CALL();
    RECORD(runtime_driver.MemAllocManaged((CUdeviceptr *)devPtr, size, flags));
}

cudaError_t cudaMallocPitch(void **devPtr, size_t *pitch, size_t width, size_t height)
{
    REQUIRE(devPtr != NULL && pitch != NULL);
    RUNTIME_CALL();
    if (width == 0 || height == 0) {
        *devPtr = NULL;
        *pitch = 0;
        return cudaSuccess;
    }
    RECORD(runtime_driver.MemAllocPitch((CUdeviceptr *)devPtr, pitch, width, height, 4));
}

cudaError_t cudaMalloc3D(struct cudaPitchedPtr *pitchedDevPtr, struct cudaExtent extent)
{
    REQUIRE(pitchedDevPtr != NULL);
    pitchedDevPtr->xsize = extent.width;
    pitchedDevPtr->ysize = extent.height;
    return cudaMallocPitch(&pitchedDevPtr->ptr, &pitchedDevPtr->pitch, extent.width,
                           extent.height * extent.depth);
}

cudaError_t cudaMemGetInfo(size_t *free, size_t *total)
{
    RUNTIME_CALL();
    RECORD(runtime_driver.MemGetInfo(free, total));
}

/* ---- Host memory. */

cudaError_t cudaHostAlloc(void **pHost, size_t size, unsigned int flags)
{
    REQUIRE(pHost != NULL);
    RUNTIME_CALL();
    *pHost = NULL;
    RECORD(size != 0 ? runtime_driver.MemHostAlloc(pHost, size, flags) : CUDA_SUCCESS);
}

cudaError_t cudaMallocHost(void **ptr, size_t size)
{
    return cudaHostAlloc(ptr, size, 0);
}

cudaError_t cudaFreeHost(void *ptr)
{
    RUNTIME_CALL();
    RECORD(ptr != NULL ? runtime_driver.MemFreeHost(ptr) : CUDA_SUCCESS);
}

cudaError_t cudaHostRegister(void *ptr, size_t size, unsigned int flags)
{
    RUNTIME_CALL();
    RECORD(runtime_driver.MemHostRegister(ptr, size, flags));
}

cudaError_t cudaHostUnregister(void *ptr)
{
    RUNTIME_CALL();
    RECORD(runtime_driver.MemHostUnregister(ptr));
}

cudaError_t cudaHostGetDevicePointer(void **pDevice, void *pHost, unsigned int flags)
{
    RUNTIME_CALL();
    RECORD(runtime_driver.MemHostGetDevicePointer((CUdeviceptr *)pDevice, pHost, flags));
}

cudaError_t cudaHostGetFlags(unsigned int *pFlags, void *pHost)
{
    RUNTIME_CALL();
    RECORD(runtime_driver.MemHostGetFlags(pFlags, pHost));
}

/* ---- Arrays. */

static CUarray_format format_of(const struct cudaChannelFormatDesc *channel)
{
    bool is_signed = channel->f == cudaChannelFormatKindSigned;
    if (channel->f == cudaChannelFormatKindFloat)
        return channel->x == 16 ? CU_AD_FORMAT_HALF : CU_AD_FORMAT_FLOAT;
    if (channel->x == 8)
        return is_signed ? CU_AD_FORMAT_SIGNED_INT8 : CU_AD_FORMAT_UNSIGNED_INT8;
    if (channel->x == 16)
        return is_signed ? CU_AD_FORMAT_SIGNED_INT16 : CU_AD_FORMAT_UNSIGNED_INT16;
    return is_signed ? CU_AD_FORMAT_SIGNED_INT32 : CU_AD_FORMAT_UNSIGNED_INT32;
}

static CUDA_ARRAY3D_DESCRIPTOR descriptor_of(const struct cudaChannelFormatDesc *channel,
                                             struct cudaExtent extent, unsigned flags)
{
    unsigned channels = (channel->x != 0) + (channel->y != 0) + (channel->z != 0) + (channel->w != 0);
    return (CUDA_ARRAY3D_DESCRIPTOR){.Width = extent.width,
                                     .Height = extent.height,
                                     .Depth = extent.depth,
                                     .Format = format_of(channel),
                                     .NumChannels = channels,
                                     .Flags = flags};
}

cudaError_t cudaMallocArray(cudaArray_t *array, const struct cudaChannelFormatDesc *desc, size_t width,
                            size_t height, unsigned int flags)
{
    REQUIRE(array != NULL && desc != NULL);
    RUNTIME_CALL();
    CUDA_ARRAY3D_DESCRIPTOR deep = descriptor_of(desc, (struct cudaExtent){width, height, 0}, flags);
    if (flags != 0)
        RECORD(runtime_driver.Array3DCreate((CUarray *)array, &deep));
    CUDA_ARRAY_DESCRIPTOR flat = {width, height, deep.Format, deep.NumChannels};
    RECORD(runtime_driver.ArrayCreate((CUarray *)array, &flat));
}

cudaError_t cudaMalloc3DArray(cudaArray_t *array, const struct cudaChannelFormatDesc *desc,
                              struct cudaExtent extent, unsigned int flags)
{
    REQUIRE(array != NULL && desc != NULL);
    RUNTIME_CALL();
    CUDA_ARRAY3D_DESCRIPTOR descriptor = descriptor_of(desc, extent, flags);
    RECORD(runtime_driver.Array3DCreate((CUarray *)array, &descriptor));
}

cudaError_t cudaFreeArray(cudaArray_t array)
{
    RUNTIME_CALL();
    RECORD(array != NULL ? runtime_driver.ArrayDestroy((CUarray)array) : CUDA_SUCCESS);
}

cudaError_t cudaMallocMipmappedArray(cudaMipmappedArray_t *mipmappedArray,
                                     const struct cudaChannelFormatDesc *desc, struct cudaExtent extent,
                                     unsigned int numLevels, unsigned int flags)
{
    REQUIRE(mipmappedArray != NULL && desc != NULL);
    RUNTIME_CALL();
    CUDA_ARRAY3D_DESCRIPTOR descriptor = descriptor_of(desc, extent, flags);
    RECORD(runtime_driver.MipmappedArrayCreate((CUmipmappedArray *)mipmappedArray, &descriptor, numLevels));
}

cudaError_t cudaGetMipmappedArrayLevel(cudaArray_t *levelArray, cudaMipmappedArray_const_t mipmappedArray,
                                       unsigned int level)
{
    RUNTIME_CALL();
    RECORD(runtime_driver.MipmappedArrayGetLevel((CUarray *)levelArray,
                                                 (CUmipmappedArray)(uintptr_t)mipmappedArray, level));
}

cudaError_t cudaFreeMipmappedArray(cudaMipmappedArray_t mipmappedArray)
{
    RUNTIME_CALL();
    RECORD(mipmappedArray != NULL ? runtime_driver.MipmappedArrayDestroy((CUmipmappedArray)mipmappedArray)
                                  : CUDA_SUCCESS);
}

/* ---- What an address is. */

cudaError_t cudaPointerGetAttributes(struct cudaPointerAttributes *attributes, const void *ptr)
{
    REQUIRE(attributes != NULL);
    RUNTIME_CALL();
    unsigned type = 0;
    bool managed = false;
    int device = -2;
    CUdeviceptr on_device = 0, on_host = 0;
    CUpointer_attribute which[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_IS_MANAGED,
                                   CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, CU_POINTER_ATTRIBUTE_DEVICE_POINTER,
                                   CU_POINTER_ATTRIBUTE_HOST_POINTER};
    void *data[] = {&type, &managed, &device, &on_device, &on_host};
    CUresult result = runtime_driver.PointerGetAttributes(5, which, data, ADDRESS(ptr));
    /* A caller that was built for CUDA 12 has no more room. */
    memset(attributes, 0,
           STANDIN_RUNTIME_VERSION < 13000 ? offsetof(struct cudaPointerAttributes, reserved)
                                           : sizeof(*attributes));
    attributes->type = type == 0                    ? cudaMemoryTypeUnregistered
                       : managed                    ? cudaMemoryTypeManaged
                       : type == CU_MEMORYTYPE_HOST ? cudaMemoryTypeHost
                                                    : cudaMemoryTypeDevice;
    attributes->device = device;
    attributes->devicePointer = (void *)(uintptr_t)on_device;
    attributes->hostPointer = type == 0 ? (void *)(uintptr_t)ptr : (void *)(uintptr_t)on_host;
    RECORD(result);
}

/* ---- Hints about managed memory. */

cudaError_t cudaMemAdvise(const void *devPtr, size_t count, enum cudaMemoryAdvise advice,
                          struct cudaMemLocation location)
{
    RUNTIME_CALL();
    CUmemLocation where = {.type = (CUmemLocationType)location.type, .id = location.id};
    RECORD(runtime_driver.MemAdvise(ADDRESS(devPtr), count, (CUmem_advise)advice, where));
}

cudaError_t cudaMemPrefetchAsync(const void *devPtr, size_t count, struct cudaMemLocation location,
                                 unsigned int flags, cudaStream_t stream)
{
    RUNTIME_CALL();
    CUmemLocation where = {.type = (CUmemLocationType)location.type, .id = location.id};
    RECORD(runtime_driver.MemPrefetchAsync(ADDRESS(devPtr), count, where, flags, stream));
}

cudaError_t cudaStreamAttachMemAsync(cudaStream_t stream, void *devPtr, size_t length, unsigned int flags)
{
    RUNTIME_CALL();
    RECORD(runtime_driver.StreamAttachMemAsync(stream, ADDRESS(devPtr), length, flags));
}

/* ---- Other processes and APIs. */

cudaError_t cudaIpcGetMemHandle(cudaIpcMemHandle_t *handle, void *devPtr)
{
    RUNTIME_CALL();
    RECORD(runtime_driver.IpcGetMemHandle((CUipcMemHandle *)handle, ADDRESS(devPtr)));
}

cudaError_t cudaIpcOpenMemHandle(void **devPtr, cudaIpcMemHandle_t handle, unsigned int flags)
{
    RUNTIME_CALL();
    CUipcMemHandle opaque;
    memcpy(&opaque, &handle, sizeof(opaque));
    RECORD(runtime_driver.IpcOpenMemHandle((CUdeviceptr *)devPtr, opaque, flags));
}

cudaError_t cudaIpcCloseMemHandle(void *devPtr)
{
    RUNTIME_CALL();
    RECORD(runtime_driver.IpcCloseMemHandle(ADDRESS(devPtr)));
}

cudaError_t cudaIpcGetEventHandle(cudaIpcEventHandle_t *handle, cudaEvent_t event)
{
    RUNTIME_CALL();
    RECORD(runtime_driver.IpcGetEventHandle((CUipcEventHandle *)handle, event));
}

cudaError_t cudaIpcOpenEventHandle(cudaEvent_t *event, cudaIpcEventHandle_t handle)
{
    RUNTIME_CALL();
    CUipcEventHandle opaque;
    memcpy(&opaque, &handle, sizeof(opaque));
    RECORD(runtime_driver.IpcOpenEventHandle(event, opaque));
}

cudaError_t cudaImportExternalMemory(cudaExternalMemory_t *extMem_out,
                                     const struct cudaExternalMemoryHandleDesc *memHandleDesc)
{
    REQUIRE(memHandleDesc != NULL);
    RUNTIME_CALL();
    CUDA_EXTERNAL_MEMORY_HANDLE_DESC description = {.type = (CUexternalMemoryHandleType)memHandleDesc->type,
                                                    .size = memHandleDesc->size,
                                                    .flags = memHandleDesc->flags};
    description.handle.fd = memHandleDesc->handle.fd;
    RECORD(runtime_driver.ImportExternalMemory((CUexternalMemory *)extMem_out, &description));
}

cudaError_t cudaExternalMemoryGetMappedBuffer(void **devPtr, cudaExternalMemory_t extMem,
                                              const struct cudaExternalMemoryBufferDesc *bufferDesc)
{
    REQUIRE(bufferDesc != NULL);
    RUNTIME_CALL();
    CUDA_EXTERNAL_MEMORY_BUFFER_DESC description = {
        .offset = bufferDesc->offset, .size = bufferDesc->size, .flags = bufferDesc->flags};
    RECORD(runtime_driver.ExternalMemoryGetMappedBuffer((CUdeviceptr *)devPtr, (CUexternalMemory)extMem,
                                                        &description));
}

cudaError_t cudaDestroyExternalMemory(cudaExternalMemory_t extMem)
{
    RUNTIME_CALL();
    RECORD(runtime_driver.DestroyExternalMemory((CUexternalMemory)extMem));
}
