/* Blocks that are as many times as large as the parameters: whole weights that a script gathers where each
 * process has a share of them (memory that something else fills), and gradients of each sample, which a pass
 * leaves that makes a graph (torch.func.vmap of grad; Jacobians have a row for each output). */
#include "attribute/multiples.h"

#include <stdlib.h>

#include "attribute/lives.h"
#include "attribute/sizes.h"
#include "base/allocate.h"
#include "format/allocator.h"

#define PROCESSES_MAXIMUM 1024

struct gathers {
    struct lives *lives;
    uint64_t *wholes; /* sorted sizes of what forward gathers and drops, each once */
    size_t whole_count;
    struct weight *shares; /* sorted sizes of parameters, each once; and how many have it */
    size_t share_count;
};

/* What may be gathered: memory without values, again and again, for a part of a step. */
static bool may_be_gathered(const struct lives *lives, size_t i)
{
    const uint64_t others = VT_TRAIT(OPTIMIZER) | VT_TRAIT(BUCKET) | VT_TRAIT(WORKSPACE);
    const struct vt_allocation *block = &lives->replay->allocations[i];
    return vt_lives_holds(lives, block) && vt_lives_has(lives, block, VT_TRAIT(UNFILLED)) &&
           !(lives->bits[i] & (VT_LIFE(GRAD_MODE) | VT_LIFE(OUTLIVES_STEP) | VT_LIFE(ONCE))) &&
           !vt_lives_has(lives, block, others);
}

static int compare_bytes(const void *a, const void *b)
{
    const uint64_t *left = a, *right = b;
    return (*left > *right) - (*left < *right);
}

/* What forward makes for later is no gathered weight: it would be gathered again for backward. */
static void list_wholes(struct gathers *gathers)
{
    const struct vt_replay *replay = gathers->lives->replay;
    const struct vt_phases *phases = gathers->lives->phases;
    size_t capacity = 0, count = 0;
    for (size_t i = 0; i < replay->allocation_count; i++) {
        size_t span = vt_span_index(phases, replay->allocations[i].alloc_event);
        if (phases->spans[span].phase != VT_PHASE_FORWARD || !may_be_gathered(gathers->lives, i) ||
            (gathers->lives->bits[i] & VT_LIFE(AT_NEXT_BACKWARD)))
            continue;
        VT_APPEND(gathers->wholes, count, capacity, replay->allocations[i].bytes);
    }
    if (count > 1)
        qsort(gathers->wholes, count, sizeof *gathers->wholes, compare_bytes);
    for (size_t i = 0; i < count; i++)
        if (i == 0 || gathers->wholes[i] != gathers->wholes[i - 1])
            gathers->wholes[gathers->whole_count++] = gathers->wholes[i];
}

static void list_shares(struct gathers *gathers)
{
    const struct lives *lives = gathers->lives;
    gathers->shares = vt_allocate((lives->parameter_count + 1) * sizeof *gathers->shares);
    for (size_t i = 0; i < lives->parameter_count; i++)
        gathers->shares[i] = (struct weight){lives->replay->allocations[lives->parameters[i]].bytes, 1};
    if (lives->parameter_count > 1)
        qsort(gathers->shares, lives->parameter_count, sizeof *gathers->shares, compare_bytes);
    for (size_t i = 0; i < lives->parameter_count; i++) {
        struct weight share = gathers->shares[i];
        if (gathers->share_count > 0 && gathers->shares[gathers->share_count - 1].bytes == share.bytes)
            gathers->shares[gathers->share_count - 1].count++;
        else
            gathers->shares[gathers->share_count++] = share;
    }
}

/* Whether a block of `whole` bytes has room for so many shares, and for not much more. */
static bool is_whole(uint64_t whole, uint64_t share, uint64_t processes)
{
    uint64_t unsplit = whole > VT_TORCH_SMALL_BYTES ? VT_TORCH_SMALL_BYTES : 0;
    return whole > processes * (share - VT_TORCH_ROUND_BYTES) && whole <= processes * share + unsplit;
}

static bool has_whole(const struct gathers *gathers, uint64_t share, uint64_t processes)
{
    uint64_t least = processes * (share - VT_TORCH_ROUND_BYTES) + 1;
    size_t at =
        vt_lower_bound(gathers->wholes, gathers->whole_count, sizeof *gathers->wholes, &least, compare_bytes);
    return at < gathers->whole_count && is_whole(gathers->wholes[at], share, processes);
}

/* The number of processes for which most bytes of the parameters, of two sizes at least, are gathered. 0 =
 * none. */
