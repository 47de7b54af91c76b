/* Driver memory by address: allocations, frees, and frees that failed; and what contexts own.
 *
 * A free is recorded before the driver has agreed to it, and several threads may free the same address: some
 * of those frees fail. So an allocation has a balance: plus 1 each time the driver hands it out (another
 * process's memory may come again at the same address), minus 1 for each free. It is alive while the balance
 * is above 0. A free that failed gives its 1 back. */
#include "replay/memory.h"

#include "replay/build.h"
#include "replay/graph_nodes.h"

#define BALANCE_ZERO UINT32_C(0x40000000) /* as a balance is stored */

static int64_t balance_of(struct vt_build *build, uint32_t allocation)
{
    uint32_t stored = vt_index_get(&build->balances, allocation);
    return stored != VT_INDEX_NONE ? (int64_t)stored - BALANCE_ZERO : vt_build_is_alive(build, allocation);
}

/* Call it before ending or reviving the allocation. Balance 1 of a live allocation and 0 of an ended one need
 * no entry.
 */
static void set_balance(struct vt_build *build, uint32_t allocation, int64_t balance)
{
    if ((balance == 0 || balance == 1) && vt_index_get(&build->balances, allocation) == VT_INDEX_NONE)
        return;
    vt_index_put(&build->balances, allocation, (uint32_t)(balance + BALANCE_ZERO));
}

/* Ends it; frees that follow are of nothing known. */
static void end_memory(struct vt_build *build, uint32_t allocation)
{
    vt_build_end(build, allocation);
    set_balance(build, allocation, 0);
}

static struct vt_build_context *context_at(struct vt_build *build, uint64_t address)
{
    uint32_t index = address != 0 ? vt_index_get(&build->context_index, address) : VT_INDEX_NONE;
    return index != VT_INDEX_NONE ? &build->contexts[index] : NULL;
}

/* The context that was current when the memory was made; NULL if that is not known. */
static struct vt_build_context *owner_of(struct vt_build *build, const struct vt_event *made)
{
    return context_at(build, made->detail);
}

static bool ended_with_context(struct vt_build *build, uint32_t allocation)
{
    const struct vt_allocation *memory = vt_build_allocation(build, allocation);
    const struct vt_build_context *owner =
        owner_of(build, &build->replay->trace->events[memory->alloc_event]);
    return memory->kind != VT_ALLOCATION_POOLED && owner != NULL && owner->references == 0;
}

void vt_build_keep_memory(struct vt_build *build, uint64_t address, uint32_t allocation)
{
    if (allocation == VT_BUILD_GRAPH_MEMORY)
        return;
    if (allocation == VT_INDEX_NONE) {
        build->replay->unknown_frees--;
        return;
    }
    int64_t balance = balance_of(build, allocation) + 1;
    build->replay->unknown_frees -= balance <= 0;
    set_balance(build, allocation, balance);
    if (balance != 1 || vt_build_is_alive(build, allocation) ||
        vt_index_get(&build->memory, address) != allocation || ended_with_context(build, allocation))
        return;
    if (vt_build_allocation(build, allocation)->kind == VT_ALLOCATION_POOLED) {
        vt_build_begin_again(build, allocation);
    } else {
        vt_build_revive(build, allocation);
        vt_build_enter(build, allocation);
    }
}

/* ---- Allocations and frees. */

static void add_to_owner(struct vt_build *build, const struct vt_event *event, uint32_t allocation)
{
    struct vt_build_context *owner = owner_of(build, event);
    struct vt_build_list *owned = owner != NULL && owner->references > 0
                                      ? &owner->owned
                                      : &vt_build_device(build, event->device_index)->owned;
    VT_APPEND(owned->items, owned->count, owned->capacity, allocation);
}

void vt_build_driver_alloc(struct vt_build *build, const struct vt_event *event)
{
    if (event->flags & VT_FLAG_CAPTURED) { /* a graph node: no memory yet */
        vt_index_put(&build->graph_memory, event->address, 1);
        vt_graph_nodes_add(build, event);
        return;
    }
    uint32_t old = vt_index_get(&build->memory, event->address);
    if (vt_build_is_alive(build, old)) {
        if (event->flags & vt_build_allocation(build, old)->flags & VT_FLAG_FOREIGN) {
            set_balance(build, old, balance_of(build, old) + 1);
            return;
        }
        build->replay->doubled_allocations++;
        end_memory(build, old);
    }
    enum vt_allocation_kind kind = event->flags & (VT_FLAG_HOST | VT_FLAG_REGISTERED) ? VT_ALLOCATION_HOST
                                   : event->flags & VT_FLAG_ASYNC                     ? VT_ALLOCATION_POOLED
                                                                                      : VT_ALLOCATION_DRIVER;
    const uint32_t made = vt_build_add(build, kind, event->bytes, event->device_index);
    vt_build_allocation(build, made)->address = event->address;
    vt_build_enter(build, made);
    vt_index_put(&build->memory, event->address, made);
    if (kind == VT_ALLOCATION_POOLED)
        vt_build_settle_pools(build, event->device_index);
    if (event->flags & VT_FLAG_FOREIGN)
        vt_build_share(build, event->total_bytes, made);
    if (kind != VT_ALLOCATION_POOLED)
        add_to_owner(build, event, made);
}

