/* Signs of a cache of keys and values: what outlives the call of a model that made it, and what grows from
 * call to call. */
#include "attribute/caches.h"

#include <stdlib.h>

#include "attribute/phases.h"
#include "attribute/rules.h"
#include "base/allocate.h"
#include "base/index.h"

#define NO_CALL UINT32_MAX

/* A call of a model, from outside of any module. */
struct call {
    uint32_t first_event, last_event; /* of its allocations */
    uint32_t end_event;               /* the thread's next allocation; VT_NEVER = none */
    uint32_t concatenation;           /* the last so far that the call made, by allocation; VT_NEVER = none */
};

struct open_call {
    uint64_t outer, first_key; /* of the stacks: beyond the outermost module, and of its first allocation */
    uint32_t call;             /* NO_CALL = none */
    uint32_t calls;            /* of the thread so far */
};

struct finder {
    const struct vt_replay *replay;
    const struct vt_traits_by_stack *sites;
    const struct vt_phases *phases;
    uint64_t *lives;
    uint64_t *inner, *outer; /* by stack; inner 0 = in no module */
    struct call *calls;
    size_t call_count, call_capacity;
    uint32_t *call_of; /* by allocation */
    struct open_call *open;
    size_t thread_count, thread_capacity;
    struct vt_index threads;
    struct vt_index latest,
        fed;               /* by inner key: what it made last; the concatenation that took what it made */
    struct vt_index grows; /* by part_of: those whose blocks grew */
};

static uint64_t traits_of(const struct finder *finder, const struct vt_allocation *block)
{
    return finder->sites->items[block->stack_id].traits;
}

static bool is_holder(const struct finder *finder, size_t index)
{
    return vt_holds_tensors(finder->phases, &finder->replay->allocations[index]);
}

/* ---- Calls ---- */

static void read_stacks(struct finder *finder)
{
    const struct vt_trace *trace = finder->replay->trace;
    const uint64_t others = VT_TRAIT(BACKWARD) | VT_TRAIT(OPTIMIZER);
    for (uint32_t id = 1; id < trace->stack_count; id++) {
        uint64_t traits = finder->sites->items[id].traits;
        if ((traits & VT_TRAIT(MODULE)) && !(traits & others))
            finder->inner[id] = vt_call_code(finder->sites, id, &finder->outer[id]);
    }
}

static struct open_call *open_call_of(struct finder *finder, uint32_t stack_id)
{
    uint64_t thread = finder->replay->trace->stacks[stack_id].thread_id;
    uint32_t number = vt_index_get(&finder->threads, thread);
    if (number == VT_INDEX_NONE) {
        number = (uint32_t)finder->thread_count;
        vt_index_put(&finder->threads, thread, number);
        VT_APPEND(finder->open, finder->thread_count, finder->thread_capacity,
                  (struct open_call){.call = NO_CALL});
    }
    return &finder->open[number];
}

/* A call ends with its thread's next allocation outside of it, or where its first allocation comes again. */
static void find_calls(struct finder *finder)
{
    const struct vt_replay *replay = finder->replay;
    for (size_t i = 0; i < replay->allocation_count; i++) {
        const struct vt_allocation *block = &replay->allocations[i];
        uint64_t key = finder->inner[block->stack_id], outer = finder->outer[block->stack_id];
        finder->call_of[i] = NO_CALL;
        if (!is_holder(finder, i))
            continue;
        struct open_call *open = open_call_of(finder, block->stack_id);
        if (open->call != NO_CALL && (key == 0 || key == open->first_key || outer != open->outer)) {
            finder->calls[open->call].end_event = block->alloc_event;
            open->call = NO_CALL;
        }
        if (key == 0)
            continue;
        if (open->call == NO_CALL) {
            *open = (struct open_call){.outer = outer,
                                       .first_key = key,
                                       .call = (uint32_t)finder->call_count,
                                       .calls = open->calls + 1};
            VT_APPEND(finder->calls, finder->call_count, finder->call_capacity,
                      (struct call){.first_event = block->alloc_event,
                                    .end_event = VT_NEVER,
                                    .concatenation = VT_NEVER});
        }
        finder->calls[open->call].last_event = block->alloc_event;
        finder->call_of[i] = open->call;
    }
}

static int compare_call(const void *call, const void *event)
{
    return ((const struct call *)call)->first_event <= *(const uint32_t *)event ? -1 : 1;
}

/* Calls that begin after the block was made and before it is freed. */
static size_t calls_served(const struct finder *finder, const struct vt_allocation *block)
{
    size_t before = vt_lower_bound(finder->calls, finder->call_count, sizeof *finder->calls,
                                   &block->alloc_event, compare_call);
    size_t until = block->free_event == VT_NEVER
                       ? finder->call_count
                       : vt_lower_bound(finder->calls, finder->call_count, sizeof *finder->calls,
                                        &block->free_event, compare_call);
    return until - before;
}

