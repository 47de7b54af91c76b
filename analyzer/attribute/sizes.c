/* Blocks that have the sizes of others: parameters and their gradients, sets that belong to parameters. */
#include "attribute/counted_sizes.h"
#include "attribute/sizes.h"

#include <stdlib.h>
#include <string.h>

#include "attribute/lives.h"
#include "attribute/successors.h"
#include "base/allocate.h"
#include "format/allocator.h"

bool vt_lives_is_parameter(const struct lives *lives, size_t i)
{
    const struct vt_allocation *block = &lives->replay->allocations[i];
    return vt_lives_holds(lives, block) && !vt_lives_has(lives, block, VT_TRAIT(BUFFER)) &&
           (vt_lives_has(lives, block, VT_TRAIT(MODULE_APPLY)) ||
            (lives->bits[i] & (VT_LIFE(MATCHES_GRADIENT) | VT_LIFE(FOLLOWS_PARAMETER))));
}

/* Blocks by the bits of their life and the traits of their stack. */
struct profile {
    uint64_t life, not_life; /* all of the first, none of the second */
    uint64_t trait;          /* 0 = any stack */
    uint64_t not_traits;
    bool not_parameter;
};
#define EARLY (VT_LIFE(BEFORE_FIRST_BACKWARD) | VT_LIFE(PERSISTENT))
static const struct profile left_by_backward = {.trait = VT_TRAIT(BACKWARD),
                                                .not_traits = VT_TRAIT(WORKSPACE)};
/* State that a script made for its own optimizer. */
static const struct profile early_zeros = {.life = EARLY, .trait = VT_TRAIT(ZEROS), .not_parameter = true};

static bool fits(const struct lives *lives, size_t i, const struct profile *profile)
{
    uint64_t life = lives->bits[i];
    const struct vt_allocation *block = &lives->replay->allocations[i];
    return (life & profile->life) == profile->life && !(life & profile->not_life) &&
           vt_lives_holds(lives, block) && (!profile->trait || vt_lives_has(lives, block, profile->trait)) &&
           !vt_lives_has(lives, block, profile->not_traits) &&
           !(profile->not_parameter && vt_lives_is_parameter(lives, i));
}

/* ---- Gradients and parameters by size ---- */

/* The gradients alive when the first step's last backward pass ends. */
static void collect_gradients(struct lives *lives, uint32_t at_event)
{
    for (size_t i = 0; i < lives->replay->allocation_count; i++) {
        const struct vt_allocation *block = &lives->replay->allocations[i];
        if (!vt_alive_at(block, at_event) || !(lives->bits[i] & VT_LIFE(OUTLIVES_SPAN)) ||
            !fits(lives, i, &left_by_backward))
            continue;
        vt_size_add(&lives->gradient_sizes, block->bytes);
    }
}

/* How likely a block from before the first pass is a parameter, by who made it; 0 = it is not. */
enum { RANK_ZEROS = 1, RANK_COPY, RANK_SCRIPT, RANK_INIT, RANK_APPLY };

static int parameter_rank(const struct lives *lives, const struct vt_allocation *block)
{
    uint64_t traits = vt_lives_traits(lives, block);
    if (traits & (VT_TRAIT(BUFFER) | VT_TRAIT(WORKSPACE) | VT_TRAIT(MODULE) | VT_TRAIT(OPTIMIZER)))
        return 0;
    if (traits & VT_TRAIT(MODULE_APPLY))
        return RANK_APPLY;
    if (traits & VT_TRAIT(INIT_METHOD))
        return RANK_INIT;
    if (traits & VT_TRAIT(ZEROS))
        return RANK_ZEROS;
    return traits & VT_TRAIT(COPY) ? RANK_COPY
                                   : RANK_SCRIPT; /* data comes from the host; so do some parameters */
}

/* Parameters of the first pass are among the allocations before this one. */
static size_t first_pass_allocation(const struct lives *lives)
{
    return vt_made_from(lives->replay, lives->phases->passes[0].first_event);
}

/* Whether the block, which is made before the first pass, may be a parameter of it, by this rank. */
static bool has_rank(const struct lives *lives, size_t i, int rank)
{
    const struct vt_allocation *block = &lives->replay->allocations[i];
    return vt_lives_holds(lives, block) && (lives->bits[i] & VT_LIFE(PERSISTENT)) &&
           parameter_rank(lives, block) == rank;
}

