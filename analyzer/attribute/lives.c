/* The life of each block as bits for the rules. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "attribute/phases.h"
#include "attribute/rules.h"
#include "base/index.h"

/* A block is persistent if it is alive after the last backward pass of this many steps, or of all if there
 * are fewer. Other passes of a step do not count: an input serves all passes of its step. */
#define PERSISTENT_STEPS 3
/* The allocator leaves up to 1 MiB unsplit in larger blocks, so the blocks of a parameter and its gradient
 * may differ by that much. Their sizes are compared in units. */
#define LARGE_BYTES (UINT64_C(1) << 20)
#define UNIT_BYTES (UINT64_C(1) << 16)
#define ROUNDING_BYTES UINT64_C(512) /* small blocks are a multiple of this */

struct lives {
    const struct vt_replay *replay;
    const struct vt_phases *phases;
    const struct vt_sites *sites;
    uint32_t *bits;
    uint32_t *span_ends;              /* by span: the last event of its phase's own work */
    uint32_t *made_before;            /* by event: count of blocks made up to it */
    uint32_t *first_step, *last_step; /* by stack */
    uint32_t *last_passes;            /* by pass: the last pass of its step */
    uint32_t last_made; /* event that made the last block: frees after it are the program's end */
    struct vt_index gradient_sizes, parameter_sizes; /* bucket → count */
};

static uint64_t traits_of(const struct lives *lives, const struct vt_allocation *block)
{
    return lives->sites->items[block->stack_id].traits;
}

static bool has_trait(const struct lives *lives, const struct vt_allocation *block, uint64_t trait)
{
    return (traits_of(lives, block) & trait) != 0;
}

static bool is_holder(const struct lives *lives, const struct vt_allocation *allocation)
{
    return vt_holds_tensors(lives->phases, allocation);
}

/* An optimizer's step has returned once something older than it is freed: later frees are not part of it. */
static int find_span_ends(struct lives *lives)
{
    const struct vt_phases *phases = lives->phases;
    const struct vt_replay *replay = lives->replay;
    lives->span_ends = malloc((phases->span_count + 1) * sizeof *lives->span_ends);
    if (!lives->span_ends)
        return -ENOMEM;
    for (size_t i = 0; i < phases->span_count; i++) {
        const struct vt_span *span = &phases->spans[i];
        lives->span_ends[i] = span->last_event;
        if (span->phase != VT_PHASE_OPTIMIZER)
            continue;
        uint32_t last_made = span->first_event;
        for (uint32_t e = span->first_event; e <= span->last_event; e++)
            if (replay->trace->events[e].kind == VT_EVENT_ALLOC)
                last_made = e;
        for (uint32_t e = last_made; e < span->last_event && lives->span_ends[i] == span->last_event; e++) {
            uint32_t freed = replay->first_freed[e + 1];
            if (freed != VT_NEVER && replay->allocations[freed].alloc_event < span->first_event)
                lives->span_ends[i] = e;
        }
    }
    return 0;
}

static int count_blocks(struct lives *lives)
{
    const struct vt_trace *trace = lives->replay->trace;
    const struct vt_phases *phases = lives->phases;
    lives->last_passes = calloc(phases->pass_count + 1, sizeof *lives->last_passes);
    lives->made_before = calloc(trace->event_count + 1, sizeof *lives->made_before);
    lives->first_step = calloc(trace->stack_count, sizeof *lives->first_step);
    lives->last_step = calloc(trace->stack_count, sizeof *lives->last_step);
    if (!lives->made_before || !lives->first_step || !lives->last_step || !lives->last_passes)
        return -ENOMEM;
    for (size_t i = phases->pass_count; i-- > 0;) {
        bool ends_step =
            i + 1 == phases->pass_count || vt_step_at(phases, phases->passes[i + 1].first_event) !=
                                               vt_step_at(phases, phases->passes[i].first_event);
        lives->last_passes[i] = ends_step ? (uint32_t)i : lives->last_passes[i + 1];
    }
    for (size_t i = 0; i < lives->replay->allocation_count; i++) {
        const struct vt_allocation *block = &lives->replay->allocations[i];
        if (!is_holder(lives, block))
            continue;
        uint32_t number = vt_step_at(phases, block->alloc_event) + 1;
        if (lives->first_step[block->stack_id] == 0)
            lives->first_step[block->stack_id] = number;
        lives->last_step[block->stack_id] = number;
        lives->made_before[block->alloc_event]++;
        lives->last_made = block->alloc_event;
    }
    for (size_t i = 1; i < trace->event_count; i++)
        lives->made_before[i] += lives->made_before[i - 1];
    return 0;
}

