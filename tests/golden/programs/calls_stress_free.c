/* Frees of every kind, and those that must fail. */
#include "calls_stress.h"

static bool free_virtual(struct worker *worker, struct item *item)
{
    while (item->references > 0 && draw(worker, 4))
        item->references -= CALL(cuMemRelease, POISON, item->handle);
    if (item->address != 0) {
        CALL(cuMemUnmap, POISON, item->address, item->bytes);
        CALL(cuMemAddressFree, POISON, item->address, item->bytes);
        item->address = 0;
    }
    while (item->references > 0)
        item->references -= CALL(cuMemRelease, POISON, item->handle);
    return true;
}

static bool free_graph(struct worker *worker, struct item *item)
{
    if (item->live && !(draw(worker, 2) ? CALL(cuMemFree_v2, POISON, item->address)
                                        : CALL(cuMemFreeAsync, POISON, item->address, worker->stream)))
        return false; /* no context */
    CALL(cuGraphExecDestroy, POISON, item->exec);
    CALL(cuGraphDestroy, POISON, item->graph);
    return true;
}

bool free_item(struct worker *worker, struct item *item)
{
    switch (item->kind) {
    case LINEAR:
    case POOLED:
        return draw(worker, 3) ? CALL(cuMemFree_v2, POISON, item->address)
                               : CALL(cuMemFreeAsync, POISON, item->address, worker->stream);
    case HOST:
        return CALL(cuMemFreeHost, POISON, (void *)(uintptr_t)item->address);
    case REGISTERED:
        return CALL(cuMemHostUnregister, POISON, (void *)(uintptr_t)item->address);
    case VIRTUAL:
        return free_virtual(worker, item);
    case ARRAY:
        return CALL(cuArrayDestroy, POISON, (CUarray)(uintptr_t)item->address);
    case MIPMAP:
        return CALL(cuMipmappedArrayDestroy, POISON, (CUmipmappedArray)(uintptr_t)item->address);
    case FOREIGN:
        return CALL(cuIpcCloseMemHandle, POISON, item->address);
    default:
        return free_graph(worker, item);
    }
}

void free_one(struct worker *worker)
{
    if (worker->item_count == 0)
        return;
    struct item *item = &worker->items[draw(worker, worker->item_count)];
    if (!free_item(worker, item))
        return;
    worker->dead[worker->dead_count++ % DEAD] = *item;
    *item = worker->items[--worker->item_count];
}

/* ---- What must fail, or do nothing. */

void free_again(struct worker *worker)
{
    if (worker->dead_count == 0)
        return;
    struct item *item = &worker->dead[draw(worker, worker->dead_count < DEAD ? worker->dead_count : DEAD)];
    if (item->kind == VIRTUAL && item->bytes != 0) /* the numbers of handles are never used again */
        CALL(cuMemRelease, POISON, item->handle);
    else if (!reuse && item->kind != GRAPH && item->kind != FOREIGN && item->kind != VIRTUAL)
        free_item(worker, item);
}

/* Frees of the wrong kind: they fail whether the address is in use, and by whomever. */
void free_others(struct worker *worker)
{
    uint64_t address = atomic_load_explicit(&board[draw(worker, BOARD)], memory_order_relaxed);
    int on_stack;
    if (address == 0)
        address = POISON; /* which address it is depends on the others; what comes of it does not */
    if (address >= (uintptr_t)workers[0].arena &&
        address < (uintptr_t)workers[0].arena + threads * ARENA_BYTES)
        address = (uintptr_t)&on_stack; /* registered: it could be unregistered here */
    switch (draw(worker, 6)) {
    case 0:
        CALL(cuMemHostUnregister, POISON, (void *)(uintptr_t)(address | 1));
        break;
    case 1:
        CALL(cuMemHostUnregister, POISON, (void *)(uintptr_t)address);
        break;
    case 2:
        CALL(cuMemRelease, POISON, address);
        break;
    case 3:
        CALL(cuMemUnmap, POISON, address, 1);
        break;
    case 4:
        CALL(cuMemFree_v2, POISON, (uintptr_t)&on_stack);
        CALL(cuMemFreeHost, POISON, &on_stack);
        break;
    default:
        CALL(cuMemFree_v2, POISON, 0);
        CALL(cuMemFreeHost, POISON, NULL);
        CALL(cuMemFreeAsync, POISON, 0, worker->stream);
        CALL(cuMemRelease, POISON, 0);
    }
}

void free_without_context(struct worker *worker)
{
    CUcontext before;
    cuCtxGetCurrent(&before);
    while (CALL(cuCtxPopCurrent_v2, POISON, NULL)) {
    }
    for (int i = 0; i < 3; i++) {
        uint64_t address = atomic_load_explicit(&board[draw(worker, BOARD)], memory_order_relaxed);
        address = address != 0 ? address : POISON;
        CALL(cuMemFree_v2, POISON, address);
        CALL(cuMemFreeAsync, POISON, address, NULL);
        CALL(cuMemFreeHost, POISON, (void *)(uintptr_t)address);
        CALL(cuIpcCloseMemHandle, POISON, address);
        CALL(cuArrayDestroy, POISON, (CUarray)(uintptr_t)address);
    }
    if (worker->item_count != 0)
        free_one(worker);
    if (before != NULL)
        cuCtxSetCurrent(before);
}