static uint64_t count_processes(const struct gathers *gathers)
{
    uint64_t largest = gathers->share_count > 0 ? gathers->shares[gathers->share_count - 1].bytes : 0;
    for (uint64_t processes = 2; largest > 0 && processes <= PROCESSES_MAXIMUM; processes++) {
        struct weight gathered = {0};
        if (!has_whole(gathers, largest, processes))
            continue;
        for (size_t i = 0; i < gathers->share_count; i++) {
            if (!has_whole(gathers, gathers->shares[i].bytes, processes))
                continue;
            gathered.bytes += gathers->shares[i].bytes * gathers->shares[i].count;
            gathered.count++;
        }
        if (gathered.count >= 2 && gathered.bytes * 2 > gathers->lives->all.bytes)
            return processes;
    }
    return 0;
}

static void mark(const struct gathers *gathers, uint64_t processes)
{
    for (size_t i = 0; i < gathers->lives->replay->allocation_count; i++) {
        uint64_t bytes = gathers->lives->replay->allocations[i].bytes;
        if (!may_be_gathered(gathers->lives, i))
            continue;
        for (size_t k = 0; k < gathers->share_count; k++)
            if (is_whole(bytes, gathers->shares[k].bytes, processes))
                gathers->lives->bits[i] |= VT_LIFE(GATHERED);
    }
}

/* ---- Gradients of each sample ---- */

#define TRIES_MAXIMUM 16 /* numbers of samples that are tried for one pass */

/* Marks one block for each parameter, as large as so many samples need, of those that a pass left: the last
 * made first, since a layer's gradient comes after that of its input. False if there are not enough. */
static bool take_samples(const struct gathers *gathers, const uint32_t *left, size_t count, uint64_t samples,
                         uint64_t *untaken)
{
    struct lives *lives = gathers->lives;
    struct weight found = {0};
    for (int marks = 0; marks < 2; marks++) {
        for (size_t k = 0; k < gathers->share_count; k++)
            untaken[k] = gathers->shares[k].count;
        for (size_t i = count; i-- > 0;) {
            uint64_t bytes = lives->replay->allocations[left[i]].bytes;
            size_t k = gathers->share_count;
            while (k > 0 && !(untaken[k - 1] > 0 && is_whole(bytes, gathers->shares[k - 1].bytes, samples)))
                k--;
            if (k == 0)
                continue;
            untaken[k - 1]--;
            if (marks)
                lives->bits[left[i]] |= VT_LIFE(MATCHES_PARAMETER);
            else
                vt_add_weight(&found, gathers->shares[k - 1].bytes);
        }
        if (!vt_lives_are_all_parameters(lives, found))
            return false;
    }
    return true;
}

/* What one pass left. The gradient of the largest parameter shows how many samples there are. */
static void judge_pass(const struct gathers *gathers, const uint32_t *left, size_t count)
{
    uint64_t largest = gathers->shares[gathers->share_count - 1].bytes, last = 0;
    uint64_t *untaken = vt_allocate(gathers->share_count * sizeof *untaken);
    size_t tries = 0;
    bool found = false;
    for (size_t i = count; i-- > 0 && tries < TRIES_MAXIMUM && !found;) {
        uint64_t bytes = gathers->lives->replay->allocations[left[i]].bytes;
        uint64_t samples = bytes / (largest - VT_TORCH_ROUND_BYTES + 1);
        if (samples < 2 || samples == last || !is_whole(bytes, largest, samples))
            continue;
        last = samples;
        tries++;
        found = take_samples(gathers, left, count, samples, untaken);
    }
    free(untaken);
}

static void find_samples(const struct gathers *gathers)
{
    const struct lives *lives = gathers->lives;
    const uint64_t life = VT_LIFE(OUTLIVES_SPAN) | VT_LIFE(GRAD_MODE);
    uint32_t *left = NULL;
    size_t count = 0, capacity = 0;
    long of_pass = -1;
    for (size_t i = 0; i < lives->replay->allocation_count; i++) {
        const struct vt_allocation *block = &lives->replay->allocations[i];
        if (!vt_lives_holds(lives, block) || !vt_lives_has(lives, block, VT_TRAIT(BACKWARD)) ||
            (lives->bits[i] & life) != life)
            continue;
        long pass = vt_pass_before(lives->phases, block->alloc_event);
        if (pass != of_pass && count > 0) {
            judge_pass(gathers, left, count);
            count = 0;
        }
        of_pass = pass;
        VT_APPEND(left, count, capacity, (uint32_t)i);
    }
    if (count > 0)
        judge_pass(gathers, left, count);
    free(left);
}

void vt_lives_find_multiples(struct lives *lives)
{
    struct gathers gathers = {.lives = lives};
    list_wholes(&gathers);
    list_shares(&gathers);
    uint64_t processes = count_processes(&gathers);
    if (processes > 0)
        mark(&gathers, processes);
    if (gathers.share_count > 0 && gathers.shares[gathers.share_count - 1].bytes > VT_TORCH_ROUND_BYTES)
        find_samples(&gathers);
    free(gathers.wholes);
    free(gathers.shares);
}