/* Without backward: alive when PERSISTENT_STEPS more steps have ended, or at the end. */
static bool is_persistent_in_inference(const struct lives *lives, const struct vt_allocation *block)
{
    return block->free_event > lives->last_made ||
           vt_step_at(lives->phases, block->free_event) >=
               vt_step_at(lives->phases, block->alloc_event) + PERSISTENT_STEPS;
}

/* Alive after the last backward pass of PERSISTENT_STEPS steps, or of all if there are fewer. */
static bool is_persistent(const struct lives *lives, const struct vt_allocation *block)
{
    const struct vt_phases *phases = lives->phases;
    if (phases->pass_count == 0)
        return is_persistent_in_inference(lives, block);
    long pass = vt_pass_before(phases, block->alloc_event);
    size_t next = pass < 0 ? 0 : (size_t)pass, survived = 0;
    for (; next < phases->pass_count && survived < PERSISTENT_STEPS; next++) {
        next = lives->last_passes[next];
        if (phases->passes[next].last_event < block->alloc_event)
            continue;
        if (block->free_event <= phases->passes[next].last_event)
            return false;
        survived++;
    }
    return survived > 0;
}

/* The bits that compare a life with backward passes. */
static uint32_t life_by_passes(const struct lives *lives, const struct vt_allocation *block)
{
    const struct vt_phases *phases = lives->phases;
    if (phases->pass_count == 0)
        return VT_LIFE_NO_BACKWARD | (is_persistent(lives, block) ? VT_LIFE_PERSISTENT : 0);
    uint32_t bits = 0;
    long pass = vt_pass_before(phases, block->alloc_event);
    bool in_pass = pass >= 0 && phases->passes[pass].last_event >= block->alloc_event;
    size_t next = (size_t)(pass + 1);
    if (pass < 0)
        bits |= VT_LIFE_BEFORE_FIRST_BACKWARD;
    if (next < phases->pass_count && block->free_event > phases->passes[next].first_event)
        bits |= VT_LIFE_AT_NEXT_BACKWARD;
    if (next == phases->pass_count && block->free_event > lives->last_made && !in_pass)
        bits |= VT_LIFE_CUT;
    if (is_persistent(lives, block))
        bits |= VT_LIFE_PERSISTENT;
    if (vt_freed_in_pass(phases, block) && vt_pass_before(phases, block->free_event) > pass)
        bits |= VT_LIFE_FREED_IN_BACKWARD;
    if (in_pass && block->free_event > phases->passes[pass].last_event)
        bits |= VT_LIFE_OUTLIVES_SPAN;
    if (in_pass && phases->passes[pass].makes_nodes)
        bits |= VT_LIFE_GRAD_MODE;
    /* the trace ends in this pass */
    if (in_pass && next == phases->pass_count && block->free_event == VT_NEVER &&
        phases->spans[phases->span_count - 1].phase == VT_PHASE_BACKWARD && !lives->replay->trace->complete)
        bits = (bits & ~(uint32_t)VT_LIFE_OUTLIVES_SPAN) | VT_LIFE_CUT;
    return bits;
}

