/* Streams, events, copies and fills. */
#include "runtime.h"

#define STREAM_CALL(name, parameters, call)                                                                  \
    cudaError_t name parameters                                                                              \
    {                                                                                                        \
        RUNTIME_CALL();                                                                                      \
        RECORD(runtime_driver.call);                                                                         \
    }

STREAM_CALL(cudaStreamCreate, (cudaStream_t * pStream), StreamCreate(pStream, 0))
STREAM_CALL(cudaStreamCreateWithFlags, (cudaStream_t * pStream, unsigned int flags),
            StreamCreate(pStream, flags))
STREAM_CALL(cudaStreamCreateWithPriority, (cudaStream_t * pStream, unsigned int flags, int priority),
            StreamCreateWithPriority(pStream, flags, priority))
STREAM_CALL(cudaStreamDestroy, (cudaStream_t stream), StreamDestroy(stream))
STREAM_CALL(cudaStreamSynchronize, (cudaStream_t stream), StreamSynchronize(stream))
STREAM_CALL(cudaStreamQuery, (cudaStream_t stream), StreamQuery(stream))
STREAM_CALL(cudaStreamWaitEvent, (cudaStream_t stream, cudaEvent_t event, unsigned int flags),
            StreamWaitEvent(stream, event, flags))
STREAM_CALL(cudaStreamGetPriority, (cudaStream_t hStream, int *priority),
            StreamGetPriority(hStream, priority))
STREAM_CALL(cudaStreamGetFlags, (cudaStream_t hStream, unsigned int *flags), StreamGetFlags(hStream, flags))
STREAM_CALL(cudaStreamGetId, (cudaStream_t hStream, unsigned long long *streamId),
            StreamGetId(hStream, streamId))
STREAM_CALL(cudaStreamGetDevice, (cudaStream_t hStream, int *device), StreamGetDevice(hStream, device))
STREAM_CALL(cudaStreamAddCallback,
            (cudaStream_t stream, cudaStreamCallback_t callback, void *userData, unsigned int flags),
            StreamAddCallback(stream, (CUstreamCallback)callback, userData, flags))
STREAM_CALL(cudaLaunchHostFunc, (cudaStream_t stream, cudaHostFn_t fn, void *userData),
            LaunchHostFunc(stream, fn, userData))

STREAM_CALL(cudaEventCreate, (cudaEvent_t * event), EventCreate(event, 0))
STREAM_CALL(cudaEventCreateWithFlags, (cudaEvent_t * event, unsigned int flags), EventCreate(event, flags))
STREAM_CALL(cudaEventDestroy, (cudaEvent_t event), EventDestroy(event))
STREAM_CALL(cudaEventRecord, (cudaEvent_t event, cudaStream_t stream), EventRecord(event, stream))
STREAM_CALL(cudaEventRecordWithFlags, (cudaEvent_t event, cudaStream_t stream, unsigned int flags),
            EventRecordWithFlags(event, stream, flags))
STREAM_CALL(cudaEventQuery, (cudaEvent_t event), EventQuery(event))
STREAM_CALL(cudaEventSynchronize, (cudaEvent_t event), EventSynchronize(event))
STREAM_CALL(cudaEventElapsedTime, (float *ms, cudaEvent_t start, cudaEvent_t end),
            EventElapsedTime(ms, start, end))

/* ---- Copies, by their kinds. */

cudaError_t cudaMemcpy(void *dst, const void *src, size_t count, enum cudaMemcpyKind kind)
{
    RUNTIME_CALL();
    if (count == 0)
        return cudaSuccess;
    switch (kind) {
    case cudaMemcpyHostToDevice:
        RECORD(runtime_driver.MemcpyHtoD(ADDRESS(dst), src, count));
    case cudaMemcpyDeviceToHost:
        RECORD(runtime_driver.MemcpyDtoH(dst, ADDRESS(src), count));
    case cudaMemcpyDeviceToDevice:
        RECORD(runtime_driver.MemcpyDtoD(ADDRESS(dst), ADDRESS(src), count));
    default:
        RECORD(runtime_driver.Memcpy(ADDRESS(dst), ADDRESS(src), count));
    }
}