void vt_build_driver_free(struct vt_build *build, const struct vt_event *event)
{
    uint32_t index = vt_index_get(&build->memory, event->address);
    if ((event->flags & VT_FLAG_CAPTURED) || event->address == 0) {
        vt_build_note_free(build, event, VT_INDEX_NONE);
        return;
    }
    if (!vt_build_is_alive(build, index) &&
        vt_index_get(&build->graph_memory, event->address) != VT_INDEX_NONE) {
        vt_build_note_free(build, event, VT_BUILD_GRAPH_MEMORY); /* stays in the graphs' pool */
        return;
    }
    vt_build_note_free(build, event, index);
    if (index == VT_INDEX_NONE) {
        build->replay->unknown_frees++;
        return;
    }
    int64_t balance = balance_of(build, index) - 1;
    build->replay->unknown_frees += balance < 0;
    set_balance(build, index, balance);
    if (balance != 0 || !vt_build_is_alive(build, index))
        return;
    const struct vt_allocation *allocation = vt_build_allocation(build, index);
    vt_build_end(build, index);
    if (allocation->kind == VT_ALLOCATION_POOLED)
        vt_build_settle_pools(build, allocation->device_index);
}

/* ---- Contexts. */

static void change_growth(struct vt_build *build, int device_index, uint64_t bytes)
{
    uint64_t now = vt_build_device(build, device_index)->context.bytes;
    const uint64_t less = 0 - bytes;
    now = (int64_t)bytes >= 0 ? now + bytes : less < now ? now - less : 0;
    vt_build_set_growth(build, VT_ALLOCATION_CONTEXT, device_index, now);
}

void vt_build_change_context(struct vt_build *build, int device_index, uint64_t context, uint64_t bytes)
{
    struct vt_build_context *owner = context_at(build, context);
    if (owner != NULL && owner->references > 0 && owner->device_index == device_index)
        owner->bytes += bytes;
    change_growth(build, device_index, bytes);
}

void vt_build_context_create(struct vt_build *build, const struct vt_event *event)
{
    uint32_t index = vt_index_get(&build->context_index, event->address);
    if (index != VT_INDEX_NONE && build->contexts[index].references > 0) {
        build->contexts[index].references++;
        return;
    }
    vt_index_put(&build->context_index, event->address, (uint32_t)build->context_count);
    VT_APPEND(build->contexts, build->context_count, build->context_capacity,
              (struct vt_build_context){.references = 1, .device_index = event->device_index});
    vt_build_device(build, event->device_index)->contexts++;
    build->context_total++;
    if (event->device_index >= 0)
        vt_build_change_context(build, event->device_index, event->address, event->bytes);
}

static void end_owned(struct vt_build *build, struct vt_build_list *owned)
{
    for (size_t i = 0; i < owned->count; i++)
        if (vt_build_is_alive(build, owned->items[i]))
            end_memory(build, owned->items[i]);
    owned->count = 0;
}

/* What a context owns ends with it; memory whose owner is not known ends with the last context of its device.
 * Memory of pools and of the virtual memory calls outlives them. */
void vt_build_context_destroy(struct vt_build *build, const struct vt_event *event)
{
    uint32_t index = vt_index_get(&build->context_index, event->address);
    int device_index = event->device_index;
    if (index != VT_INDEX_NONE && build->contexts[index].references > 0) {
        struct vt_build_context *context = &build->contexts[index];
        device_index = context->device_index;
        if (--context->references > 0)
            return;
        vt_build_device(build, device_index)->contexts--;
        build->context_total--;
        end_owned(build, &context->owned);
        if (device_index >= 0)
            change_growth(build, device_index, 0 - context->bytes);
    } else if (device_index < 0) {
        return; /* its creation was not recorded, so its device is unknown */
    }
    if (vt_build_device(build, device_index)->contexts > 0)
        return;
    end_owned(build, &vt_build_device(build, device_index)->owned);
    if (build->context_total == 0)
        end_owned(build, &vt_build_device(build, -1)->owned); /* page-locked memory */
    vt_build_device(build, device_index)->info_seen = false;
    vt_build_set_growth(build, VT_ALLOCATION_CONTEXT, device_index, 0);
}
