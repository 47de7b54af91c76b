/* Phases and steps of a run whose script has no marks.
 *
 * What tells them: allocations under the autograd engine or on its threads, under an optimizer's step, under
 * a module call; frees by their thread; and autograd's node counter, which stands still without gradients.
 * Each event gets a label, runs of a label become spans, and steps are cut where an optimizer's work ends. */
#include "attribute/phases.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "trace/index.h"

/* What one event says. */
enum sign {
    SIGN_NONE,
    SIGN_FORWARD,
    SIGN_BACKWARD,
    SIGN_BACKWARD_CALL,
    SIGN_OPTIMIZER,
    SIGN_DATA,
    SIGN_SOURCE, /* the script makes or copies values */
    SIGN_SCRIPT, /* the script computes */
    SIGN_FREE,   /* by the training thread */
    SIGN_FREE_BACKWARD,
};

/* A label beside enum vt_phase, till it is known what came next: frees by the training thread after a pass.
 */
#define LABEL_TAIL (VT_PHASE_COUNT + 1)

struct thread {
    bool engine;
    bool never_engine; /* native stacks without the engine were seen */
    uint32_t score;    /* how much it looks like the training thread */
    uint64_t sequence; /* of its last allocation */
};

struct finder {
    const struct vt_trace *trace;
    const struct vt_replay *replay;
    struct vt_matcher *matcher;
    struct vt_phases *phases;
    struct vt_index thread_index;
    struct thread *threads;
    size_t thread_count, thread_capacity;
    uint32_t *thread_of_stack;
    uint32_t main_thread;
    uint8_t *signs, *labels; /* by event */
    uint8_t *frees_gradient; /* by event */
    bool engine_seen;        /* in the current pass */
};

#define TRAIT(name) (UINT64_C(1) << VT_TRAIT_##name)

static uint64_t traits_of(struct finder *finder, uint32_t stack_id)
{
    return *vt_matcher_traits(finder->matcher, stack_id);
}

static bool is_framework(const struct vt_event *event)
{
    return event->layer == VT_LAYER_FRAMEWORK &&
           (event->kind == VT_EVENT_ALLOC || event->kind == VT_EVENT_FREE);
}

/* ---- Threads ---- */

static int number_threads(struct finder *finder)
{
    const struct vt_trace *trace = finder->trace;
    finder->thread_of_stack = calloc(trace->stack_count, sizeof *finder->thread_of_stack);
    if (!finder->thread_of_stack)
        return -ENOMEM;
    for (size_t id = 0; id < trace->stack_count; id++) {
        uint32_t number = vt_index_get(&finder->thread_index, trace->stacks[id].thread_id);
        if (number == VT_INDEX_NONE) {
            number = (uint32_t)finder->thread_count;
            int error = vt_reserve(&finder->threads, &finder->thread_capacity, finder->thread_count + 1,
                                   sizeof *finder->threads);
            if (!error)
                error = vt_index_put(&finder->thread_index, trace->stacks[id].thread_id, number);
            if (error)
                return error;
            finder->threads[finder->thread_count++] = (struct thread){0};
        }
        finder->thread_of_stack[id] = number;
    }
    return 0;
}

/* The engine's threads have no Python below them, and nothing but the engine. A checkpoint or a Python
 * function run there has Python frames, which hide the engine's. */
static void find_engine_threads(struct finder *finder)
{
    const struct vt_trace *trace = finder->trace;
    for (uint32_t id = 1; id < trace->stack_count; id++) {
        const struct vt_trace_stack *stack = &trace->stacks[id];
        struct thread *thread = &finder->threads[finder->thread_of_stack[id]];
        if (stack->native_count == 0 || stack->python_count > 0)
            continue;
        if (traits_of(finder, id) & TRAIT(BACKWARD))
            thread->engine = true;
        else if (!(stack->flags & VT_STACK_NATIVE_TRUNCATED))
            thread->never_engine = true;
    }
    for (size_t i = 0; i < finder->thread_count; i++)
        finder->threads[i].engine &= !finder->threads[i].never_engine;
    for (uint32_t id = 1; id < trace->stack_count; id++)
        if (finder->threads[finder->thread_of_stack[id]].engine)
            *vt_matcher_traits(finder->matcher, id) |= TRAIT(BACKWARD);
}

