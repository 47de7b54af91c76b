/* Outermost calls of models. Each is a forward pass, but for the parts of a model that the script itself puts
 * together: several modules called one after another, in each round the same. */
#include "attribute/model_calls.h"

#include <stdlib.h>
#include <string.h>

#include "attribute/event_phases.h"
#include "attribute/warm_up.h"
#include "base/allocate.h"
#include "trace/digest_events.h"

#define NONE UINT32_MAX
#define LAUNCHED 0 /* the model of all graphs that are launched outside of modules */

/* Where a stack calls a model. */
struct place {
    uint64_t outer; /* of the outermost module and the frames outside of it, 0 = not known */
    uint64_t part;  /* of the outermost module and the one that it calls, or of the code */
    uint32_t code;  /* the same for equal code in one module, whatever the thread */
    bool copies;    /* or makes values, as a call may do for each of its layers */
};

/* What comes after a kind of call, on any thread. Kinds are of one model if a module of it calls
 * the same part in both. (Slices are made for one call, and may lie where the one before lay.) */
struct kind {
    uint32_t stack_id;       /* of one of its calls */
    uint32_t model;          /* a kind of the same model; its own number in one of them */
    uint32_t count, repeats; /* calls of the model; those that follow one of them directly */
    uint32_t after;          /* the kind that always comes after it; NONE = none yet */
    bool after_differs;
};

struct thread {
    uint64_t outer; /* of its open call */
    uint32_t begun; /* the code that its open call began with; NONE = none is open */
    uint32_t last;  /* kind of its last call; NONE = none */
    bool copies;    /* and makes values, all that its open call did so far */
    bool has_input;
};

struct search {
    const struct vt_finder *finder;
    struct vt_model_calls *calls;
    struct place *places; /* by stack */
    struct thread *threads;
    struct kind *kinds;
    size_t kind_count, kind_capacity;
    struct vt_index kind_of; /* code, or place and module → kind */
    struct vt_index kind_of_part;
};

/* The code of a stack and its innermost module, whatever the thread: a server answers requests of one kind on
 * many. */
static uint64_t code_of(const struct vt_trace *trace, uint32_t stack_id)
{
    const struct vt_trace_stack *stack = &trace->stacks[stack_id];
    uint64_t key = vt_hash_bytes(stack->native, stack->native_count * sizeof *stack->native, VT_HASH_START);
    uint64_t module = 0; /* those around it may be made for one call, such as slices */
    for (uint32_t i = 0; i < stack->python_count; i++) {
        const struct vt_python_frame *frame = &stack->python[i];
        key = vt_mix(key, vt_trace_line_key(trace, frame));
        if (frame->self_address && module == 0)
            module = frame->self_address;
    }
    return vt_mix(key, module);
}

static uint64_t part_of(const struct vt_trace_stack *stack)
{
    uint64_t module = 0, inner = 0;
    for (uint32_t i = 0; i < stack->python_count; i++) {
        const uint64_t self = stack->python[i].self_address;
        if (self && self != module) {
            inner = module;
            module = self;
        }
    }
    return vt_mix(module, inner);
}

static void read_places(struct search *search)
{
    const struct vt_trace *trace = search->finder->trace;
    struct vt_index codes = {0};
    for (uint32_t id = 0; id < trace->stack_count; id++) {
        const uint64_t key = code_of(trace, id);
        struct place *place = &search->places[id];
        place->code = vt_index_get(&codes, key);
        if (place->code == VT_INDEX_NONE)
            vt_index_put(&codes, key, place->code = id);
        place->copies = (vt_finder_traits(search->finder, id) & VT_TRAIT(SOURCE)) != 0;
        place->part = vt_mix(place->code, 1);
        if (!(trace->stacks[id].flags & VT_STACK_PYTHON_TRUNCATED) &&
            vt_call_code(search->finder->sites, id, &place->outer))
            place->part = part_of(&trace->stacks[id]);
        else
            place->outer = 0;
    }
    vt_index_free(&codes);
}

/* The launch of a graph outside of modules is a call by itself. */
static bool is_whole(const struct vt_event *event, const struct place *place)
{
    return event->kind == VT_EVENT_GRAPH_LAUNCH && !place->outer;
}

/* A call began before where its first code comes again, or where the model or a frame outside of it is
 * another. */
static bool begins_call(const struct thread *thread, const struct place *place, const struct vt_event *event)
{
    if (thread->begun == NONE || event->kind == VT_EVENT_CALL || is_whole(event, place))
        return true;
    return (thread->begun == place->code && !place->copies) ||
           (place->outer && thread->outer && place->outer != thread->outer);
}