static void find_outliving(struct finder *finder)
{
    const struct vt_replay *replay = finder->replay;
    for (size_t i = 0; i < replay->allocation_count; i++) {
        const struct vt_allocation *block = &replay->allocations[i];
        if (!is_holder(finder, i))
            continue;
        bool outlives;
        if (finder->call_of[i] == NO_CALL) {
            outlives = calls_served(finder, block) > 0;
        } else {
            const struct call *call = &finder->calls[finder->call_of[i]];
            outlives = block->free_event > (call->end_event == VT_NEVER ? call->last_event : call->end_event);
        }
        if (outlives)
            finder->lives[i] |= VT_LIFE(OUTLIVES_CALL);
    }
}

/* ---- Growth ---- */

static bool may_grow(const struct finder *finder, size_t index)
{
    return finder->call_of[index] != NO_CALL &&
           (traits_of(finder, &finder->replay->allocations[index]) & VT_TRAIT(CONCATENATION));
}

/* The concatenation that took the block's place when it was freed: the same code made it last, in another
 * call. */
static size_t successor(const struct finder *finder, size_t index)
{
    const struct vt_allocation *block = &finder->replay->allocations[index];
    uint32_t latest = vt_index_get(&finder->latest, finder->inner[block->stack_id]);
    if (latest == VT_INDEX_NONE || finder->call_of[latest] == finder->call_of[index])
        return SIZE_MAX;
    const struct vt_allocation *larger = &finder->replay->allocations[latest];
    bool follows = larger->alloc_event > block->alloc_event && larger->free_event > block->free_event;
    return follows && larger->bytes >= block->bytes ? latest : SIZE_MAX;
}

/* The innermost module of a stack, or its function if there is none. What it concatenates grows together:
 * keys, values, and scales that are too small to be seen growing. */
static uint64_t part_of(const struct finder *finder, size_t index)
{
    const struct vt_trace_stack *stack =
        &finder->replay->trace->stacks[finder->replay->allocations[index].stack_id];
    for (uint32_t i = 0; i < stack->python_count; i++)
        if (stack->python[i].self_address)
            return stack->python[i].self_address;
    return stack->python_count > 0 ? stack->python[0].code_id : 0;
}

static void note_made(struct finder *finder, size_t index)
{
    uint32_t call = finder->call_of[index];
    if (call == NO_CALL)
        return;
    uint64_t key = finder->inner[finder->replay->allocations[index].stack_id];
    if (!may_grow(finder, index)) {
        vt_index_put(&finder->latest, key, (uint32_t)index);
        return;
    }
    finder->calls[call].concatenation = (uint32_t)index;
    vt_index_put(&finder->latest, key, (uint32_t)index);
}

/* The concatenation that was made last, just before the block was freed, in another call: a sequence's
 * beginning, or what the program made of the cache between two calls, is in it. */
static size_t joined_into(const struct finder *finder, size_t index, size_t last_made)
{
    const struct vt_allocation *blocks = finder->replay->allocations;
    bool joined = last_made > index && may_grow(finder, last_made) &&
                  finder->call_of[last_made] != finder->call_of[index] &&
                  blocks[last_made].bytes >= blocks[index].bytes;
    return joined ? last_made : SIZE_MAX;
}

/* `next`: what took the block's place, by allocation; SIZE_MAX = nothing. */
static void note_freed(struct finder *finder, size_t index, size_t last_made, size_t *next)
{
    const struct vt_allocation *block = &finder->replay->allocations[index];
    uint64_t key = finder->inner[block->stack_id];
    if (finder->call_of[index] == NO_CALL) {
        next[index] = joined_into(finder, index, last_made);
        return;
    }
    if (!(finder->lives[index] & VT_LIFE(OUTLIVES_CALL))) {
        uint32_t joined = finder->calls[finder->call_of[index]].concatenation;
        if (joined != VT_NEVER && joined >= index)
            vt_index_put(&finder->fed, key, joined);
        return;
    }
    if (!may_grow(finder, index)) {
        next[index] = joined_into(finder, index, last_made);
        return;
    }
    next[index] = successor(finder, index);
    bool larger = next[index] != SIZE_MAX && finder->replay->allocations[next[index]].bytes > block->bytes;
    if (larger)
        vt_index_put(&finder->grows, part_of(finder, index), 1);
}

static void follow_growth(struct finder *finder, size_t *next)
{
    const struct vt_replay *replay = finder->replay;
    size_t made = 0, last_made = 0;
    for (uint32_t event = 0; event < replay->trace->event_count; event++) {
        for (; made < replay->allocation_count && replay->allocations[made].alloc_event <= event; made++)
            if (is_holder(finder, made)) {
                last_made = made;
                note_made(finder, made);
            }
        for (uint32_t i = replay->first_freed[event]; i != VT_NEVER; i = replay->next_freed[i])
            if (is_holder(finder, i))
                note_freed(finder, i, last_made, next);
    }
}

/* What is concatenated in a call, or made of that between two calls. */
static bool may_be_grown(const struct finder *finder, size_t index)
{
    return is_holder(finder, index) && (finder->call_of[index] == NO_CALL || may_grow(finder, index));
}