static void find_main_thread(struct finder *finder)
{
    const uint64_t training = TRAIT(MODULE) | TRAIT(OPTIMIZER) | TRAIT(BACKWARD_CALL);
    for (size_t i = 0; i < finder->trace->event_count; i++) {
        const struct vt_event *event = &finder->trace->events[i];
        if (is_framework(event) && event->kind == VT_EVENT_ALLOC)
            finder->threads[finder->thread_of_stack[event->stack_id]].score +=
                traits_of(finder, event->stack_id) & training ? 1000 : 1;
    }
    finder->main_thread = 0;
    for (uint32_t i = 0; i < finder->thread_count; i++)
        if (!finder->threads[i].engine &&
            (finder->threads[finder->main_thread].engine ||
             finder->threads[i].score > finder->threads[finder->main_thread].score))
            finder->main_thread = i;
}

/* ---- Signs ---- */

static enum sign sign_of_alloc(const struct finder *finder, uint64_t traits, uint32_t thread, bool grad_mode)
{
    if (traits & TRAIT(BACKWARD))
        return SIGN_BACKWARD;
    if (traits & TRAIT(OPTIMIZER))
        return SIGN_OPTIMIZER;
    if (traits & TRAIT(BACKWARD_CALL))
        return SIGN_BACKWARD_CALL;
    if (traits & TRAIT(MODULE))
        return SIGN_FORWARD;
    if (thread != finder->main_thread)
        return SIGN_NONE;
    if (grad_mode)
        return SIGN_FORWARD;
    if (traits & TRAIT(DATA))
        return SIGN_DATA;
    return traits & TRAIT(SOURCE) ? SIGN_SOURCE : SIGN_SCRIPT;
}

/* The node counter is one per thread. Its values are even outside backward (format.h). */
static bool counter_advanced(struct thread *thread, uint64_t sequence)
{
    bool advanced = sequence > thread->sequence && sequence % 2 == 0;
    if (sequence % 2 == 0 && sequence > 0)
        thread->sequence = sequence;
    return advanced;
}

static int read_signs(struct finder *finder)
{
    struct vt_phases *phases = finder->phases;
    for (uint32_t i = 0; i < finder->trace->event_count; i++) {
        const struct vt_event *event = &finder->trace->events[i];
        uint32_t number = finder->thread_of_stack[event->stack_id];
        struct thread *thread = &finder->threads[number];
        if (!is_framework(event))
            continue;
        if (event->kind == VT_EVENT_FREE) {
            if (event->stack_id != 0)
                finder->signs[i] = thread->engine                  ? SIGN_FREE_BACKWARD
                                   : number == finder->main_thread ? SIGN_FREE
                                                                   : SIGN_NONE;
            continue;
        }
        uint64_t traits = traits_of(finder, event->stack_id);
        phases->grad_mode[i] = counter_advanced(thread, event->sequence);
        finder->signs[i] = (uint8_t)sign_of_alloc(finder, traits, number, phases->grad_mode[i]);
        if ((traits & TRAIT(MODULE)) && !(traits & (TRAIT(BACKWARD) | TRAIT(OPTIMIZER)))) {
            int error = vt_reserve(&phases->module_events, &phases->module_event_capacity,
                                   phases->module_event_count + 1, sizeof *phases->module_events);
            if (error)
                return error;
            phases->module_events[phases->module_event_count++] = i;
        }
    }
    return 0;
}

/* ---- Labels ---- */