/* Work of the script's own between a pass and what follows it. */
static bool is_computed_after_backward(const struct lives *lives, const struct vt_allocation *block,
                                       const struct vt_span *span, uint32_t bits)
{
    const uint64_t others = VT_TRAIT(MODULE) | VT_TRAIT(OPTIMIZER) | VT_TRAIT(BACKWARD) |
                            VT_TRAIT(BACKWARD_CALL) | VT_TRAIT(MODULE_APPLY) | VT_TRAIT(DATA) |
                            VT_TRAIT(WORKSPACE) | VT_TRAIT(BUCKET) | VT_TRAIT(GATHERED) |
                            VT_TRAIT(ZEROS);
    return (span->phase == VT_PHASE_OTHER || span->phase == VT_PHASE_DATA) &&
           vt_pass_before(lives->phases, block->alloc_event) >= 0 && block->free_event != VT_NEVER &&
           !(bits & (VT_LIFE_AT_NEXT_BACKWARD | VT_LIFE_GRAD_MODE)) && !has_trait(lives, block, others);
}

static uint32_t life_of(const struct lives *lives, const struct vt_allocation *block)
{
    const struct vt_phases *phases = lives->phases;
    uint32_t bits = life_by_passes(lives, block);
    size_t span = vt_span_index(phases->spans, phases->span_count, block->alloc_event);
    uint32_t next_module = vt_next_module_event(phases, block->alloc_event);
    bool freed = block->free_event != VT_NEVER;
    if (freed)
        bits |= VT_LIFE_FREED;
    if (phases->spans[span].phase != VT_PHASE_BACKWARD && block->free_event > lives->span_ends[span])
        bits |= VT_LIFE_OUTLIVES_SPAN;
    if (next_module != VT_NEVER && block->free_event > next_module)
        bits |= VT_LIFE_AT_NEXT_FORWARD;
    if (phases->grad_mode[block->alloc_event])
        bits |= VT_LIFE_GRAD_MODE;
    if (freed && lives->made_before[block->free_event] < lives->made_before[block->alloc_event] + 2)
        bits |= VT_LIFE_BRIEF;
    if (phases->step_count > 1 && lives->first_step[block->stack_id] == lives->last_step[block->stack_id])
        bits |= VT_LIFE_ONCE;
    if (!freed || vt_step_at(phases, block->free_event) > phases->spans[span].step)
        bits |= VT_LIFE_OUTLIVES_STEP;
    if (is_computed_after_backward(lives, block, &phases->spans[span], bits))
        bits |= VT_LIFE_COMPUTED_AFTER_BACKWARD;
    long recompute = vt_recompute_before(phases, block->alloc_event);
    if (recompute >= 0 && phases->recomputes[recompute].last_event >= block->alloc_event &&
        block->free_event > phases->recomputes[recompute].last_event)
        bits |= VT_LIFE_OUTLIVES_RECOMPUTE;
    return bits;
}

static bool is_parameter(const struct lives *lives, size_t i)
{
    const struct vt_allocation *block = &lives->replay->allocations[i];
    return is_holder(lives, block) && !has_trait(lives, block, VT_TRAIT(BUFFER)) &&
           (has_trait(lives, block, VT_TRAIT(MODULE_APPLY)) || (lives->bits[i] & VT_LIFE_MATCHES_GRADIENT));
}

/* Finds the last block that each pass leaves behind. And COMPUTED_AFTER_BACKWARD is only what code makes all
 * of whose blocks are, and some of which are no short temporaries: how many blocks an optimizer makes meanwhile
 * differs from step to step. */
