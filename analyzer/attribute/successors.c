/* Parameters that steps replace: a script computes new weights from the old ones, or an optimizer puts its
 * copies into their place. The new one has the size of the old one, is there when that goes, and was made in
 * the same step, after its passes; of several such sets the last made, since what an optimizer keeps is
 * computed before what it is for. */
#include "attribute/counted_sizes.h"
#include "attribute/successors.h"

#include <stdlib.h>
#include <string.h>

#include "attribute/lives.h"
#include "base/allocate.h"

/* The blocks that scripts and optimizers made so far, those of one size, or of one size and stack, as lists.
 */
struct follower {
    struct lives *lives;
    uint32_t *parent; /* by allocation: the parameter before it, itself = the first, VT_NEVER = none */
    uint32_t *same_size, *place; /* by allocation: the one made before it, VT_NEVER = none */
    struct vt_index latest;      /* key of a size, or of a size and stack → allocation */
    struct vt_index follows;     /* size → the successor found last */
};

static uint64_t size_key(const struct vt_allocation *block)
{
    return vt_size_bucket(block->bytes) << 1;
}

static uint64_t place_key(const struct vt_allocation *block)
{
    return vt_mix(vt_size_bucket(block->bytes), block->stack_id) << 1 | 1;
}

static bool may_follow(const struct lives *lives, size_t i)
{
    const uint64_t others = VT_TRAIT(MODULE) | VT_TRAIT(BACKWARD) | VT_TRAIT(BACKWARD_CALL) | VT_TRAIT(DATA) |
                            VT_TRAIT(WORKSPACE) | VT_TRAIT(BUCKET) | VT_TRAIT(ROWS);
    const struct vt_allocation *block = &lives->replay->allocations[i];
    bool comes_from_elsewhere =
        vt_lives_has(lives, block, VT_TRAIT(SOURCE)) && !vt_lives_has(lives, block, VT_TRAIT(OPTIMIZER));
    return vt_lives_holds(lives, block) && block->stack_id != 0 && !vt_lives_has(lives, block, others) &&
           !comes_from_elsewhere && (lives->bits[i] & VT_LIFE(OUTLIVES_STEP)) &&
           !(lives->bits[i] & (VT_LIFE(GRAD_MODE) | VT_LIFE(BEFORE_FIRST_BACKWARD)));
}

static bool is_first(const struct lives *lives, size_t i)
{
    const uint64_t all = VT_LIFE(BEFORE_FIRST_BACKWARD) | VT_LIFE(AT_NEXT_BACKWARD);
    const uint64_t others =
        VT_TRAIT(MODULE) | VT_TRAIT(BUFFER) | VT_TRAIT(WORKSPACE) | VT_TRAIT(OPTIMIZER) | VT_TRAIT(DATA);
    const struct vt_allocation *block = &lives->replay->allocations[i];
    return vt_lives_holds(lives, block) && (lives->bits[i] & all) == all &&
           !(lives->bits[i] & (VT_LIFE(PERSISTENT) | VT_LIFE(GRAD_MODE))) &&
           !vt_lives_has(lives, block, others);
}

/* A gradient that the first pass leaves. */
static bool is_first_gradient(const struct lives *lives, size_t i)
{
    const struct vt_allocation *block = &lives->replay->allocations[i];
    return vt_lives_holds(lives, block) && vt_lives_has(lives, block, VT_TRAIT(BACKWARD)) &&
           !vt_lives_has(lives, block, VT_TRAIT(WORKSPACE)) && (lives->bits[i] & VT_LIFE(OUTLIVES_SPAN)) &&
           vt_pass_before(lives->phases, block->alloc_event) == 0;
}

/* Early blocks that have the sizes of the first gradients, unless parameters that stay have most of them. */
static void find_first(struct follower *follower)
{
    struct lives *lives = follower->lives;
    const struct vt_allocation *blocks = lives->replay->allocations;
    size_t count = lives->replay->allocation_count;
    struct vt_index gradients = {0};
    uint64_t kept = 0, all = 0;
    for (size_t i = 0; i < count; i++) {
        if (lives->bits[i] & VT_LIFE(MATCHES_GRADIENT))
            kept += blocks[i].bytes;
        if (is_first_gradient(lives, i)) {
            all += blocks[i].bytes;
            vt_size_add(&gradients, blocks[i].bytes);
        }
    }
    for (size_t i = 0; i < count && kept * 2 < all; i++)
        if (is_first(lives, i) && vt_size_take(&gradients, blocks[i].bytes))
            follower->parent[i] = (uint32_t)i;
    vt_index_free(&gradients);
}

