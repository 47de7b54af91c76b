/* What each event shows by itself: who allocates (autograd's engine, an optimizer's step, a module call), who
 * frees, and whether autograd's node counter advanced, which it does not without gradients. */
#include "attribute/event_phases.h"
#include "attribute/functions.h"
#include "base/allocate.h"
#include "trace/digest_events.h"

#include <stdlib.h>

/* Finds the events that make and free what holds tensors. */
static void read_holders(struct vt_finder *finder)
{
    const struct vt_replay *replay = finder->replay;
    finder->made_by_stack = vt_allocate_zeros(replay->trace->stack_count, sizeof *finder->made_by_stack);
    for (size_t i = 0; i < replay->allocation_count && !finder->phases->has_blocks; i++)
        finder->phases->has_blocks = replay->allocations[i].kind == VT_ALLOCATION_BLOCK;
    for (size_t i = 0; i < replay->allocation_count; i++) {
        const struct vt_allocation *allocation = &replay->allocations[i];
        if (!vt_holds_tensors(finder->phases, allocation))
            continue;
        finder->made_by_stack[allocation->stack_id]++;
        finder->holds[allocation->alloc_event] = HOLDS_MADE;
        if (allocation->free_event != VT_NEVER)
            finder->holds[allocation->free_event] = HOLDS_FREED;
    }
}

static void number_threads(struct vt_finder *finder)
{
    const struct vt_trace *trace = finder->trace;
    finder->thread_of_stack = vt_allocate_zeros(trace->stack_count, sizeof *finder->thread_of_stack);
    for (size_t id = 0; id < trace->stack_count; id++) {
        uint32_t number = vt_index_get(&finder->thread_index, trace->stacks[id].thread_id);
        if (number == VT_INDEX_NONE) {
            number = (uint32_t)finder->thread_count;
            vt_index_put(&finder->thread_index, trace->stacks[id].thread_id, number);
            VT_APPEND(finder->threads, finder->thread_count, finder->thread_capacity,
                      (struct vt_finder_thread){0});
        }
        finder->thread_of_stack[id] = number;
    }
}

/* Stacks of the engine's threads have no Python and show the engine. A checkpoint or a Python function that
 * runs there has Python frames, which hide the engine. */
static void find_engine_threads(struct vt_finder *finder)
{
    const struct vt_trace *trace = finder->trace;
    for (uint32_t id = 1; id < trace->stack_count; id++) {
        const struct vt_trace_stack *stack = &trace->stacks[id];
        struct vt_finder_thread *thread = &finder->threads[finder->thread_of_stack[id]];
        thread->named_engine |= (vt_finder_traits(finder, id) & VT_TRAIT(ENGINE_THREAD)) != 0;
        if (stack->native_count == 0 || stack->python_count > 0)
            continue;
        if (vt_finder_traits(finder, id) & VT_TRAIT(BACKWARD))
            thread->engine = true;
        else if (!(stack->flags & VT_STACK_NATIVE_TRUNCATED))
            thread->never_engine = true;
    }
    for (size_t i = 0; i < finder->thread_count; i++)
        finder->threads[i].engine = finder->threads[i].named_engine ||
                                    (finder->threads[i].engine && !finder->threads[i].never_engine);
    for (uint32_t id = 1; id < trace->stack_count; id++)
        if (finder->threads[finder->thread_of_stack[id]].engine)
            finder->sites->items[id].traits |= VT_TRAIT(BACKWARD);
}

static bool is_update(const struct vt_finder *finder, uint32_t code_id)
{
    return vt_traits_by_stack_code_is(finder->sites, code_id, VT_CODE_UPDATE) &&
           !vt_trace_code_is_library(finder->trace, code_id);
}

static bool shows_update(const struct vt_finder *finder, uint32_t stack_id)
{
    const struct vt_trace_stack *stack = &finder->trace->stacks[stack_id];
    for (uint32_t k = 0; k < stack->python_count; k++)
        if (is_update(finder, stack->python[k].code_id))
            return true;
    return false;
}

/* Functions that are called like an optimizer's step, and only between a backward and the forward after it:
 * the step of what an agent plays in, or of a sampler, comes at other times too. What calls an optimizer that
 * is known prepares its gradients. */