static int compare_blocks(struct lives *lives)
{
    const struct vt_phases *phases = lives->phases;
    size_t count = lives->replay->allocation_count;
    uint32_t *last = malloc((phases->pass_count + 1) * sizeof *last);
    uint8_t *stays = calloc(lives->replay->trace->stack_count, 1);
    uint8_t *needed = calloc(lives->replay->trace->stack_count, 1);
    int error = last && needed && stays ? 0 : -ENOMEM;
    for (size_t i = 0; i < phases->pass_count && !error; i++)
        last[i] = VT_NEVER;
    for (size_t i = 0; i < count && !error; i++) {
        const struct vt_allocation *block = &lives->replay->allocations[i];
        long pass = vt_pass_before(phases, block->alloc_event);
        if (!is_holder(lives, block) || pass < 0)
            continue;
        stays[block->stack_id] |= !(lives->bits[i] & VT_LIFE_BRIEF);
        needed[block->stack_id] |= (lives->bits[i] & VT_LIFE_AT_NEXT_BACKWARD) != 0;
        if (has_trait(lives, block, VT_TRAIT(BACKWARD)) && (lives->bits[i] & VT_LIFE_OUTLIVES_SPAN))
            last[pass] = (uint32_t)i;
    }
    for (size_t i = 0; i < phases->pass_count && !error; i++)
        if (last[i] != VT_NEVER)
            lives->bits[last[i]] |= VT_LIFE_ENDS_PASS;
    for (size_t i = 0; i < count && !error; i++)
        if (needed[lives->replay->allocations[i].stack_id] || !stays[lives->replay->allocations[i].stack_id])
            lives->bits[i] &= ~(uint32_t)VT_LIFE_COMPUTED_AFTER_BACKWARD;
    free(last);
    free(stays);
    free(needed);
    return error;
}

/* Blocks by the bits of their life and the traits of their stack. */
struct profile {
    uint32_t life, not_life; /* all of the first, none of the second */
    uint64_t trait;          /* 0 = any stack */
    uint64_t not_traits;
    bool not_parameter;
};
#define EARLY (VT_LIFE_BEFORE_FIRST_BACKWARD | VT_LIFE_PERSISTENT)
static const struct profile left_by_backward = {.trait = VT_TRAIT(BACKWARD),
                                                .not_traits = VT_TRAIT(WORKSPACE)};
/* State that a script made for its own optimizer. */
static const struct profile early_zeros = {.life = EARLY, .trait = VT_TRAIT(ZEROS), .not_parameter = true};

static bool fits(const struct lives *lives, size_t i, const struct profile *profile)
{
    uint32_t life = lives->bits[i];
    const struct vt_allocation *block = &lives->replay->allocations[i];
    return is_holder(lives, block) && (life & profile->life) == profile->life &&
           !(life & profile->not_life) && (!profile->trait || has_trait(lives, block, profile->trait)) &&
           !has_trait(lives, block, profile->not_traits) &&
           !(profile->not_parameter && is_parameter(lives, i));
}

/* ---- Gradients and parameters by size ---- */

static uint64_t bucket(uint64_t bytes)
{
    return bytes <= LARGE_BYTES ? bytes : LARGE_BYTES + bytes / UNIT_BYTES;
}

static uint32_t count_of(const struct vt_index *sizes, uint64_t size_bucket)
{
    uint32_t count = vt_index_get(sizes, size_bucket);
    return count == VT_INDEX_NONE ? 0 : count;
}

static int add_size(struct vt_index *sizes, uint64_t bytes)
{
    uint64_t size_bucket = bucket(bytes);
    return vt_index_put(sizes, size_bucket, count_of(sizes, size_bucket) + 1);
}

/* The nearest size with at least `least` blocks that a block of `bytes` may match: its own, or for a large
 * block one within the unsplit remainder. 0 = none. */
static uint64_t nearest_bucket(const struct vt_index *sizes, uint64_t bytes, uint32_t least)
{
    uint64_t middle = bucket(bytes), reach = bytes <= LARGE_BYTES ? 0 : LARGE_BYTES / UNIT_BYTES;
    for (uint64_t away = 0; away <= reach; away++)
        for (uint64_t near = middle - away;; near = middle + away) {
            uint32_t count = vt_index_get(sizes, near);
            if (count != VT_INDEX_NONE && count >= least)
                return near;
            if (near == middle + away)
                break;
        }
    return 0;
}

static bool take_size(struct vt_index *sizes, uint64_t bytes)
{
    uint64_t found = nearest_bucket(sizes, bytes, 1);
    return found && vt_index_put(sizes, found, count_of(sizes, found) - 1) == 0;
}

