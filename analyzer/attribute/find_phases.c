/* Each event gets a label by its sign, and runs of one label become spans. Without marks, a step ends where
 * an optimizer's work ends. */
#include "attribute/evaluation.h"
#include "attribute/find_phases.h"

#include <stdlib.h>
#include <string.h>

#include "attribute/event_phases.h"
#include "attribute/steps.h"
#include "base/allocate.h"

/* `call`: the stack of the call of backward, 0 = it allocated nothing. Without a forward in between, the pass
 * is of the same kind (backward or autograd.grad) as the one before. */
static void begin_pass(struct vt_finder *finder, uint32_t event, uint32_t call)
{
    struct vt_phases *phases = finder->phases;
    bool inner = finder->asks && call == 0;
    if (call != 0)
        inner = (vt_finder_traits(finder, call) & VT_TRAIT(GRADIENT_CALL)) != 0;
    finder->engine_seen = false;
    finder->asks = inner;
    VT_APPEND(
        phases->passes, phases->pass_count, phases->pass_capacity,
        (struct vt_pass){.first_event = event, .last_event = event, .work_event = event, .is_inner = inner});
}

/* Sets the label after an event; begins and extends passes. */
static void next_label(struct vt_finder *finder, uint32_t event, uint8_t *label)
{
    struct vt_phases *phases = finder->phases;
    enum vt_sign sign = (enum vt_sign)finder->signs[event];
    bool in_pass = *label == VT_PHASE_BACKWARD || *label == LABEL_TAIL;
    switch (sign) {
    case SIGN_BACKWARD_CALL:
        if (in_pass && !finder->engine_seen)
            return;
        *label = VT_PHASE_BACKWARD;
        begin_pass(finder, event, finder->trace->events[event].stack_id);
        return;
    case SIGN_FREE_BACKWARD:
        /* frees of the engine's threads after the call returned begin no pass */
        if (*label == VT_PHASE_BACKWARD)
            phases->passes[phases->pass_count - 1].last_event = event;
        return;
    case SIGN_BACKWARD: {
        if (!in_pass)
            begin_pass(finder, event, 0);
        *label = VT_PHASE_BACKWARD;
        if (!finder->engine_seen)
            phases->passes[phases->pass_count - 1].work_event = event;
        finder->engine_seen = true;
        phases->passes[phases->pass_count - 1].last_event = event;
        return;
    }
    case SIGN_FREE:
        if (*label == VT_PHASE_BACKWARD && finder->engine_seen)
            *label = LABEL_TAIL;
        return;
    case SIGN_FORWARD:
        finder->asks = false;
        *label = VT_PHASE_FORWARD;
        return;
    case SIGN_OPTIMIZER:
        *label = VT_PHASE_OPTIMIZER;
        return;
    case SIGN_WHOLE_STEP:
        *label = VT_PHASE_OTHER;
        return;
    case SIGN_DATA:
    case SIGN_SOURCE:
        if (*label != VT_PHASE_INIT && (*label != VT_PHASE_FORWARD || sign == SIGN_DATA))
            *label = VT_PHASE_DATA;
        return;
    case SIGN_SCRIPT:
        if (*label != VT_PHASE_INIT && *label != VT_PHASE_FORWARD && *label != VT_PHASE_DATA)
            *label = VT_PHASE_OTHER;
        return;
    default:
        return;
    }
}

/* In a program that calls backward(), a pass of autograd.grad is for the pass after it, unless an optimizer
 * comes first. */
static void settle_inner_passes(struct vt_finder *finder)
{
    struct vt_phases *phases = finder->phases;
    bool all = true;
    for (size_t i = 0; i < phases->pass_count; i++) {
        struct vt_pass *pass = &phases->passes[i];
        all &= pass->is_inner;
        uint32_t next =
            i + 1 < phases->pass_count ? pass[1].first_event : (uint32_t)finder->trace->event_count;
        for (uint32_t e = pass->last_event; e < next && pass->is_inner; e++)
            pass->is_inner = finder->signs[e] != SIGN_OPTIMIZER;
    }
    for (size_t i = 0; i < phases->pass_count && all; i++)
        phases->passes[i].is_inner = false;
}

