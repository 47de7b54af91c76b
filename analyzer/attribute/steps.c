/* Steps: where one training iteration ends and the next begins. */
#include "attribute/phase_finder.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* What lies between a pass and the next one. */
struct interval {
    uint32_t first_event, end_event;
    uint32_t optimizer_event; /* the last under an optimizer; VT_NEVER = none */
    uint64_t optimizer;       /* address of it, 0 = unknown */
    uint32_t zeroed_event;    /* the first free of a gradient */
    uint32_t forward_event;   /* the first of the next forward */
    uint64_t alive, freed;    /* gradient bytes: at its start, and freed in it */
    bool ends_cycle;          /* its optimizer is the last of an iteration's */
};

static uint64_t optimizer_address(const struct vt_trace *trace, uint32_t stack_id)
{
    const struct vt_trace_stack *stack = &trace->stacks[stack_id];
    for (uint32_t i = stack->python_count; i-- > 0;) {
        const struct vt_python_frame *frame = &stack->python[i];
        if (frame->self_address && frame->code_id < trace->code_count && trace->codes[frame->code_id].file &&
            strstr(trace->codes[frame->code_id].file, "/optim"))
            return frame->self_address;
    }
    return 0;
}

static void read_interval(struct vt_finder *finder, struct interval *interval)
{
    for (uint32_t i = interval->first_event; i < interval->end_event; i++) {
        if (finder->signs[i] == SIGN_OPTIMIZER) {
            interval->optimizer_event = i;
            interval->optimizer = optimizer_address(finder->trace, finder->trace->events[i].stack_id);
        } else if (finder->frees_gradient[i] && interval->zeroed_event == VT_NEVER) {
            interval->zeroed_event = i;
        } else if (finder->signs[i] == SIGN_FORWARD && interval->forward_event == VT_NEVER) {
            interval->forward_event = i;
        }
    }
}

/* Gradient bytes alive at each interval's start, and freed in it. */
static void weigh_gradients(struct vt_finder *finder, struct interval *intervals)
{
    const struct vt_phases *phases = finder->phases;
    const struct vt_replay *replay = finder->replay;
    for (size_t i = 0; i < replay->allocation_count; i++) {
        const struct vt_allocation *block = &replay->allocations[i];
        if (!vt_holds_tensors(phases, block) || finder->signs[block->alloc_event] != SIGN_BACKWARD)
            continue;
        long made = vt_pass_before(phases, block->alloc_event);
        if (made < 0 || block->free_event <= phases->passes[made].last_event)
            continue;
        intervals[made].alive += block->bytes;
        if (block->free_event == VT_NEVER)
            continue;
        long freed = vt_pass_before(phases, block->free_event);
        if (block->free_event > phases->passes[freed].last_event)
            intervals[freed].freed += block->bytes;
        if (freed > made && block->free_event <= phases->passes[freed].last_event)
            intervals[freed].alive -= block->bytes;
        else if ((size_t)freed + 1 < phases->pass_count)
            intervals[freed + 1].alive -= block->bytes;
    }
    for (size_t i = 1; i < phases->pass_count; i++)
        intervals[i].alive += intervals[i - 1].alive;
}

#define CYCLE_LIMIT 16

/* Several optimizers may take turns: an iteration ends before the first of them steps again. */
static void find_cycles(struct interval *intervals, size_t count)
{
    uint64_t seen[CYCLE_LIMIT];
    size_t seen_count = 0;
    struct interval *previous = NULL;
    for (size_t i = 0; i < count; i++) {
        struct interval *interval = &intervals[i];
        if (interval->optimizer_event == VT_NEVER)
            continue;
        bool again = seen_count == CYCLE_LIMIT || interval->optimizer == 0;
        for (size_t k = 0; k < seen_count; k++)
            again |= seen[k] == interval->optimizer;
        if (again && previous)
            previous->ends_cycle = true;
        seen_count = again ? 0 : seen_count;
        seen[seen_count++] = interval->optimizer;
        previous = interval;
    }
    if (previous)
        previous->ends_cycle = true;
}

/* Where the next step begins, VT_NEVER if the interval does not end one. */
static uint32_t boundary(const struct vt_finder *finder, const struct interval *interval, bool any_sign)
{
    bool zeroed = interval->zeroed_event != VT_NEVER && interval->freed * 2 >= interval->alive;
    uint32_t after = interval->first_event;
    if (interval->optimizer_event != VT_NEVER) {
        if (!interval->ends_cycle)
            return VT_NEVER;
        after = interval->optimizer_event + 1;
    } else if (zeroed) {
        if (interval->forward_event == VT_NEVER || interval->zeroed_event < interval->forward_event)
            after = interval->zeroed_event + 1;
    } else if (any_sign) {
        return VT_NEVER; /* gradients are being accumulated */
    }
    for (uint32_t i = after; i < interval->end_event; i++) {
        enum vt_sign sign = (enum vt_sign)finder->signs[i];
        if (sign == SIGN_FORWARD || sign == SIGN_SOURCE || sign == SIGN_DATA)
            return interval->forward_event == VT_NEVER ? VT_NEVER : i;
    }
    return VT_NEVER;
}

static int find_boundaries(struct vt_finder *finder, uint8_t *begins_step)
{
    const struct vt_phases *phases = finder->phases;
    struct interval *intervals = calloc(phases->pass_count + 1, sizeof *intervals);
    bool any_sign = false;
    if (!intervals)
        return -ENOMEM;
    weigh_gradients(finder, intervals);
    for (size_t i = 0; i < phases->pass_count; i++) {
        struct interval *interval = &intervals[i];
        interval->first_event = phases->passes[i].last_event + 1;
        interval->end_event = i + 1 < phases->pass_count ? phases->passes[i + 1].first_event
                                                         : (uint32_t)finder->trace->event_count;
        interval->optimizer_event = interval->zeroed_event = interval->forward_event = VT_NEVER;
        read_interval(finder, interval);
        any_sign |= i + 1 < phases->pass_count &&
                    (interval->optimizer_event != VT_NEVER ||
                     (interval->zeroed_event != VT_NEVER && interval->freed * 2 >= interval->alive));
    }
    find_cycles(intervals, phases->pass_count);
    for (size_t i = 0; i < phases->pass_count; i++) {
        uint32_t event = boundary(finder, &intervals[i], any_sign);
        if (event != VT_NEVER)
            begins_step[event] = 1;
    }
    free(intervals);
    return 0;
}

/* Without backward, a step is what follows each return to the stack that allocated first in a module. */
static void find_calls(struct vt_finder *finder, uint8_t *begins_step)
{
    const struct vt_phases *phases = finder->phases;
    for (size_t i = 1; i < phases->module_event_count; i++) {
        uint32_t event = phases->module_events[i];
        if (finder->trace->events[event].stack_id == finder->trace->events[phases->module_events[0]].stack_id)
            begins_step[event] = 1;
    }
}

int vt_steps_find(struct vt_finder *finder, uint8_t *begins_step)
{
    if (finder->phases->pass_count > 0)
        return find_boundaries(finder, begins_step);
    find_calls(finder, begins_step);
    return 0;
}