static uint32_t model_of(const struct kind *kinds, uint32_t kind)
{
    while (kinds[kind].model != kind)
        kind = kinds[kind].model;
    return kind;
}

/* The open call of this kind has come to a part. */
static void note_part(struct search *search, uint32_t kind, uint64_t part)
{
    const uint32_t other = vt_index_get(&search->kind_of_part, part);
    if (other == VT_INDEX_NONE)
        vt_index_put(&search->kind_of_part, part, kind);
    else
        search->kinds[model_of(search->kinds, kind)].model = model_of(search->kinds, other);
}

/* Calls are of one kind if they begin with the same code, or at the same place with the same model: the first
 * may run other code. */
static uint32_t kind_at(struct search *search, uint32_t stack_id)
{
    const struct place *place = &search->places[stack_id];
    const uint64_t by_code = vt_mix(place->code, 1), by_place = vt_mix(place->outer, 2);
    uint32_t kind = vt_index_get(&search->kind_of, by_code);
    if (kind == VT_INDEX_NONE && place->outer)
        kind = vt_index_get(&search->kind_of, by_place);
    if (kind == VT_INDEX_NONE) {
        kind = (uint32_t)search->kind_count;
        VT_APPEND(search->kinds, search->kind_count, search->kind_capacity,
                  (struct kind){.stack_id = stack_id, .model = kind, .after = NONE});
    }
    vt_index_put(&search->kind_of, by_code, kind);
    if (place->outer)
        vt_index_put(&search->kind_of, by_place, kind);
    return kind;
}

static void note_next(struct kind *first, uint32_t after)
{
    first->after_differs |= first->after != NONE && first->after != after;
    first->after = after;
}

static void add_call(struct search *search, uint32_t event, uint32_t number)
{
    const uint32_t stack_id = search->finder->trace->events[event].stack_id;
    struct thread *thread = &search->threads[number];
    const uint32_t kind = kind_at(search, stack_id);
    VT_APPEND(search->calls->items, search->calls->count, search->calls->capacity,
              (struct vt_model_call){
                  .event = event, .thread = number, .kind = kind, .has_input = thread->has_input});
    thread->last = kind;
}

static void enter(struct search *search, uint32_t event, uint32_t number)
{
    struct thread *thread = &search->threads[number];
    const struct place *place = &search->places[search->finder->trace->events[event].stack_id];
    const bool begins = begins_call(thread, place, &search->finder->trace->events[event]);
    if (begins)
        add_call(search, event, number);
    note_part(search, thread->last,
              is_whole(&search->finder->trace->events[event], place) ? LAUNCHED : place->part);
    if (begins || thread->copies) {
        thread->begun = place->code;
        thread->copies = place->copies;
    }
    thread->outer = place->outer;
    thread->has_input = false;
}

/* A model that is no module may call modules. */
static bool is_inside(const struct thread *thread, const struct place *place)
{
    return thread->begun != NONE && place->outer && place->outer == thread->outer;
}

static void list_calls(struct search *search)
{
    const struct vt_finder *finder = search->finder;
    const uint64_t input = VT_TRAIT(SOURCE) | VT_TRAIT(DATA);
    size_t next = 0;
    for (uint32_t i = 0; i < finder->trace->event_count; i++) {
        const uint32_t stack_id = finder->trace->events[i].stack_id;
        const uint32_t number = finder->thread_of_stack[stack_id];
        struct thread *thread = &search->threads[number];
        if (next < finder->phases->module_event_count && finder->phases->module_events[next] == i) {
            next++;
            enter(search, i, number);
        } else if (finder->holds[i] == HOLDS_MADE && !is_inside(thread, &search->places[stack_id])) {
            thread->begun = NONE;
            thread->has_input |= (vt_finder_traits(finder, stack_id) & input) != 0;
        }
    }
}

/* Called one after the other by one function, the second further below. What a function calls at one place
 * is chosen each time: an endpoint, a model. */
static bool are_in_sequence(const struct vt_trace *trace, uint32_t left_id, uint32_t right_id)
{
    const struct vt_trace_stack *left = &trace->stacks[left_id], *right = &trace->stacks[right_id];
    uint32_t i = left->python_count, k = right->python_count;
    while (i > 0 && k > 0) {
        const struct vt_python_frame *one = &left->python[--i], *other = &right->python[--k];
        if (one->code_id != other->code_id)
            return false;
        if (one->instruction_offset != other->instruction_offset)
            return one->instruction_offset < other->instruction_offset;
    }
    return false;
}

