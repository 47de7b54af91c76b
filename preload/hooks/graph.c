/* Graphs: their memory, and their launches. A step that replays a graph allocates nothing, so launches are
 * all that shows of it. Only each graph's first launch is bracketed. */
#include "hash.h"
#include "hooks/driver.h"
#include "hooks/graph_memory.h"
#include "hooks/first_uses.h"

#include <stdatomic.h>

/* Recorded with the stack, so that each launch shows where it came from. */
static void record_graph(enum vt_function function, uint8_t kind, const void *address, const void *detail)
{
    vt_driver_event(&(struct vt_driver_call){.function = function,
                                             .kind = kind,
                                             .device_index = VT_NO_DEVICE,
                                             .address = (uintptr_t)address,
                                             .detail = (uintptr_t)detail});
}

#define INSTANTIATE(symbol, parameters, arguments)                                                           \
    VT_HOOK(symbol, parameters)                                                                              \
    {                                                                                                        \
        VT_REAL(symbol);                                                                                     \
        struct vt_graph_bracket bracket = vt_graph_bracket_open();                                           \
        CUresult result = real arguments;                                                                    \
        vt_graph_bracket_close(&bracket, VT_FUNCTION_##symbol);                                              \
        if (result == CUDA_SUCCESS)                                                                          \
            record_graph(VT_FUNCTION_##symbol, VT_EVENT_GRAPH, *exec, graph);                                \
        return result;                                                                                       \
    }
INSTANTIATE(cuGraphInstantiate,
            (CUgraphExec * exec, CUgraph graph, CUgraphNode *error_node, char *log, size_t log_bytes),
            (exec, graph, error_node, log, log_bytes))
INSTANTIATE(cuGraphInstantiate_v2,
            (CUgraphExec * exec, CUgraph graph, CUgraphNode *error_node, char *log, size_t log_bytes),
            (exec, graph, error_node, log, log_bytes))
INSTANTIATE(cuGraphInstantiateWithFlags, (CUgraphExec * exec, CUgraph graph, unsigned long long flags),
            (exec, graph, flags))
INSTANTIATE(cuGraphInstantiateWithParams,
            (CUgraphExec * exec, CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS *parameters),
            (exec, graph, parameters))
INSTANTIATE(cuGraphInstantiateWithParams_ptsz,
            (CUgraphExec * exec, CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS *parameters),
            (exec, graph, parameters))

#define CAPTURE(symbol, parameters, arguments)                                                               \
    VT_HOOK(symbol, parameters)                                                                              \
    {                                                                                                        \
        VT_REAL(symbol);                                                                                     \
        CUresult result = real arguments;                                                                    \
        if (result == CUDA_SUCCESS)                                                                          \
            record_graph(VT_FUNCTION_##symbol, VT_EVENT_CAPTURE, stream, NULL);                              \
        return result;                                                                                       \
    }
CAPTURE(cuStreamBeginCapture, (CUstream stream), (stream))
CAPTURE(cuStreamBeginCapture_ptsz, (CUstream stream), (stream))
CAPTURE(cuStreamBeginCapture_v2, (CUstream stream, CUstreamCaptureMode mode), (stream, mode))
CAPTURE(cuStreamBeginCapture_v2_ptsz, (CUstream stream, CUstreamCaptureMode mode), (stream, mode))
CAPTURE(cuStreamBeginCaptureToGraph,
        (CUstream stream, CUgraph graph, const CUgraphNode *dependencies, const CUgraphEdgeData *edges,
         size_t count, CUstreamCaptureMode mode),
        (stream, graph, dependencies, edges, count, mode))
CAPTURE(cuStreamBeginCaptureToGraph_ptsz,
        (CUstream stream, CUgraph graph, const CUgraphNode *dependencies, const CUgraphEdgeData *edges,
         size_t count, CUstreamCaptureMode mode),
        (stream, graph, dependencies, edges, count, mode))

#define CAPTURE_END(symbol)                                                                                  \
    VT_HOOK(symbol, (CUstream stream, CUgraph * graph))                                                      \
    {                                                                                                        \
        VT_REAL(symbol);                                                                                     \
        CUresult result = real(stream, graph);                                                               \
        record_graph(VT_FUNCTION_##symbol, VT_EVENT_CAPTURE_END, stream,                                     \
                     result == CUDA_SUCCESS && graph ? *graph : NULL);                                       \
        return result;                                                                                       \
    }
CAPTURE_END(cuStreamEndCapture)
CAPTURE_END(cuStreamEndCapture_ptsz)

#define UPLOAD(symbol)                                                                                       \
    VT_HOOK(symbol, (CUgraphExec exec, CUstream stream))                                                     \
    {                                                                                                        \
        VT_REAL(symbol);                                                                                     \
        struct vt_graph_bracket bracket = vt_graph_bracket_open();                                           \
        CUresult result = real(exec, stream);                                                                \
        vt_graph_bracket_close(&bracket, VT_FUNCTION_##symbol);                                              \
        return result;                                                                                       \
    }
UPLOAD(cuGraphUpload)
UPLOAD(cuGraphUpload_ptsz)

/* After a trim each graph takes its memory again, so its next launch counts as the first. */
static _Atomic uint64_t trims;

static uint64_t key_of(CUgraphExec exec)
{
    return (uintptr_t)exec + VT_HASH_5 * atomic_load_explicit(&trims, memory_order_relaxed);
}

VT_HOOK(cuDeviceGraphMemTrim, (CUdevice device))
{
    VT_REAL(cuDeviceGraphMemTrim);
    struct vt_graph_bracket bracket = vt_graph_bracket_open();
    CUresult result = real(device);
    vt_graph_bracket_close(&bracket, VT_FUNCTION_cuDeviceGraphMemTrim);
    atomic_fetch_add_explicit(&trims, 1, memory_order_relaxed);
    return result;
}

/* An update may happen at every step, so the launch after it is bracketed only if graphs have memory of
 * their own. */
#define UPDATE(symbol, parameters, arguments)                                                                \
    VT_HOOK(symbol, parameters)                                                                              \
    {                                                                                                        \
        VT_REAL(symbol);                                                                                     \
        CUresult result = real arguments;                                                                    \
        if (result == CUDA_SUCCESS && vt_graphs_have_memory())                                               \
            vt_forget_use(key_of(exec));                                                                     \
        return result;                                                                                       \
    }
UPDATE(cuGraphExecUpdate,
       (CUgraphExec exec, CUgraph graph, CUgraphNode *error_node, CUgraphExecUpdateResult *update_result),
       (exec, graph, error_node, update_result))
UPDATE(cuGraphExecUpdate_v2, (CUgraphExec exec, CUgraph graph, CUgraphExecUpdateResultInfo *information),
       (exec, graph, information))

#define LAUNCH(symbol)                                                                                       \
    VT_HOOK(symbol, (CUgraphExec exec, CUstream stream))                                                     \
    {                                                                                                        \
        VT_REAL(symbol);                                                                                     \
        struct vt_graph_bracket bracket = {.bracket.open = false};                                           \
        if (exec != NULL && vt_is_first_use(key_of(exec)))                                                   \
            bracket = vt_graph_bracket_open();                                                               \
        CUresult result = real(exec, stream);                                                                \
        vt_graph_bracket_close(&bracket, VT_FUNCTION_##symbol);                                              \
        if (result == CUDA_SUCCESS)                                                                          \
            record_graph(VT_FUNCTION_##symbol, VT_EVENT_GRAPH_LAUNCH, exec, NULL);                           \
        return result;                                                                                       \
    }
LAUNCH(cuGraphLaunch)
LAUNCH(cuGraphLaunch_ptsz)

VT_HOOK(cuGraphExecDestroy, (CUgraphExec exec))
{
    VT_REAL(cuGraphExecDestroy);
    vt_forget_use(key_of(exec));
    struct vt_graph_bracket bracket = vt_graph_bracket_open();
    CUresult result = real(exec);
    vt_graph_bracket_close(&bracket, VT_FUNCTION_cuGraphExecDestroy);
    if (result == CUDA_SUCCESS)
        record_graph(VT_FUNCTION_cuGraphExecDestroy, VT_EVENT_GRAPH_DESTROY, exec, NULL);
    return result;
}
