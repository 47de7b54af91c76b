/* Streams and events. Everything asked for is done when the call returns, so nothing is ever pending. A
 * stream can be captured, into a graph that knows of memory nodes only. */
#include "../lacks.h"
#include "standin.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

struct CUstream_st {
    CUcontext context;
    unsigned flags;
    int priority;
    uint64_t id;
    CUgraph captured; /* NULL: not capturing */
    uint64_t capture_id;
};

struct CUevent_st {
    CUcontext context;
    unsigned flags;
    bool recorded;
    struct timespec time;
};

/* The default streams have small numbers for handles and no struct. */
static bool is_default(CUstream stream)
{
    return (uintptr_t)stream <= 2;
}

CUgraph standin_capturing(CUstream stream)
{
    return is_default(stream) ? NULL : stream->captured;
}

static CUresult create(CUstream *out, unsigned flags, int priority, CUcontext context)
{
    REQUIRE(out != NULL && flags <= 1);
    CUstream stream = calloc(1, sizeof(*stream));
    if (stream == NULL)
        abort();
    if (!standin_take(context->device, USE_STREAM, standin_settings.stream_bytes)) {
        free(stream);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    stream->context = context;
    stream->flags = flags;
    stream->priority = priority > 0 ? 0 : priority < -5 ? -5 : priority;
    stream->id = standin_next_id();
    *out = stream;
    return CUDA_SUCCESS;
}

CUresult cuStreamCreate(CUstream *phStream, unsigned int Flags)
{
    CONTEXT_CALL();
    return create(phStream, Flags, 0, context);
}

CUresult cuStreamCreateWithPriority(CUstream *phStream, unsigned int flags, int priority)
{
    CONTEXT_CALL();
    return create(phStream, flags, priority, context);
}

CUresult cuStreamDestroy_v2(CUstream hStream)
{
    CONTEXT_CALL();
    if (is_default(hStream))
        return CUDA_ERROR_INVALID_HANDLE;
    standin_give(context->device, USE_STREAM, standin_settings.stream_bytes);
    free(hStream);
    return CUDA_SUCCESS;
}

CUresult cuStreamDestroy(CUstream hStream)
{
    CONTEXT_CALL();
    return cuStreamDestroy_v2(hStream);
}

CUresult cuStreamSynchronize(CUstream hStream)
{
    CONTEXT_CALL();
    if (standin_capturing(hStream) != NULL)
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    standin_pools_synchronize();
    return CUDA_SUCCESS;
}

CUresult cuStreamQuery(CUstream hStream)
{
    CONTEXT_CALL();
    return standin_capturing(hStream) != NULL ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED : CUDA_SUCCESS;
}

CUresult cuStreamWaitEvent(CUstream hStream, CUevent hEvent, unsigned int Flags)
{
    (void)hStream;
    (void)Flags;
    CONTEXT_CALL();
    REQUIRE(hEvent != NULL);
    return CUDA_SUCCESS;
}

CUresult cuStreamGetFlags(CUstream hStream, unsigned int *flags)
{
    CONTEXT_CALL();
    REQUIRE(flags != NULL);
    *flags = is_default(hStream) ? 0 : hStream->flags;
    return CUDA_SUCCESS;
}

CUresult cuStreamGetPriority(CUstream hStream, int *priority)
{
    CONTEXT_CALL();
    REQUIRE(priority != NULL);
    *priority = is_default(hStream) ? 0 : hStream->priority;
    return CUDA_SUCCESS;
}

CUresult cuStreamGetId(CUstream hStream, unsigned long long *streamId)
{
    CONTEXT_CALL();
    REQUIRE(streamId != NULL);
    *streamId = is_default(hStream) ? (uintptr_t)hStream : hStream->id + 2;
    return CUDA_SUCCESS;
}

CUresult cuStreamGetCtx(CUstream hStream, CUcontext *pctx)
{
    CONTEXT_CALL();
    REQUIRE(pctx != NULL);
    *pctx = is_default(hStream) ? context : hStream->context;
    return CUDA_SUCCESS;
}

CUresult cuStreamGetDevice(CUstream hStream, CUdevice *device)
{
    CONTEXT_CALL();
    REQUIRE(device != NULL);
    *device = is_default(hStream) ? context->device : hStream->context->device;
    return CUDA_SUCCESS;
}

CUresult cuLaunchHostFunc(CUstream hStream, CUhostFn fn, void *userData)
{
    {
        CONTEXT_CALL();
        REQUIRE(fn != NULL);
        if (standin_capturing(hStream) != NULL)
            return CUDA_SUCCESS;
    }
    fn(userData); /* outside our lock */
    return CUDA_SUCCESS;
}

CUresult cuStreamAddCallback(CUstream hStream, CUstreamCallback callback, void *userData, unsigned int flags)
{
    {
        CONTEXT_CALL();
        REQUIRE(callback != NULL && flags == 0);
    }
    callback(hStream, CUDA_SUCCESS, userData);
    return CUDA_SUCCESS;
}

/* ---- Capture. */

static CUresult begin_capture(CUstream stream, CUgraph into)
{
    if (is_default(stream))
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    if (stream->captured != NULL)
        return CUDA_ERROR_ILLEGAL_STATE;
    if (into == NULL && cuGraphCreate(&into, 0) != CUDA_SUCCESS)
        return CUDA_ERROR_OUT_OF_MEMORY;
    stream->captured = into;
    stream->capture_id = standin_next_id();
    return CUDA_SUCCESS;
}

CUresult cuStreamBeginCapture_v2(CUstream hStream, CUstreamCaptureMode mode)
{
    (void)mode;
    CONTEXT_CALL();
    return begin_capture(hStream, NULL);
}

CUresult cuStreamBeginCapture(CUstream hStream)
{
    CONTEXT_CALL();
    return begin_capture(hStream, NULL);
}

CUresult cuStreamBeginCaptureToGraph(CUstream hStream, CUgraph hGraph, const CUgraphNode *dependencies,
                                     const CUgraphEdgeData *dependencyData, size_t numDependencies,
                                     CUstreamCaptureMode mode)
{
    (void)dependencies;
    (void)dependencyData;
    (void)numDependencies;
    (void)mode;
    CONTEXT_CALL();
    REQUIRE(hGraph != NULL);
    return begin_capture(hStream, hGraph);
}

CUresult cuStreamEndCapture(CUstream hStream, CUgraph *phGraph)
{
    CONTEXT_CALL();
    REQUIRE(phGraph != NULL);
    if (standin_capturing(hStream) == NULL)
        return CUDA_ERROR_ILLEGAL_STATE;
    *phGraph = hStream->captured;
    hStream->captured = NULL;
    return CUDA_SUCCESS;
}

CUresult cuStreamIsCapturing(CUstream hStream, CUstreamCaptureStatus *captureStatus)
{
    CONTEXT_CALL();
    REQUIRE(captureStatus != NULL);
    *captureStatus =
        standin_capturing(hStream) != NULL ? CU_STREAM_CAPTURE_STATUS_ACTIVE : CU_STREAM_CAPTURE_STATUS_NONE;
    return CUDA_SUCCESS;
}

CUresult cuStreamGetCaptureInfo_v3(CUstream hStream, CUstreamCaptureStatus *captureStatus_out,
                                   cuuint64_t *id_out, CUgraph *graph_out,
                                   const CUgraphNode **dependencies_out, const CUgraphEdgeData **edgeData_out,
                                   size_t *numDependencies_out)
{
    CONTEXT_CALL();
    REQUIRE(captureStatus_out != NULL);
    CUgraph graph = standin_capturing(hStream);
    *captureStatus_out = graph != NULL ? CU_STREAM_CAPTURE_STATUS_ACTIVE : CU_STREAM_CAPTURE_STATUS_NONE;
    if (graph == NULL)
        return CUDA_SUCCESS;
    if (id_out != NULL)
        *id_out = hStream->capture_id;
    if (graph_out != NULL)
        *graph_out = graph;
    if (dependencies_out != NULL)
        *dependencies_out = NULL;
    if (edgeData_out != NULL)
        *edgeData_out = NULL;
    if (numDependencies_out != NULL)
        *numDependencies_out = 0;
    return CUDA_SUCCESS;
}

CUresult cuStreamGetCaptureInfo_v2(CUstream hStream, CUstreamCaptureStatus *captureStatus_out,
                                   cuuint64_t *id_out, CUgraph *graph_out,
                                   const CUgraphNode **dependencies_out, size_t *numDependencies_out)
{
    CONTEXT_CALL();
    return cuStreamGetCaptureInfo_v3(hStream, captureStatus_out, id_out, graph_out, dependencies_out, NULL,
                                     numDependencies_out);
}

CUresult cuStreamGetCaptureInfo(CUstream hStream, CUstreamCaptureStatus *captureStatus_out,
                                cuuint64_t *id_out)
{
    CONTEXT_CALL();
    return cuStreamGetCaptureInfo_v3(hStream, captureStatus_out, id_out, NULL, NULL, NULL, NULL);
}

CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode)
{
    static _Thread_local CUstreamCaptureMode current = CU_STREAM_CAPTURE_MODE_GLOBAL;
    DRIVER_CALL();
    REQUIRE(mode != NULL);
    CUstreamCaptureMode before = current;
    current = *mode;
    *mode = before;
    return CUDA_SUCCESS;
}

