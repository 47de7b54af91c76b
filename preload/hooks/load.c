/* Calls that change the device's used memory without an allocation: modules, limits, graphs. The difference
 * across the call is recorded. None of them is on a hot path but the launch of a graph: only each graph's
 * first launch is bracketed. What becomes of graphs is recorded too: their memory is in private pools, and a
 * launch is all that a step shows which allocates nothing. */
#include "hash.h"
#include "hooks/driver.h"

#include <stdatomic.h>

VT_HOOK_BRACKETED(cuModuleLoad, (CUmodule * module, const char *file), (module, file))
VT_HOOK_BRACKETED(cuModuleLoadData, (CUmodule * module, const void *image), (module, image))
VT_HOOK_BRACKETED(cuModuleLoadDataEx,
                  (CUmodule * module, const void *image, unsigned int count, CUjit_option *options,
                   void **values),
                  (module, image, count, options, values))
VT_HOOK_BRACKETED(cuModuleLoadFatBinary, (CUmodule * module, const void *image), (module, image))
VT_HOOK_BRACKETED(cuModuleUnload, (CUmodule module), (module))

VT_HOOK_BRACKETED(cuLibraryLoadData,
                  (CUlibrary * library, const void *code, CUjit_option *jit_options, void **jit_values,
                   unsigned int jit_count, CUlibraryOption *options, void **values, unsigned int count),
                  (library, code, jit_options, jit_values, jit_count, options, values, count))
VT_HOOK_BRACKETED(cuLibraryLoadFromFile,
                  (CUlibrary * library, const char *file, CUjit_option *jit_options, void **jit_values,
                   unsigned int jit_count, CUlibraryOption *options, void **values, unsigned int count),
                  (library, file, jit_options, jit_values, jit_count, options, values, count))
VT_HOOK_BRACKETED(cuLibraryUnload, (CUlibrary library), (library))
/* A library that loads lazily does so here. */
VT_HOOK_BRACKETED(cuLibraryGetModule, (CUmodule * module, CUlibrary library), (module, library))
VT_HOOK_BRACKETED(cuLibraryGetGlobal,
                  (CUdeviceptr * address, size_t *bytes, CUlibrary library, const char *name),
                  (address, bytes, library, name))
VT_HOOK_BRACKETED(cuLibraryGetManaged,
                  (CUdeviceptr * address, size_t *bytes, CUlibrary library, const char *name),
                  (address, bytes, library, name))

VT_HOOK_BRACKETED(cuCtxSetLimit, (CUlimit limit, size_t value), (limit, value))
VT_HOOK_BRACKETED(cuCtxEnablePeerAccess, (CUcontext peer, unsigned int flags), (peer, flags))
VT_HOOK_BRACKETED(cuGreenCtxCreate,
                  (CUgreenCtx * context, CUdevResourceDesc resources, CUdevice device, unsigned int flags),
                  (context, resources, device, flags))
VT_HOOK_BRACKETED(cuGreenCtxDestroy, (CUgreenCtx context), (context))

/* Calls about graphs are recorded with their stacks, so that each launch shows what asked for it. */
static void record_graph(enum vt_function function, uint8_t kind, const void *address, const void *detail)
{
    vt_driver_event(&(struct vt_allocation){.function = function,
                                            .kind = kind,
                                            .device_index = VT_NO_DEVICE,
                                            .address = (uintptr_t)address,
                                            .detail = (uintptr_t)detail});
}

#define INSTANTIATE(symbol, parameters, arguments)                                                           \
    VT_HOOK(symbol, parameters)                                                                              \
    {                                                                                                        \
        VT_REAL(symbol);                                                                                     \
        struct vt_bracket bracket = vt_bracket_open();                                                       \
        CUresult result = real arguments;                                                                    \
        vt_bracket_close(&bracket, VT_FUNCTION_##symbol);                                                    \
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

VT_HOOK_BRACKETED(cuGraphUpload, (CUgraphExec exec, CUstream stream), (exec, stream))
VT_HOOK_BRACKETED(cuGraphUpload_ptsz, (CUgraphExec exec, CUstream stream), (exec, stream))
VT_HOOK_BRACKETED(cuDeviceGraphMemTrim, (CUdevice device), (device))

/* Graphs that were launched: a set of handles, each at most SEEN_PLACES from where its hash points. When
 * those places are taken, a first launch counts as a later one. Programs that capture piece by piece have
 * thousands of graphs. */
#define SEEN_SIZE 65536u
#define SEEN_PLACES 8u
static _Atomic uint64_t seen[SEEN_SIZE];

/* Handles are addresses, often at equal distances: one multiplication would not spread them. */
static size_t place_of(uint64_t exec, unsigned i)
{
    return ((vt_hash(vt_hash_spread(exec)) >> 48) + i) % SEEN_SIZE;
}

static bool is_first_launch(uint64_t exec)
{
    for (unsigned i = 0; i < SEEN_PLACES; i++)
        if (atomic_load_explicit(&seen[place_of(exec, i)], memory_order_relaxed) == exec)
            return false;
    for (unsigned i = 0; i < SEEN_PLACES; i++) {
        uint64_t nobody = 0;
        if (atomic_compare_exchange_strong(&seen[place_of(exec, i)], &nobody, exec))
            return true;
    }
    return false;
}

static void forget_launch(uint64_t exec)
{
    for (unsigned i = 0; i < SEEN_PLACES; i++) {
        uint64_t here = exec;
        atomic_compare_exchange_strong(&seen[place_of(exec, i)], &here, 0);
    }
}

#define LAUNCH(symbol)                                                                                       \
    VT_HOOK(symbol, (CUgraphExec exec, CUstream stream))                                                     \
    {                                                                                                        \
        VT_REAL(symbol);                                                                                     \
        struct vt_bracket bracket = {.open = false};                                                         \
        if (exec != NULL && is_first_launch((uintptr_t)exec))                                                \
            bracket = vt_bracket_open();                                                                     \
        CUresult result = real(exec, stream);                                                                \
        vt_bracket_close(&bracket, VT_FUNCTION_##symbol);                                                    \
        if (result == CUDA_SUCCESS)                                                                          \
            record_graph(VT_FUNCTION_##symbol, VT_EVENT_GRAPH_LAUNCH, exec, NULL);                           \
        return result;                                                                                       \
    }
LAUNCH(cuGraphLaunch)
LAUNCH(cuGraphLaunch_ptsz)

VT_HOOK(cuGraphExecDestroy, (CUgraphExec exec))
{
    VT_REAL(cuGraphExecDestroy);
    forget_launch((uintptr_t)exec);
    struct vt_bracket bracket = vt_bracket_open();
    CUresult result = real(exec);
    vt_bracket_close(&bracket, VT_FUNCTION_cuGraphExecDestroy);
    if (result == CUDA_SUCCESS)
        record_graph(VT_FUNCTION_cuGraphExecDestroy, VT_EVENT_GRAPH_DESTROY, exec, NULL);
    return result;
}
