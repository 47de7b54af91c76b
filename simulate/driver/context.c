/* Contexts: what they cost, whose turn it is, and what dies with them. */
#include "standin.h"

#include <stdlib.h>

#include "../lacks.h"

#define STACK_DEPTH 64
#define RESIDENT_THREADS (108ull * 2048) /* what a byte of stack per thread costs: an A100's */

static const uint64_t default_limits[LIMIT_COUNT] = {
    [LIMIT_STACK] = 1024,   [LIMIT_PRINTF] = 1 << 20, [LIMIT_HEAP] = 8 << 20,
    [LIMIT_SYNC_DEPTH] = 2, [LIMIT_PENDING] = 2048,
};

static CUcontext contexts; /* those made by cuCtxCreate; primary ones live in their devices */
static _Thread_local CUcontext stack[STACK_DEPTH];
static _Thread_local int depth; /* stack[depth - 1] is current */

CUcontext standin_current_context(void)
{
    return depth > 0 && standin_context_alive(stack[depth - 1]) ? stack[depth - 1] : NULL;
}

bool standin_context_alive(CUcontext context)
{
    for (int i = 0; i < standin_settings.devices; i++) {
        if (context == &standin_devices[i].primary)
            return context->alive;
    }
    CUcontext at = contexts;
    while (at != NULL && at != context)
        at = at->next;
    return at != NULL && at->alive;
}

static bool bring_to_life(CUcontext context, CUdevice device, unsigned flags)
{
    if (!standin_take(device, USE_CONTEXT, standin_settings.context_bytes))
        return false;
    /* Read only now: the dry run's Python part changes the text before the first context. */
    const char *mark = standin_in_dryrun ? getenv("VRAMTRACE_STANDIN_MARK") : NULL;
    if (mark != NULL)
        VRAMTRACE_MARK(mark);
    context->device = device;
    context->flags = flags;
    context->alive = true;
    context->references = 1;
    context->api_version = 3020;
    context->id = standin_next_id();
    for (int i = 0; i < LIMIT_COUNT; i++)
        context->limits[i] = default_limits[i];
    return true;
}

static void free_if_of_context(struct standin_range *range, void *context)
{
    if (range->context != context)
        return;
    if (range->kind == KIND_DEVICE || range->kind == KIND_MANAGED) {
        standin_free_range(range);
    } else if (range->kind == KIND_HOST) {
        standin_host_used_bytes -= range->bytes;
        standin_unmap((void *)range->start, range->bytes);
        standin_range_remove(range);
    } else if (range->kind == KIND_REGISTERED) {
        standin_registered_used_bytes -= range->bytes;
        standin_range_remove(range);
    } else if (range->kind == KIND_FOREIGN) {
        standin_close(range);
    }
}

static int64_t limit_cost(enum standin_limit_kind kind, uint64_t value)
{
    int64_t more = (int64_t)value - (int64_t)default_limits[kind];
    if (kind == LIMIT_STACK)
        return more * (int64_t)RESIDENT_THREADS;
    return kind == LIMIT_PRINTF || kind == LIMIT_HEAP ? more : 0;
}

/* Only what goes beyond the default costs more; the default is part of the context's price. */
static uint64_t limits_cost(const struct CUctx_st *context)
{
    uint64_t sum = 0;
    for (int i = 0; i < LIMIT_COUNT; i++) {
        int64_t cost = limit_cost(i, context->limits[i]);
        sum += cost > 0 ? (uint64_t)cost : 0;
    }
    return sum;
}

/* What belongs to a context dies with it: memory, arrays, modules; not physical handles and pools. */
static void kill_context(CUcontext context)
{
    standin_range_each(free_if_of_context, context);
    standin_free_arrays_of_context(context);
    standin_free_modules_of_context(context);
    standin_give(context->device, USE_LIMIT, limits_cost(context));
    standin_give(context->device, USE_CONTEXT, standin_settings.context_bytes);
    context->alive = false;
    context->references = 0;
}

/* ---- Primary contexts. */