/* ---- Events. */

CUresult cuEventCreate(CUevent *phEvent, unsigned int Flags)
{
    CONTEXT_CALL();
    REQUIRE(phEvent != NULL && Flags <= 7);
    CUevent event = calloc(1, sizeof(*event));
    if (event == NULL)
        abort();
    event->context = context;
    event->flags = Flags;
    *phEvent = event;
    return CUDA_SUCCESS;
}

CUresult cuEventDestroy_v2(CUevent hEvent)
{
    CONTEXT_CALL();
    REQUIRE(hEvent != NULL);
    free(hEvent);
    return CUDA_SUCCESS;
}

CUresult cuEventDestroy(CUevent hEvent)
{
    CONTEXT_CALL();
    return cuEventDestroy_v2(hEvent);
}

/* To other processes. All work ends at once, so an event of another process has happened whenever it is
 * asked. */
CUresult cuIpcGetEventHandle(CUipcEventHandle *pHandle, CUevent event)
{
    CONTEXT_CALL();
    REQUIRE(pHandle != NULL && event != NULL && (event->flags & CU_EVENT_INTERPROCESS) != 0);
    memset(pHandle, 0, sizeof(*pHandle));
    memcpy(pHandle, &event->flags, sizeof(event->flags));
    return CUDA_SUCCESS;
}

