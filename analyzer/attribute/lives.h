/* Private to lives.c and sizes.c: what both know of the blocks while the bits of their lives are found. */
#ifndef VT_LIVES_H
#define VT_LIVES_H

#include "attribute/phases.h"
#include "attribute/rules.h"
#include "base/index.h"

struct weight {
    uint64_t bytes, count;
};

struct lives {
    const struct vt_replay *replay;
    const struct vt_phases *phases;
    const struct vt_traits_by_stack *sites;
    uint64_t *bits;
    uint32_t *span_ends;              /* by span: the last event of its phase's own work */
    uint8_t *after_optimizer;         /* by span: an optimizer's step came since the last pass */
    uint8_t *before_optimizer;        /* by span: an optimizer's step comes before the next pass */
    uint32_t *made_before;            /* by event: count of blocks made up to it */
    uint32_t *first_step, *last_step; /* by stack */
    uint32_t *last_passes;            /* by pass: the last pass of its step */
    uint32_t last_made; /* event that made the last block: frees after it are the program's end */
    struct vt_index gradient_sizes, parameter_sizes; /* bucket → count, used up by what matches */
    struct vt_index known_sizes;                     /* of all parameters */
    uint32_t *parameters;                            /* indices of allocations */
    size_t parameter_count, parameter_capacity;
    struct weight all, trained; /* parameters; those with a gradient */
    bool has_state;             /* an optimizer's step leaves state */
    bool has_phases;            /* some that frames show */
};

static inline uint64_t vt_lives_traits(const struct lives *lives, const struct vt_allocation *block)
{
    return lives->sites->items[block->stack_id].traits;
}

static inline bool vt_lives_has(const struct lives *lives, const struct vt_allocation *block, uint64_t traits)
{
    return (vt_lives_traits(lives, block) & traits) != 0;
}

static inline bool vt_lives_holds(const struct lives *lives, const struct vt_allocation *allocation)
{
    return vt_holds_tensors(lives->phases, allocation);
}

static inline void vt_add_weight(struct weight *weight, uint64_t bytes)
{
    weight->bytes += bytes;
    weight->count++;
}

/* counted_sizes.c: `sizes` counts blocks by size, in the unit in which sizes are compared. vt_size_nearest:
 * the nearest unit with at least `least` blocks that a block of `bytes` may match, its own, or for a large
 * block one within the unsplit remainder; 0 = none. vt_size_take: whether there was one, which is used up. */
uint64_t vt_size_bucket(uint64_t bytes);
void vt_size_add(struct vt_index *sizes, uint64_t bytes);
uint64_t vt_size_nearest(const struct vt_index *sizes, uint64_t bytes, uint32_t least);
bool vt_size_take(struct vt_index *sizes, uint64_t bytes);

/* successors.c: adds VT_LIFE(FOLLOWS_PARAMETER), once the bits of parameters that stay are there. */
void vt_lives_follow_parameters(struct lives *lives);

/* sizes.c: adds the bits that compare the sizes of blocks, once all others are there. */
void vt_lives_compare_sizes(struct lives *lives);
bool vt_lives_is_parameter(const struct lives *lives, size_t i);
/* Whether a set has nearly all parameters, or nearly all trained ones. */
bool vt_lives_are_all_parameters(const struct lives *lives, struct weight set);
/* Sets `parameter_sizes` to the sizes of the parameters, each `times` times. */
void vt_lives_index_parameters(struct lives *lives, uint32_t times);

/* sets.c: adds like-all-parameters, and matches-parameter for what files hold. */
void vt_lives_find_sets(struct lives *lives);
/* multiples.c: adds VT_LIFE(GATHERED), and MATCHES_PARAMETER for gradients of each sample, once the
 * parameters are listed. */
void vt_lives_find_multiples(struct lives *lives);

#endif