static void settle_updates(struct vt_finder *finder, const uint8_t *shows, uint8_t *other)
{
    const struct vt_trace *trace = finder->trace;
    const uint64_t forward = VT_TRAIT(MODULE) | VT_TRAIT(BACKWARD_CALL);
    bool after_pass = false;
    for (size_t i = 0; i < trace->event_count; i++) {
        if (finder->holds[i] != HOLDS_MADE)
            continue;
        const struct vt_trace_stack *stack = &trace->stacks[trace->events[i].stack_id];
        uint64_t traits = vt_finder_traits(finder, trace->events[i].stack_id);
        if (traits & VT_TRAIT(BACKWARD))
            after_pass = true;
        else if (traits & forward)
            after_pass = false;
        if (!shows[trace->events[i].stack_id] ||
            (after_pass && !(traits & (VT_TRAIT(BACKWARD) | VT_TRAIT(OPTIMIZER)))))
            continue;
        for (uint32_t k = 0; k < stack->python_count; k++)
            if (is_update(finder, stack->python[k].code_id))
                other[stack->python[k].code_id] = 1;
    }
    for (uint32_t id = 1; id < trace->stack_count; id++) {
        const struct vt_trace_stack *stack = &trace->stacks[id];
        for (uint32_t k = 0; k < stack->python_count && shows[id]; k++)
            if (is_update(finder, stack->python[k].code_id) && !other[stack->python[k].code_id])
                finder->sites->items[id].traits |= VT_TRAIT(OPTIMIZER) | VT_TRAIT(OWN_UPDATE);
    }
}

static void find_updates(struct vt_finder *finder)
{
    const struct vt_trace *trace = finder->trace;
    uint8_t *shows = vt_allocate_zeros(trace->stack_count, 1),
            *other = vt_allocate_zeros(trace->code_count + 1, 1);
    bool any = false;
    for (uint32_t id = 0; id < trace->stack_count; id++)
        any |= shows[id] = shows_update(finder, id);
    if (any)
        settle_updates(finder, shows, other);
    free(shows);
    free(other);
}

static void find_main_thread(struct vt_finder *finder)
{
    const uint64_t training = VT_TRAIT(MODULE) | VT_TRAIT(OPTIMIZER) | VT_TRAIT(BACKWARD_CALL);
    for (uint32_t id = 0; id < finder->trace->stack_count; id++)
        finder->threads[finder->thread_of_stack[id]].score +=
            finder->made_by_stack[id] * (vt_finder_traits(finder, id) & training ? 1000 : 1);
    finder->main_thread = 0;
    for (uint32_t i = 0; i < finder->thread_count; i++)
        if (!finder->threads[i].engine &&
            (finder->threads[finder->main_thread].engine ||
             finder->threads[i].score > finder->threads[finder->main_thread].score))
            finder->main_thread = i;
}

static enum vt_sign sign_of_alloc(const struct vt_finder *finder, uint64_t traits, uint32_t thread,
                                  bool grad_mode)
{
    if (traits & VT_TRAIT(BACKWARD))
        return SIGN_BACKWARD;
    if (traits & VT_TRAIT(OPTIMIZER))
        return SIGN_OPTIMIZER;
    if (traits & VT_TRAIT(BACKWARD_CALL))
        return SIGN_BACKWARD_CALL;
    if (traits & VT_TRAIT(MODULE))
        return SIGN_FORWARD;
    if (thread != finder->main_thread)
        return SIGN_NONE;
    /* views and copies make parameters too */
    if (grad_mode && !(traits & (VT_TRAIT(MODULE_APPLY) | VT_TRAIT(INIT_METHOD))))
        return SIGN_FORWARD;
    if (traits & VT_TRAIT(DATA))
        return SIGN_DATA;
    return traits & (VT_TRAIT(SOURCE) | VT_TRAIT(ROWS)) ? SIGN_SOURCE : SIGN_SCRIPT;
}

/* Each thread has a node counter. Its values are even outside of backward (format.h). */
static bool counter_advanced(struct vt_finder_thread *thread, uint64_t sequence)
{
    bool advanced = sequence > thread->sequence && sequence % 2 == 0;
    if (sequence % 2 == 0 && sequence > 0)
        thread->sequence = sequence;
    return advanced;
}

static bool same_call(const struct vt_trace *trace, uint32_t left_stack, uint32_t right_stack)
{
    const struct vt_trace_stack *left = &trace->stacks[left_stack], *right = &trace->stacks[right_stack];
    bool same = left->python_count == right->python_count;
    for (uint32_t i = 0; i < left->python_count && same; i++)
        same = left->python[i].code_id == right->python[i].code_id &&
               left->python[i].instruction_offset == right->python[i].instruction_offset;
    return same;
}

/* Whether the operator that allocates made a node: the allocation shows it first, or the same call did just
 * before, with a node that came by itself. */
static bool made_node(const struct vt_trace *trace, struct vt_finder_thread *thread,
                      const struct vt_event *event)
{
    uint32_t node_stack = event->sequence == thread->sequence ? thread->node_stack : 0;
    if (event->head_start && event->detail) { /* what was between is not here */
        thread->sequence = event->detail;
        node_stack = (uint32_t)event->total_bytes;
    }
    bool advanced = counter_advanced(thread, event->sequence);
    thread->node_stack = 0;
    return advanced || (node_stack != 0 && node_stack < trace->stack_count &&
                        same_call(trace, node_stack, event->stack_id));
}

/* The launch of a graph shows what its capture did: a forward, a backward within autograd's, or a whole step.
 */
