/* Requests: one call of a function, such as generate(), under which several forward passes run. Stacks show
 * the function and how far it is, not which of its calls it is. A call begins where the function comes to its
 * first place, which its later passes do not come to again. Where it has no such place, a call begins when
 * the function comes back after its thread was outside of it. */
#include "attribute/requests.h"

#include <stdlib.h>
#include <string.h>

#include "attribute/event_phases.h"
#include "attribute/model_calls.h"
#include "base/allocate.h"

#define NONE UINT32_MAX
#define LEVELS 3u /* functions without a known name that are looked at, from the model's caller on */

/* A place in a function. */
struct place {
    uint32_t function; /* code id */
    int32_t offset;
    uint32_t visits; /* how often it was come to, with a pass in between */
    uint32_t after;  /* passes of the thread at its last visit */
    uint32_t thread;
};

struct function {
    uint32_t passes, requests;
    uint32_t threads, returns; /* that it ran on; how often it came back after its thread was outside of it */
    uint32_t first; /* place with which a call begins; NONE = returns tell. Until it is settled: the
                     * lowest place that it came to more than once, else once */
    bool is_told;
};

struct thread {
    uint32_t passes;               /* so far */
    uint32_t function, latest, of; /* in which it is, NONE = outside; was; that of its last request */
    uint32_t place;
    uint32_t request, request_passes; /* its last request, and passes in it */
};

struct search {
    const struct vt_finder *finder;
    uint32_t *frames; /* by stack: of the function, NONE = none */
    uint8_t *is_pass; /* by event */
    struct place *places;
    size_t place_count, place_capacity;
    struct vt_index place_of;
    struct function *functions; /* by code id */
    struct thread *threads;
    struct vt_requests *requests;
};

/* The outermost frame of a class outside of the model. */
static uint32_t named_frame(const struct vt_finder *finder, uint32_t stack_id)
{
    const struct vt_trace_stack *stack = &finder->trace->stacks[stack_id];
    for (uint32_t i = stack->python_count; i-- > 0 && !stack->python[i].self_address;)
        if (vt_traits_by_stack_code_is(finder->sites, stack->python[i].code_id, VT_CODE_REQUEST))
            return i;
    return NONE;
}

/* The script's function that calls the model, or that calls this one: `level` of them further out. */
static uint32_t calling_frame(const struct vt_finder *finder, uint32_t stack_id, uint32_t level)
{
    const struct vt_trace_stack *stack = &finder->trace->stacks[stack_id];
    uint32_t outside = 0;
    for (uint32_t i = 0; i < stack->python_count; i++)
        if (stack->python[i].self_address)
            outside = i + 1;
    for (uint32_t i = outside; outside > 0 && i < stack->python_count; i++)
        if (!vt_trace_code_is_library(finder->trace, stack->python[i].code_id) && level-- == 0)
            return i;
    return NONE;
}

static bool find_named_frames(struct search *search)
{
    bool any = false;
    for (uint32_t id = 0; id < search->finder->trace->stack_count; id++) {
        search->frames[id] = named_frame(search->finder, id);
        any |= search->frames[id] != NONE;
    }
    return any;
}

/* Without names: all that runs in functions that call a model. */
static void find_calling_frames(struct search *search, uint32_t level)
{
    const struct vt_trace *trace = search->finder->trace;
    uint8_t *calls = vt_allocate_zeros(trace->code_count + 1, 1);
    for (uint32_t id = 0; id < trace->stack_count; id++) {
        const uint32_t frame = calling_frame(search->finder, id, level);
        if (frame != NONE && trace->stacks[id].python[frame].code_id < trace->code_count)
            calls[trace->stacks[id].python[frame].code_id] = 1;
    }
    for (uint32_t id = 0; id < trace->stack_count; id++) {
        const struct vt_trace_stack *stack = &trace->stacks[id];
        search->frames[id] = NONE;
        for (uint32_t i = 0; i < stack->python_count && search->frames[id] == NONE; i++)
            if (stack->python[i].code_id < trace->code_count && calls[stack->python[i].code_id])
                search->frames[id] = i;
    }
    free(calls);
}

static uint32_t place_at(struct search *search, const struct vt_python_frame *frame)
{
    const uint64_t key = vt_mix(frame->code_id, (uint64_t)(uint32_t)frame->instruction_offset + 1);
    uint32_t place = vt_index_get(&search->place_of, key);
    if (place != VT_INDEX_NONE)
        return place;
    place = (uint32_t)search->place_count;
    vt_index_put(&search->place_of, key, place);
    VT_APPEND(
        search->places, search->place_count, search->place_capacity,
        (struct place){.function = frame->code_id, .offset = frame->instruction_offset, .thread = NONE});
    return place;
}

static void begin_request(struct search *search, struct thread *thread, uint32_t function, uint32_t event)
{
    struct vt_requests *requests = search->requests;
    size_t ends = requests->count;
    thread->of = function;
    thread->request = (uint32_t)requests->count;
    thread->request_passes = 0;
    search->functions[function].requests++;
    VT_APPEND(requests->begins, requests->count, requests->capacity, event);
    VT_APPEND(requests->ends, ends, requests->end_capacity, event);
}

static bool begins(const struct thread *thread, const struct function *function, uint32_t code_id,
                   bool returns, bool comes_to_first)
{
    if (thread->of != code_id)
        return true;
    return thread->request_passes > 0 && (function->first == NONE ? returns : comes_to_first);
}