/* The first stack of the same call on any thread; between calls the stack itself. */
static void find_codes(const struct finder *finder, uint32_t *code_of)
{
    struct vt_index codes = {0};
    for (uint32_t id = 0; id < finder->replay->trace->stack_count; id++) {
        uint32_t known = finder->inner[id] ? vt_index_get(&codes, finder->inner[id]) : id;
        code_of[id] = known == VT_INDEX_NONE ? id : known;
        if (known == VT_INDEX_NONE)
            vt_index_put(&codes, finder->inner[id], id);
    }
    vt_index_free(&codes);
}

/* If most of what a code made grew, all of it did: the last of a sequence goes with its call, or the trace
 * ends. */
static void mark_like_grown(struct finder *finder)
{
    const struct vt_replay *replay = finder->replay;
    struct {
        uint32_t all, grown;
    } *codes = vt_allocate_zeros(replay->trace->stack_count + 1, sizeof *codes);
    uint32_t *code_of = vt_allocate_zeros(replay->trace->stack_count + 1, sizeof *code_of);
    find_codes(finder, code_of);
    for (size_t i = 0; i < replay->allocation_count; i++) {
        uint32_t code = code_of[replay->allocations[i].stack_id];
        if (!may_be_grown(finder, i))
            continue;
        codes[code].all++;
        codes[code].grown += (finder->lives[i] & VT_LIFE(GROWN)) != 0;
    }
    for (size_t i = 0; i < replay->allocation_count; i++) {
        uint32_t code = code_of[replay->allocations[i].stack_id];
        if (may_be_grown(finder, i) && codes[code].grown * 2 >= codes[code].all)
            finder->lives[i] |= VT_LIFE(GROWN);
    }
    free(codes);
    free(code_of);
}

/* What a sequence begins with, before there is anything to concatenate: it outlives its call, where the same
 * code makes in other calls what goes when it has been concatenated. */
static void mark_beginnings(struct finder *finder)
{
    const struct vt_replay *replay = finder->replay;
    for (size_t i = 0; i < replay->allocation_count; i++) {
        if (finder->call_of[i] == NO_CALL || !(finder->lives[i] & VT_LIFE(OUTLIVES_CALL)))
            continue;
        uint32_t joined = vt_index_get(&finder->fed, finder->inner[replay->allocations[i].stack_id]);
        if (joined != VT_INDEX_NONE && finder->lives[joined] & VT_LIFE(GROWN))
            finder->lives[i] |= VT_LIFE(GROWN);
    }
}

static void mark_growth(struct finder *finder)
{
    const struct vt_replay *replay = finder->replay;
    size_t *next = vt_allocate((replay->allocation_count + 1) * sizeof *next);
    for (size_t i = 0; i < replay->allocation_count; i++)
        next[i] = SIZE_MAX;
    follow_growth(finder, next);
    for (size_t i = 0; i < replay->allocation_count; i++) {
        if (next[i] == SIZE_MAX || vt_index_get(&finder->grows, part_of(finder, next[i])) == VT_INDEX_NONE)
            continue;
        finder->lives[i] |= VT_LIFE(GROWN);
        finder->lives[next[i]] |= VT_LIFE(GROWN);
    }
    mark_like_grown(finder);
    mark_beginnings(finder);
    free(next);
}

/* A call is in flight from its first allocation to its last. */
static void count_concurrent(const struct finder *finder, uint32_t *concurrent, uint32_t *threads)
{
    size_t events = finder->replay->trace->event_count;
    int32_t *change = vt_allocate_zeros(events + 2, sizeof *change), flying = 0;
    for (size_t i = 0; i < finder->call_count; i++) {
        change[finder->calls[i].first_event]++;
        change[finder->calls[i].last_event + 1]--;
    }
    for (size_t i = 0; i <= events; i++) {
        flying += change[i];
        *concurrent = (uint32_t)flying > *concurrent ? (uint32_t)flying : *concurrent;
    }
    for (size_t i = 0; i < finder->thread_count; i++)
        *threads += finder->open[i].calls > 0;
    free(change);
}

void vt_caches_find(const struct vt_replay *replay, const struct vt_traits_by_stack *sites,
                    const struct vt_phases *phases, uint64_t *lives, uint32_t *concurrent, uint32_t *threads)
{
    size_t stacks = replay->trace->stack_count;
    struct finder finder = {.replay = replay, .sites = sites, .phases = phases, .lives = lives};
    finder.inner = vt_allocate_zeros(stacks + 1, sizeof *finder.inner);
    finder.outer = vt_allocate_zeros(stacks + 1, sizeof *finder.outer);
    finder.call_of = vt_allocate_zeros(replay->allocation_count + 1, sizeof *finder.call_of);
    read_stacks(&finder);
    find_calls(&finder);
    count_concurrent(&finder, concurrent, threads);
    find_outliving(&finder);
    mark_growth(&finder);
    vt_index_free(&finder.threads);
    vt_index_free(&finder.latest);
    vt_index_free(&finder.grows);
    vt_index_free(&finder.fed);
    free(finder.inner);
    free(finder.outer);
    free(finder.call_of);
    free(finder.calls);
    free(finder.open);
}