static void read_graph(struct vt_finder *finder, uint32_t index)
{
    const struct vt_event *event = &finder->trace->events[index];
    struct vt_finder_graphs *captured = &finder->captured;
    struct vt_phases *phases = finder->phases;
    uint32_t whole;
    switch (event->kind) {
    case VT_EVENT_CAPTURE:
        captured->has_backward = false;
        return;
    case VT_EVENT_CAPTURE_END:
        vt_index_put(&captured->graphs, event->detail, captured->has_backward);
        return;
    case VT_EVENT_GRAPH:
        whole = vt_index_get(&captured->graphs, event->detail);
        vt_index_put(&captured->execs, event->address, whole == 1);
        return;
    case VT_EVENT_GRAPH_LAUNCH:
        if (finder->trace->stacks[event->stack_id].native_count &&
            !(vt_finder_traits(finder, event->stack_id) & VT_TRAIT(MODULAR)))
            return;
        if ((vt_finder_traits(finder, event->stack_id) & VT_TRAIT(BACKWARD)) ||
            finder->threads[finder->thread_of_stack[event->stack_id]].engine) {
            finder->signs[index] = SIGN_BACKWARD;
            return;
        }
        whole = vt_index_get(&captured->execs, event->address);
        finder->signs[index] = whole == 1 ? SIGN_WHOLE_STEP : SIGN_FORWARD;
        VT_APPEND(phases->module_events, phases->module_event_count, phases->module_event_capacity, index);
        return;
    default:
        return;
    }
}

/* A refused request is of the phase that its allocation would have had. */
static enum vt_sign sign_of_refusal(struct vt_finder *finder, const struct vt_event *event, uint32_t thread)
{
    bool grad_mode = event->sequence % 2 == 0 && event->sequence > finder->threads[thread].sequence;
    return sign_of_alloc(finder, vt_finder_traits(finder, event->stack_id), thread, grad_mode);
}

static void read_events(struct vt_finder *finder)
{
    struct vt_phases *phases = finder->phases;
    bool begun = false; /* the first forward */
    for (uint32_t i = 0; i < finder->trace->event_count; i++) {
        const struct vt_event *event = &finder->trace->events[i];
        uint32_t number = finder->thread_of_stack[event->stack_id];
        struct vt_finder_thread *thread = &finder->threads[number];
        finder->numbered |= event->sequence != 0;
        if (event->kind == VT_EVENT_NODE && counter_advanced(thread, event->sequence))
            thread->node_stack = event->stack_id;
        if (event->kind == VT_EVENT_NODE && event->detail != 0)
            VT_APPEND(finder->inner_nodes, finder->inner_node_count, finder->inner_node_capacity, i);
        if (event->kind == VT_EVENT_OOM && event->stack_id != 0)
            finder->signs[i] = (uint8_t)sign_of_refusal(finder, event, number);
        if (event->kind == VT_EVENT_LAST) {
            thread->sequence = event->sequence;
            thread->node_stack = (uint32_t)event->total_bytes;
        } else if (vt_is_landmark(event) && event->stack_id != 0)
            finder->signs[i] = (uint8_t)sign_of_alloc(finder, vt_finder_traits(finder, event->stack_id),
                                                      number, made_node(finder->trace, thread, event));
        read_graph(finder, i);
        if (event->kind == VT_EVENT_CALL && (vt_finder_traits(finder, event->stack_id) & VT_TRAIT(MODULE)))
            VT_APPEND(phases->module_events, phases->module_event_count, phases->module_event_capacity, i);
        if (finder->holds[i] == HOLDS_NOTHING)
            continue;
        if (finder->holds[i] == HOLDS_FREED) {
            if (event->stack_id != 0)
                finder->signs[i] = thread->engine                  ? SIGN_FREE_BACKWARD
                                   : number == finder->main_thread ? SIGN_FREE
                                                                   : SIGN_NONE;
            continue;
        }
        uint64_t traits = vt_finder_traits(finder, event->stack_id);
        phases->grad_mode[i] = made_node(finder->trace, thread, event);
        /* before the first forward, nodes are of views of parameters */
        if (!begun && (traits & VT_TRAIT(SOURCE)))
            phases->grad_mode[i] = 0;
        finder->signs[i] = (uint8_t)sign_of_alloc(finder, traits, number, phases->grad_mode[i]);
        finder->captured.has_backward |= finder->signs[i] == SIGN_BACKWARD;
        begun |= finder->signs[i] == SIGN_FORWARD || finder->signs[i] == SIGN_BACKWARD;
        if ((traits & VT_TRAIT(MODULE)) && !(traits & VT_TRAIT(BACKWARD)))
            VT_APPEND(phases->module_events, phases->module_event_count, phases->module_event_capacity, i);
    }
}

void vt_signs_read(struct vt_finder *finder)
{
    read_holders(finder);
    number_threads(finder);
    find_engine_threads(finder);
    vt_functions_find(finder);
    find_updates(finder);
    find_main_thread(finder);
    read_events(finder);
}