cudaError_t cudaMemcpyAsync(void *dst, const void *src, size_t count, enum cudaMemcpyKind kind,
                            cudaStream_t stream)
{
    RUNTIME_CALL();
    if (count == 0)
        return cudaSuccess;
    switch (kind) {
    case cudaMemcpyHostToDevice:
        RECORD(runtime_driver.MemcpyHtoDAsync(ADDRESS(dst), src, count, stream));
    case cudaMemcpyDeviceToHost:
        RECORD(runtime_driver.MemcpyDtoHAsync(dst, ADDRESS(src), count, stream));
    case cudaMemcpyDeviceToDevice:
        RECORD(runtime_driver.MemcpyDtoDAsync(ADDRESS(dst), ADDRESS(src), count, stream));
    default:
        RECORD(runtime_driver.MemcpyAsync(ADDRESS(dst), ADDRESS(src), count, stream));
    }
}

cudaError_t cudaMemcpyPeer(void *dst, int dstDevice, const void *src, int srcDevice, size_t count)
{
    (void)dstDevice;
    (void)srcDevice;
    return cudaMemcpy(dst, src, count, cudaMemcpyDeviceToDevice);
}

cudaError_t cudaMemcpyPeerAsync(void *dst, int dstDevice, const void *src, int srcDevice, size_t count,
                                cudaStream_t stream)
{
    (void)dstDevice;
    (void)srcDevice;
    return cudaMemcpyAsync(dst, src, count, cudaMemcpyDeviceToDevice, stream);
}

static CUDA_MEMCPY2D rows(void *dst, size_t dpitch, const void *src, size_t spitch, size_t width,
                          size_t height)
{
    return (CUDA_MEMCPY2D){.srcMemoryType = CU_MEMORYTYPE_UNIFIED,
                           .srcDevice = ADDRESS(src),
                           .srcPitch = spitch,
                           .dstMemoryType = CU_MEMORYTYPE_UNIFIED,
                           .dstDevice = ADDRESS(dst),
                           .dstPitch = dpitch,
                           .WidthInBytes = width,
                           .Height = height};
}

cudaError_t cudaMemcpy2D(void *dst, size_t dpitch, const void *src, size_t spitch, size_t width,
                         size_t height, enum cudaMemcpyKind kind)
{
    (void)kind;
    RUNTIME_CALL();
    CUDA_MEMCPY2D copied = rows(dst, dpitch, src, spitch, width, height);
    RECORD(runtime_driver.Memcpy2DUnaligned(&copied));
}

cudaError_t cudaMemcpy2DAsync(void *dst, size_t dpitch, const void *src, size_t spitch, size_t width,
                              size_t height, enum cudaMemcpyKind kind, cudaStream_t stream)
{
    (void)kind;
    RUNTIME_CALL();
    CUDA_MEMCPY2D copied = rows(dst, dpitch, src, spitch, width, height);
    RECORD(runtime_driver.Memcpy2DAsync(&copied, stream));
}

STREAM_CALL(cudaMemset, (void *devPtr, int value, size_t count),
            MemsetD8(ADDRESS(devPtr), (unsigned char)value, count))
STREAM_CALL(cudaMemsetAsync, (void *devPtr, int value, size_t count, cudaStream_t stream),
            MemsetD8Async(ADDRESS(devPtr), (unsigned char)value, count, stream))
STREAM_CALL(cudaMemset2D, (void *devPtr, size_t pitch, int value, size_t width, size_t height),
            MemsetD2D8(ADDRESS(devPtr), pitch, (unsigned char)value, width, height))
STREAM_CALL(cudaMemset2DAsync,
            (void *devPtr, size_t pitch, int value, size_t width, size_t height, cudaStream_t stream),
            MemsetD2D8Async(ADDRESS(devPtr), pitch, (unsigned char)value, width, height, stream))