/* Matches each gradient of the first step with one earlier block of its size: first blocks that modules made,
 * in the order in which they were made, then the rest, the latest first: a script has its data before what it
 * trains with it, and a copy of something is trained rather than that. Zeros come last: they may be state. */
static void match_gradients(struct lives *lives)
{
    const struct vt_phases *phases = lives->phases;
    if (phases->pass_count == 0)
        return;
    size_t count = first_pass_allocation(lives);
    collect_gradients(lives, phases->passes[lives->last_passes[0]].last_event);
    for (int rank = RANK_APPLY; rank > 0; rank--)
        for (size_t k = 0; k < count; k++) {
            size_t i = rank == RANK_SCRIPT || rank == RANK_COPY ? count - 1 - k : k;
            if (has_rank(lives, i, rank) &&
                vt_size_take(&lives->gradient_sizes, lives->replay->allocations[i].bytes))
                lives->bits[i] |= VT_LIFE(MATCHES_GRADIENT);
        }
}

/* Blocks whose sizes others are compared with. */
enum measure {
    BY_PARAMETERS,
    BY_MADE_PARAMETERS, /* also those that are freed before the first pass: sharding shares them out */
    BY_OTHER_STATE,     /* that belongs to no known parameter */
    BY_STATE,           /* of optimizers: up to STATES_MAXIMUM tensors for each parameter that is trained */
};
#define STATES_MAXIMUM 4

/* Blocks that match the sizes of parameters. A few match by chance: those found must be at least one
 * `share`-th of all parameters, by bytes and by number; 0 = any number is enough. */
struct likeness {
    struct profile profile;
    uint64_t share;
    bool whole;      /* rather nearly all of them, in a few blocks at least */
    bool also_twice; /* also a block of twice the size: 4 bytes an element instead of 2 */
    bool also_half;  /* also a block of half the size: 2 bytes an element, where the state has 4 */
    bool repeated;   /* any number of blocks for one parameter */
    enum measure measure;
    uint64_t gives; /* VT_LIFE_…, 0 = MATCHES_PARAMETER */
};

static const struct likeness likenesses[] = {
    /* gradients of a pass that was cut short */
    {.profile = {.life = VT_LIFE(CUT), .trait = VT_TRAIT(BACKWARD), .not_traits = VT_TRAIT(WORKSPACE)}},
    /* early_zeros */
    {.profile = {.life = EARLY, .trait = VT_TRAIT(ZEROS), .not_parameter = true},
     .share = 2,
     .repeated = true},
    /* gradients of copies of the parameters, which the script fills */
    {.profile = {.life = VT_LIFE(PERSISTENT) | VT_LIFE(ONCE),
                 .not_life = VT_LIFE(BEFORE_FIRST_BACKWARD),
                 .trait = VT_TRAIT(UNFILLED),
                 .not_traits =
                     VT_TRAIT(MODULE) | VT_TRAIT(BACKWARD) | VT_TRAIT(WORKSPACE) | VT_TRAIT(BUCKET)},
     .whole = true,
     .also_twice = true},
    /* gradients that the script computes itself: some of its own temporaries have these sizes too */
    {.profile = {.life = VT_LIFE(COMPUTED_AFTER_BACKWARD)}, .share = 2, .also_twice = true, .repeated = true},
    {.profile = {.life = VT_LIFE(COMPUTED_AFTER_BACKWARD)},
     .share = STATES_MAXIMUM,
     .repeated = true,
     .measure = BY_STATE},
    /* what an optimizer trains though backward makes no gradient of its size: one share, or one flat copy of
       all */
    {.profile = {.life = EARLY,
                 .not_traits = VT_TRAIT(ZEROS) | VT_TRAIT(MODULE) | VT_TRAIT(MODULE_APPLY) |
                               VT_TRAIT(BUFFER) | VT_TRAIT(WORKSPACE) | VT_TRAIT(BUCKET) | VT_TRAIT(DATA) |
                               VT_TRAIT(OPTIMIZER),
                 .not_parameter = true},
     .also_half = true,
     .measure = BY_OTHER_STATE,
     .gives = VT_LIFE(HAS_STATE)},
    /* gradients among what a pass leaves behind that makes a graph */
    {.profile = {.life = VT_LIFE(OUTLIVES_SPAN) | VT_LIFE(GRAD_MODE), .trait = VT_TRAIT(BACKWARD)},
     .repeated = true},
    /* parameters that the script itself gathers for each use */
    {.profile = {.not_life = VT_LIFE(GRAD_MODE) | VT_LIFE(OUTLIVES_STEP) | VT_LIFE(ONCE),
                 .trait = VT_TRAIT(UNFILLED),
                 .not_traits = VT_TRAIT(OPTIMIZER) | VT_TRAIT(BUCKET) | VT_TRAIT(WORKSPACE)},
     .share = 2,
     .repeated = true,
     .measure = BY_MADE_PARAMETERS,
     .gives = VT_LIFE(GATHERED)},
};

