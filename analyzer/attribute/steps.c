/* Steps: where one training iteration ends and the next begins. */
#include "attribute/steps.h"

#include "attribute/event_phases.h"
#include "attribute/model_calls.h"
#include "attribute/requests.h"

#include <stdlib.h>
#include <string.h>

#include "base/allocate.h"

/* The events from one pass to the next. */
struct interval {
    uint32_t first_event, end_event;
    uint32_t optimizer_event; /* the last in an optimizer; VT_NEVER = none */
    uint64_t optimizer;       /* its address, 0 = unknown */
    uint32_t zeroed_event;    /* the first free of a gradient */
    uint32_t forward_event;   /* the first event of the next forward */
    uint64_t alive, freed;    /* gradient bytes: alive at its start, and freed in it */
    bool zeroed;              /* gradients were freed in it, says a digest */
    bool makes_nodes;         /* its forward makes autograd nodes */
    bool makes_model;         /* a model came to the GPU: the next pass adds nothing to these gradients */
    bool ends_cycle;          /* its optimizer is the last of an iteration */
    bool has_temporaries;     /* its optimizer makes temporaries, as it then does in each step */
    bool within_step;         /* another pass of the same step follows */
};

static uint64_t optimizer_address(const struct vt_finder *finder, uint32_t stack_id)
{
    const struct vt_trace_stack *stack = &finder->trace->stacks[stack_id];
    for (uint32_t i = stack->python_count; i-- > 0;) {
        const struct vt_python_frame *frame = &stack->python[i];
        if (frame->self_address && vt_traits_by_stack_code_is(finder->sites, frame->code_id, VT_CODE_STEP))
            return frame->self_address;
    }
    return 0;
}

static void read_interval(struct vt_finder *finder, struct interval *interval)
{
    for (uint32_t i = interval->first_event; i < interval->end_event; i++) {
        if (finder->signs[i] == SIGN_OPTIMIZER) {
            uint64_t address = optimizer_address(finder, finder->trace->events[i].stack_id);
            interval->optimizer_event = i;
            interval->optimizer = address ? address : interval->optimizer;
        } else if ((finder->frees_gradient[i] || finder->trace->events[i].kind == VT_EVENT_ZEROED) &&
                   interval->zeroed_event == VT_NEVER) {
            interval->zeroed_event = i;
        } else if (finder->labels[i] == VT_PHASE_FORWARD && finder->signs[i] == SIGN_FORWARD &&
                   interval->forward_event == VT_NEVER) {
            interval->forward_event = i;
        }
        interval->zeroed |= finder->trace->events[i].kind == VT_EVENT_ZEROED;
        interval->makes_model |=
            finder->trace->events[i].kind == VT_EVENT_ALLOC &&
            vt_finder_traits(finder, finder->trace->events[i].stack_id) & VT_TRAIT(MODULE_APPLY);
        interval->makes_nodes |= finder->labels[i] == VT_PHASE_FORWARD && finder->phases->grad_mode[i];
    }
}

/* True if a pass that the steps leave out made it: it lies between two of theirs. */
static bool is_inner(const struct vt_finder *finder, uint32_t event)
{
    long pass = vt_pass_before(finder->phases, event);
    return pass >= 0 && finder->phases->passes[pass].last_event < event &&
           finder->signs[event] == SIGN_BACKWARD;
}

/* A thread of autograd's keeps the workspace of its first product. */
static bool is_workspace(const struct vt_finder *finder, const struct vt_allocation *block)
{
    return vt_finder_traits(finder, block->stack_id) & (VT_TRAIT(WORKSPACE) | VT_TRAIT(BLAS_WORKSPACE)) ||
           vt_stays_alone(finder->phases, finder->replay, block);
}

