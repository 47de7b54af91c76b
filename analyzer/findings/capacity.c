/* How many more calls of a model fit the GPU while its cache grows: the last call is repeated, event by
 * event, with blocks that keep growing as they did, until a request fails. */
#include "findings/capacity.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/allocate.h"
#include "base/index.h"
#include "findings/allocator.h"
#include "format/allocator.h"

#define LEAST_CALLS 4u      /* alike, to see how blocks grow */
#define MOST_CALLS 4096u    /* examined */
#define MOST_TAKEN 4000000u /* simulated blocks */
#define MOST_COPIES 100000u

/* The size of one block of a call: `bytes` in the call `at`, and `growth` more with each call. */
struct line {
    double at, bytes, growth;
};

/* One event of a call: it makes its block number `ordinal`, or frees that of `age` calls before. */
struct deed {
    uint32_t ordinal, age;
    bool takes;
};

struct fit {
    const struct vt_attribution *attribution;
    const struct vt_replay *replay;
    int device_index;
    const struct vt_step *steps; /* the calls */
    size_t calls;
    uint32_t *blocks; /* allocations of all calls, in order */
    size_t block_count, block_capacity;
    size_t *first;   /* by call: of its blocks; one more than calls */
    size_t alike;    /* how many of the last calls make the same blocks */
    size_t per_call; /* blocks */
    struct line *lines;
    struct deed *deeds;
    size_t deed_count, deed_capacity;
    uint32_t oldest; /* age of what a call frees, at most */
};

static bool is_block(const struct fit *fit, size_t index)
{
    const struct vt_allocation *block = &fit->replay->allocations[index];
    return block->kind == VT_ALLOCATION_BLOCK && block->device_index == fit->device_index;
}

static void list_blocks(struct fit *fit)
{
    const struct vt_replay *replay = fit->replay;
    fit->first = vt_allocate_zeros(fit->calls + 1, sizeof *fit->first);
    for (size_t call = 0; call < fit->calls; call++) {
        for (size_t i = vt_made_from(replay, fit->steps[call].first_event);
             i < replay->allocation_count &&
             replay->allocations[i].alloc_event <= fit->steps[call].last_event;
             i++)
            if (is_block(fit, i))
                VT_APPEND(fit->blocks, fit->block_count, fit->block_capacity, (uint32_t)i);
        fit->first[call + 1] = fit->block_count;
    }
}

static const struct vt_allocation *block_of(const struct fit *fit, size_t call, size_t ordinal)
{
    return &fit->replay->allocations[fit->blocks[fit->first[call] + ordinal]];
}

static bool are_alike(const struct fit *fit, size_t call, size_t other)
{
    size_t count = fit->first[call + 1] - fit->first[call];
    if (count != fit->first[other + 1] - fit->first[other])
        return false;
    for (size_t i = 0; i < count; i++) {
        const char *left = vt_operator_of(fit->attribution, block_of(fit, call, i)->stack_id);
        const char *right = vt_operator_of(fit->attribution, block_of(fit, other, i)->stack_id);
        if (strcmp(left ? left : "", right ? right : "") != 0)
            return false;
    }
    return true;
}

/* Whether a block that grew before has its full size: it is of one size in the later half, although larger
 * holes than it needs cannot hide so much growth. */
static bool is_full(const struct fit *fit, size_t ordinal, double growth)
{
    size_t half = fit->alike / 2;
    uint64_t bytes = block_of(fit, fit->calls - 1, ordinal)->bytes;
    for (size_t call = fit->calls - half; call < fit->calls; call++)
        if (block_of(fit, call, ordinal)->bytes != bytes)
            return false;
    return bytes <= VT_TORCH_SMALL_BYTES || growth * (double)half > (double)VT_TORCH_SMALL_BYTES;
}

/* A block is as large as its request, or larger: the line is the longest edge of the hull below the sizes
 * seen. */
