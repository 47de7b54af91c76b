/* Signs of a cache of keys and values: what outlives the call of a model that made it, what grows from call
 * to call, and empty blocks of one size that many calls find. */
#include <errno.h>
#include <stdlib.h>

#include "attribute/phases.h"
#include "attribute/rules.h"
#include "base/index.h"

#define NO_CALL UINT32_MAX
#define SERVED_CALLS 3u /* that blocks of one size must serve */

/* A call of a model, from outside of any module. */
struct call {
    uint32_t first_event, last_event; /* of its allocations */
    uint32_t end_event;               /* the thread's next allocation; VT_NEVER = none */
};

struct open_call {
    uint64_t outer, first_key; /* of the stacks: beyond the outermost module, and of its first allocation */
    uint32_t call;             /* NO_CALL = none */
    uint32_t calls;            /* of the thread so far */
};

struct finder {
    const struct vt_replay *replay;
    const struct vt_sites *sites;
    const struct vt_phases *phases;
    uint32_t *lives;
    uint64_t *inner, *outer; /* by stack; inner 0 = in no module */
    struct call *calls;
    size_t call_count, call_capacity;
    uint32_t *call_of; /* by allocation */
    struct open_call *open;
    size_t thread_count, thread_capacity;
    struct vt_index threads;
    struct vt_index latest, grows; /* by inner key: the allocation made last; those whose blocks grew */
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

/* Hash of the outermost module and the Python frames beyond it. */
static uint64_t outer_key(const struct vt_trace_stack *stack)
{
    uint64_t key = 0;
    for (uint32_t i = 0; i < stack->python_count; i++) {
        const struct vt_python_frame *frame = &stack->python[i];
        key = frame->self_address
                  ? frame->self_address
                  : vt_mix(key, (uint64_t)frame->code_id << 32 | (uint32_t)frame->instruction_offset);
    }
    return key;
}

static void read_stacks(struct finder *finder)
{
    const struct vt_trace *trace = finder->replay->trace;
    const uint64_t others = VT_TRAIT(BACKWARD) | VT_TRAIT(OPTIMIZER);
    for (uint32_t id = 1; id < trace->stack_count; id++) {
        uint64_t traits = finder->sites->items[id].traits;
        if ((traits & VT_TRAIT(MODULE)) && !(traits & others)) {
            finder->inner[id] = vt_module_code(trace, id);
            finder->outer[id] = outer_key(&trace->stacks[id]);
        }
    }
}

static int open_call_of(struct finder *finder, uint32_t stack_id, struct open_call **found)
{
    uint64_t thread = finder->replay->trace->stacks[stack_id].thread_id;
    uint32_t number = vt_index_get(&finder->threads, thread);
    if (number == VT_INDEX_NONE) {
        number = (uint32_t)finder->thread_count;
        if (vt_index_put(&finder->threads, thread, number) ||
            VT_APPEND(finder->open, finder->thread_count, finder->thread_capacity,
                      (struct open_call){.call = NO_CALL}))
            return -ENOMEM;
    }
    *found = &finder->open[number];
    return 0;
}

/* A call ends with its thread's next allocation outside of it, or where its first allocation comes again. */
static int find_calls(struct finder *finder)
{
    const struct vt_replay *replay = finder->replay;
    for (size_t i = 0; i < replay->allocation_count; i++) {
        const struct vt_allocation *block = &replay->allocations[i];
        uint64_t key = finder->inner[block->stack_id], outer = finder->outer[block->stack_id];
        struct open_call *open;
        finder->call_of[i] = NO_CALL;
        if (!is_holder(finder, i))
            continue;
        if (open_call_of(finder, block->stack_id, &open))
            return -ENOMEM;
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
            if (VT_APPEND(finder->calls, finder->call_count, finder->call_capacity,
                          (struct call){.first_event = block->alloc_event, .end_event = VT_NEVER}))
                return -ENOMEM;
        }
        finder->calls[open->call].last_event = block->alloc_event;
        finder->call_of[i] = open->call;
    }
    return 0;
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
            if (outlives && block->alloc_event == call->last_event)
                finder->lives[i] |= VT_LIFE_ENDS_CALL;
        }
        if (outlives)
            finder->lives[i] |= VT_LIFE_OUTLIVES_CALL;
    }
}