/* The gradients alive when the first step's last backward pass ends. */
static int collect_gradients(struct lives *lives, uint32_t at_event)
{
    for (size_t i = 0; i < lives->replay->allocation_count; i++) {
        const struct vt_allocation *block = &lives->replay->allocations[i];
        if (!vt_alive_at(block, at_event) || !(lives->bits[i] & VT_LIFE_OUTLIVES_SPAN) ||
            !fits(lives, i, &left_by_backward))
            continue;
        int error = add_size(&lives->gradient_sizes, block->bytes);
        if (error)
            return error;
    }
    return 0;
}

/* How likely a block from before the first pass is a parameter; 0 = it is not. */
static int parameter_rank(const struct lives *lives, const struct vt_allocation *block)
{
    uint64_t traits = traits_of(lives, block);
    if (traits & (VT_TRAIT(BUFFER) | VT_TRAIT(WORKSPACE) | VT_TRAIT(MODULE) | VT_TRAIT(OPTIMIZER)))
        return 0;
    if (traits & VT_TRAIT(MODULE_APPLY))
        return 3;
    return traits & VT_TRAIT(INIT_METHOD) ? 2 : 1;
}

/* Matches each gradient of the first step with one earlier block of its size: first blocks that modules made,
 * then the rest, both in the order in which they were made. */
static int match_gradients(struct lives *lives)
{
    const struct vt_phases *phases = lives->phases;
    const struct vt_replay *replay = lives->replay;
    if (phases->pass_count == 0)
        return 0;
    uint32_t at_event = phases->passes[lives->last_passes[0]].last_event;
    int error = collect_gradients(lives, at_event);
    for (int rank = 3; rank > 0 && !error; rank--) {
        for (size_t i = 0; i < replay->allocation_count; i++) {
            const struct vt_allocation *block = &replay->allocations[i];
            if (block->alloc_event >= phases->passes[0].first_event)
                break;
            if (is_holder(lives, block) && block->free_event > at_event &&
                parameter_rank(lives, block) == rank && take_size(&lives->gradient_sizes, block->bytes))
                lives->bits[i] |= VT_LIFE_MATCHES_GRADIENT;
        }
    }
    return error;
}

/* Blocks that match the sizes of parameters. A few match by chance: those found must be at least one
 * `share`-th of all parameters, by bytes and by number; 0 = any number is enough. */
struct likeness {
    struct profile profile;
    uint64_t share;
    bool also_twice; /* also a block of twice the size: 4 bytes an element instead of 2 */
    bool repeated;   /* any number of blocks for one parameter */
    bool states;     /* the sizes are those of optimizer state: several for each parameter that is trained */
    uint32_t gives;  /* VT_LIFE_…, 0 = MATCHES_PARAMETER */
};

#define STATES_MAXIMUM 4 /* tensors of optimizer state for one parameter */