static void fit_line(const struct fit *fit, size_t ordinal, struct line *line)
{
    size_t count = 0, begin = fit->calls - fit->alike, best = 0;
    struct {
        double x, y;
    } *hull = vt_allocate(fit->alike * sizeof *hull);
    for (size_t call = begin; call < fit->calls; call++) {
        double x = (double)call, y = (double)block_of(fit, call, ordinal)->bytes;
        while (count > 1 && (hull[count - 1].y - hull[count - 2].y) * (x - hull[count - 2].x) >=
                                (y - hull[count - 2].y) * (hull[count - 1].x - hull[count - 2].x))
            count--;
        hull[count].x = x;
        hull[count++].y = y;
    }
    for (size_t i = 1; i + 1 < count; i++)
        if (hull[i + 1].x - hull[i].x >= hull[best + 1].x - hull[best].x)
            best = i;
    double growth = (hull[best + 1].y - hull[best].y) / (hull[best + 1].x - hull[best].x);
    *line = (struct line){hull[best].x, hull[best].y, growth};
    if (growth <= 0 || is_full(fit, ordinal, growth))
        *line = (struct line){0, hull[count - 1].y, 0};
    free(hull);
}

/* Whether a block that grows is smaller in some call than in the one before, which rounding does not explain:
 * then calls of several sequences alternate. */
static bool shrinks(const struct fit *fit, size_t ordinal)
{
    for (size_t call = fit->calls - fit->alike + 1; call < fit->calls; call++) {
        uint64_t before = block_of(fit, call - 1, ordinal)->bytes;
        uint64_t rounding = before > VT_TORCH_SMALL_BYTES ? VT_TORCH_SMALL_BYTES : 0;
        if (block_of(fit, call, ordinal)->bytes + rounding < before)
            return true;
    }
    return false;
}

static int compare_index(const void *block, const void *allocation)
{
    return vt_order(*(const uint32_t *)block, *(const uint32_t *)allocation);
}

/* The call and ordinal of a block; false if it is older than the calls examined. */
static bool find_block(const struct fit *fit, uint32_t allocation, size_t *call, size_t *ordinal)
{
    size_t at =
        vt_lower_bound(fit->blocks, fit->block_count, sizeof *fit->blocks, &allocation, compare_index);
    if (at == fit->block_count || fit->blocks[at] != allocation)
        return false;
    *call = fit->calls - 1;
    while (fit->first[*call] > at)
        --*call;
    *ordinal = at - fit->first[*call];
    return *call >= fit->calls - fit->alike;
}

/* What the last call does, in order. */
static void list_deeds(struct fit *fit)
{
    const struct vt_replay *replay = fit->replay;
    const struct vt_step *last = &fit->steps[fit->calls - 1];
    uint32_t made = 0;
    for (uint32_t event = last->first_event; event <= last->last_event; event++) {
        for (uint32_t i = replay->first_freed[event]; i != VT_NEVER; i = replay->next_freed[i]) {
            size_t call, ordinal;
            if (!is_block(fit, i) || !find_block(fit, i, &call, &ordinal))
                continue;
            uint32_t age = (uint32_t)(fit->calls - 1 - call);
            fit->oldest = age > fit->oldest ? age : fit->oldest;
            VT_APPEND(fit->deeds, fit->deed_count, fit->deed_capacity,
                      (struct deed){.ordinal = (uint32_t)ordinal, .age = age});
        }
        for (; made < fit->per_call && block_of(fit, fit->calls - 1, made)->alloc_event == event; made++)
            VT_APPEND(fit->deeds, fit->deed_count, fit->deed_capacity,
                      (struct deed){.ordinal = made, .takes = true});
    }
}

/* False if the calls are too few or too different. */
static bool learn_calls(struct fit *fit)
{
    list_blocks(fit);
    fit->alike = 1;
    fit->per_call = fit->first[fit->calls] - fit->first[fit->calls - 1];
    while (fit->alike < fit->calls && are_alike(fit, fit->calls - 1, fit->calls - 1 - fit->alike))
        fit->alike++;
    if (fit->alike < LEAST_CALLS || fit->per_call == 0)
        return false;
    fit->lines = vt_allocate_zeros(fit->per_call, sizeof *fit->lines);
    list_deeds(fit);
    for (size_t i = 0; i < fit->per_call; i++) {
        fit_line(fit, i, &fit->lines[i]);
        if (fit->lines[i].growth > 0 && shrinks(fit, i))
            return false;
    }
    return true;
}