CUresult cuDevicePrimaryCtxRetain(CUcontext *pctx, CUdevice dev)
{
    DRIVER_CALL();
    REQUIRE(pctx != NULL);
    if (!standin_device_valid(dev))
        return CUDA_ERROR_INVALID_DEVICE;
    CUcontext primary = &standin_devices[dev].primary;
    if (primary->alive)
        primary->references++;
    else if (!bring_to_life(primary, dev, primary->flags))
        return CUDA_ERROR_OUT_OF_MEMORY;
    primary->primary = true;
    *pctx = primary;
    return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRelease_v2(CUdevice dev)
{
    DRIVER_CALL();
    if (!standin_device_valid(dev))
        return CUDA_ERROR_INVALID_DEVICE;
    CUcontext primary = &standin_devices[dev].primary;
    if (!primary->alive)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (--primary->references == 0)
        kill_context(primary);
    return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxReset_v2(CUdevice dev)
{
    DRIVER_CALL();
    if (!standin_device_valid(dev))
        return CUDA_ERROR_INVALID_DEVICE;
    if (standin_devices[dev].primary.alive)
        kill_context(&standin_devices[dev].primary);
    return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRelease(CUdevice dev)
{
    DRIVER_CALL();
    return cuDevicePrimaryCtxRelease_v2(dev);
}

CUresult cuDevicePrimaryCtxReset(CUdevice dev)
{
    DRIVER_CALL();
    return cuDevicePrimaryCtxReset_v2(dev);
}

CUresult cuDevicePrimaryCtxGetState(CUdevice dev, unsigned int *flags, int *active)
{
    DRIVER_CALL();
    if (!standin_device_valid(dev))
        return CUDA_ERROR_INVALID_DEVICE;
    REQUIRE(flags != NULL && active != NULL);
    *flags = standin_devices[dev].primary.flags;
    *active = standin_devices[dev].primary.alive;
    return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxSetFlags_v2(CUdevice dev, unsigned int flags)
{
    DRIVER_CALL();
    if (!standin_device_valid(dev))
        return CUDA_ERROR_INVALID_DEVICE;
    standin_devices[dev].primary.flags = flags;
    return CUDA_SUCCESS;
}

/* ---- Contexts of their own. */

static CUresult push(CUcontext context)
{
    if (depth == STACK_DEPTH)
        return CUDA_ERROR_OUT_OF_MEMORY;
    stack[depth++] = context;
    return CUDA_SUCCESS;
}

static CUresult create(CUcontext *out, unsigned flags, CUdevice device)
{
    REQUIRE(out != NULL);
    if (!standin_device_valid(device))
        return CUDA_ERROR_INVALID_DEVICE;
    CUcontext context = calloc(1, sizeof(*context));
    if (context == NULL || !bring_to_life(context, device, flags)) {
        free(context);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    context->next = contexts;
    contexts = context;
    *out = context;
    return push(context);
}

CUresult cuCtxCreate(CUcontext *pctx, unsigned int flags, CUdevice dev)
{
    DRIVER_CALL();
    return create(pctx, flags, dev);
}

CUresult cuCtxCreate_v2(CUcontext *pctx, unsigned int flags, CUdevice dev)
{
    DRIVER_CALL();
    return create(pctx, flags, dev);
}

CUresult cuCtxCreate_v3(CUcontext *pctx, CUexecAffinityParam *paramsArray, int numParams, unsigned int flags,
                        CUdevice dev)
{
    (void)paramsArray;
    (void)numParams;
    DRIVER_CALL();
    return create(pctx, flags, dev);
}

CUresult cuCtxCreate_v4(CUcontext *pctx, CUctxCreateParams *ctxCreateParams, unsigned int flags, CUdevice dev)
{
    (void)ctxCreateParams;
    DRIVER_CALL();
    return create(pctx, flags, dev);
}

static CUresult destroy(CUcontext context)
{
    if (!standin_context_alive(context) || context->primary)
        return CUDA_ERROR_INVALID_CONTEXT;
    kill_context(context);
    /* The struct stays: other threads may have it on their stacks and must find it dead, not freed. */
    if (depth > 0 && stack[depth - 1] == context)
        depth--;
    return CUDA_SUCCESS;
}

CUresult cuCtxDestroy_v2(CUcontext ctx)
{
    DRIVER_CALL();
    return destroy(ctx);
}

CUresult cuCtxDestroy(CUcontext ctx)
{
    DRIVER_CALL();
    return destroy(ctx);
}

CUresult cuCtxAttach(CUcontext *pctx, unsigned int flags)
{
    CONTEXT_CALL();
    REQUIRE(pctx != NULL && flags == 0);
    context->references++;
    *pctx = context;
    return CUDA_SUCCESS;
}

CUresult cuCtxDetach(CUcontext ctx)
{
    DRIVER_CALL();
    if (!standin_context_alive(ctx) || ctx->primary)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (--ctx->references == 0)
        return destroy(ctx);
    return CUDA_SUCCESS;
}

/* ---- Which is current. */

CUresult cuCtxGetCurrent(CUcontext *pctx)
{
    DRIVER_CALL();
    REQUIRE(pctx != NULL);
    *pctx = standin_current_context();
    return CUDA_SUCCESS;
}

CUresult cuCtxSetCurrent(CUcontext ctx)
{
    DRIVER_CALL();
    if (ctx == NULL) {
        depth -= depth > 0;
        return CUDA_SUCCESS;
    }
    if (!standin_context_alive(ctx))
        return CUDA_ERROR_INVALID_CONTEXT;
    depth -= depth > 0;
    return push(ctx);
}

CUresult cuCtxPushCurrent_v2(CUcontext ctx)
{
    DRIVER_CALL();
    return standin_context_alive(ctx) ? push(ctx) : CUDA_ERROR_INVALID_CONTEXT;
}

CUresult cuCtxPushCurrent(CUcontext ctx)
{
    DRIVER_CALL();
    return standin_context_alive(ctx) ? push(ctx) : CUDA_ERROR_INVALID_CONTEXT;
}

CUresult cuCtxPopCurrent_v2(CUcontext *pctx)
{
    CONTEXT_CALL();
    depth--;
    if (pctx != NULL)
        *pctx = context;
    return CUDA_SUCCESS;
}

CUresult cuCtxPopCurrent(CUcontext *pctx)
{
    DRIVER_CALL();
    return cuCtxPopCurrent_v2(pctx);
}

CUresult cuCtxGetDevice(CUdevice *device)
{
    CONTEXT_CALL();
    REQUIRE(device != NULL);
    *device = context->device;
    return CUDA_SUCCESS;
}

CUresult cuCtxGetDevice_v2(CUdevice *device, CUcontext ctx)
{
    DRIVER_CALL();
    if (ctx == NULL)
        return cuCtxGetDevice(device);
    if (!standin_context_alive(ctx))
        return CUDA_ERROR_INVALID_CONTEXT;
    REQUIRE(device != NULL);
    *device = ctx->device;
    return CUDA_SUCCESS;
}

CUresult cuCtxGetFlags(unsigned int *flags)
{
    CONTEXT_CALL();
    REQUIRE(flags != NULL);
    *flags = context->flags;
    return CUDA_SUCCESS;
}

CUresult cuCtxGetId(CUcontext ctx, unsigned long long *ctxId)
{
    DRIVER_CALL();
    CUcontext asked = ctx != NULL ? ctx : standin_current_context();
    if (asked == NULL || !standin_context_alive(asked))
        return CUDA_ERROR_INVALID_CONTEXT;
    REQUIRE(ctxId != NULL);
    *ctxId = asked->id;
    return CUDA_SUCCESS;
}

CUresult cuCtxGetApiVersion(CUcontext ctx, unsigned int *version)
{
    DRIVER_CALL();
    CUcontext asked = ctx != NULL ? ctx : standin_current_context();
    if (asked == NULL || !standin_context_alive(asked))
        return CUDA_ERROR_INVALID_CONTEXT;
    REQUIRE(version != NULL);
    *version = asked->api_version;
    return CUDA_SUCCESS;
}

CUresult cuCtxSynchronize(void)
{
    CONTEXT_CALL();
    standin_pools_synchronize();
    return CUDA_SUCCESS;
}

CUresult cuCtxSynchronize_v2(CUcontext ctx)
{
    DRIVER_CALL();
    if (ctx != NULL && !standin_context_alive(ctx))
        return CUDA_ERROR_INVALID_CONTEXT;
    standin_pools_synchronize();
    return CUDA_SUCCESS;
}

/* ---- Limits. */

static int limit_kind(CUlimit limit)
{
    switch (limit) {
    case CU_LIMIT_STACK_SIZE:
        return LIMIT_STACK;
    case CU_LIMIT_PRINTF_FIFO_SIZE:
        return LIMIT_PRINTF;
    case CU_LIMIT_MALLOC_HEAP_SIZE:
        return LIMIT_HEAP;
    case CU_LIMIT_DEV_RUNTIME_SYNC_DEPTH:
        return LIMIT_SYNC_DEPTH;
    case CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT:
        return LIMIT_PENDING;
    default:
        return -1;
    }
}

CUresult cuCtxSetLimit(CUlimit limit, size_t value)
{
    CONTEXT_CALL();
    int kind = limit_kind(limit);
    if (kind < 0)
        return CUDA_ERROR_UNSUPPORTED_LIMIT;
    uint64_t before = limits_cost(context), old = context->limits[kind];
    context->limits[kind] = value;
    uint64_t after = limits_cost(context);
    if (after > before && !standin_take(context->device, USE_LIMIT, after - before)) {
        context->limits[kind] = old;
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    if (after < before)
        standin_give(context->device, USE_LIMIT, before - after);
    return CUDA_SUCCESS;
}

CUresult cuCtxGetLimit(size_t *pvalue, CUlimit limit)
{
    CONTEXT_CALL();
    int kind = limit_kind(limit);
    if (kind < 0)
        return CUDA_ERROR_UNSUPPORTED_LIMIT;
    REQUIRE(pvalue != NULL);
    *pvalue = context->limits[kind];
    return CUDA_SUCCESS;
}

CUresult cuCtxGetStreamPriorityRange(int *leastPriority, int *greatestPriority)
{
    CONTEXT_CALL();
    if (leastPriority != NULL)
        *leastPriority = 0;
    if (greatestPriority != NULL)
        *greatestPriority = -5;
    return CUDA_SUCCESS;
}

CUresult cuCtxEnablePeerAccess(CUcontext peerContext, unsigned int Flags)
{
    CONTEXT_CALL();
    REQUIRE(Flags == 0);
    return standin_context_alive(peerContext) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

CUresult cuCtxDisablePeerAccess(CUcontext peerContext)
{
    CONTEXT_CALL();
    return standin_context_alive(peerContext) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}
