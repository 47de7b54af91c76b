/* Who made the requests that failed: the stack to show, and the module. A program may run out of memory
 * very often, so one pass handles all of them. */
#include "report/oom_requesters.h"

#include "attribute/attribute.h"
#include "base/allocate.h"
#include "base/index.h"
#include "report/blocks.h"
#include "report/report.h"
#include "trace/frameworks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAME_BYTES 256
#define NEAR 100000u /* allocations */
#define HOPS 64

/* ---- Stacks ---- */

/* Where autograd's nodes were made. */
struct nodes {
    struct vt_index events; /* sequence → the first event of the node */
    struct vt_index blocks; /* sequence → the first block of the operator that made it */
};

static void find_nodes(const struct vt_replay *replay, struct nodes *nodes)
{
    const struct vt_trace *trace = replay->trace;

    for (size_t i = 0; i < trace->event_count; i++)
        if (trace->events[i].kind == VT_EVENT_NODE)
            vt_index_add(&nodes->events, trace->events[i].sequence, (uint32_t)i);
    for (size_t i = 0; i < replay->allocation_count; i++)
        if (replay->allocations[i].kind == VT_ALLOCATION_BLOCK)
            vt_index_add(&nodes->blocks, replay->allocations[i].sequence, (uint32_t)i);
}

static bool is_backward(uint64_t sequence)
{
    return sequence % 2 && sequence != VT_SEQUENCE_NO_NUMBER;
}

/* The stack of the forward operator whose node runs, as attribution joins them (attribute/join.c); 0 = not
 * known, or not in backward. */
static uint32_t forward_stack(const struct vt_replay *replay, const struct nodes *nodes, uint32_t event_index)
{
    const struct vt_trace *trace = replay->trace;
    uint64_t sequence = trace->events[event_index].sequence;
    uint32_t at;

    /* a node made in backward belongs to the node that ran then, which may itself be made in backward */
    for (int hops = 0; hops < HOPS && is_backward(sequence); hops++) {
        at = vt_index_get(&nodes->events, sequence - 1);
        if (at == VT_INDEX_NONE || at >= event_index)
            break;
        uint32_t stack_id = trace->events[at].stack_id;
        if (stack_id < trace->stack_count && trace->stacks[stack_id].python_count)
            return stack_id;
        sequence = trace->events[at].detail;
    }
    at = is_backward(sequence) ? vt_index_get(&nodes->blocks, sequence - 1) : VT_INDEX_NONE;
    return at != VT_INDEX_NONE && replay->allocations[at].alloc_event <= event_index
               ? replay->allocations[at].stack_id
               : 0;
}

static void find_stacks(struct vt_report *report)
{
    const struct vt_event *events = report->trace->events;
    const struct vt_replay *replay = report->attribution->replay;
    struct nodes nodes = {0};
    bool any = false;

    for (size_t i = 0; i < report->refusal_count; i++)
        any |= is_backward(events[report->refusals[i].event_index].sequence);
    if (any)
        find_nodes(replay, &nodes);
    for (size_t i = 0; i < report->refusal_count; i++) {
        struct vt_oom *refusal = &report->refusals[i];
        uint32_t forward = forward_stack(replay, &nodes, refusal->event_index);

        refusal->asker_stack = forward ? forward : events[refusal->event_index].stack_id;
    }
    vt_index_free(&nodes.events);
    vt_index_free(&nodes.blocks);
}

/* ---- Modules ---- */

/* Address of the innermost module in a stack, 0 = none. */
static uint64_t innermost_self(const struct vt_trace_stack *stack)
{
    for (uint32_t i = 0; i < stack->python_count; i++)
        if (stack->python[i].self_address)
            return stack->python[i].self_address;
    return 0;
}

/* By stack. */
static uint64_t *list_selves(const struct vt_trace *trace)
{
    uint64_t *selves = vt_allocate_zeros(trace->stack_count + 1, sizeof *selves);

    for (size_t id = 0; id < trace->stack_count; id++)
        selves[id] = innermost_self(&trace->stacks[id]);
    return selves;
}