/* Marks frees, by the training thread, of blocks that a pass left behind: gradients that zero_grad drops. */
static void find_gradient_frees(struct vt_finder *finder)
{
    const struct vt_replay *replay = finder->replay;
    for (size_t i = 0; i < replay->allocation_count; i++) {
        const struct vt_allocation *block = &replay->allocations[i];
        if (!vt_holds_tensors(finder->phases, block) || block->free_event == VT_NEVER ||
            finder->signs[block->alloc_event] != SIGN_BACKWARD ||
            finder->signs[block->free_event] != SIGN_FREE)
            continue;
        long pass = vt_pass_before(finder->phases, block->alloc_event);
        if (pass >= 0 && block->free_event > finder->phases->passes[pass].last_event &&
            !finder->phases->passes[pass].is_inner)
            finder->frees_gradient[block->free_event] = 1;
    }
}

/* Frees after a pass belong to the optimizer if they free gradients or its step follows, else to the pass. */
static void settle_tails(struct vt_finder *finder)
{
    size_t count = finder->trace->event_count;
    for (size_t i = 0; i < count;) {
        size_t end = i;
        bool gradients = false;
        for (; end < count && finder->labels[end] == LABEL_TAIL; end++)
            gradients |= finder->frees_gradient[end];
        if (end > i) {
            uint8_t next = end < count ? finder->labels[end] : VT_PHASE_OTHER;
            bool optimizer = next == VT_PHASE_OPTIMIZER || (gradients && next != VT_PHASE_BACKWARD);
            memset(finder->labels + i, optimizer ? VT_PHASE_OPTIMIZER : VT_PHASE_BACKWARD, end - i);
        }
        i = end + (end == i);
    }
}

/* A program without a framework has no phases. */
static bool has_phases(const struct vt_finder *finder)
{
    const struct vt_phases *phases = finder->phases;
    bool any = phases->has_blocks || phases->pass_count > 0 || phases->module_event_count > 0;
    for (uint32_t i = 0; i < finder->trace->event_count && !any; i++)
        any = finder->signs[i] == SIGN_OPTIMIZER;
    return any;
}

static void label_events(struct vt_finder *finder)
{
    uint8_t label = VT_PHASE_INIT;
    for (uint32_t i = 0; i < finder->trace->event_count; i++) {
        next_label(finder, i, &label);
        finder->labels[i] = label;
    }
    if (!has_phases(finder) && finder->trace->event_count > 0)
        memset(finder->labels, VT_PHASE_OTHER, finder->trace->event_count);
    vt_phases_settle_passes(finder->phases, finder->trace->event_count);
    settle_inner_passes(finder);
    find_gradient_frees(finder);
    settle_tails(finder);
}

static bool shows_phases(const struct vt_finder *finder)
{
    for (uint32_t i = 0; i < finder->trace->event_count; i++)
        if (vt_phase_is_shown(finder->labels[i]))
            return true;
    return false;
}

static void make_spans(struct vt_finder *finder)
{
    struct vt_phases *phases = finder->phases;
    size_t count = finder->trace->event_count;
    uint32_t *begins_step = vt_allocate_zeros(count + 1, sizeof *begins_step);
    bool bare = !shows_phases(finder); /* then only the program's marks make steps */
    const uint32_t first = vt_steps_find(finder, begins_step);
    uint32_t step = 0;
    struct vt_span *span = NULL;
    for (uint32_t i = 0; i < count; i++) {
        uint8_t label = finder->labels[i];
        if (step == 0 && i >= first && label != VT_PHASE_INIT && label != VT_PHASE_OTHER)
            step = 1;
        else if (begins_step[i] < UINT32_MAX - step) /* a damaged trace may claim any number */
            step += begins_step[i];
        if (bare && step > 0)
            label = VT_PHASE_OTHER;
        if (span && span->phase == label && span->step == step) {
            span->last_event = i;
            continue;
        }
        VT_APPEND(phases->spans, phases->span_count, phases->span_capacity,
                  (struct vt_span){.first_event = i, .last_event = i, .step = step, .phase = label});
        span = &phases->spans[phases->span_count - 1];
    }
    phases->step_count = step;
    free(begins_step);
}