/* What an optimizer made in its first step and keeps. */
static const struct profile state = {.life = VT_LIFE(OUTLIVES_STEP) | VT_LIFE(AT_NEXT_BACKWARD),
                                     .trait = VT_TRAIT(OPTIMIZER),
                                     .not_traits = VT_TRAIT(BACKWARD)};

/* What a set must have of the parameters, or of those that are trained: nine tenths, and a few blocks at
 * least. */
#define SET_SHARE_TENTHS 9
#define SET_COUNT_MINIMUM 3

static bool is_most_of(struct weight part, struct weight all)
{
    return all.count > 0 && part.count >= SET_COUNT_MINIMUM &&
           part.bytes * 10 >= all.bytes * SET_SHARE_TENTHS && part.count * 10 >= all.count * SET_SHARE_TENTHS;
}

/* It takes the place of another parameter. */
static bool is_successor(const struct lives *lives, size_t i)
{
    const uint64_t early = VT_LIFE(MATCHES_GRADIENT) | VT_LIFE(BEFORE_FIRST_BACKWARD);
    return (lives->bits[i] & VT_LIFE(FOLLOWS_PARAMETER)) && !(lives->bits[i] & early);
}

static void list_parameters(struct lives *lives)
{
    const struct vt_replay *replay = lives->replay;
    const uint64_t used =
        lives->phases->pass_count > 0 ? VT_LIFE(AT_NEXT_BACKWARD) | VT_LIFE(CUT) : VT_LIFE(AT_NEXT_FORWARD);
    for (size_t i = 0; i < replay->allocation_count; i++) {
        if (!vt_lives_is_parameter(lives, i) || !(lives->bits[i] & used) || is_successor(lives, i))
            continue;
        VT_APPEND(lives->parameters, lives->parameter_count, lives->parameter_capacity, (uint32_t)i);
        vt_add_weight(&lives->all, replay->allocations[i].bytes);
        vt_size_add(&lives->known_sizes, replay->allocations[i].bytes);
        if (lives->bits[i] & (VT_LIFE(MATCHES_GRADIENT) | VT_LIFE(FOLLOWS_PARAMETER)))
            vt_add_weight(&lives->trained, replay->allocations[i].bytes);
    }
}

bool vt_lives_are_all_parameters(const struct lives *lives, struct weight set)
{
    return is_most_of(set, lives->all) || is_most_of(set, lives->trained);
}

void vt_lives_index_parameters(struct lives *lives, uint32_t times)
{
    vt_index_free(&lives->parameter_sizes);
    for (size_t i = 0; i < lives->parameter_count * times; i++)
        vt_size_add(&lives->parameter_sizes, lives->replay->allocations[lives->parameters[i / times]].bytes);
}

static bool take_like(struct lives *lives, const struct likeness *likeness, uint64_t bytes)
{
    return vt_size_take(&lives->parameter_sizes, bytes) ||
           (likeness->also_half &&
            (vt_size_take(&lives->parameter_sizes, 2 * bytes) ||
             vt_size_take(&lives->parameter_sizes, 2 * bytes - VT_TORCH_ROUND_BYTES))) ||
           (likeness->also_twice &&
            vt_size_take(&lives->parameter_sizes, (bytes / 2 + VT_TORCH_ROUND_BYTES - 1) /
                                                      VT_TORCH_ROUND_BYTES * VT_TORCH_ROUND_BYTES));
}