/* Stores an allocation that has a module's name as the latest of that module. */
static void note_module(const struct vt_report *report, const uint64_t *selves, size_t at,
                        struct vt_index *latest)
{
    const struct vt_allocation *allocation = &report->attribution->replay->allocations[at];
    uint32_t stack_id = vt_telling_stack(report->attribution, allocation);
    const struct vt_label *label = &report->attribution->labels[at];
    uint64_t self = stack_id < report->trace->stack_count ? selves[stack_id] : 0;

    if (self && !label->owner && vt_shown_module(label))
        vt_index_put(latest, self, (uint32_t)at);
}

static uint64_t asking_self(const struct vt_report *report, const uint64_t *selves,
                            const struct vt_oom *refusal)
{
    return refusal->asker_stack < report->trace->stack_count ? selves[refusal->asker_stack] : 0;
}

/* A failed request has no allocation, so its module's name comes from another allocation of the same
 * module: the latest before it, or else (`after`) the next one. Farther away, another module may be at that
 * address. */
static void find_modules(struct vt_report *report, const uint64_t *selves, bool after)
{
    const struct vt_replay *replay = report->attribution->replay;
    size_t count = replay->allocation_count, passed = 0; /* allocations, from the end for `after` */
    struct vt_index latest = {0};

    for (size_t i = 0; i < report->refusal_count; i++) {
        struct vt_oom *refusal = &report->refusals[after ? report->refusal_count - 1 - i : i];
        uint32_t at;

        for (; passed < count; passed++) {
            size_t next = after ? count - 1 - passed : passed;

            if ((replay->allocations[next].alloc_event > refusal->event_index) != after)
                break;
            note_module(report, selves, next, &latest);
        }
        at = vt_index_get(&latest, asking_self(report, selves, refusal));
        if (!refusal->asker_module && at != VT_INDEX_NONE &&
            (after ? at + passed - count : passed - at) < NEAR)
            refusal->asker_module = vt_shown_module(&report->attribution->labels[at]);
    }
    vt_index_free(&latest);
}

/* ---- Names ---- */

/* Who requested it, in words. */
static const char *name_asker(struct vt_places *places, const struct vt_oom *refusal)
{
    const struct vt_place *user = vt_place_of(places, refusal->stack_id), *forward = refusal->asker_place;
    char text[NAME_BYTES];
    bool node;

    if (refusal->asker_stack == refusal->stack_id || !forward)
        return user ? user->name : "a call without a stack";
    /* Other functions of the engine mean nothing to the reader. */
    node = user && user->frame.kind == VT_FRAME_NATIVE && vt_is_node(user->frame.function);
    snprintf(text, sizeof text, "%.64s%sthe backward of %.180s%s", node ? user->frame.function : "",
             node ? " (" : "", forward->name, node ? ")" : "");
    return vt_places_text(places, text);
}

/* Equal neighbours share a name. */
static void name_askers(struct vt_report *report)
{
    for (size_t i = 0; i < report->refusal_count; i++) {
        struct vt_oom *refusal = &report->refusals[i], *last = i ? refusal - 1 : NULL;
        bool same = last && last->stack_id == refusal->stack_id && last->asker_stack == refusal->asker_stack;

        refusal->asker_place = vt_place_of(report->places, refusal->asker_stack);
        refusal->operator_name = vt_operator_of(report->attribution, refusal->asker_stack);
        if (refusal->asker_module)
            refusal->asker_class = vt_module_class(report->attribution, refusal->asker_module);
        refusal->asker = same ? last->asker : name_asker(report->places, refusal);
    }
}

void vt_find_askers(struct vt_report *report)
{
    uint64_t *selves = list_selves(report->trace);

    find_stacks(report);
    find_modules(report, selves, false);
    find_modules(report, selves, true);
    free(selves);
    name_askers(report);
}