/* Sums the gradient bytes alive at each interval's start, and those freed in it. */
static void weigh_gradients(struct vt_finder *finder, struct interval *intervals)
{
    const struct vt_phases *phases = finder->phases;
    const struct vt_replay *replay = finder->replay;
    for (size_t i = 0; i < replay->allocation_count; i++) {
        const struct vt_allocation *block = &replay->allocations[i];
        if (!vt_holds_tensors(phases, block))
            continue;
        long made = vt_pass_before(phases, block->alloc_event);
        if (made >= 0 && finder->signs[block->alloc_event] == SIGN_OPTIMIZER &&
            block->free_event < intervals[made].end_event)
            intervals[made].has_temporaries = true;
        if (finder->signs[block->alloc_event] != SIGN_BACKWARD || is_workspace(finder, block) || made < 0 ||
            block->free_event <= phases->passes[made].last_event || is_inner(finder, block->alloc_event))
            continue;
        if (block->free_event == VT_NEVER && phases->passes[made].makes_nodes)
            continue; /* its graph may hold it for good */
        intervals[made].alive += block->bytes;
        if (block->free_event == VT_NEVER)
            continue;
        long freed = vt_pass_before(phases, block->free_event);
        bool in_pass = vt_freed_in_pass(phases, block);
        if (!in_pass && block->free_event <= phases->passes[freed].last_event)
            freed--; /* late */
        if (!in_pass)
            intervals[freed].freed += block->bytes;
        if (freed > made && in_pass)
            intervals[freed].alive -= block->bytes;
        else if ((size_t)freed + 1 < phases->pass_count)
            intervals[freed + 1].alive -= block->bytes;
    }
    for (size_t i = 1; i < phases->pass_count; i++)
        intervals[i].alive += intervals[i - 1].alive;
}

/* An optimizer may call a closure several times in one step. Its next step begins with a call from the
 * instruction of its first call. */
static void find_closures(struct vt_finder *finder, struct interval *intervals)
{
    const struct vt_phases *phases = finder->phases;
    const struct vt_trace *trace = finder->trace;
    struct vt_index first = {0}; /* optimizer's address → pass */
    for (size_t i = 0; i < phases->pass_count; i++) {
        uint32_t stack_id = trace->events[phases->passes[i].first_event].stack_id;
        bool closure;
        if (!(vt_finder_traits(finder, stack_id) & VT_TRAIT(CLOSURE)))
            continue;
        const struct vt_python_frame *frame = vt_optimizer_frame(finder->sites, stack_id, &closure);
        uint64_t optimizer = optimizer_address(finder, stack_id);
        uint32_t known = vt_index_get(&first, optimizer);
        if (known == VT_INDEX_NONE) {
            vt_index_put(&first, optimizer, (uint32_t)i);
            continue;
        }
        const struct vt_python_frame *begun = vt_optimizer_frame(
            finder->sites, trace->events[phases->passes[known].first_event].stack_id, &closure);
        if (frame && begun && i > 0)
            intervals[i - 1].within_step |=
                frame->code_id != begun->code_id || frame->instruction_offset != begun->instruction_offset;
    }
    vt_index_free(&first);
}

#define CYCLE_LIMIT 16

/* True if none of those optimizers steps again from the interval on. `last`: optimizer → its last interval;
 * of one that makes state alone, in its first step, no later step is seen. */
static bool are_done(const struct vt_index *last, const uint64_t *seen, size_t seen_count, size_t interval)
{
    for (size_t i = 0; i < seen_count; i++)
        if (vt_index_get(last, seen[i]) >= interval)
            return false;
    return true;
}

/* Several optimizers may take turns: an iteration ends before the first of them steps again. An optimizer
 * that appears after the others went round without it, or when they are done, begins an iteration. */
