/* Graphs: their memory, and their launches. A step that replays a graph allocates nothing, so launches are
 * all that shows of it. Only each graph's first launch is bracketed. */
#include "hash.h"
#include "hooks/graph_memory.h"
#include "hooks/first_uses.h"
#include "hooks/wrap.h"

#include <stdatomic.h>

/* A call that may change the memory of graphs, bracketed if the condition holds before it. If it succeeds, an
 * event of this kind is recorded, with the stack, so that each launch shows where it came from; 0 = none. */
#define BRACKETED(symbol, condition, kind_value, parameters, arguments, ...)                                 \
    VT_HOOK(symbol, parameters)                                                                              \
    {                                                                                                        \
        VT_REAL(symbol);                                                                                     \
        struct vt_graph_bracket bracket = {.bracket.open = false};                                           \
        if (condition)                                                                                       \
            bracket = vt_graph_bracket_open();                                                               \
        CUresult result = real arguments;                                                                    \
        vt_graph_bracket_close(&bracket, VT_FUNCTION_##symbol);                                              \
        if ((kind_value) != 0 && result == CUDA_SUCCESS)                                                     \
            vt_driver_event(&(struct vt_observation){.function = VT_FUNCTION_##symbol,                       \
                                                     .kind = (kind_value),                                   \
                                                     .device_index = VT_NO_DEVICE,                           \
                                                     __VA_ARGS__});                                          \
        return result;                                                                                       \
    }

#define INSTANTIATE(symbol, parameters, arguments)                                                           \
    BRACKETED(symbol, true, VT_EVENT_GRAPH, parameters, arguments, .address = (uintptr_t)*exec,              \
              .detail = (uintptr_t)graph)
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
    VT_HOOK_EVENT(symbol, VT_EVENT_CAPTURE, VT_NO_DEVICE, parameters, arguments, .address = (uintptr_t)stream)
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
    VT_HOOK_EVENT_IF(symbol, true, VT_EVENT_CAPTURE_END, VT_NO_DEVICE, (CUstream stream, CUgraph * graph),   \
                     (stream, graph), .address = (uintptr_t)stream,                                          \
                     .detail = result == CUDA_SUCCESS && graph ? (uintptr_t)*graph : 0)
CAPTURE_END(cuStreamEndCapture)
CAPTURE_END(cuStreamEndCapture_ptsz)

#define UPLOAD(symbol)                                                                                       \
    BRACKETED(symbol, true, 0, (CUgraphExec exec, CUstream stream), (exec, stream), .address = 0)
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
    BRACKETED(symbol, exec != NULL && vt_is_first_use(key_of(exec)), VT_EVENT_GRAPH_LAUNCH,                  \
              (CUgraphExec exec, CUstream stream), (exec, stream), .address = (uintptr_t)exec)
LAUNCH(cuGraphLaunch)
LAUNCH(cuGraphLaunch_ptsz)

static bool forget_graph(CUgraphExec exec)
{
    vt_forget_use(key_of(exec));
    return true;
}
BRACKETED(cuGraphExecDestroy, forget_graph(exec), VT_EVENT_GRAPH_DESTROY, (CUgraphExec exec), (exec),
          .address = (uintptr_t)exec)
