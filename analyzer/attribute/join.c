/* Joins what backward made to its forward operator.
 *
 * The first event with a node's sequence shows where the node was made: VT_EVENT_NODE, or the allocation of
 * its own operator. (Later events are of operators that made no node.) A node that backward made (double
 * backward) and that has no Python frames belongs where the node that ran then was made. */
#include "attribute/join.h"

#include <stdlib.h>

#include "attribute/phases.h"
#include "attribute/stack_traits.h"
#include "base/index.h"

static bool has_number(uint64_t sequence)
{
    return sequence > VT_SEQUENCE_NO_NUMBER;
}

/* A node has the same key when it is made and when it runs. */
static uint64_t key_of(uint64_t sequence)
{
    return sequence & ~UINT64_C(1);
}

static void put_first(struct vt_index *stacks, uint64_t sequence, uint32_t stack_id)
{
    if (!has_number(sequence) || vt_index_get(stacks, key_of(sequence)) != VT_INDEX_NONE)
        return;
    vt_index_put(stacks, key_of(sequence), stack_id);
}

/* Without Python frames a stack does not show where its node was made. */
static bool shows_place(const struct vt_trace *trace, uint32_t stack_id)
{
    return stack_id < trace->stack_count && trace->stacks[stack_id].python_count > 0;
}

static void find_nodes(const struct vt_trace *trace, struct vt_index *stacks)
{
    for (size_t i = 0; i < trace->event_count; i++) {
        const struct vt_event *event = &trace->events[i];
        if (event->kind == VT_EVENT_NODE ? shows_place(trace, event->stack_id)
                                         : event->kind == VT_EVENT_ALLOC && event->sequence % 2 == 0)
            put_first(stacks, event->sequence, event->stack_id);
        else if (event->head_start &&
                 (event->kind == VT_EVENT_LAST || (event->kind == VT_EVENT_ALLOC && event->sequence % 2)) &&
                 event->total_bytes && event->total_bytes < trace->stack_count) /* of a digest */
            put_first(stacks, event->sequence, (uint32_t)event->total_bytes);
    }
    for (size_t i = 0; i < trace->node_stacks.capacity; i++)
        if (trace->node_stacks.slots[i].value < trace->stack_count)
            put_first(stacks, trace->node_stacks.slots[i].key, trace->node_stacks.slots[i].value);
    /* The event of the node that ran may come after those of the nodes that it made. */
    for (size_t i = 0; i < trace->event_count; i++) {
        const struct vt_event *event = &trace->events[i];
        if (event->kind != VT_EVENT_NODE || event->detail == 0 || shows_place(trace, event->stack_id))
            continue;
        uint32_t parents =
            has_number(event->detail) ? vt_index_get(stacks, key_of(event->detail)) : VT_INDEX_NONE;
        if (parents != VT_INDEX_NONE)
            put_first(stacks, event->sequence, parents);
    }
}

void vt_join_backward(const struct vt_replay *replay, const struct vt_traits_by_stack *sites,
                      struct vt_label *labels)
{
    struct vt_index stacks = {0};
    find_nodes(replay->trace, &stacks);
    for (size_t i = 0; i < replay->allocation_count; i++) {
        const struct vt_allocation *block = &replay->allocations[i];
        if (block->sequence % 2 == 0 || !has_number(block->sequence))
            continue;
        /* What a checkpoint makes again has frames of its own. */
        if (sites->items[block->stack_id].traits & VT_TRAIT(RECOMPUTE))
            continue;
        uint32_t stack_id = vt_index_get(&stacks, key_of(block->sequence));
        if (stack_id != VT_INDEX_NONE)
            labels[i].forward_stack_id = stack_id;
    }
    vt_index_free(&stacks);
}

/* The call of backward that the script made, if one of the pass's events shows it. */
static uint32_t find_caller(const struct vt_replay *replay, const struct vt_traits_by_stack *sites,
                            const struct vt_pass *pass)
{
    const struct vt_trace *trace = replay->trace;
    for (uint32_t i = pass->first_event; i <= pass->last_event; i++)
        if (shows_place(trace, trace->events[i].stack_id) &&
            sites->items[trace->events[i].stack_id].traits & VT_TRAIT(BACKWARD_CALL))
            return trace->events[i].stack_id;
    return 0;
}

void vt_join_callers(const struct vt_replay *replay, const struct vt_traits_by_stack *sites,
                     const struct vt_phases *phases, struct vt_label *labels)
{
    long found = -1;
    uint32_t caller = 0;
    for (size_t i = 0; i < replay->allocation_count; i++) {
        const struct vt_allocation *block = &replay->allocations[i];
        if (labels[i].forward_stack_id || shows_place(replay->trace, block->stack_id) ||
            !(sites->items[block->stack_id].traits & VT_TRAIT(BACKWARD)))
            continue;
        long pass = vt_pass_before(phases, block->alloc_event);
        if (pass != found)
            caller = pass < 0 ? 0 : find_caller(replay, sites, &phases->passes[pass]);
        found = pass;
        labels[i].forward_stack_id = caller;
    }
}
