/* Sets of blocks with the sizes of all parameters, which a line or a file makes at once. */
#include "attribute/counted_sizes.h"
#include "attribute/sets.h"

#include <stdlib.h>

#include "attribute/lives.h"
#include "attribute/sizes.h"
#include "base/allocate.h"

/* ---- Sets: blocks that one line makes between two passes, one for each parameter ---- */

/* What else the same line may make: a state dict has buffers too. */
#define SET_OTHERS_SHARE 4
#define SETS_MAXIMUM 8 /* that a line makes at once */

/* A block that a set may have. */
struct candidate {
    uint64_t
        line; /* that made it: hash of its Python lines, since native frames change as the program warms up */
    uint32_t passes; /* before it */
    uint32_t allocation;
};

static bool same_maker(const struct candidate *left, const struct candidate *right)
{
    return left->line == right->line && left->passes == right->passes;
}

static int compare_candidates(const void *a, const void *b)
{
    const struct candidate *left = a, *right = b;
    if (left->line != right->line)
        return left->line < right->line ? -1 : 1;
    if (left->passes != right->passes)
        return left->passes < right->passes ? -1 : 1;
    return left->allocation < right->allocation ? -1 : left->allocation > right->allocation;
}

/* Made by the script itself, without gradients, from values that it has: copies or results. */
static bool may_be_of_set(const struct lives *lives, size_t i)
{
    const uint64_t others = VT_TRAIT(MODULE) | VT_TRAIT(MODULE_APPLY) | VT_TRAIT(BACKWARD) |
                            VT_TRAIT(OPTIMIZER) | VT_TRAIT(BACKWARD_CALL) | VT_TRAIT(DATA) |
                            VT_TRAIT(LOADED) | VT_TRAIT(WORKSPACE) | VT_TRAIT(BUCKET);
    const struct vt_allocation *block = &lives->replay->allocations[i];
    return vt_lives_holds(lives, block) && block->stack_id != 0 && !vt_lives_has(lives, block, others) &&
           (!(lives->bits[i] & VT_LIFE(GRAD_MODE)) || vt_lives_has(lives, block, VT_TRAIT(COPY))) &&
           !vt_lives_is_parameter(lives, i);
}

/* How many candidates from the first on have its maker. */
static size_t run_of(const struct candidate *made, size_t count)
{
    size_t same = 1;
    while (same < count && same_maker(&made[same], made))
        same++;
    return same;
}

/* The set is those of a line that are alive when its last is made; or several sets: a line may copy the model
 * twice, or an optimizer's states. */
static void judge_set(struct lives *lives, const struct candidate *made, size_t count)
{
    const struct vt_allocation *blocks = lives->replay->allocations;
    uint32_t complete = blocks[made[count - 1].allocation].alloc_event;
    struct weight all = {0}, matched = {0};
    for (size_t i = 0; i < count; i++)
        if (blocks[made[i].allocation].free_event > complete)
            vt_add_weight(&all, blocks[made[i].allocation].bytes);
    uint64_t sets = (all.bytes + lives->all.bytes / 2) / lives->all.bytes;
    sets = sets < 1 ? 1 : sets > SETS_MAXIMUM ? SETS_MAXIMUM : sets;
    vt_lives_index_parameters(lives, (uint32_t)sets);
    for (size_t i = 0; i < count; i++) {
        const struct vt_allocation *block = &blocks[made[i].allocation];
        if (block->free_event > complete && vt_size_take(&lives->parameter_sizes, block->bytes))
            vt_add_weight(&matched, block->bytes);
    }
    struct weight each = {.bytes = matched.bytes / sets, .count = matched.count / sets};
    bool is_set = vt_lives_are_all_parameters(lives, each) &&
                  (all.bytes - matched.bytes) * SET_OTHERS_SHARE <= all.bytes;
    for (size_t i = 0; i < count && is_set; i++)
        if (blocks[made[i].allocation].free_event > complete)
            lives->bits[made[i].allocation] |= VT_LIFE(LIKE_ALL_PARAMETERS);
}

/* ---- What files hold ---- */

/* A file that was read onto the device has weights, and perhaps an optimizer's state after or before them. If
 * as much as the weights is dropped before it is used, they were copied into the model (copies until then),
 * and what is left is state. If not, the first set is a copy of the weights; the rest is state only if the
 * optimizer makes none. */
static bool is_dropped(const struct lives *lives, size_t i)
{
    return !(lives->bits[i] & (VT_LIFE(AT_NEXT_BACKWARD) | VT_LIFE(CUT)));
}