static void find_cycles(struct interval *intervals, size_t count)
{
    uint64_t seen[CYCLE_LIMIT];
    size_t seen_count = 0;
    struct vt_index known = {0}, last = {0};
    bool went_round = false;
    struct interval *previous = NULL;
    for (size_t i = 0; i < count; i++)
        if (intervals[i].optimizer_event != VT_NEVER)
            vt_index_put(&last, intervals[i].optimizer, (uint32_t)(intervals[i].has_temporaries ? i : count));
    for (size_t i = 0; i < count; i++) {
        struct interval *interval = &intervals[i];
        if (interval->optimizer_event == VT_NEVER)
            continue;
        bool again = seen_count == CYCLE_LIMIT || interval->optimizer == 0;
        for (size_t k = 0; k < seen_count; k++)
            again |= seen[k] == interval->optimizer;
        again |= (went_round || are_done(&last, seen, seen_count, i)) &&
                 vt_index_get(&known, interval->optimizer) == VT_INDEX_NONE;
        if (again && previous)
            previous->ends_cycle = went_round = true;
        seen_count = again ? 0 : seen_count;
        seen[seen_count++] = interval->optimizer;
        vt_index_put(&known, interval->optimizer, 1);
        previous = interval;
    }
    if (previous)
        previous->ends_cycle = true;
    vt_index_free(&last);
    vt_index_free(&known);
}

/* True if most of the gradients are freed. */
static bool is_zeroed(const struct interval *interval)
{
    return interval->zeroed || (interval->freed > 0 && interval->freed * 2 >= interval->alive);
}

/* A batch lives for a while; what the very next event frees is a temporary of some library. */
static bool is_freed_at_once(const struct vt_finder *finder, uint32_t event)
{
    const struct vt_replay *replay = finder->replay;
    if (event + 1 >= finder->trace->event_count)
        return false;
    for (uint32_t i = replay->first_freed[event + 1]; i != VT_NEVER; i = replay->next_freed[i])
        if (replay->allocations[i].alloc_event == event)
            return true;
    return false;
}

/* Count of passes before the interval `end` whose gradients are freed without an optimizer's step. */
static size_t passes_without(const struct interval *intervals, size_t end)
{
    size_t count = 0;
    for (size_t i = end; i-- > 0 && intervals[i].optimizer_event == VT_NEVER;)
        count += is_zeroed(&intervals[i]);
    return count;
}

/* Marks the passes before interval `end` that no step ends with: all of them; or where they are so many that
 * the optimizer skipped steps of `usual` + 1 passes each, those within these steps. */
static void mark_passes_within(struct interval *intervals, size_t end, size_t usual, bool has_skipped)
{
    size_t before = passes_without(intervals, end);
    for (size_t i = end; i-- > 0 && intervals[i].optimizer_event == VT_NEVER;) {
        intervals[i].within_step = !has_skipped || before % (usual + 1) != 0;
        before -= is_zeroed(&intervals[i]);
    }
}

/* If an optimizer that allocates in each of its steps usually steps after several passes, these passes are
 * one step although their gradients are freed in between: the script sums them elsewhere, or uses them for
 * something else. If passes without a step are rare, each is a step that the optimizer skipped. */
static void find_passes_within(struct interval *intervals, size_t count)
{
    size_t last = count, pairs = 0, after_several = 0, longest = 0, usual = count, of_usual = 0;
    for (size_t i = 0; i < count; i++) {
        if (!intervals[i].has_temporaries)
            continue;
        if (last < count && intervals[last].optimizer == intervals[i].optimizer) {
            size_t passes = passes_without(intervals, i);
            pairs++;
            after_several += passes > 0;
            longest = passes > longest ? passes : longest;
            of_usual = passes < usual ? 1 : of_usual + (passes == usual);
            usual = passes < usual ? passes : usual;
        }
        last = i;
    }
    if (after_several * 2 <= pairs)
        return;
    const bool skips = usual > 0 && of_usual * 2 > pairs;
    for (size_t i = 0; i < count; i++)
        if (intervals[i].has_temporaries && passes_without(intervals, i) <= longest)
            mark_passes_within(intervals, i, usual,
                               skips && (passes_without(intervals, i) + 1) % (usual + 1) == 0);
    if (skips)
        mark_passes_within(intervals, count, usual, true);
}

