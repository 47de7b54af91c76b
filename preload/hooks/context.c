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

static void record_creation(enum vt_function function, CUdevice device, CUcontext context,
                            const struct vt_bracket *bracket)
{
    vt_count_context();
    vt_driver_event(&(struct vt_observation){.function = function,
                                             .kind = VT_EVENT_CONTEXT_CREATE,
                                             .device_index = vt_device_index(device),
                                             .address = (uintptr_t)context,
                                             .bytes = vt_bracket_bytes(bracket)});
}

/* The new context is current, so used memory now includes it. */
static void record_current(CUdevice device)
{
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
        if (result == CUDA_SUCCESS && context != NULL) {                                                     \
            record_creation(VT_FUNCTION_##symbol, device, *context, &bracket);                               \
            record_current(device);                                                                          \
        }                                                                                                    \
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

#define DESTROY(symbol, condition)                                                                           \
    VT_HOOK_EVENT_IF(symbol, result == CUDA_SUCCESS && (condition), VT_EVENT_CONTEXT_DESTROY, VT_NO_DEVICE,  \
                     (CUcontext context), (context), .address = (uintptr_t)context)
DESTROY(cuCtxDestroy, true)
DESTROY(cuCtxDestroy_v2, true)
DESTROY(cuCtxDetach, !atomic_load_explicit(&attached, memory_order_relaxed))

VT_HOOK(cuCtxAttach, (CUcontext * context, unsigned int flags))
{
    VT_REAL(cuCtxAttach);
    atomic_store_explicit(&attached, true, memory_order_relaxed);
    return real(context, flags);
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
        record_creation(VT_FUNCTION_cuDevicePrimaryCtxRetain, device, *context, &bracket);
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
        vt_driver_event(&(struct vt_observation){.function = function,
                                                 .kind = VT_EVENT_CONTEXT_DESTROY,
                                                 .device_index = device_index,
                                                 .address = context});
}

#define END_PRIMARY(symbol, condition)                                                                       \
    VT_HOOK(symbol, (CUdevice device))                                                                       \
    {                                                                                                        \
        VT_REAL(symbol);                                                                                     \
        CUresult result = real(device);                                                                      \
        if (result == CUDA_SUCCESS && (condition))                                                           \
            end_primary(VT_FUNCTION_##symbol, device);                                                       \
        return result;                                                                                       \
    }
END_PRIMARY(cuDevicePrimaryCtxRelease, !is_active(device))
END_PRIMARY(cuDevicePrimaryCtxRelease_v2, !is_active(device))
END_PRIMARY(cuDevicePrimaryCtxReset, true)
END_PRIMARY(cuDevicePrimaryCtxReset_v2, true)

/* ---- what else changes a context's memory ---- */

VT_HOOK_BRACKETED(cuCtxSetLimit, (CUlimit limit, size_t value), (limit, value))
VT_HOOK_BRACKETED(cuCtxEnablePeerAccess, (CUcontext peer, unsigned int flags), (peer, flags))
VT_HOOK_BRACKETED(cuGreenCtxCreate,
                  (CUgreenCtx * context, CUdevResourceDesc resources, CUdevice device, unsigned int flags),
                  (context, resources, device, flags))
VT_HOOK_BRACKETED(cuGreenCtxDestroy, (CUgreenCtx context), (context))