#define REPEATS_PART 4u /* of a model's calls: then each is a pass by itself */

static bool repeats(const struct search *search, uint32_t kind)
{
    const struct kind *model = &search->kinds[model_of(search->kinds, kind)];
    return model->repeats > 0 && model->repeats * REPEATS_PART >= model->count;
}

/* A part of each round of another kind, the last one that its thread called, with an input of its own. */
static bool is_companion(const struct search *search, uint32_t last, const struct kind *kind)
{
    const struct kind *before = &search->kinds[last];

    return before != kind && !before->after_differs &&
           are_in_sequence(search->finder->trace, before->stack_id, kind->stack_id);
}

static bool is_counted(const struct search *search, const struct vt_model_call *call)
{
    return search->finder->trace->events[call->event].kind == VT_EVENT_CALL;
}

/* Which calls follow which. */
static void read_order(struct search *search)
{
    for (size_t i = 0; i <= search->finder->thread_count; i++)
        search->threads[i].last = NONE;
    for (size_t i = 0; i < search->calls->count; i++) {
        const struct vt_model_call *call = &search->calls->items[i];
        struct thread *thread = &search->threads[call->thread];
        const uint32_t model = model_of(search->kinds, call->kind);
        search->kinds[model].count++;
        if (thread->last != NONE && !is_counted(search, call)) {
            search->kinds[model].repeats += model_of(search->kinds, thread->last) == model;
            note_next(&search->kinds[thread->last], call->kind);
        }
        /* after calls that are only counted, the next one may be any part of a round */
        thread->last = is_counted(search, call) ? NONE : call->kind;
    }
}

/* A pass begins with a model that this round of its thread called already, with one that is called again and
 * again, or with one that has its own input. */
static void find_passes(struct search *search)
{
    struct vt_index round_of = {0}; /* thread and kind → the round of its last call */
    uint32_t *rounds = vt_allocate_zeros(search->finder->thread_count + 1, sizeof *rounds), latest = 0;
    for (size_t i = 0; i <= search->finder->thread_count; i++)
        search->threads[i].last = NONE;
    for (size_t i = 0; i < search->calls->count; i++) {
        struct vt_model_call *call = &search->calls->items[i];
        struct thread *thread = &search->threads[call->thread];
        const struct kind *kind = &search->kinds[call->kind];
        const uint64_t key = vt_mix(call->thread + 1, call->kind);
        call->is_pass = thread->last == NONE || repeats(search, call->kind) ||
                        repeats(search, thread->last) ||
                        vt_index_get(&round_of, key) == rounds[call->thread] ||
                        (call->has_input && !is_companion(search, thread->last, kind));
        if (call->is_pass)
            rounds[call->thread] = ++latest;
        vt_index_put(&round_of, key, rounds[call->thread]);
        thread->last = call->kind;
    }
    vt_index_free(&round_of);
    free(rounds);
}

/* Of calls that are only counted, as many are passes as of the others. */
static void count_passes(struct search *search)
{
    struct vt_model_calls *calls = search->calls;
    size_t passes = 0, seen = 0;

    for (size_t i = 0; i < calls->count; i++)
        if (!is_counted(search, &calls->items[i])) {
            passes += calls->items[i].is_pass;
            seen++;
        }
    for (size_t i = 0; i < calls->count; i++) {
        struct vt_model_call *call = &calls->items[i];
        const uint32_t begun = vt_calls_begun(&search->finder->trace->events[call->event]);

        call->passes = is_counted(search, call) && seen
                           ? (uint32_t)((double)begun * (double)passes / (double)seen + 0.5)
                           : begun;
    }
}

void vt_model_calls_find(const struct vt_finder *finder, struct vt_model_calls *calls)
{
    struct search search = {.finder = finder, .calls = calls};
    search.places = vt_allocate_zeros(finder->trace->stack_count + 1, sizeof *search.places);
    search.threads = vt_allocate_zeros(finder->thread_count + 1, sizeof *search.threads);
    for (size_t i = 0; i <= finder->thread_count; i++)
        search.threads[i] = (struct thread){.begun = NONE, .last = NONE};
    read_places(&search);
    list_calls(&search);
    calls->first_event = vt_warm_up_drop(finder, calls);
    read_order(&search);
    find_passes(&search);
    count_passes(&search);
    vt_index_free(&search.kind_of);
    vt_index_free(&search.kind_of_part);
    free(search.places);
    free(search.threads);
    free(search.kinds);
}

void vt_model_calls_free(struct vt_model_calls *calls)
{
    free(calls->items);
    *calls = (struct vt_model_calls){0};
}