/* *all: what it is. */
static void index_measure(struct lives *lives, enum measure measure, struct weight *all)
{
    if (measure == BY_PARAMETERS)
        vt_lives_index_parameters(lives, 1);
    *all = lives->all;
    if (measure == BY_PARAMETERS)
        return;
    *all = (struct weight){0};
    vt_index_free(&lives->parameter_sizes);
    for (size_t i = 0; i < lives->replay->allocation_count; i++) {
        if (measure == BY_MADE_PARAMETERS ? !vt_lives_is_parameter(lives, i) : !fits(lives, i, &state))
            continue;
        if (measure == BY_OTHER_STATE &&
            vt_size_nearest(&lives->known_sizes, lives->replay->allocations[i].bytes, 1))
            continue;
        vt_add_weight(all, lives->replay->allocations[i].bytes);
        vt_size_add(&lives->parameter_sizes, lives->replay->allocations[i].bytes);
    }
}

static void match_parameters(struct lives *lives, const struct likeness *likeness)
{
    const struct vt_replay *replay = lives->replay;
    struct weight found = {0}, all = {0};
    uint8_t *matched = vt_allocate_zeros(replay->allocation_count + 1, 1);
    index_measure(lives, likeness->measure, &all);
    for (size_t i = 0; i < replay->allocation_count; i++) {
        uint64_t bytes = replay->allocations[i].bytes;
        bool candidate = fits(lives, i, &likeness->profile),
             taken = candidate && take_like(lives, likeness, bytes);
        matched[i] = taken || (candidate && likeness->repeated &&
                               vt_size_nearest(&lives->parameter_sizes, bytes, 0) > 0);
        if (taken)
            vt_add_weight(&found, bytes);
    }
    bool enough = likeness->whole ? is_most_of(found, all)
                                  : found.bytes * likeness->share >= all.bytes * (likeness->share > 0) &&
                                        found.count * likeness->share >= all.count * (likeness->share > 0);
    for (size_t i = 0; i < replay->allocation_count; i++)
        if (matched[i] && enough)
            lives->bits[i] |= likeness->gives ? likeness->gives : VT_LIFE(MATCHES_PARAMETER);
    free(matched);
}

/* An optimizer's step leaves state for half of what is trained, at least. */
static bool makes_own_state(const struct lives *lives)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < lives->replay->allocation_count; i++) {
        const struct vt_allocation *block = &lives->replay->allocations[i];
        if (vt_lives_holds(lives, block) && vt_lives_has(lives, block, VT_TRAIT(OPTIMIZER)) &&
            !vt_lives_has(lives, block, VT_TRAIT(OWN_UPDATE)) && lives->bits[i] & VT_LIFE(PERSISTENT))
            bytes += block->bytes;
    }
    return bytes * 2 >= lives->trained.bytes;
}

/* Bytes that are alive when each pass ends: of gradients that backward made, of buckets, of early zeros. */
struct held_bytes {
    int64_t gradients, buckets, zeros;
};

static void weigh_passes(const struct lives *lives, struct held_bytes *held)
{
    const struct vt_phases *phases = lives->phases;
    for (size_t i = 0; i < lives->replay->allocation_count; i++) {
        const struct vt_allocation *block = &lives->replay->allocations[i];
        bool in_bucket = vt_lives_has(lives, block, VT_TRAIT(BUCKET));
        bool made = !in_bucket && fits(lives, i, &left_by_backward), zeros = fits(lives, i, &early_zeros);
        if (!vt_lives_holds(lives, block) || !(in_bucket || made || zeros))
            continue;
        int64_t bytes = (int64_t)block->bytes;
        const struct held_bytes own = {made ? bytes : 0, in_bucket ? bytes : 0, zeros ? bytes : 0};
        /* from the first pass that ends after it was made to the last that ends before it is freed */
        long begun = vt_pass_before(phases, block->alloc_event);
        size_t first = begun >= 0 && phases->passes[begun].last_event >= block->alloc_event
                           ? (size_t)begun
                           : (size_t)(begun + 1);
        long ended = block->free_event == VT_NEVER ? (long)phases->pass_count - 1
                                                   : vt_pass_before(phases, block->free_event);
        size_t end = ended >= 0 && phases->passes[ended].last_event >= block->free_event
                         ? (size_t)ended
                         : (size_t)(ended + 1);
        if (first >= end)
            continue;
        held[first].gradients += own.gradients, held[end].gradients -= own.gradients;
        held[first].buckets += own.buckets, held[end].buckets -= own.buckets;
        held[first].zeros += own.zeros, held[end].zeros -= own.zeros;
    }
}

/* Gradients may be views of the buckets that are sent, or of zeros that the script made for them: some pass
 * then leaves almost no gradients of its own. (Under no_sync the passes before it do.) Zeros with the sizes
 * of parameters are no state where an optimizer makes its own: gradients are added up in them. */
