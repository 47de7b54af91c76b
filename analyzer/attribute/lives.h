/* How long blocks live, as bits that rules ask for; and what is known of the blocks while these are found. */
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
    uint8_t *after_optimizer;         /* by span: an optimizer's step came since the last pass */
    uint8_t *before_optimizer;        /* by span: an optimizer's step comes before the next pass */
    uint8_t *dropped;                 /* by span: an optimizer dropped the last pass's gradients */
    uint32_t *made_before;            /* by event: count of blocks made up to it */
    uint32_t *first_step, *last_step; /* by stack */
    uint32_t *last_passes;            /* by pass: the last pass of its step */
    uint32_t last_made;          /* event that made the last block: frees after it are the program's end */
    struct vt_index sizes;       /* bucket → count, used up by what matches */
    struct vt_index known_sizes; /* of all parameters */
    uint32_t *parameters;        /* indices of allocations */
    size_t parameter_count, parameter_capacity;
    struct weight all, trained; /* parameters; those with a gradient */
    uint64_t largest;           /* parameter */
    bool has_state;             /* an optimizer's step leaves state */
    bool has_phases;            /* some that frames show */
};

/* Bits that rules cannot ask for. */
#define RECENT                                                                                               \
    (UINT64_C(1) << VT_LIFE_COUNT) /* persistent, but the trace ends before it could go as others do */
/* by the script after a pass, and gone before the next step's begins */
#define COMPUTED_AFTER_BACKWARD (UINT64_C(1) << (VT_LIFE_COUNT + 1))

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

/* Life bits (rules.h) of every allocation of the replay. */
void vt_lives_find(const struct vt_replay *replay, const struct vt_traits_by_stack *sites,
                   const struct vt_phases *phases, uint64_t *lives);

#endif