static int begin_pass(struct finder *finder, uint32_t event)
{
    struct vt_phases *phases = finder->phases;
    int error =
        vt_reserve(&phases->passes, &phases->pass_capacity, phases->pass_count + 1, sizeof *phases->passes);
    if (error)
        return error;
    phases->passes[phases->pass_count++] = (struct vt_pass){.first_event = event, .last_event = event};
    finder->engine_seen = false;
    return 0;
}

/* The label after an event, and the passes on the way. */
static int next_label(struct finder *finder, uint32_t event, uint8_t *label)
{
    struct vt_phases *phases = finder->phases;
    enum sign sign = (enum sign)finder->signs[event];
    bool in_pass = *label == VT_PHASE_BACKWARD || *label == LABEL_TAIL;
    switch (sign) {
    case SIGN_BACKWARD_CALL:
        if (in_pass && !finder->engine_seen)
            return 0;
        *label = VT_PHASE_BACKWARD;
        return begin_pass(finder, event);
    case SIGN_FREE_BACKWARD:
        /* what an engine's thread lets go of after the call returned is no pass of its own */
        if (*label == VT_PHASE_BACKWARD)
            phases->passes[phases->pass_count - 1].last_event = event;
        return 0;
    case SIGN_BACKWARD: {
        int error = in_pass ? 0 : begin_pass(finder, event);
        if (error)
            return error;
        *label = VT_PHASE_BACKWARD;
        finder->engine_seen = true;
        phases->passes[phases->pass_count - 1].last_event = event;
        return 0;
    }
    case SIGN_FREE:
        if (*label == VT_PHASE_BACKWARD && finder->engine_seen)
            *label = LABEL_TAIL;
        return 0;
    case SIGN_FORWARD:
        *label = VT_PHASE_FORWARD;
        return 0;
    case SIGN_OPTIMIZER:
        *label = VT_PHASE_OPTIMIZER;
        return 0;
    case SIGN_DATA:
    case SIGN_SOURCE:
        if (*label != VT_PHASE_INIT && (*label != VT_PHASE_FORWARD || sign == SIGN_DATA))
            *label = VT_PHASE_DATA;
        return 0;
    case SIGN_SCRIPT:
        if (*label != VT_PHASE_INIT && *label != VT_PHASE_FORWARD)
            *label = VT_PHASE_OTHER;
        return 0;
    default:
        return 0;
    }
}

/* What a pass made and left behind, freed by the training thread: gradients that zero_grad drops. */
static void find_gradient_frees(struct finder *finder)
{
    const struct vt_replay *replay = finder->replay;
    for (size_t i = 0; i < replay->allocation_count; i++) {
        const struct vt_allocation *block = &replay->allocations[i];
        if (block->kind != VT_ALLOCATION_BLOCK || block->free_event == VT_NEVER ||
            finder->signs[block->alloc_event] != SIGN_BACKWARD ||
            finder->signs[block->free_event] != SIGN_FREE)
            continue;
        long pass = vt_pass_before(finder->phases, block->alloc_event);
        if (pass >= 0 && block->free_event > finder->phases->passes[pass].last_event)
            finder->frees_gradient[block->free_event] = 1;
    }
}

/* Frees after a pass belong to what they do: to the optimizer if gradients go or if its step follows, else to
 * the pass. */
static void settle_tails(struct finder *finder)
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

static int label_events(struct finder *finder)
{
    uint8_t label = VT_PHASE_INIT;
    for (uint32_t i = 0; i < finder->trace->event_count; i++) {
        int error = next_label(finder, i, &label);
        if (error)
            return error;
        finder->labels[i] = label;
    }
    /* a process without a framework has no phases */
    bool any = finder->phases->pass_count > 0 || finder->phases->module_event_count > 0;
    for (uint32_t i = 0; i < finder->trace->event_count && !any; i++)
        any = finder->signs[i] != SIGN_NONE;
    if (!any && finder->trace->event_count > 0)
        memset(finder->labels, VT_PHASE_OTHER, finder->trace->event_count);
    find_gradient_frees(finder);
    settle_tails(finder);
    return 0;
}