/* Event at which the next step begins, VT_NEVER if the interval ends no step. */
static uint32_t boundary(const struct vt_finder *finder, const struct interval *interval, bool any_sign)
{
    bool zeroed = is_zeroed(interval);
    uint32_t after = interval->first_event;
    if (interval->within_step)
        return VT_NEVER;
    if (interval->optimizer_event != VT_NEVER) {
        if (!interval->ends_cycle)
            return VT_NEVER;
        after = interval->optimizer_event + 1;
    } else if (zeroed) {
        if (interval->zeroed_event != VT_NEVER &&
            (interval->forward_event == VT_NEVER || interval->zeroed_event < interval->forward_event))
            after = interval->zeroed_event + 1;
    } else if (any_sign && !interval->makes_model) {
        return VT_NEVER; /* gradients accumulate */
    }
    for (uint32_t i = after; i < interval->end_event; i++) {
        enum vt_sign sign = (enum vt_sign)finder->signs[i];
        if (sign == SIGN_FORWARD ||
            ((sign == SIGN_SOURCE || sign == SIGN_DATA) && !is_freed_at_once(finder, i)))
            return interval->forward_event == VT_NEVER ? VT_NEVER : i;
    }
    return VT_NEVER;
}

static void find_boundaries(struct vt_finder *finder, uint32_t *begins_step)
{
    const struct vt_phases *phases = finder->phases;
    struct interval *intervals = vt_allocate_zeros(phases->pass_count + 1, sizeof *intervals);
    bool any_sign = false;
    for (size_t i = 0; i < phases->pass_count; i++) {
        struct interval *interval = &intervals[i];
        interval->first_event = phases->passes[i].last_event + 1;
        interval->end_event = i + 1 < phases->pass_count ? phases->passes[i + 1].first_event
                                                         : (uint32_t)finder->trace->event_count;
        interval->optimizer_event = interval->zeroed_event = interval->forward_event = VT_NEVER;
        read_interval(finder, interval);
    }
    weigh_gradients(finder, intervals);
    for (size_t i = 0; i + 1 < phases->pass_count; i++)
        any_sign |= intervals[i].optimizer_event != VT_NEVER || is_zeroed(&intervals[i]);
    find_passes_within(intervals, phases->pass_count);
    find_cycles(intervals, phases->pass_count);
    find_closures(finder, intervals);
    for (size_t i = 0; i < phases->pass_count; i++) {
        /* events after the last pass that make no nodes are no step */
        if (i + 1 == phases->pass_count && !intervals[i].makes_nodes)
            continue;
        uint32_t event = boundary(finder, &intervals[i], any_sign);
        if (event != VT_NEVER)
            begins_step[event] = 1;
    }
    free(intervals);
}

/* Without backward, each forward pass is a step. */
static void mark_passes(const struct vt_model_calls *calls, uint32_t *begins_step)
{
    for (size_t i = 1; i < calls->count; i++) /* the first is in the first step anyway */
        if (calls->items[i].is_pass)
            begins_step[calls->items[i].event] = calls->items[i].passes;
}

static bool is_step_mark(const struct vt_trace *trace, uint32_t event)
{
    const char *name = trace->events[event].kind == VT_EVENT_MARK
                           ? vt_trace_string(trace, trace->events[event].detail)
                           : NULL;
    return name && !strcmp(name, VT_STEP_MARK);
}

/* Marks at the end of each round: where no phase tells, the first step begins where the code first ran that
 * begins the second. */
