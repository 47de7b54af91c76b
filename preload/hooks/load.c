/* Calls that change what is used on the device without an allocation: modules, limits, graphs. The difference
 * in the device's used memory across the call is recorded. None of them is on a hot path, but for the launch
 * of a graph: only the first one of each is looked at. */
#include "hash.h"
#include "hooks/driver.h"

#include <stdatomic.h>

#define BRACKETED(symbol, parameters, arguments)                                                             \
    VT_HOOK(symbol, parameters)                                                                              \
    {                                                                                                        \
        VT_REAL(symbol);                                                                                     \
        struct vt_bracket bracket = vt_bracket_open();                                                       \
        CUresult result = real arguments;                                                                    \
        vt_bracket_close(&bracket, VT_FUNCTION_##symbol);                                                    \
        return result;                                                                                       \
    }

BRACKETED(cuModuleLoad, (CUmodule * module, const char *file), (module, file))
BRACKETED(cuModuleLoadData, (CUmodule * module, const void *image), (module, image))
BRACKETED(cuModuleLoadDataEx,
          (CUmodule * module, const void *image, unsigned int count, CUjit_option *options, void **values),
          (module, image, count, options, values))
BRACKETED(cuModuleLoadFatBinary, (CUmodule * module, const void *image), (module, image))
BRACKETED(cuModuleUnload, (CUmodule module), (module))

BRACKETED(cuLibraryLoadData,
          (CUlibrary * library, const void *code, CUjit_option *jit_options, void **jit_values,
           unsigned int jit_count, CUlibraryOption *options, void **values, unsigned int count),
          (library, code, jit_options, jit_values, jit_count, options, values, count))
BRACKETED(cuLibraryLoadFromFile,
          (CUlibrary * library, const char *file, CUjit_option *jit_options, void **jit_values,
           unsigned int jit_count, CUlibraryOption *options, void **values, unsigned int count),
          (library, file, jit_options, jit_values, jit_count, options, values, count))
BRACKETED(cuLibraryUnload, (CUlibrary library), (library))
/* A library that loads lazily does so here. */
BRACKETED(cuLibraryGetModule, (CUmodule * module, CUlibrary library), (module, library))
BRACKETED(cuLibraryGetGlobal, (CUdeviceptr * address, size_t *bytes, CUlibrary library, const char *name),
          (address, bytes, library, name))
BRACKETED(cuLibraryGetManaged, (CUdeviceptr * address, size_t *bytes, CUlibrary library, const char *name),
          (address, bytes, library, name))

BRACKETED(cuCtxSetLimit, (CUlimit limit, size_t value), (limit, value))
BRACKETED(cuCtxEnablePeerAccess, (CUcontext peer, unsigned int flags), (peer, flags))
BRACKETED(cuGreenCtxCreate,
          (CUgreenCtx * context, CUdevResourceDesc resources, CUdevice device, unsigned int flags),
          (context, resources, device, flags))
BRACKETED(cuGreenCtxDestroy, (CUgreenCtx context), (context))

BRACKETED(cuGraphInstantiate,
          (CUgraphExec * exec, CUgraph graph, CUgraphNode *error_node, char *log, size_t log_bytes),
          (exec, graph, error_node, log, log_bytes))
BRACKETED(cuGraphInstantiate_v2,
          (CUgraphExec * exec, CUgraph graph, CUgraphNode *error_node, char *log, size_t log_bytes),
          (exec, graph, error_node, log, log_bytes))
BRACKETED(cuGraphInstantiateWithFlags, (CUgraphExec * exec, CUgraph graph, unsigned long long flags),
          (exec, graph, flags))
BRACKETED(cuGraphInstantiateWithParams,
          (CUgraphExec * exec, CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS *parameters),
          (exec, graph, parameters))
BRACKETED(cuGraphInstantiateWithParams_ptsz,
          (CUgraphExec * exec, CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS *parameters),
          (exec, graph, parameters))
BRACKETED(cuGraphUpload, (CUgraphExec exec, CUstream stream), (exec, stream))
BRACKETED(cuGraphUpload_ptsz, (CUgraphExec exec, CUstream stream), (exec, stream))
BRACKETED(cuDeviceGraphMemTrim, (CUdevice device), (device))

/* Graphs that were launched: a set of handles, each within SEEN_PLACES of where its hash points. When those
 * places are taken, a launch passes for a later one. Programs that capture piece by piece have thousands. */
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
    return result;
}
