/* Contexts. The memory of a device's first context shows in the memory information read beside these events;
 * that of a further one is the difference of the device's used memory across its creation. Both creation and
 * destruction are recorded after the call: taking back the end of a context that was not destroyed would be
 * harder than one address that is reused too early. */
#include "hooks/wrap.h"

#include <stdatomic.h>

/* Each device's primary context, as last recorded; 0 = not alive. */
static _Atomic uint64_t primary_contexts[VT_MAX_DEVICES];

/* Without cuCtxAttach, the first cuCtxDetach destroys the context. */
static _Atomic bool attached;

static struct vt_bracket open_bracket(CUdevice device)
{
    const int8_t device_index = vt_device_index(device);
    return vt_bracket_open_on(device_index,
                              device_index >= 0 ? atomic_load(&primary_contexts[device_index]) : 0);
}

static void record_context(enum vt_function function, enum vt_event_kind kind, CUdevice device,
                           uint64_t context, uint64_t bytes)
{
    if (kind == VT_EVENT_CONTEXT_CREATE)
        vt_count_context();
    vt_driver_event(&(struct vt_driver_call){.function = function,
                                             .kind = (uint8_t)kind,
                                             .device_index = vt_device_index(device),
                                             .address = context,
                                             .bytes = bytes});
}

static void record_end(enum vt_function function, CUdevice device, uint64_t context)
{
    record_context(function, VT_EVENT_CONTEXT_DESTROY, device, context, 0);
}

/* The new context is current, so used memory now includes it. */
static void record_creation(enum vt_function function, CUdevice device, CUcontext context,
                            const struct vt_bracket *bracket)
{
    record_context(function, VT_EVENT_CONTEXT_CREATE, device, (uintptr_t)context, vt_bracket_bytes(bracket));
    struct vt_query query = vt_query_begin();
    if (query.begun)
        vt_record_memory_info(vt_device_index(device), true);
    vt_query_end(&query);
}

#define CREATE(symbol, parameters, arguments)                                                                \
    VT_HOOK(symbol, parameters)                                                                              \
    {                                                                                                        \
        VT_REAL(symbol);                                                                                     \
        const struct vt_bracket bracket = open_bracket(device);                                              \
        CUresult result = real arguments;                                                                    \
        if (result == CUDA_SUCCESS && context != NULL)                                                       \
            record_creation(VT_FUNCTION_##symbol, device, *context, &bracket);                               \
        return result;                                                                                       \
    }
CREATE(cuCtxCreate, (CUcontext * context, unsigned int flags, CUdevice device), (context, flags, device))
CREATE(cuCtxCreate_v2, (CUcontext * context, unsigned int flags, CUdevice device), (context, flags, device))
CREATE(cuCtxCreate_v3,
       (CUcontext * context, CUexecAffinityParam *affinity, int affinities, unsigned int flags,
        CUdevice device),
       (context, affinity, affinities, flags, device))
CREATE(cuCtxCreate_v4,
       (CUcontext * context, CUctxCreateParams *parameters, unsigned int flags, CUdevice device),
       (context, parameters, flags, device))

#define DESTROY(symbol)                                                                                      \
    VT_HOOK(symbol, (CUcontext context))                                                                     \
    {                                                                                                        \
        VT_REAL(symbol);                                                                                     \
        CUresult result = real(context);                                                                     \
        if (result == CUDA_SUCCESS)                                                                          \
            record_end(VT_FUNCTION_##symbol, -1, (uintptr_t)context);                                        \
        return result;                                                                                       \
    }
DESTROY(cuCtxDestroy)
DESTROY(cuCtxDestroy_v2)

VT_HOOK(cuCtxAttach, (CUcontext * context, unsigned int flags))
{
    VT_REAL(cuCtxAttach);
    atomic_store_explicit(&attached, true, memory_order_relaxed);
    return real(context, flags);
}

VT_HOOK(cuCtxDetach, (CUcontext context))
{
    VT_REAL(cuCtxDetach);
    CUresult result = real(context);
    if (result == CUDA_SUCCESS && !atomic_load_explicit(&attached, memory_order_relaxed))
        record_end(VT_FUNCTION_cuCtxDetach, -1, (uintptr_t)context);
    return result;
}

VT_HOOK(cuDevicePrimaryCtxRetain, (CUcontext * context, CUdevice device))
{
    VT_REAL(cuDevicePrimaryCtxRetain);
    int8_t device_index = vt_device_index(device);
    struct vt_bracket bracket = {.open = false};
    if (device_index >= 0 && atomic_load(&primary_contexts[device_index]) == 0)
        bracket = open_bracket(device);
    CUresult result = real(context, device);
    if (result == CUDA_SUCCESS && context != NULL && device_index >= 0 &&
        atomic_exchange(&primary_contexts[device_index], (uintptr_t)*context) != (uintptr_t)*context)
        record_context(VT_FUNCTION_cuDevicePrimaryCtxRetain, VT_EVENT_CONTEXT_CREATE, device,
                       (uintptr_t)*context, vt_bracket_bytes(&bracket));
    return result;
}

/* Retains and releases are counted for the whole process, so the driver is asked whether this was the last
 * release. */
static bool is_active(CUdevice device)
{
    VT_NEED(get_state, cuDevicePrimaryCtxGetState);
    unsigned int flags;
    int active = 1;
    struct vt_query query = vt_query_begin();
    if (query.begun && (get_state == NULL || get_state(device, &flags, &active) != CUDA_SUCCESS))
        active = 1;
    vt_query_end(&query);
    return active != 0;
}

static void end_primary(enum vt_function function, CUdevice device)
{
    int8_t device_index = vt_device_index(device);
    uint64_t context = device_index >= 0 ? atomic_exchange(&primary_contexts[device_index], 0) : 0;
    if (context != 0)
        record_end(function, device, context);
}

#define RELEASE(symbol)                                                                                      \
    VT_HOOK(symbol, (CUdevice device))                                                                       \
    {                                                                                                        \
        VT_REAL(symbol);                                                                                     \
        CUresult result = real(device);                                                                      \
        if (result == CUDA_SUCCESS && !is_active(device))                                                    \
            end_primary(VT_FUNCTION_##symbol, device);                                                       \
        return result;                                                                                       \
    }
RELEASE(cuDevicePrimaryCtxRelease)
RELEASE(cuDevicePrimaryCtxRelease_v2)

#define RESET(symbol)                                                                                        \
    VT_HOOK(symbol, (CUdevice device))                                                                       \
    {                                                                                                        \
        VT_REAL(symbol);                                                                                     \
        CUresult result = real(device);                                                                      \
        if (result == CUDA_SUCCESS)                                                                          \
            end_primary(VT_FUNCTION_##symbol, device);                                                       \
        return result;                                                                                       \
    }
RESET(cuDevicePrimaryCtxReset)
RESET(cuDevicePrimaryCtxReset_v2)

/* ---- what else changes a context's memory ---- */

VT_HOOK_BRACKETED(cuCtxSetLimit, (CUlimit limit, size_t value), (limit, value))
VT_HOOK_BRACKETED(cuCtxEnablePeerAccess, (CUcontext peer, unsigned int flags), (peer, flags))
VT_HOOK_BRACKETED(cuGreenCtxCreate,
                  (CUgreenCtx * context, CUdevResourceDesc resources, CUdevice device, unsigned int flags),
                  (context, resources, device, flags))
VT_HOOK_BRACKETED(cuGreenCtxDestroy, (CUgreenCtx context), (context))