static void list_block(struct follower *follower, uint32_t index)
{
    const struct vt_allocation *block = &follower->lives->replay->allocations[index];
    follower->same_size[index] = vt_index_get(&follower->latest, size_key(block));
    follower->place[index] = vt_index_get(&follower->latest, place_key(block));
    vt_index_put(&follower->latest, size_key(block), index);
    vt_index_put(&follower->latest, place_key(block), index);
}

/* The latest of a list that is alive at the event and free. Those that are not never come back. */
static uint32_t latest_of(struct follower *follower, uint64_t key, const uint32_t *before, uint32_t event)
{
    const struct vt_allocation *blocks = follower->lives->replay->allocations;
    uint32_t found = vt_index_get(&follower->latest, key);
    while (found != VT_INDEX_NONE &&
           (blocks[found].free_event <= event || follower->parent[found] != VT_NEVER))
        found = before[found];
    return found;
}

/* What takes the place of the parameter that goes now: the graph of a loss may hold the old one into the next
 * step. All those of one size come from one stack. */
static void find_successor(struct follower *follower, uint32_t index, uint32_t event)
{
    const struct vt_allocation *blocks = follower->lives->replay->allocations;
    const struct vt_phases *phases = follower->lives->phases;
    uint64_t size = size_key(&blocks[index]);
    uint32_t last = vt_index_get(&follower->follows, size), found = VT_INDEX_NONE;
    if (last != VT_INDEX_NONE)
        found = latest_of(follower, place_key(&blocks[last]), follower->place, event);
    if (found == VT_INDEX_NONE)
        found = latest_of(follower, size, follower->same_size, event);
    if (found == VT_INDEX_NONE ||
        vt_step_at(phases, blocks[found].alloc_event) + 1 < vt_step_at(phases, event))
        return;
    follower->parent[found] = index;
    vt_index_put(&follower->follows, size, found);
}

static void find_successors(struct follower *follower)
{
    const struct vt_replay *replay = follower->lives->replay;
    const struct vt_phases *phases = follower->lives->phases;
    size_t made = 0;
    for (uint32_t event = 0; event <= follower->lives->last_made; event++) {
        for (; made < replay->allocation_count && replay->allocations[made].alloc_event <= event; made++)
            if (may_follow(follower->lives, made))
                list_block(follower, (uint32_t)made);
        for (uint32_t i = replay->first_freed[event]; i != VT_NEVER; i = replay->next_freed[i])
            if (follower->parent[i] != VT_NEVER && event > phases->passes[0].last_event)
                find_successor(follower, i, event);
    }
}

/* Chains that last: their end is there after the last pass. */
static void mark_chains(struct follower *follower)
{
    struct lives *lives = follower->lives;
    const struct vt_allocation *blocks = lives->replay->allocations;
    const struct vt_phases *phases = lives->phases;
    uint32_t last_pass = phases->passes[phases->pass_count - 1].last_event;
    for (size_t i = lives->replay->allocation_count; i-- > 0;) {
        uint32_t parent = follower->parent[i];
        if (parent == VT_NEVER || blocks[i].free_event <= last_pass || parent == i)
            continue;
        for (uint32_t k = (uint32_t)i; !(lives->bits[k] & VT_LIFE(FOLLOWS_PARAMETER));
             k = follower->parent[k])
            lives->bits[k] |= VT_LIFE(FOLLOWS_PARAMETER);
    }
}

void vt_lives_follow_parameters(struct lives *lives)
{
    size_t count = lives->replay->allocation_count + 1;
    struct follower follower = {.lives = lives,
                                .parent = vt_allocate(count * sizeof *follower.parent),
                                .same_size = vt_allocate(count * sizeof *follower.same_size),
                                .place = vt_allocate(count * sizeof *follower.place)};
    if (lives->phases->pass_count > 0) {
        memset(follower.parent, 0xff, count * sizeof *follower.parent);
        find_first(&follower);
        find_successors(&follower);
        mark_chains(&follower);
    }
    vt_index_free(&follower.latest);
    vt_index_free(&follower.follows);
    free(follower.parent);
    free(follower.same_size);
    free(follower.place);
}