/* ---- Growth ---- */

static bool may_grow(const struct finder *finder, size_t index)
{
    return finder->call_of[index] != NO_CALL &&
           (traits_of(finder, &finder->replay->allocations[index]) & VT_TRAIT(CONCATENATION));
}

/* The block that `index` gave way to when it was freed: a concatenation made last, by the same code, or
 * whatever code, and in another call. */
static size_t successor(const struct finder *finder, size_t index, size_t last_made)
{
    const struct vt_allocation *block = &finder->replay->allocations[index];
    uint32_t latest = may_grow(finder, index) ? vt_index_get(&finder->latest, finder->inner[block->stack_id])
                                              : VT_INDEX_NONE;
    size_t next = latest != VT_INDEX_NONE ? latest : last_made;
    if (next == SIZE_MAX || !may_grow(finder, next) || finder->call_of[next] == finder->call_of[index])
        return SIZE_MAX;
    const struct vt_allocation *larger = &finder->replay->allocations[next];
    bool follows = larger->alloc_event > block->alloc_event && larger->free_event > block->free_event;
    bool as_large = latest == VT_INDEX_NONE || larger->bytes >= block->bytes;
    return follows && as_large && (finder->lives[next] & VT_LIFE_OUTLIVES_CALL) ? next : SIZE_MAX;
}

/* Notes at each free what took the block's place: `next`, by allocation, SIZE_MAX = nothing. */
static int follow_growth(struct finder *finder, size_t *next)
{
    const struct vt_replay *replay = finder->replay;
    size_t made = 0, last_made = SIZE_MAX;
    int error = 0;
    for (uint32_t event = 0; event < replay->trace->event_count && !error; event++) {
        for (; made < replay->allocation_count && replay->allocations[made].alloc_event <= event; made++) {
            if (!is_holder(finder, made))
                continue;
            last_made = made;
            if (!error && may_grow(finder, made))
                error = vt_index_put(&finder->latest, finder->inner[replay->allocations[made].stack_id],
                                     (uint32_t)made);
        }
        for (uint32_t i = replay->first_freed[event]; i != VT_NEVER && !error; i = replay->next_freed[i]) {
            if (!is_holder(finder, i) || finder->call_of[i] == NO_CALL ||
                !(finder->lives[i] & VT_LIFE_OUTLIVES_CALL))
                continue;
            next[i] = successor(finder, i, last_made);
            if (next[i] != SIZE_MAX && may_grow(finder, i) &&
                replay->allocations[next[i]].bytes > replay->allocations[i].bytes)
                error = vt_index_put(&finder->grows, finder->inner[replay->allocations[i].stack_id], 1);
        }
    }
    return error;
}