static const struct likeness likenesses[] = {
    /* gradients of a pass that was cut short */
    {.profile = {.life = VT_LIFE_CUT, .trait = VT_TRAIT(BACKWARD), .not_traits = VT_TRAIT(WORKSPACE)}},
    /* early_zeros */
    {.profile = {.life = EARLY, .trait = VT_TRAIT(ZEROS), .not_parameter = true},
     .share = 2,
     .repeated = true},
    /* the same, made when the optimizer first needs it */
    {.profile = {.life = VT_LIFE_PERSISTENT | VT_LIFE_ONCE,
                 .not_life = VT_LIFE_BEFORE_FIRST_BACKWARD,
                 .trait = VT_TRAIT(ZEROS),
                 .not_traits = VT_TRAIT(MODULE) | VT_TRAIT(BACKWARD)},
     .share = 2,
     .repeated = true},
    /* copies of the parameters in another precision, which a script keeps beside those that it trains */
    {.profile = {.life = EARLY,
                 .trait = VT_TRAIT(SOURCE),
                 .not_traits = VT_TRAIT(ZEROS) | VT_TRAIT(MODULE) | VT_TRAIT(MODULE_APPLY),
                 .not_parameter = true},
     .share = 2,
     .also_twice = true},
    /* gradients that the script computes itself: some of its own temporaries have these sizes too */
    {.profile = {.life = VT_LIFE_COMPUTED_AFTER_BACKWARD},
     .share = 2,
     .repeated = true},
    {.profile = {.life = VT_LIFE_COMPUTED_AFTER_BACKWARD},
     .share = STATES_MAXIMUM,
     .repeated = true,
     .states = true},
    /* gradients among what a pass leaves behind that makes a graph */
    {.profile = {.life = VT_LIFE_OUTLIVES_SPAN | VT_LIFE_GRAD_MODE, .trait = VT_TRAIT(BACKWARD)},
     .repeated = true},
    /* parameters that the script itself gathers for each use */
    {.profile = {.not_life = VT_LIFE_GRAD_MODE | VT_LIFE_OUTLIVES_STEP | VT_LIFE_ONCE,
                 .trait = VT_TRAIT(UNFILLED),
                 .not_traits = VT_TRAIT(OPTIMIZER) | VT_TRAIT(BUCKET) | VT_TRAIT(WORKSPACE)},
     .share = 2,
     .repeated = true,
     .gives = VT_LIFE_GATHERED},
    /* state from the file from which the parameters were copied */
    {.profile = {.life = EARLY, .trait = VT_TRAIT(LOADED), .not_parameter = true},
     .share = 2,
     .repeated = true},
};

/* What an optimizer made in its first step and keeps. */
static const struct profile state = {.life = VT_LIFE_OUTLIVES_STEP | VT_LIFE_AT_NEXT_BACKWARD,
                                     .trait = VT_TRAIT(OPTIMIZER),
                                     .not_traits = VT_TRAIT(BACKWARD)};

static bool take_like(struct lives *lives, const struct likeness *likeness, uint64_t bytes)
{
    return take_size(&lives->parameter_sizes, bytes) ||
           (likeness->also_twice &&
            take_size(&lives->parameter_sizes, (bytes / 2 + ROUNDING_BYTES - 1) / ROUNDING_BYTES * ROUNDING_BYTES));
}

static int match_parameters(struct lives *lives, const struct likeness *likeness)
{
    const struct vt_replay *replay = lives->replay;
    uint64_t parameter_bytes = 0, matched_bytes = 0, parameter_count = 0, matched_count = 0;
    vt_index_free(&lives->parameter_sizes);
    for (size_t i = 0; i < replay->allocation_count; i++) {
        if (likeness->states ? !fits(lives, i, &state) : !is_parameter(lives, i))
            continue;
        /* sharding frees what it shared out: only gathered copies are as large */
        if (!(lives->bits[i] & VT_LIFE_AT_NEXT_BACKWARD) && likeness->gives != VT_LIFE_GATHERED)
            continue;
        parameter_bytes += replay->allocations[i].bytes;
        parameter_count++;
        int error = add_size(&lives->parameter_sizes, replay->allocations[i].bytes);
        if (error)
            return error;
    }
    uint8_t *matched = calloc(replay->allocation_count + 1, 1);
    if (!matched)
        return -ENOMEM;
    for (size_t i = 0; i < replay->allocation_count; i++) {
        uint64_t bytes = replay->allocations[i].bytes;
        bool candidate = fits(lives, i, &likeness->profile),
             taken = candidate && take_like(lives, likeness, bytes);
        matched[i] = taken || (candidate && likeness->repeated &&
                               nearest_bucket(&lives->parameter_sizes, bytes, 0) > 0);
        matched_bytes += taken ? bytes : 0;
        matched_count += taken;
    }
    bool enough = parameter_count > 0 && matched_bytes * likeness->share >= parameter_bytes * (likeness->share > 0) &&
                  matched_count * likeness->share >= parameter_count * (likeness->share > 0);
    for (size_t i = 0; i < replay->allocation_count; i++)
        if (matched[i] && enough)
            lives->bits[i] |= likeness->gives ? likeness->gives : (uint32_t)VT_LIFE_MATCHES_PARAMETER;
    free(matched);
    return 0;
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
        bool in_bucket = has_trait(lives, block, VT_TRAIT(BUCKET));
        bool made = !in_bucket && fits(lives, i, &left_by_backward), zeros = fits(lives, i, &early_zeros);
        if (!is_holder(lives, block) || !(in_bucket || made || zeros))
            continue;
        int64_t bytes = (int64_t)block->bytes;
        const struct held_bytes own = {made ? bytes : 0, in_bucket ? bytes : 0, zeros ? bytes : 0};
        /* from the first pass that ends after it was made to the last that ends before it is freed */
        long begun = vt_pass_before(phases, block->alloc_event);
        size_t first = begun >= 0 && phases->passes[begun].last_event >= block->alloc_event ? (size_t)begun : (size_t)(begun + 1);
        long ended = block->free_event == VT_NEVER ? (long)phases->pass_count - 1 : vt_pass_before(phases, block->free_event);
        size_t end = ended >= 0 && phases->passes[ended].last_event >= block->free_event ? (size_t)ended : (size_t)(ended + 1);
        if (first >= end)
            continue;
        held[first].gradients += own.gradients, held[end].gradients -= own.gradients;
        held[first].buckets += own.buckets, held[end].buckets -= own.buckets;
        held[first].zeros += own.zeros, held[end].zeros -= own.zeros;
    }
}