static void begin_before_mark(const struct vt_finder *finder, uint32_t mark, uint32_t *begins_step)
{
    const struct vt_event *events = finder->trace->events;
    uint32_t second = mark;
    while (second < finder->trace->event_count && finder->holds[second] != HOLDS_MADE)
        second++;
    for (uint32_t i = 0; i < mark; i++)
        if (finder->labels[i] != VT_PHASE_INIT && finder->labels[i] != VT_PHASE_OTHER)
            return;
    for (uint32_t i = 0; i < mark && second < finder->trace->event_count; i++)
        if (finder->holds[i] == HOLDS_MADE && events[i].stack_id == events[second].stack_id) {
            begins_step[i] = 1;
            return;
        }
}

/* The program's own marks decide if it makes any. After the last one there may be no step, but an evaluation
 * or the end: a step of a program that goes backward has a pass, another allocates something. Returns whether
 * there are marks. */
static bool find_marks(struct vt_finder *finder, uint32_t *begins_step)
{
    const struct vt_trace *trace = finder->trace;
    const struct vt_phases *phases = finder->phases;
    uint32_t first = VT_NEVER, last = VT_NEVER;
    bool follows;
    for (size_t k = 0; k < trace->rare_event_count; k++)
        if (is_step_mark(trace, trace->rare_events[k])) {
            begins_step[last = trace->rare_events[k]] = 1;
            first = first == VT_NEVER ? last : first;
        }
    if (last == VT_NEVER)
        return false;
    follows = phases->pass_count && phases->passes[phases->pass_count - 1].last_event > last;
    for (uint32_t i = last; i < trace->event_count && !phases->pass_count && !follows; i++)
        follows = trace->events[i].kind == VT_EVENT_ALLOC;
    begins_step[last] = follows;
    if (!follows)
        begin_before_mark(finder, first, begins_step);
    return true;
}

/* Launches of graphs that are whole steps: each step begins with the batch before its launch. */
static void find_launches(const struct vt_finder *finder, uint32_t *begins_step)
{
    uint32_t batch = VT_NEVER;
    for (uint32_t i = 0; i < finder->trace->event_count; i++) {
        enum vt_sign sign = (enum vt_sign)finder->signs[i];
        if (sign == SIGN_WHOLE_STEP)
            begins_step[batch != VT_NEVER ? batch : i] = 1;
        if (sign == SIGN_WHOLE_STEP || sign == SIGN_FORWARD || sign == SIGN_BACKWARD ||
            sign == SIGN_OPTIMIZER)
            batch = VT_NEVER;
        else if (batch == VT_NEVER && (sign == SIGN_SOURCE || sign == SIGN_DATA) &&
                 !is_freed_at_once(finder, i))
            batch = i;
    }
}

/* The passes that steps consist of. */
static void find_boundaries_of_outer(struct vt_finder *finder, uint32_t *begins_step)
{
    struct vt_phases outer = *finder->phases;
    struct vt_finder own = *finder;
    outer.pass_count = 0;
    outer.passes = vt_allocate_zeros(finder->phases->pass_count, sizeof *outer.passes);
    for (size_t i = 0; i < finder->phases->pass_count; i++)
        if (!finder->phases->passes[i].is_inner)
            outer.passes[outer.pass_count++] = finder->phases->passes[i];
    own.phases = &outer;
    vt_phases_settle_passes(&outer, finder->trace->event_count);
    find_boundaries(&own, begins_step);
    free(outer.begun_passes.counts);
    free(outer.passes);
}

uint32_t vt_steps_find(struct vt_finder *finder, uint32_t *begins_step)
{
    const bool marked = find_marks(finder, begins_step);
    struct vt_model_calls calls = {0};
    uint32_t first = 0;
    if (finder->phases->pass_count == 0) {
        vt_model_calls_find(finder, &calls);
        first = calls.first_event;
        vt_requests_find(finder, &calls, &finder->phases->requests);
        if (!marked)
            mark_passes(&calls, begins_step);
        vt_model_calls_free(&calls);
    } else if (!marked) {
        find_launches(finder, begins_step);
        find_boundaries_of_outer(finder, begins_step);
    }
    return marked ? 0 : first;
}