/* ---- Evaluation ---- */

/* A run of forward without gradients, between forwards with them: by stacks that make nodes at other times.
 */
static void mark_evaluation(struct finder *finder, const uint8_t *makes_nodes, uint32_t first, uint32_t end)
{
    const struct vt_event *events = finder->trace->events;
    uint32_t start = first, votes = 0, last_vote = first, last_stack = 0;
    bool inside = true; /* till a node is made, all since `start` may be evaluation */
    for (uint32_t i = first; i <= end; i++) {
        bool at_end = i == end;
        bool votes_here = !at_end && finder->signs[i] == SIGN_FORWARD && makes_nodes[events[i].stack_id];
        if (at_end || (votes_here && finder->phases->grad_mode[i])) {
            if (inside && votes >= 3) {
                uint32_t stop = i;
                for (uint32_t k = last_vote + 1; k < i && !at_end && stop == i; k++)
                    if (finder->signs[k] == SIGN_SOURCE || finder->signs[k] == SIGN_DATA)
                        stop = k; /* the next batch */
                memset(finder->labels + start, VT_PHASE_EVAL, stop - start);
            }
            votes = 0;
            inside = false;
        } else if (votes_here && events[i].stack_id != last_stack) {
            votes++;
            last_vote = i;
            if (!inside)
                start = i;
            inside = true;
        } else if (!inside && (finder->signs[i] == SIGN_SOURCE || finder->signs[i] == SIGN_DATA)) {
            start = i; /* a batch that comes before it */
            inside = true;
        }
        if (votes_here)
            last_stack = events[i].stack_id;
    }
}

static int find_evaluation(struct finder *finder)
{
    const struct vt_trace *trace = finder->trace;
    const struct vt_phases *phases = finder->phases;
    uint8_t *makes_nodes = calloc(trace->stack_count, 1);
    if (!makes_nodes)
        return -ENOMEM;
    for (size_t i = 0; i < phases->module_event_count; i++) {
        uint32_t event = phases->module_events[i], stack_id = trace->events[event].stack_id;
        if (phases->grad_mode[event] && !(traits_of(finder, stack_id) & TRAIT(RECOMPUTE)))
            makes_nodes[stack_id] = 1;
    }
    for (uint32_t i = 0; i < trace->event_count;) {
        uint32_t end = i;
        while (end < trace->event_count && finder->labels[end] == VT_PHASE_FORWARD)
            end++;
        if (end > i)
            mark_evaluation(finder, makes_nodes, i, end);
        i = end + (end == i);
    }
    for (size_t i = 0; i < phases->module_event_count; i++) {
        uint32_t event = phases->module_events[i];
        if (finder->labels[event] == VT_PHASE_FORWARD &&
            (traits_of(finder, trace->events[event].stack_id) & TRAIT(EVALUATION)))
            finder->labels[event] = VT_PHASE_EVAL;
    }
    free(makes_nodes);
    return 0;
}

/* ---- Steps ---- */