static void find_gradient_holders(struct lives *lives)
{
    const struct vt_replay *replay = lives->replay;
    size_t count = lives->phases->pass_count;
    struct held_bytes *held = vt_allocate_zeros(count + 1, sizeof *held);
    int64_t parameter_bytes = 0;
    bool buckets = false, zeros = count > 0;
    for (size_t i = 0; i < replay->allocation_count; i++)
        parameter_bytes += vt_lives_is_parameter(lives, i) ? (int64_t)replay->allocations[i].bytes : 0;
    weigh_passes(lives, held);
    for (size_t i = 0; i < count; i++) {
        if (i > 0) {
            held[i].gradients += held[i - 1].gradients;
            held[i].buckets += held[i - 1].buckets;
            held[i].zeros += held[i - 1].zeros;
        }
        buckets |= held[i].gradients < held[i].buckets / 2;
        zeros &= !held[i].buckets && held[i].gradients < parameter_bytes / 2 &&
                 held[i].zeros >= parameter_bytes / 2;
    }
    for (size_t i = 0; i < replay->allocation_count; i++)
        if ((buckets && vt_lives_has(lives, &replay->allocations[i], VT_TRAIT(BUCKET))) ||
            ((zeros || (lives->has_state && lives->bits[i] & VT_LIFE(MATCHES_PARAMETER))) &&
             fits(lives, i, &early_zeros)))
            lives->bits[i] |= VT_LIFE(HOLDS_GRADIENTS);
    free(held);
}

static uint64_t key_in_pass(long pass, uint64_t bytes)
{
    return vt_mix((uint64_t)pass + 1, vt_size_bucket(bytes));
}

/* A model takes it in before that pass, and it is still there after it. */
static bool may_be_leaf(const struct lives *lives, const struct vt_allocation *block, size_t pass)
{
    const struct vt_phases *phases = lives->phases;
    return pass < phases->pass_count && block->free_event > phases->passes[pass].last_event &&
           vt_next_module_event(phases, block->alloc_event) < phases->passes[pass].first_event &&
           !(phases->grad_mode[block->alloc_event] && phases->passes[pass].makes_nodes);
}

/* What gets a gradient and outlives the pass is a leaf: if a parameter had its size, it would be that
 * one's gradient. So is what the same stack makes for a pass that does not ask for it, if most do. */
static void find_leaves(struct lives *lives)
{
    const struct vt_replay *replay = lives->replay;
    const struct vt_phases *phases = lives->phases;
    int32_t *others = /* less those that do */
        vt_allocate_zeros(replay->trace->stack_count + 1, sizeof *others);
    struct vt_index left = {0};
    for (size_t i = 0; i < replay->allocation_count; i++) {
        const struct vt_allocation *block = &replay->allocations[i];
        if (lives->bits[i] & VT_LIFE(OUTLIVES_SPAN) && fits(lives, i, &left_by_backward) &&
            !vt_size_nearest(&lives->known_sizes, block->bytes, 1))
            vt_index_put(&left, key_in_pass(vt_pass_before(phases, block->alloc_event), block->bytes), 1);
    }
    for (int round = 0; round < 2; round++)
        for (size_t i = 0; i < replay->allocation_count; i++) {
            const struct vt_allocation *block = &replay->allocations[i];
            long next = vt_pass_before(phases, block->alloc_event) + 1;
            if (!vt_lives_holds(lives, block) || !may_be_leaf(lives, block, (size_t)next))
                continue;
            bool gets = vt_index_get(&left, key_in_pass(next, block->bytes)) != VT_INDEX_NONE;
            if (round == 0)
                others[block->stack_id] += gets ? -1 : 1;
            else if (gets || others[block->stack_id] < 0)
                lives->bits[i] |= VT_LIFE(GETS_GRADIENT);
        }
    vt_index_free(&left);
    free(others);
}

void vt_lives_compare_sizes(struct lives *lives)
{
    match_gradients(lives);
    vt_lives_follow_parameters(lives);
    list_parameters(lives);
    for (size_t i = 0; i < sizeof likenesses / sizeof likenesses[0]; i++)
        match_parameters(lives, &likenesses[i]);
    find_leaves(lives);
    lives->has_state = makes_own_state(lives);
    find_gradient_holders(lives);
}
