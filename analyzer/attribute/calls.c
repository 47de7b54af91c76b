/* Arrays that no inspection saw. A line that computes makes the same arrays in each of its calls, in the same
 * order: the parameters of the next step, its state, its loss. So what an inspection saw of one call names
 * those of the others. */
#include "attribute/calls.h"

#include <stdlib.h>

#include "attribute/owners.h"
#include "base/allocate.h"
#include "base/index.h"

#define AMBIGUOUS (UINT32_MAX - 1)

/* Blocks that were made one right after the other on one stack. */
struct call {
    uint64_t key;              /* of lines, sizes and devices */
    uint32_t first, count;     /* allocations */
    uint32_t before, previous; /* the two calls before it of the same key, VT_INDEX_NONE = none */
};

struct calls {
    const struct vt_replay *replay;
    const struct vt_phases *phases;
    const struct vt_placed *placed;
    struct vt_label *labels;
    uint64_t *lines_keys; /* by stack, 0 = not computed yet */
    struct call *items;
    size_t count, capacity;
    struct vt_index
        seen; /* key and place in the call → an allocation that an inspection saw there, or AMBIGUOUS */
};

/* Of the program's own lines on a stack, and its thread: a computation's first call goes through other
 * functions of the library, which compile it. */
static uint64_t lines_key(struct calls *calls, uint32_t stack_id)
{
    const struct vt_trace *trace = calls->replay->trace;
    const struct vt_trace_stack *stack = &trace->stacks[stack_id];
    uint64_t *known = &calls->lines_keys[stack_id], key = vt_mix(stack->thread_id, 1);
    bool own = false;
    if (*known)
        return *known;
    for (uint32_t i = 0; i < stack->python_count; i++) {
        const struct vt_python_frame *frame = &stack->python[i];
        if (vt_trace_code_is_library(trace, frame->code_id))
            continue;
        own = true;
        key = vt_mix(key, vt_mix(frame->code_id, (uint64_t)frame->instruction_offset + 1));
    }
    return *known = (own ? key : vt_mix(stack_id, 2)) | 1;
}

static bool continues(const struct calls *calls, uint32_t index)
{
    const struct vt_allocation *block = &calls->replay->allocations[index], *before = block - 1;
    return index > 0 && block->stack_id == before->stack_id &&
           block->alloc_event == before->alloc_event + 1 && vt_holds_tensors(calls->phases, before);
}

static void list_calls(struct calls *calls)
{
    const struct vt_allocation *blocks = calls->replay->allocations;
    for (uint32_t i = 0; i < calls->replay->allocation_count; i++) {
        if (!vt_holds_tensors(calls->phases, &blocks[i]) || blocks[i].stack_id == 0)
            continue;
        if (calls->count == 0 || !continues(calls, i))
            VT_APPEND(calls->items, calls->count, calls->capacity,
                      (struct call){.key = lines_key(calls, blocks[i].stack_id), .first = i});
        struct call *call = &calls->items[calls->count - 1];
        call->count++;
        call->key = vt_mix(call->key, vt_mix(blocks[i].bytes, (uint64_t)blocks[i].device_index + 1));
    }
}

static void link_calls(struct calls *calls)
{
    struct vt_index latest = {0};
    for (uint32_t i = 0; i < calls->count; i++) {
        struct call *call = &calls->items[i];
        call->previous = vt_index_get(&latest, call->key);
        call->before =
            call->previous == VT_INDEX_NONE ? VT_INDEX_NONE : calls->items[call->previous].previous;
        vt_index_put(&latest, call->key, i);
    }
    vt_index_free(&latest);
}

static uint64_t place_key(const struct call *call, uint32_t place)
{
    return vt_mix(call->key, place + 1);
}

/* An inspection that was cut short may have seen a part of a tree only, and not know what it is. */
static bool is_told(const struct calls *calls, uint32_t allocation)
{
    return calls->labels[allocation].rule == VT_RULE_INSPECTION &&
           calls->labels[allocation].evidence != VT_EVIDENCE_WEAK;
}

/* Of two inspections that name one place differently, neither holds. A block that lives on while its line is
 * called twice more is not what the variable has then. */
static void note_place(struct calls *calls, const struct call *call, uint32_t place)
{
    const struct vt_owned *owned = calls->placed->owned;
    uint32_t own = call->first + place, known = vt_index_get(&calls->seen, place_key(call, place));
    bool seen = calls->placed->inspection_of[own] != VT_NEVER && owned[own].is_array,
         stays = call->before != VT_INDEX_NONE &&
                 calls->replay->allocations[calls->items[call->before].first + place].free_event >
                     calls->replay->allocations[call->first].alloc_event;
    bool differs = seen && known < AMBIGUOUS && owned[known].key != owned[own].key;
    if (!seen && !stays)
        return;
    if (stays || differs || known == AMBIGUOUS)
        own = AMBIGUOUS;
    else if (known < AMBIGUOUS && is_told(calls, known) && !is_told(calls, own))
        own = known;
    vt_index_put(&calls->seen, place_key(call, place), own);
}

/* One that an inspection saw has its path from there, but may be known for what it is by another's alone: at
 * its own, the tree that tells may have been gone. */
static void name_place(const struct calls *calls, const struct call *call, uint32_t place)
{
    struct vt_label *labels = calls->labels;
    const uint32_t own = call->first + place, like = vt_index_get(&calls->seen, place_key(call, place));
    if (like >= AMBIGUOUS || like == own || calls->placed->like[own] != VT_NEVER)
        return;
    if (calls->placed->inspection_of[own] == VT_NEVER)
        calls->placed->like[own] = like;
    if (labels[like].rule != VT_RULE_INSPECTION || labels[own].evidence != VT_EVIDENCE_WEAK)
        return;
    labels[own].category = labels[like].category;
    labels[own].evidence = labels[like].evidence == VT_EVIDENCE_WEAK ? VT_EVIDENCE_WEAK : VT_EVIDENCE_STRONG;
    labels[own].rule = VT_RULE_INSPECTION;
}

static bool has_arrays(const struct vt_replay *replay, const struct vt_placed *placed)
{
    for (size_t i = 0; i < replay->allocation_count; i++)
        if (placed->owned[i].is_array)
            return true;
    return false;
}

void vt_calls_judge(const struct vt_replay *replay, const struct vt_phases *phases, struct vt_label *labels,
                    struct vt_placed *placed)
{
    struct calls calls = {.replay = replay, .phases = phases, .placed = placed, .labels = labels};
    if (!has_arrays(replay, placed))
        return;
    calls.lines_keys = vt_allocate_zeros(replay->trace->stack_count + 1, sizeof *calls.lines_keys);
    list_calls(&calls);
    link_calls(&calls);
    for (size_t i = 0; i < calls.count; i++)
        for (uint32_t place = 0; place < calls.items[i].count; place++)
            note_place(&calls, &calls.items[i], place);
    for (size_t i = 0; i < calls.count; i++)
        for (uint32_t place = 0; place < calls.items[i].count; place++)
            name_place(&calls, &calls.items[i], place);
    vt_index_free(&calls.seen);
    free(calls.items);
    free(calls.lines_keys);
}