/* Neither autograd's own code runs nor a function's backward. */
static bool is_in_hook(const struct vt_finder *finder, uint32_t stack_id)
{
    const struct vt_trace_stack *stack = &finder->trace->stacks[stack_id];
    return stack->python_count > 0 &&
           !vt_traits_by_stack_code_is(finder->sites, stack->python[0].code_id, VT_CODE_PASS) &&
           !vt_traits_by_stack_code_is(finder->sites, stack->python[0].code_id, VT_CODE_BACKWARD);
}

/* A pass of higher order makes nodes itself, not through a checkpoint that runs forward again or a hook that
 * computes with gradients on. If nodes have no numbers, any pass may make some. */
static void find_higher_orders(struct vt_finder *finder)
{
    struct vt_phases *phases = finder->phases;
    const struct vt_event *events = finder->trace->events;
    for (size_t k = 0; k < finder->inner_node_count; k++) {
        const uint32_t i = finder->inner_nodes[k];
        long pass = vt_pass_before(phases, i);
        if (pass >= 0 && phases->passes[pass].last_event >= i &&
            !(vt_finder_traits(finder, events[i].stack_id) & VT_TRAIT(RECOMPUTE)) &&
            !is_in_hook(finder, events[i].stack_id))
            phases->passes[pass].makes_nodes = true;
    }
    for (size_t i = 0; i < phases->pass_count && !finder->numbered; i++)
        phases->passes[i].makes_nodes = true;
}

static void find_recomputes(struct vt_finder *finder)
{
    struct vt_phases *phases = finder->phases;
    bool inside = false;
    for (uint32_t i = 0; i < finder->trace->event_count; i++) {
        if (finder->signs[i] != SIGN_BACKWARD)
            continue;
        bool again = (vt_finder_traits(finder, finder->trace->events[i].stack_id) & VT_TRAIT(RECOMPUTE)) != 0;
        if (again && !inside)
            VT_APPEND(phases->recomputes, phases->recompute_count, phases->recompute_capacity,
                      (struct vt_recompute){.first_event = i});
        if (again)
            phases->recomputes[phases->recompute_count - 1].last_event = i;
        inside = again;
    }
}

void vt_phases_find(const struct vt_replay *replay, struct vt_traits_by_stack *traits,
                    struct vt_phases *phases)
{
    size_t count = replay->trace->event_count;
    struct vt_finder finder = {.trace = replay->trace, .replay = replay, .sites = traits, .phases = phases};
    finder.holds = vt_allocate_zeros(count + 1, 1);
    finder.signs = vt_allocate_zeros(count + 1, 1);
    finder.labels = vt_allocate_zeros(count + 1, 1);
    finder.frees_gradient = vt_allocate_zeros(count + 1, 1);
    phases->grad_mode = vt_allocate_zeros(count + 1, 1);
    vt_signs_read(&finder);
    label_events(&finder);
    find_higher_orders(&finder);
    vt_evaluation_find(&finder);
    find_recomputes(&finder);
    vt_phases_count_left(phases, replay);
    make_spans(&finder);
    vt_phases_settle(phases, count);
    vt_index_free(&finder.thread_index);
    vt_index_free(&finder.captured.graphs);
    vt_index_free(&finder.captured.execs);
    free(finder.threads);
    free(finder.thread_of_stack);
    free(finder.made_by_stack);
    free(finder.inner_nodes);
    free(finder.holds);
    free(finder.signs);
    free(finder.labels);
    free(finder.frees_gradient);
}