/* Gradients may be views of the buckets that are sent, or of zeros that the script made for them: some pass
 * then leaves almost no gradients of its own. (Under no_sync the passes before it do.) */
static int find_gradient_holders(struct lives *lives)
{
    const struct vt_replay *replay = lives->replay;
    size_t count = lives->phases->pass_count;
    struct held_bytes *held = calloc(count + 1, sizeof *held);
    int64_t parameter_bytes = 0;
    bool buckets = false, zeros = count > 0;
    if (!held)
        return -ENOMEM;
    for (size_t i = 0; i < replay->allocation_count; i++)
        parameter_bytes += is_parameter(lives, i) ? (int64_t)replay->allocations[i].bytes : 0;
    weigh_passes(lives, held);
    for (size_t i = 0; i < count; i++) {
        if (i > 0) {
            held[i].gradients += held[i - 1].gradients;
            held[i].buckets += held[i - 1].buckets;
            held[i].zeros += held[i - 1].zeros;
        }
        buckets |= held[i].gradients < held[i].buckets / 2;
        zeros &= !held[i].buckets && held[i].gradients < parameter_bytes / 2 && held[i].zeros >= parameter_bytes / 2;
    }
    for (size_t i = 0; i < replay->allocation_count; i++)
        if ((buckets && has_trait(lives, &replay->allocations[i], VT_TRAIT(BUCKET))) ||
            (zeros && fits(lives, i, &early_zeros)))
            lives->bits[i] |= VT_LIFE_HOLDS_GRADIENTS;
    free(held);
    return 0;
}

int vt_lives_find(const struct vt_replay *replay, const struct vt_sites *sites,
                  const struct vt_phases *phases, uint32_t *bits)
{
    struct lives lives = {.replay = replay, .phases = phases, .sites = sites, .bits = bits};
    int error = find_span_ends(&lives);
    if (!error)
        error = count_blocks(&lives);
    for (size_t i = 0; i < replay->allocation_count && !error; i++)
        bits[i] = life_of(&lives, &replay->allocations[i]);
    if (!error)
        error = compare_blocks(&lives);
    if (!error)
        error = match_gradients(&lives);
    for (size_t i = 0; i < sizeof likenesses / sizeof likenesses[0] && !error; i++)
        error = match_parameters(&lives, &likenesses[i]);
    if (!error)
        error = find_gradient_holders(&lives);
    free(lives.span_ends);
    free(lives.made_before);
    free(lives.first_step);
    free(lives.last_step);
    free(lives.last_passes);
    vt_index_free(&lives.gradient_sizes);
    vt_index_free(&lives.parameter_sizes);
    return error;
}