/* In the first round, counts visits and returns; in the second, requests. */
static void visit(struct search *search, uint32_t event, uint32_t number, bool is_second)
{
    const struct vt_event *events = search->finder->trace->events;
    struct thread *thread = &search->threads[number];
    const uint32_t frame = search->frames[events[event].stack_id];
    if (frame == NONE) {
        thread->function = thread->place = NONE;
        return;
    }
    const struct vt_python_frame *python =
        &search->finder->trace->stacks[events[event].stack_id].python[frame];
    const uint32_t at = place_at(search, python);
    struct function *function = &search->functions[python->code_id];
    struct place *place = &search->places[at];
    const bool enters = thread->function != python->code_id, comes = enters || thread->place != at;
    const bool returns = enters && thread->latest == python->code_id;
    if (!is_second) {
        place->visits += comes && (place->after != thread->passes || place->thread != number);
        place->after = thread->passes;
        place->thread = number;
        function->returns += returns;
        function->threads += enters && !returns;
    } else if (function->is_told &&
               begins(thread, function, python->code_id, returns, comes && at == function->first)) {
        begin_request(search, thread, python->code_id, event);
    }
    if (is_second && function->is_told && thread->of == python->code_id)
        search->requests->ends[thread->request] = event;
    thread->function = thread->latest = python->code_id;
    thread->place = at;
    function->passes += !is_second && search->is_pass[event];
    thread->passes += search->is_pass[event];
    thread->request_passes += search->is_pass[event];
}

static void go_through(struct search *search, bool is_second)
{
    const struct vt_finder *finder = search->finder;
    size_t next = 0;
    for (size_t i = 0; i <= finder->thread_count; i++)
        search->threads[i] = (struct thread){.function = NONE, .latest = NONE, .of = NONE, .place = NONE};
    for (uint32_t i = 0; i < finder->trace->event_count; i++) {
        bool in_module =
            next < finder->phases->module_event_count && finder->phases->module_events[next] == i;
        next += in_module;
        if (in_module || finder->holds[i] == HOLDS_MADE)
            visit(search, i, finder->thread_of_stack[finder->trace->events[i].stack_id], is_second);
    }
}

static void find_first_places(struct search *search)
{
    for (uint32_t i = 0; i < search->finder->trace->code_count; i++)
        search->functions[i].first = NONE;
    for (uint32_t i = 0; i < search->place_count; i++) {
        const struct place *place = &search->places[i];
        uint32_t *first = &search->functions[place->function].first;
        const struct place *best = *first == NONE ? place : &search->places[*first];
        if (*first == NONE ||
            ((place->visits > 1) != (best->visits > 1) ? place->visits > 1 : place->offset < best->offset))
            *first = i;
    }
}

/* A place that passes in a loop do not come to tells the calls of a function. (That of an unnamed one must be
 * left between them: rounds of a loop in one call are no calls.) So do returns to a named one, unless it
 * hands out a result after each pass and goes on, or has one pass only. */
static void settle_function(struct search *search, uint32_t code_id)
{
    struct function *function = &search->functions[code_id];
    const uint32_t first = function->first;
    const uint32_t visits = first == NONE ? 0 : search->places[first].visits;
    const bool named = search->requests->are_named;
    const uint32_t entered = function->threads + function->returns;
    function->first = NONE;
    if (visits * 2 <= function->passes &&
        (named ? visits > 1 || entered == 1 : visits > 1 && entered >= visits)) {
        function->first = first;
        function->is_told = true;
    } else {
        function->is_told =
            named && visits > 1 && function->returns >= function->threads && entered * 2 <= function->passes;
    }
}

#define TOLD_PART 10u /* of the passes at most may be in no request, such as those that warm up */

static void settle_functions(struct search *search)
{
    const size_t code_count = search->finder->trace->code_count;
    uint32_t told = 0, most = 0;
    find_first_places(search);
    for (uint32_t i = 0; i < code_count; i++) {
        if (!search->functions[i].passes)
            continue;
        settle_function(search, i);
        told += search->functions[i].is_told ? search->functions[i].passes : 0;
        if (search->functions[i].is_told && search->functions[i].passes > most) {
            most = search->functions[i].passes;
            search->requests->function = search->finder->trace->codes[i].name;
        }
    }
    search->requests->are_told = told > 0 && told >= search->requests->passes / TOLD_PART * (TOLD_PART - 1);
}

void vt_requests_find(const struct vt_finder *finder, const struct vt_model_calls *calls,
                      struct vt_requests *requests)
{
    const struct vt_trace *trace = finder->trace;
    struct search search = {.finder = finder, .requests = requests};
    search.frames = vt_allocate_zeros(trace->stack_count + 1, sizeof *search.frames);
    search.is_pass = vt_allocate_zeros(trace->event_count + 1, 1);
    search.functions = vt_allocate_zeros(trace->code_count + 1, sizeof *search.functions);
    search.threads = vt_allocate_zeros(finder->thread_count + 1, sizeof *search.threads);
    for (size_t i = 0; i < calls->count; i++) {
        search.is_pass[calls->items[i].event] = calls->items[i].is_pass;
        if (calls->items[i].is_pass)
            requests->passes += i ? calls->items[i].passes : 1;
    }
    requests->are_named = find_named_frames(&search);
    for (uint32_t level = 0; level < (requests->are_named ? 1 : LEVELS) && !requests->are_told; level++) {
        if (!requests->are_named)
            find_calling_frames(&search, level);
        memset(search.functions, 0, (trace->code_count + 1) * sizeof *search.functions);
        vt_index_free(&search.place_of);
        search.place_count = 0;
        go_through(&search, false);
        settle_functions(&search);
    }
    requests->are_told &= trace->gap_count == 0;
    if (requests->are_told)
        go_through(&search, true);
    free(search.frames);
    free(search.is_pass);
    free(search.functions);
    free(search.threads);
    free(search.places);
    vt_index_free(&search.place_of);
}