/* By how much what calls leave of keys and values grows with each. */
static double cache_growth(const struct fit *fit)
{
    double growth = 0;
    for (size_t i = 0; i < fit->per_call; i++) {
        const struct vt_allocation *block = block_of(fit, fit->calls - 1, i);
        if (block->free_event > fit->steps[fit->calls - 1].last_event &&
            fit->attribution->labels[block - fit->replay->allocations].category == VT_CATEGORY_KV_CACHE)
            growth += fit->lines[i].growth;
    }
    return growth;
}

/* Repeats the last call until a request fails. held: by age and ordinal, as a ring. */
static void repeat_call(const struct fit *fit, struct vt_allocator *allocator, uint32_t *held,
                        struct vt_capacity *found)
{
    size_t ages = fit->oldest + 1u, taken = 0;
    for (size_t age = 0; age < ages; age++)
        for (size_t i = 0; i < fit->per_call; i++)
            held[(ages - 1 - age) * fit->per_call + i] =
                vt_allocator_find(allocator, fit->blocks[fit->first[fit->calls - 1 - age] + i]);
    for (size_t call = 0;; call++) {
        memset(&held[call % ages * fit->per_call], 0xff, fit->per_call * sizeof *held);
        for (size_t i = 0; i < fit->deed_count; i++) {
            const struct deed *deed = &fit->deeds[i];
            const struct line *line = &fit->lines[deed->ordinal];
            uint32_t *block = &held[(call + ages - deed->age) % ages * fit->per_call + deed->ordinal];
            if (deed->takes) {
                double bytes = line->bytes + line->growth * ((double)(fit->calls + call) - line->at);
                *block = vt_allocator_take(allocator, (uint64_t)ceil(bytes));
                if (*block == VT_NO_BLOCK)
                    return;
                found->ended = ++taken >= MOST_TAKEN;
            } else if (*block != VT_NO_BLOCK) {
                vt_allocator_give(allocator, *block);
                *block = VT_NO_BLOCK;
            }
            if (found->ended)
                return;
        }
        found->count = call + 1;
    }
}

struct vt_capacity vt_capacity_calls(const struct vt_attribution *attribution, int device_index,
                                     const struct vt_step *steps, size_t calls, uint64_t free_bytes)
{
    size_t left_out = calls > MOST_CALLS ? calls - MOST_CALLS : 0;
    struct fit fit = {.attribution = attribution,
                      .replay = attribution->replay,
                      .device_index = device_index,
                      .steps = steps + left_out,
                      .calls = calls - left_out};
    struct vt_allocator *allocator =
        fit.calls >= LEAST_CALLS && learn_calls(&fit)
            ? vt_allocator_make(fit.replay, device_index, fit.steps[fit.calls - 1].last_event, free_bytes)
            : NULL;
    struct vt_capacity found = {.known = allocator != NULL};
    if (allocator) {
        uint32_t *held = vt_allocate((fit.oldest + 1u) * fit.per_call * sizeof *held);
        found.cache_bytes_per_call = (uint64_t)(cache_growth(&fit) + 0.5);
        repeat_call(&fit, allocator, held, &found);
        free(held);
    }
    vt_allocator_free(allocator);
    free(fit.blocks);
    free(fit.first);
    free(fit.lines);
    free(fit.deeds);
    return found;
}

struct vt_capacity vt_capacity_copies(const struct vt_replay *replay, int device_index, uint32_t event_index,
                                      const uint64_t *bytes, size_t count, uint64_t free_bytes)
{
    struct vt_allocator *allocator =
        count ? vt_allocator_make(replay, device_index, event_index, free_bytes) : NULL;
    struct vt_capacity found = {.known = allocator != NULL};
    uint32_t block = 0;
    for (size_t taken = 0; allocator && block != VT_NO_BLOCK && !found.ended; taken++) {
        block = vt_allocator_take(allocator, bytes[taken % count]);
        found.count = taken / count;
        found.ended = taken >= MOST_TAKEN || found.count >= MOST_COPIES;
    }
    vt_allocator_free(allocator);
    return found;
}
