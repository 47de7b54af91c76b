#include "attribute/phases.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/allocate.h"

void vt_phases_free(struct vt_phases *phases)
{
    free(phases->spans);
    free(phases->passes);
    free(phases->recomputes);
    free(phases->module_events);
    free(phases->requests.begins);
    free(phases->requests.ends);
    free(phases->grad_mode);
    free(phases->begun_passes.counts);
    free(phases->begun_recomputes.counts);
    free(phases->begun_spans.counts);
    free(phases->begun_modules.counts);
    memset(phases, 0, sizeof *phases);
}

/* All items have their first event as first member. */
_Static_assert(offsetof(struct vt_pass, first_event) == 0 &&
                   offsetof(struct vt_recompute, first_event) == 0 &&
                   offsetof(struct vt_span, first_event) == 0,
               "first_event_of");
static inline uint32_t first_event_of(const struct vt_begun *begun, size_t i)
{
    return *(const uint32_t *)((const char *)begun->items + i * begun->item_bytes);
}

/* How many of the items begin at or before the event. A block of events begins with few of them. */
static inline size_t count_begun(const struct vt_begun *begun, uint32_t event)
{
    const size_t block = event / VT_BEGUN_EVENTS;
    size_t count = block < begun->blocks ? begun->counts[block] : begun->item_count;
    while (count < begun->item_count && first_event_of(begun, count) <= event)
        count++;
    return count;
}

static struct vt_begun count_blocks(const void *items, size_t item_count, size_t item_bytes, size_t events)
{
    struct vt_begun begun = {items, item_count, item_bytes, .blocks = events / VT_BEGUN_EVENTS + 1};
    size_t next = 0;
    begun.counts = vt_allocate(begun.blocks * sizeof *begun.counts);
    for (size_t i = 0; i < begun.blocks; i++) {
        while (next < item_count && first_event_of(&begun, next) < i * VT_BEGUN_EVENTS)
            next++;
        begun.counts[i] = (uint32_t)next;
    }
    return begun;
}

#define COUNT_BLOCKS(items, count, events) count_blocks(items, count, sizeof *(items), events)

void vt_phases_settle_passes(struct vt_phases *phases, size_t events)
{
    phases->begun_passes = COUNT_BLOCKS(phases->passes, phases->pass_count, events);
}

void vt_phases_settle(struct vt_phases *phases, size_t events)
{
    phases->begun_recomputes = COUNT_BLOCKS(phases->recomputes, phases->recompute_count, events);
    phases->begun_spans = COUNT_BLOCKS(phases->spans, phases->span_count, events);
    phases->begun_modules = COUNT_BLOCKS(phases->module_events, phases->module_event_count, events);
}

long vt_pass_before(const struct vt_phases *phases, uint32_t event)
{
    return (long)count_begun(&phases->begun_passes, event) - 1;
}

long vt_recompute_before(const struct vt_phases *phases, uint32_t event)
{
    return (long)count_begun(&phases->begun_recomputes, event) - 1;
}

/* The pass that made a block without frames and is over before the block is freed; NULL = none. */
static struct vt_pass *left_by(const struct vt_phases *phases, const struct vt_replay *replay,
                               const struct vt_allocation *block)
{
    const struct vt_trace_stack *stack = &replay->trace->stacks[block->stack_id];
    long pass = stack->native_count + stack->python_count == 0 && vt_holds_tensors(phases, block)
                    ? vt_pass_before(phases, block->alloc_event)
                    : -1;
    return pass >= 0 && phases->passes[pass].last_event >= block->alloc_event &&
                   phases->passes[pass].last_event < block->free_event
               ? &phases->passes[pass]
               : NULL;
}

void vt_phases_count_left(struct vt_phases *phases, const struct vt_replay *replay)
{
    for (size_t i = 0; i < replay->allocation_count; i++) {
        struct vt_pass *pass = left_by(phases, replay, &replay->allocations[i]);
        if (!pass)
            continue;
        pass->left++;
        pass->kept += replay->allocations[i].free_event == VT_NEVER;
    }
}

bool vt_stays_alone(const struct vt_phases *phases, const struct vt_replay *replay,
                    const struct vt_allocation *block)
{
    const struct vt_pass *pass = block->free_event == VT_NEVER ? left_by(phases, replay, block) : NULL;
    return pass && pass->kept * 2 <= pass->left;
}

bool vt_freed_in_pass(const struct vt_phases *phases, const struct vt_allocation *block)
{
    long pass = block->free_event == VT_NEVER ? -1 : vt_pass_before(phases, block->free_event);
    return pass >= 0 && block->free_event <= phases->passes[pass].last_event &&
           block->free_event >= phases->passes[pass].work_event;
}

size_t vt_span_index(const struct vt_phases *phases, uint32_t event)
{
    size_t begun = count_begun(&phases->begun_spans, event);
    return begun > 0 ? begun - 1 : 0;
}

uint32_t vt_step_at(const struct vt_phases *phases, uint32_t event)
{
    return phases->spans[vt_span_index(phases, event)].step;
}

uint32_t vt_next_module_event(const struct vt_phases *phases, uint32_t event)
{
    size_t next = count_begun(&phases->begun_modules, event);
    return next < phases->module_event_count ? phases->module_events[next] : VT_NEVER;
}