CUresult cuIpcOpenEventHandle(CUevent *phEvent, CUipcEventHandle handle)
{
    CONTEXT_CALL();
    unsigned flags = 0;
    memcpy(&flags, &handle, sizeof(flags));
    REQUIRE(phEvent != NULL && (flags & CU_EVENT_INTERPROCESS) != 0);
    CUresult result = cuEventCreate(phEvent, flags);
    if (result == CUDA_SUCCESS)
        (*phEvent)->recorded = true;
    return result;
}

CUresult cuEventRecordWithFlags(CUevent hEvent, CUstream hStream, unsigned int flags)
{
    (void)hStream;
    (void)flags;
    CONTEXT_CALL();
    REQUIRE(hEvent != NULL);
    hEvent->recorded = true;
    clock_gettime(CLOCK_MONOTONIC, &hEvent->time);
    return CUDA_SUCCESS;
}

CUresult cuEventRecord(CUevent hEvent, CUstream hStream)
{
    CONTEXT_CALL();
    return cuEventRecordWithFlags(hEvent, hStream, 0);
}

CUresult cuEventQuery(CUevent hEvent)
{
    CONTEXT_CALL();
    REQUIRE(hEvent != NULL);
    return CUDA_SUCCESS;
}

CUresult cuEventSynchronize(CUevent hEvent)
{
    CONTEXT_CALL();
    REQUIRE(hEvent != NULL);
    standin_pools_synchronize();
    return CUDA_SUCCESS;
}

CUresult cuEventElapsedTime_v2(float *pMilliseconds, CUevent hStart, CUevent hEnd)
{
    CONTEXT_CALL();
    REQUIRE(pMilliseconds != NULL && hStart != NULL && hEnd != NULL);
    if (!hStart->recorded || !hEnd->recorded)
        return CUDA_ERROR_INVALID_HANDLE;
    STANDIN_LACKS_ONCE("what is chosen by times of kernels (cudnn.benchmark, autotuning)");
    double seconds = (double)(hEnd->time.tv_sec - hStart->time.tv_sec);
    *pMilliseconds = (float)(seconds * 1e3 + (double)(hEnd->time.tv_nsec - hStart->time.tv_nsec) * 1e-6);
    return CUDA_SUCCESS;
}

CUresult cuEventElapsedTime(float *pMilliseconds, CUevent hStart, CUevent hEnd)
{
    CONTEXT_CALL();
    return cuEventElapsedTime_v2(pMilliseconds, hStart, hEnd);
}