/* What grew, and what else the same code made that outlives its call, if most of it grew. */
static int mark_growth(struct finder *finder)
{
    const struct vt_replay *replay = finder->replay;
    size_t *next = malloc((replay->allocation_count + 1) * sizeof *next);
    uint32_t *grown = calloc(replay->trace->stack_count + 1, sizeof *grown);
    uint32_t *kept = calloc(replay->trace->stack_count + 1, sizeof *kept);
    int error = next && grown && kept ? 0 : -ENOMEM;
    for (size_t i = 0; i < replay->allocation_count && !error; i++)
        next[i] = SIZE_MAX;
    if (!error)
        error = follow_growth(finder, next);
    for (size_t i = 0; i < replay->allocation_count && !error; i++) {
        if (next[i] == SIZE_MAX ||
            vt_index_get(&finder->grows, finder->inner[replay->allocations[next[i]].stack_id]) ==
                VT_INDEX_NONE)
            continue;
        finder->lives[i] |= VT_LIFE_GROWN;
        finder->lives[next[i]] |= VT_LIFE_GROWN;
    }
    for (int round = 0; round < 2 && !error; round++)
        for (size_t i = 0; i < replay->allocation_count; i++) {
            uint32_t stack_id = replay->allocations[i].stack_id;
            if (finder->call_of[i] == NO_CALL || !(finder->lives[i] & VT_LIFE_OUTLIVES_CALL))
                continue;
            if (round == 0) {
                kept[stack_id]++;
                grown[stack_id] += (finder->lives[i] & VT_LIFE_GROWN) != 0;
            } else if (grown[stack_id] * 2 >= kept[stack_id]) {
                finder->lives[i] |= VT_LIFE_GROWN;
            }
        }
    free(next);
    free(grown);
    free(kept);
    return error;
}

/* ---- Blocks of one size ---- */

static bool is_laid_out(const struct finder *finder, size_t index)
{
    const struct vt_allocation *block = &finder->replay->allocations[index];
    return is_holder(finder, index) && (traits_of(finder, block) & VT_TRAIT(BLANK)) &&
           (finder->lives[index] & VT_LIFE_OUTLIVES_CALL) && calls_served(finder, block) >= SERVED_CALLS;
}

static int find_several(struct finder *finder)
{
    const struct vt_replay *replay = finder->replay;
    struct vt_index sizes = {0};
    int error = 0;
    for (size_t i = 0; i < replay->allocation_count && !error; i++) {
        uint64_t bytes = replay->allocations[i].bytes;
        if (!is_laid_out(finder, i))
            continue;
        uint32_t count = vt_index_get(&sizes, bytes);
        error = vt_index_put(&sizes, bytes, count == VT_INDEX_NONE ? 1 : count + 1);
    }
    for (size_t i = 0; i < replay->allocation_count && !error; i++)
        if (is_laid_out(finder, i) && vt_index_get(&sizes, replay->allocations[i].bytes) > 1)
            finder->lives[i] |= VT_LIFE_SEVERAL;
    vt_index_free(&sizes);
    return error;
}

/* A call is in flight from its first allocation to its last. */
static int count_concurrent(const struct finder *finder, uint32_t *concurrent, uint32_t *threads)
{
    size_t events = finder->replay->trace->event_count;
    int32_t *change = calloc(events + 2, sizeof *change), flying = 0;
    if (!change)
        return -ENOMEM;
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
    return 0;
}

int vt_caches_find(const struct vt_replay *replay, const struct vt_sites *sites,
                   const struct vt_phases *phases, uint32_t *lives, uint32_t *concurrent, uint32_t *threads)
{
    size_t stacks = replay->trace->stack_count;
    struct finder finder = {.replay = replay, .sites = sites, .phases = phases, .lives = lives};
    finder.inner = calloc(stacks + 1, sizeof *finder.inner);
    finder.outer = calloc(stacks + 1, sizeof *finder.outer);
    finder.call_of = calloc(replay->allocation_count + 1, sizeof *finder.call_of);
    int error = finder.inner && finder.outer && finder.call_of ? 0 : -ENOMEM;
    if (!error) {
        read_stacks(&finder);
        error = find_calls(&finder);
    }
    if (!error)
        error = count_concurrent(&finder, concurrent, threads);
    if (!error) {
        find_outliving(&finder);
        error = mark_growth(&finder);
    }
    if (!error && phases->pass_count == 0)
        error = find_several(&finder);
    vt_index_free(&finder.threads);
    vt_index_free(&finder.latest);
    vt_index_free(&finder.grows);
    free(finder.inner);
    free(finder.outer);
    free(finder.call_of);
    free(finder.calls);
    free(finder.open);
    return error;
}