static bool is_loaded(const struct lives *lives, size_t i)
{
    const struct vt_allocation *block = &lives->replay->allocations[i];
    return vt_lives_holds(lives, block) && vt_lives_has(lives, block, VT_TRAIT(LOADED)) &&
           !vt_lives_has(lives, block, VT_TRAIT(MODULE) | VT_TRAIT(MODULE_APPLY)) &&
           !vt_lives_is_parameter(lives, i);
}

/* Those of a set that match the sizes of the parameters, each parameter once. */
static void match_set(struct lives *lives, const struct candidate *set, size_t count, bool dropped,
                      struct weight *matched)
{
    vt_lives_index_parameters(lives, 1);
    for (size_t i = 0; i < count; i++)
        if (is_dropped(lives, set[i].allocation) == dropped &&
            vt_size_take(&lives->parameter_sizes, lives->replay->allocations[set[i].allocation].bytes))
            vt_add_weight(matched, lives->replay->allocations[set[i].allocation].bytes);
}

/* All that was read between two passes. */
static void judge_loaded(struct lives *lives, const struct candidate *set, size_t count)
{
    const struct vt_allocation *blocks = lives->replay->allocations;
    struct weight dropped = {0}, kept = {0}, taken = {0};
    match_set(lives, set, count, true, &dropped);
    match_set(lives, set, count, false, &kept);
    bool weights_dropped = vt_lives_are_all_parameters(lives, dropped);
    if (!weights_dropped && !vt_lives_are_all_parameters(lives, kept))
        return;
    vt_lives_index_parameters(lives, 1);
    for (size_t i = 0; i < count; i++) {
        uint64_t bytes = blocks[set[i].allocation].bytes;
        if (is_dropped(lives, set[i].allocation)) {
            lives->bits[set[i].allocation] |= weights_dropped ? VT_LIFE(LIKE_ALL_PARAMETERS) : 0;
            continue;
        }
        bool first = !vt_lives_are_all_parameters(lives, taken);
        if (vt_size_take(&lives->parameter_sizes, bytes)) {
            vt_add_weight(&taken, bytes);
            first = true;
        }
        bool copy = lives->has_state || (first && !weights_dropped);
        lives->bits[set[i].allocation] |= copy ? VT_LIFE(LIKE_ALL_PARAMETERS) : VT_LIFE(MATCHES_PARAMETER);
    }
}

/* ---- Both ---- */

/* Runs of candidates of one maker. Only as many blocks as there are parameters can be a set of them, so that
 * all runs together take no longer than there are blocks. */
static void judge_runs(struct lives *lives, struct candidate *candidates, size_t count, bool loaded)
{
    size_t same;
    if (count > 1)
        qsort(candidates, count, sizeof *candidates, compare_candidates);
    for (size_t i = 0; i < count; i += same) {
        same = run_of(candidates + i, count - i);
        if (vt_lives_are_all_parameters(lives, (struct weight){.bytes = UINT64_MAX / 16, .count = same})) {
            if (loaded)
                judge_loaded(lives, candidates + i, same);
            else
                judge_set(lives, candidates + i, same);
        }
    }
}

/* The branches of one line are one. */
static uint64_t line_of(const struct vt_trace *trace, uint32_t stack_id)
{
    const struct vt_trace_stack *stack = &trace->stacks[stack_id];
    uint64_t line = stack->python_count == 0 ? stack_id : VT_HASH_START;
    for (uint32_t i = 0; i < stack->python_count; i++)
        line = vt_mix(line, vt_trace_line_key(trace, &stack->python[i]));
    return line;
}

static void find_sets(struct lives *lives, bool loaded)
{
    const struct vt_replay *replay = lives->replay;
    struct candidate *candidates = vt_allocate((replay->allocation_count + 1) * sizeof *candidates);
    size_t count = 0;
    for (size_t i = 0; i < replay->allocation_count; i++) {
        const struct vt_allocation *block = &replay->allocations[i];
        uint32_t passes = (uint32_t)(vt_pass_before(lives->phases, block->alloc_event) + 1);
        if (loaded ? is_loaded(lives, i) : may_be_of_set(lives, i))
            candidates[count++] =
                (struct candidate){loaded ? 0 : line_of(replay->trace, block->stack_id), passes, (uint32_t)i};
    }
    judge_runs(lives, candidates, count, loaded);
    free(candidates);
}

void vt_lives_find_sets(struct lives *lives)
{
    for (int loaded = 0; loaded < 2 && lives->all.bytes > 0; loaded++)
        find_sets(lives, loaded);
}
