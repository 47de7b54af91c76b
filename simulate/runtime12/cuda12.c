/* What programs built for CUDA 12 call and later ones do not: structs and arguments as they were then. */
#include "../runtime/runtime.h"

#include <string.h>

#define PUBLIC __attribute__((visibility("default")))

enum { PROPERTIES_BYTES = 1032, SAME_UNTIL = 384 }; /* of struct cudaDeviceProp in 12; before it, both are alike */

/* Where a field lies in 12. */
static const struct {
    size_t offset, offset12, bytes;
} moved[] = {
#define FIELD(name, offset12)                                                                                \
    {                                                                                                        \
        offsetof(struct cudaDeviceProp, name), offset12, sizeof(((struct cudaDeviceProp *)0)->name)          \
    }
    FIELD(multiProcessorCount, 388),
    FIELD(canMapHostMemory, 400),
    FIELD(surfaceAlignment, 568),
    FIELD(concurrentKernels, 576),
    FIELD(pciBusID, 584),
    FIELD(pciDeviceID, 588),
    FIELD(pciDomainID, 592),
    FIELD(asyncEngineCount, 600),
    FIELD(unifiedAddressing, 604),
    FIELD(memoryBusWidth, 612),
    FIELD(l2CacheSize, 616),
    FIELD(maxThreadsPerMultiProcessor, 624),
    FIELD(streamPrioritiesSupported, 628),
    FIELD(globalL1CacheSupported, 632),
    FIELD(localL1CacheSupported, 636),
    FIELD(sharedMemPerMultiprocessor, 640),
    FIELD(regsPerMultiprocessor, 648),
    FIELD(managedMemory, 652),
    FIELD(concurrentManagedAccess, 676),
    FIELD(computePreemptionSupported, 680),
    FIELD(canUseHostPointerForRegisteredMem, 684),
    FIELD(cooperativeLaunch, 688),
    FIELD(sharedMemPerBlockOptin, 696),
    FIELD(maxBlocksPerMultiProcessor, 712),
    FIELD(reservedSharedMemPerBlock, 720),
    FIELD(hostRegisterSupported, 728),
    FIELD(memoryPoolsSupported, 744),
    FIELD(memoryPoolSupportedHandleTypes, 760),
    FIELD(ipcEventSupported, 768),
    FIELD(unifiedFunctionPointers, 776),
#undef FIELD
};

PUBLIC cudaError_t cudaGetDeviceProperties_v2(void *properties, int device);
PUBLIC cudaError_t cudaGetDeviceProperties_v2(void *properties, int device)
{
    struct cudaDeviceProp now;
    cudaError_t error = cudaGetDeviceProperties(&now, device);
    if (error != cudaSuccess)
        return error;
    memset(properties, 0, PROPERTIES_BYTES);
    memcpy(properties, &now, SAME_UNTIL);
    for (size_t i = 0; i < sizeof moved / sizeof moved[0]; i++)
        memcpy((char *)properties + moved[i].offset12, (char *)&now + moved[i].offset, moved[i].bytes);
    return cudaSuccess;
}

PUBLIC cudaError_t cudaStreamGetCaptureInfo_v2(cudaStream_t stream, enum cudaStreamCaptureStatus *status,
                                               unsigned long long *id, cudaGraph_t *graph,
                                               const cudaGraphNode_t **dependencies, size_t *count);
PUBLIC cudaError_t cudaStreamGetCaptureInfo_v2(cudaStream_t stream, enum cudaStreamCaptureStatus *status,
                                               unsigned long long *id, cudaGraph_t *graph,
                                               const cudaGraphNode_t **dependencies, size_t *count)
{
    return cudaStreamGetCaptureInfo(stream, status, id, graph, dependencies, NULL, count);
}
