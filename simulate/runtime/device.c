/* What devices are and can do; limits and peers. */
#include "runtime.h"

#include <string.h>

static int attribute(CUdevice device, CUdevice_attribute which)
{
    int value = 0;
    runtime_driver.DeviceGetAttribute(&value, which, device);
    return value;
}

static const struct {
    size_t offset;
    CUdevice_attribute which;
    bool wide; /* a size_t, else an int */
} fields[] = {
#define FIELD(name, which)                                                                                   \
    {                                                                                                        \
        offsetof(struct cudaDeviceProp, name), CU_DEVICE_ATTRIBUTE_##which,                                  \
            sizeof(((struct cudaDeviceProp *)0)->name) == sizeof(size_t)                                     \
    }
    FIELD(sharedMemPerBlock, MAX_SHARED_MEMORY_PER_BLOCK),
    FIELD(regsPerBlock, MAX_REGISTERS_PER_BLOCK),
    FIELD(warpSize, WARP_SIZE),
    FIELD(memPitch, MAX_PITCH),
    FIELD(maxThreadsPerBlock, MAX_THREADS_PER_BLOCK),
    FIELD(maxThreadsDim[0], MAX_BLOCK_DIM_X),
    FIELD(maxThreadsDim[1], MAX_BLOCK_DIM_Y),
    FIELD(maxThreadsDim[2], MAX_BLOCK_DIM_Z),
    FIELD(maxGridSize[0], MAX_GRID_DIM_X),
    FIELD(maxGridSize[1], MAX_GRID_DIM_Y),
    FIELD(maxGridSize[2], MAX_GRID_DIM_Z),
    FIELD(totalConstMem, TOTAL_CONSTANT_MEMORY),
    FIELD(major, COMPUTE_CAPABILITY_MAJOR),
    FIELD(minor, COMPUTE_CAPABILITY_MINOR),
    FIELD(textureAlignment, TEXTURE_ALIGNMENT),
    FIELD(texturePitchAlignment, TEXTURE_PITCH_ALIGNMENT),
    FIELD(multiProcessorCount, MULTIPROCESSOR_COUNT),
    FIELD(canMapHostMemory, CAN_MAP_HOST_MEMORY),
    FIELD(surfaceAlignment, SURFACE_ALIGNMENT),
    FIELD(concurrentKernels, CONCURRENT_KERNELS),
    FIELD(pciBusID, PCI_BUS_ID),
    FIELD(pciDeviceID, PCI_DEVICE_ID),
    FIELD(pciDomainID, PCI_DOMAIN_ID),
    FIELD(asyncEngineCount, ASYNC_ENGINE_COUNT),
    FIELD(unifiedAddressing, UNIFIED_ADDRESSING),
    FIELD(memoryBusWidth, GLOBAL_MEMORY_BUS_WIDTH),
    FIELD(l2CacheSize, L2_CACHE_SIZE),
    FIELD(maxThreadsPerMultiProcessor, MAX_THREADS_PER_MULTIPROCESSOR),
    FIELD(streamPrioritiesSupported, STREAM_PRIORITIES_SUPPORTED),
    FIELD(globalL1CacheSupported, GLOBAL_L1_CACHE_SUPPORTED),
    FIELD(localL1CacheSupported, LOCAL_L1_CACHE_SUPPORTED),
    FIELD(sharedMemPerMultiprocessor, MAX_SHARED_MEMORY_PER_MULTIPROCESSOR),
    FIELD(regsPerMultiprocessor, MAX_REGISTERS_PER_MULTIPROCESSOR),
    FIELD(managedMemory, MANAGED_MEMORY),
    FIELD(concurrentManagedAccess, CONCURRENT_MANAGED_ACCESS),
    FIELD(computePreemptionSupported, COMPUTE_PREEMPTION_SUPPORTED),
    FIELD(canUseHostPointerForRegisteredMem, CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM),
    FIELD(cooperativeLaunch, COOPERATIVE_LAUNCH),
    FIELD(sharedMemPerBlockOptin, MAX_SHARED_MEMORY_PER_BLOCK_OPTIN),
    FIELD(maxBlocksPerMultiProcessor, MAX_BLOCKS_PER_MULTIPROCESSOR),
    FIELD(reservedSharedMemPerBlock, RESERVED_SHARED_MEMORY_PER_BLOCK),
    FIELD(hostRegisterSupported, HOST_REGISTER_SUPPORTED),
    FIELD(memoryPoolsSupported, MEMORY_POOLS_SUPPORTED),
    FIELD(memoryPoolSupportedHandleTypes, MEMPOOL_SUPPORTED_HANDLE_TYPES),
    FIELD(ipcEventSupported, IPC_EVENT_SUPPORTED),
    FIELD(unifiedFunctionPointers, UNIFIED_FUNCTION_POINTERS),
#undef FIELD
};

static void fill_properties(struct cudaDeviceProp *properties, CUdevice device)
{
    for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
        void *field = (char *)properties + fields[i].offset;
        int value = attribute(device, fields[i].which);
        if (fields[i].wide)
            *(size_t *)field = (size_t)value;
        else
            *(int *)field = value;
    }
}

cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *prop, int device)
{
    REQUIRE(prop != NULL);
    cudaError_t error = runtime_begin();
    if (error != cudaSuccess)
        return runtime_record(error);
    memset(prop, 0, sizeof(*prop));
    CUresult result = runtime_driver.DeviceGetName(prop->name, sizeof(prop->name), device);
    if (result == CUDA_SUCCESS)
        result = runtime_driver.DeviceTotalMem(&prop->totalGlobalMem, device);
    if (result == CUDA_SUCCESS)
        result = runtime_driver.DeviceGetUuid((CUuuid *)&prop->uuid, device);
    if (result == CUDA_SUCCESS)
        fill_properties(prop, device);
    RECORD(result);
}

cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attr, int device)
{
    cudaError_t error = runtime_begin();
    if (error != cudaSuccess)
        return runtime_record(error);
    RECORD(runtime_driver.DeviceGetAttribute(value, (CUdevice_attribute)attr, device));
}

cudaError_t cudaDeviceGetPCIBusId(char *pciBusId, int len, int device)
{
    cudaError_t error = runtime_begin();
    if (error != cudaSuccess)
        return runtime_record(error);
    RECORD(runtime_driver.DeviceGetPCIBusId(pciBusId, len, device));
}

cudaError_t cudaDeviceGetByPCIBusId(int *device, const char *pciBusId)
{
    cudaError_t error = runtime_begin();
    if (error != cudaSuccess)
        return runtime_record(error);
    RECORD(runtime_driver.DeviceGetByPCIBusId(device, pciBusId));
}

cudaError_t cudaChooseDevice(int *device, const struct cudaDeviceProp *prop)
{
    REQUIRE(device != NULL && prop != NULL);
    *device = 0;
    return cudaSuccess;
}

cudaError_t cudaDeviceSynchronize(void)
{
    RUNTIME_CALL();
    RECORD(runtime_driver.CtxSynchronize());
}

cudaError_t cudaDeviceSetLimit(enum cudaLimit limit, size_t value)
{
    RUNTIME_CALL();
    RECORD(runtime_driver.CtxSetLimit((CUlimit)limit, value));
}

cudaError_t cudaDeviceGetLimit(size_t *pValue, enum cudaLimit limit)
{
    RUNTIME_CALL();
    RECORD(runtime_driver.CtxGetLimit(pValue, (CUlimit)limit));
}

cudaError_t cudaDeviceGetStreamPriorityRange(int *leastPriority, int *greatestPriority)
{
    RUNTIME_CALL();
    RECORD(runtime_driver.CtxGetStreamPriorityRange(leastPriority, greatestPriority));
}

cudaError_t cudaSetDeviceFlags(unsigned int flags)
{
    cudaError_t error = runtime_begin();
    if (error != cudaSuccess)
        return runtime_record(error);
    RECORD(runtime_driver.DevicePrimaryCtxSetFlags(runtime_device(), flags));
}

cudaError_t cudaGetDeviceFlags(unsigned int *flags)
{
    RUNTIME_CALL();
    RECORD(runtime_driver.CtxGetFlags(flags));
}

cudaError_t cudaDeviceCanAccessPeer(int *canAccessPeer, int device, int peerDevice)
{
    cudaError_t error = runtime_begin();
    if (error != cudaSuccess)
        return runtime_record(error);
    RECORD(runtime_driver.DeviceCanAccessPeer(canAccessPeer, device, peerDevice));
}

static cudaError_t peer_context(int peer, CUcontext *context)
{
    RUNTIME_CALL();
    CUcontext mine = NULL;
    runtime_driver.CtxGetCurrent(&mine);
    int before = runtime_device();
    cudaError_t error = cudaSetDevice(peer);
    if (error == cudaSuccess)
        runtime_driver.CtxGetCurrent(context);
    cudaSetDevice(before);
    runtime_driver.CtxSetCurrent(mine);
    return error;
}

cudaError_t cudaDeviceEnablePeerAccess(int peerDevice, unsigned int flags)
{
    CUcontext peer = NULL;
    cudaError_t error = peer_context(peerDevice, &peer);
    if (error != cudaSuccess)
        return runtime_record(error);
    RECORD(runtime_driver.CtxEnablePeerAccess(peer, flags));
}

cudaError_t cudaDeviceDisablePeerAccess(int peerDevice)
{
    CUcontext peer = NULL;
    cudaError_t error = peer_context(peerDevice, &peer);
    if (error != cudaSuccess)
        return runtime_record(error);
    RECORD(runtime_driver.CtxDisablePeerAccess(peer));
}

cudaError_t cudaProfilerStart(void);
cudaError_t cudaProfilerStop(void);

cudaError_t cudaProfilerStart(void)
{
    return cudaSuccess;
}

cudaError_t cudaProfilerStop(void)
{
    return cudaSuccess;
}