/* What lies between a pass and the next one. */
struct interval {
    uint32_t first_event, end_event;
    uint32_t optimizer_event; /* the last under an optimizer; VT_NEVER = none */
    uint64_t optimizer;       /* address of it, 0 = unknown */
    uint32_t zeroed_event;    /* the first free of a gradient */
    uint32_t forward_event;   /* the first of the next forward */
    uint64_t alive, freed;    /* gradient bytes: at its start, and freed in it */
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

static void read_interval(struct finder *finder, struct interval *interval)
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
static void weigh_gradients(struct finder *finder, struct interval *intervals)
{
    const struct vt_phases *phases = finder->phases;
    const struct vt_replay *replay = finder->replay;
    for (size_t i = 0; i < replay->allocation_count; i++) {
        const struct vt_allocation *block = &replay->allocations[i];
        if (block->kind != VT_ALLOCATION_BLOCK || finder->signs[block->alloc_event] != SIGN_BACKWARD)
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

/* With several optimizers an iteration ends with the one that is seen first last, among those that step about
 * as often as any. 0 = any will do. */
static uint64_t reference_optimizer(const struct interval *intervals, size_t count)
{
    struct {
        uint64_t address;
        size_t seen;
    } known[16] = {{0}};
    size_t distinct = 0, most = 0;
    for (size_t i = 0; i < count; i++) {
        size_t k = 0;
        if (intervals[i].optimizer == 0)
            continue;
        while (k < distinct && known[k].address != intervals[i].optimizer)
            k++;
        if (k == sizeof known / sizeof *known)
            return 0;
        known[k].address = intervals[i].optimizer;
        distinct += k == distinct;
        if (++known[k].seen > most)
            most = known[k].seen;
    }
    for (size_t k = distinct; k-- > 1;)
        if (known[k].seen * 2 >= most)
            return known[k].address;
    return 0;
}

/* Where the next step begins, VT_NEVER if the interval does not end one. */
static uint32_t boundary(const struct finder *finder, const struct interval *interval, uint64_t reference,
                         bool any_sign)
{
    bool zeroed = interval->zeroed_event != VT_NEVER && interval->freed * 2 >= interval->alive;
    uint32_t after = interval->first_event;
    if (interval->optimizer_event != VT_NEVER) {
        if (reference && interval->optimizer && interval->optimizer != reference)
            return VT_NEVER;
        after = interval->optimizer_event + 1;
    } else if (zeroed) {
        if (interval->forward_event == VT_NEVER || interval->zeroed_event < interval->forward_event)
            after = interval->zeroed_event + 1;
    } else if (any_sign) {
        return VT_NEVER; /* gradients are being accumulated */
    }
    for (uint32_t i = after; i < interval->end_event; i++) {
        enum sign sign = (enum sign)finder->signs[i];
        if (sign == SIGN_FORWARD || sign == SIGN_SOURCE || sign == SIGN_DATA)
            return interval->forward_event == VT_NEVER ? VT_NEVER : i;
    }
    return VT_NEVER;
}

static int find_boundaries(struct finder *finder, uint8_t *begins_step)
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
    uint64_t reference = reference_optimizer(intervals, phases->pass_count);
    for (size_t i = 0; i < phases->pass_count; i++) {
        uint32_t event = boundary(finder, &intervals[i], reference, any_sign);
        if (event != VT_NEVER)
            begins_step[event] = 1;
    }
    free(intervals);
    return 0;
}

/* Without backward, a step is what follows each return to the stack that allocated first in a module. */
static void find_calls(struct finder *finder, uint8_t *begins_step)
{
    const struct vt_phases *phases = finder->phases;
    for (size_t i = 1; i < phases->module_event_count; i++) {
        uint32_t event = phases->module_events[i];
        if (finder->trace->events[event].stack_id == finder->trace->events[phases->module_events[0]].stack_id)
            begins_step[event] = 1;
    }
}

static int make_spans(struct finder *finder)
{
    struct vt_phases *phases = finder->phases;
    size_t count = finder->trace->event_count;
    uint8_t *begins_step = calloc(count + 1, 1);
    int error = begins_step ? 0 : -ENOMEM;
    if (!error && phases->pass_count > 0)
        error = find_boundaries(finder, begins_step);
    else if (!error)
        find_calls(finder, begins_step);
    uint32_t step = 0;
    struct vt_span *span = NULL;
    for (uint32_t i = 0; i < count && !error; i++) {
        uint8_t label = finder->labels[i];
        if (step == 0 && label != VT_PHASE_INIT && label != VT_PHASE_OTHER)
            step = 1;
        else
            step += begins_step[i];
        if (span && span->phase == label && span->step == step) {
            span->last_event = i;
            continue;
        }
        error =
            vt_reserve(&phases->spans, &phases->span_capacity, phases->span_count + 1, sizeof *phases->spans);
        if (!error) {
            span = &phases->spans[phases->span_count++];
            *span = (struct vt_span){.first_event = i, .last_event = i, .step = step, .phase = label};
        }
    }
    phases->step_count = step;
    free(begins_step);
    return error;
}

static int find_recomputes(struct finder *finder)
{
    struct vt_phases *phases = finder->phases;
    bool inside = false;
    for (uint32_t i = 0; i < finder->trace->event_count; i++) {
        if (finder->signs[i] != SIGN_BACKWARD)
            continue;
        bool again = (traits_of(finder, finder->trace->events[i].stack_id) & TRAIT(RECOMPUTE)) != 0;
        if (again && !inside) {
            int error = vt_reserve(&phases->recomputes, &phases->recompute_capacity,
                                   phases->recompute_count + 1, sizeof *phases->recomputes);
            if (error)
                return error;
            phases->recomputes[phases->recompute_count++] = (struct vt_recompute){.first_event = i};
        }
        if (again)
            phases->recomputes[phases->recompute_count - 1].last_event = i;
        inside = again;
    }
    return 0;
}

int vt_phases_find(const struct vt_replay *replay, struct vt_matcher *matcher, struct vt_phases *phases)
{
    size_t count = replay->trace->event_count;
    struct finder finder = {.trace = replay->trace, .replay = replay, .matcher = matcher, .phases = phases};
    finder.signs = calloc(count + 1, 1);
    finder.labels = calloc(count + 1, 1);
    finder.frees_gradient = calloc(count + 1, 1);
    phases->grad_mode = calloc(count + 1, 1);
    int error = finder.signs && finder.labels && finder.frees_gradient && phases->grad_mode ? 0 : -ENOMEM;
    if (!error)
        error = number_threads(&finder);
    if (!error) {
        find_engine_threads(&finder);
        find_main_thread(&finder);
        error = read_signs(&finder);
    }
    if (!error)
        error = label_events(&finder);
    if (!error)
        error = find_evaluation(&finder);
    if (!error)
        error = find_recomputes(&finder);
    if (!error)
        error = make_spans(&finder);
    vt_index_free(&finder.thread_index);
    free(finder.threads);
    free(finder.thread_of_stack);
    free(finder.signs);
    free(finder.labels);
    free(finder.frees_gradient);
    return error;
}

void vt_phases_free(struct vt_phases *phases)
{
    free(phases->spans);
    free(phases->passes);
    free(phases->recomputes);
    free(phases->module_events);
    free(phases->grad_mode);
    memset(phases, 0, sizeof *phases);
}

/* ---- Looking things up ---- */

long vt_pass_before(const struct vt_phases *phases, uint32_t event)
{
    size_t low = 0, high = phases->pass_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (phases->passes[middle].first_event <= event)
            low = middle + 1;
        else
            high = middle;
    }
    return (long)low - 1;
}

long vt_recompute_before(const struct vt_phases *phases, uint32_t event)
{
    size_t low = 0, high = phases->recompute_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (phases->recomputes[middle].first_event <= event)
            low = middle + 1;
        else
            high = middle;
    }
    return (long)low - 1;
}

size_t vt_span_index(const struct vt_span *spans, size_t count, uint32_t event)
{
    size_t low = 0, high = count;
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        if (spans[middle].first_event <= event)
            low = middle;
        else
            high = middle;
    }
    return low;
}

uint32_t vt_next_module_event(const struct vt_phases *phases, uint32_t event)
{
    size_t low = 0, high = phases->module_event_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (phases->module_events[middle] <= event)
            low = middle + 1;
        else
            high = middle;
    }
    return low < phases->module_event_count ? phases->module_events[low] : VT_NEVER;
}
