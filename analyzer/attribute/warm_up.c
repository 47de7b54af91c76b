/* Passes that prepare graphs: those that are captured, of which nothing runs, and those that warm up for a
 * capture. A server makes hundreds of them before it serves. */
#include "attribute/warm_up.h"

#include <stdbool.h>
#include <stdlib.h>

#include "attribute/event_phases.h"
#include "attribute/model_calls.h"
#include "base/allocate.h"

/* Python frames that two stacks have in common, from the outermost on. `in_module`: a module is among them.
 */
static uint32_t common_frames(const struct vt_trace *trace, uint32_t left_id, uint32_t right_id,
                              bool *in_module)
{
    const struct vt_trace_stack *left = &trace->stacks[left_id], *right = &trace->stacks[right_id];
    uint32_t i = left->python_count, k = right->python_count, count = 0;

    *in_module = false;
    for (; i > 0 && k > 0; count++) {
        const struct vt_python_frame *one = &left->python[--i], *other = &right->python[--k];

        if (one->code_id != other->code_id || one->instruction_offset != other->instruction_offset)
            break;
        *in_module |= one->self_address != 0;
    }
    return count;
}

/* While its thread captures, a call is recorded, and nothing of it runs. Returns the last event of a capture.
 */
static uint32_t mark_captured(const struct vt_finder *finder, const struct vt_model_calls *calls, bool *drops)
{
    const struct vt_trace *trace = finder->trace;
    bool *captures = vt_allocate_zeros(finder->thread_count + 1, sizeof *captures);
    uint32_t last = VT_NEVER;
    size_t next = 0;

    for (uint32_t i = 0; i < trace->event_count; i++) {
        const struct vt_event *event = &trace->events[i];

        if (event->kind == VT_EVENT_CAPTURE || event->kind == VT_EVENT_CAPTURE_END) {
            captures[finder->thread_of_stack[event->stack_id]] = event->kind == VT_EVENT_CAPTURE;
            last = i;
        }
        for (; next < calls->count && calls->items[next].event == i; next++)
            drops[next] = captures[calls->items[next].thread];
    }
    free(captures);
    return last;
}

/* What shares more of its stack with the last capture than the first call after that does: both were called
 * by what prepares. Not within a module: there a graph is captured in the middle of the work. */
static void mark_warm_up(const struct vt_finder *finder, const struct vt_model_calls *calls, uint32_t last,
                         bool *drops)
{
    const struct vt_trace *trace = finder->trace;
    const uint32_t capture = trace->events[last].stack_id;
    bool in_module, inside;
    uint32_t shared;
    size_t end = 0;

    while (end < calls->count && calls->items[end].event < last)
        end++;
    if (end == calls->count || trace->stacks[capture].flags & VT_STACK_PYTHON_TRUNCATED)
        return;
    shared = common_frames(trace, capture, trace->events[calls->items[end].event].stack_id, &in_module);
    for (size_t i = 0; i < end && !in_module; i++)
        drops[i] |=
            common_frames(trace, capture, trace->events[calls->items[i].event].stack_id, &inside) > shared;
}

uint32_t vt_warm_up_drop(const struct vt_finder *finder, struct vt_model_calls *calls)
{
    bool *drops = vt_allocate_zeros(calls->count + 1, sizeof *drops);
    const uint32_t last = mark_captured(finder, calls, drops);
    size_t kept = 0;
    bool any;

    if (last != VT_NEVER)
        mark_warm_up(finder, calls, last, drops);
    for (size_t i = 0; i < calls->count; i++)
        if (!drops[i])
            calls->items[kept++] = calls->items[i];
    any = kept < calls->count;
    calls->count = kept;
    free(drops);
    return any && kept ? calls->items[0].event : 0;
}
