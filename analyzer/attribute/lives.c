/* The life of each block as bits for the rules. */
#include <stdlib.h>
#include <string.h>

#include "attribute/cohorts.h"
#include "attribute/lives.h"
#include "base/allocate.h"

/* A block is persistent if it is alive after the last backward pass of this many steps, or of all if there
 * are fewer. Other passes of a step do not count: an input serves all passes of its step. */
#define PERSISTENT_STEPS 3

/* Whether an optimizer's step comes before or after each span, up to the next pass. */
static void find_optimizers(struct lives *lives)
{
    const struct vt_phases *phases = lives->phases;
    const struct vt_replay *replay = lives->replay;
    lives->after_optimizer = vt_allocate(phases->span_count + 1);
    lives->before_optimizer = vt_allocate_zeros(phases->span_count + 1, 1);
    for (size_t i = 0; i < phases->span_count; i++) {
        const struct vt_span *span = &phases->spans[i];
        lives->after_optimizer[i] =
            i > 0 && span->phase != VT_PHASE_BACKWARD && lives->after_optimizer[i - 1];
        if (span->phase != VT_PHASE_OPTIMIZER)
            continue;
        /* what only frees may be the script's own work */
        for (uint32_t e = span->first_event; e <= span->last_event; e++)
            lives->after_optimizer[i] |= replay->trace->events[e].kind == VT_EVENT_ALLOC;
    }
    for (size_t i = phases->span_count; i-- > 1;)
        lives->before_optimizer[i - 1] =
            phases->spans[i].phase == VT_PHASE_OPTIMIZER
                ? lives->after_optimizer[i]
                : phases->spans[i].phase != VT_PHASE_BACKWARD && lives->before_optimizer[i];
}

/* Whether an optimizer dropped the gradients of the last pass, before or in each span. */
static void find_dropped(struct lives *lives)
{
    const struct vt_phases *phases = lives->phases;
    uint64_t *freed = vt_allocate_zeros(phases->span_count + 1, sizeof *freed), made = 0, sum = 0;
    uint64_t *left = vt_allocate_zeros(phases->pass_count + 1, sizeof *left);
    long last = -1;
    lives->dropped = vt_allocate_zeros(phases->span_count + 1, 1);
    for (size_t i = 0; i < lives->replay->allocation_count; i++) {
        const struct vt_allocation *block = &lives->replay->allocations[i];
        long pass = vt_pass_before(phases, block->alloc_event);
        if (pass < 0 || !vt_lives_holds(lives, block) ||
            block->alloc_event > phases->passes[pass].last_event ||
            block->free_event <= phases->passes[pass].last_event)
            continue;
        left[pass] += block->bytes;
        if (block->free_event != VT_NEVER && vt_pass_before(phases, block->free_event) == pass)
            freed[vt_span_index(phases, block->free_event)] += block->bytes;
    }
    for (size_t i = 0; i < phases->span_count; i++) {
        long pass = vt_pass_before(phases, phases->spans[i].first_event);
        made = pass >= 0 ? left[pass] : 0;
        sum = pass == last ? sum : 0;
        sum += phases->spans[i].phase == VT_PHASE_OPTIMIZER ? freed[i] : 0;
        lives->dropped[i] = made && sum * 2 >= made;
        last = pass;
    }
    free(freed);
    free(left);
}

static bool has_phases(const struct vt_phases *phases)
{
    for (size_t i = 0; i < phases->span_count; i++)
        if (vt_phase_is_shown(phases->spans[i].phase))
            return true;
    return false;
}

static void count_blocks(struct lives *lives)
{
    const struct vt_trace *trace = lives->replay->trace;
    const struct vt_phases *phases = lives->phases;
    lives->last_passes = vt_allocate_zeros(phases->pass_count + 1, sizeof *lives->last_passes);
    lives->made_before = vt_allocate_zeros(trace->event_count + 1, sizeof *lives->made_before);
    lives->first_step = vt_allocate_zeros(trace->stack_count, sizeof *lives->first_step);
    lives->last_step = vt_allocate_zeros(trace->stack_count, sizeof *lives->last_step);
    for (size_t i = phases->pass_count; i-- > 0;) {
        bool ends_step =
            i + 1 == phases->pass_count || vt_step_at(phases, phases->passes[i + 1].first_event) !=
                                               vt_step_at(phases, phases->passes[i].first_event);
        lives->last_passes[i] = ends_step ? (uint32_t)i : lives->last_passes[i + 1];
    }
    for (size_t i = 0; i < lives->replay->allocation_count; i++) {
        const struct vt_allocation *block = &lives->replay->allocations[i];
        if (!vt_lives_holds(lives, block))
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
}

/* Without backward: alive when PERSISTENT_STEPS more steps have ended, or at the end. */
static bool is_persistent_in_inference(const struct lives *lives, const struct vt_allocation *block)
{
    return block->free_event > lives->last_made ||
           vt_step_at(lives->phases, block->free_event) >=
               vt_step_at(lives->phases, block->alloc_event) + PERSISTENT_STEPS;
}

/* Alive after the last backward pass of PERSISTENT_STEPS steps, or of all if there are fewer. */
static uint64_t persistence(const struct lives *lives, const struct vt_allocation *block)
{
    const struct vt_phases *phases = lives->phases;
    if (phases->pass_count == 0)
        return is_persistent_in_inference(lives, block) ? VT_LIFE(PERSISTENT) : 0;
    long pass = vt_pass_before(phases, block->alloc_event);
    size_t next = pass < 0 ? 0 : (size_t)pass, survived = 0;
    for (; next < phases->pass_count && survived < PERSISTENT_STEPS; next++) {
        next = lives->last_passes[next];
        if (phases->passes[next].last_event < block->alloc_event)
            continue;
        if (block->free_event <= phases->passes[next].last_event)
            return 0;
        survived++;
    }
    bool recent = pass >= 0 && survived < PERSISTENT_STEPS;
    return survived > 0 ? VT_LIFE(PERSISTENT) | (recent ? RECENT : 0) : 0;
}

/* The bits that compare a life with backward passes. */
static uint64_t life_by_passes(const struct lives *lives, const struct vt_allocation *block)
{
    const struct vt_phases *phases = lives->phases;
    if (phases->pass_count == 0)
        return VT_LIFE(NO_BACKWARD) | persistence(lives, block);
    uint64_t bits = persistence(lives, block);
    long pass = vt_pass_before(phases, block->alloc_event);
    bool in_pass = pass >= 0 && phases->passes[pass].last_event >= block->alloc_event;
    size_t next = (size_t)(pass + 1);
    if (pass < 0)
        bits |= VT_LIFE(BEFORE_FIRST_BACKWARD);
    if (next < phases->pass_count && block->free_event > phases->passes[next].first_event)
        bits |= VT_LIFE(AT_NEXT_BACKWARD);
    if (next == phases->pass_count && block->free_event > lives->last_made && !in_pass)
        bits |= VT_LIFE(CUT);
    if (in_pass && block->free_event > phases->passes[pass].last_event)
        bits |= VT_LIFE(OUTLIVES_SPAN);
    if (vt_stays_alone(phases, lives->replay, block))
        bits |= VT_LIFE(STAYS_ALONE);
    if (in_pass && phases->passes[pass].makes_nodes)
        bits |= VT_LIFE(GRAD_MODE);
    /* the trace ends in this pass */
    if (in_pass && next == phases->pass_count && block->free_event == VT_NEVER &&
        phases->spans[phases->span_count - 1].phase == VT_PHASE_BACKWARD && !lives->replay->trace->complete)
        bits = (bits & ~VT_LIFE(OUTLIVES_SPAN)) | VT_LIFE(CUT);
    return bits;
}

/* A later pass finds the block. Copies of gradients stay gradients through the passes of a step, and those
 * that are made just before the optimizer's step through the next one's; what is computed for one of them
 * need not be. */
static bool is_needed(const struct lives *lives, const struct vt_allocation *block)
{
    const struct vt_phases *phases = lives->phases;
    long pass = vt_pass_before(phases, block->alloc_event);
    size_t next = (size_t)(pass + 1);
    if (pass >= 0 && vt_lives_has(lives, block, VT_TRAIT(COPY))) {
        size_t span = vt_span_index(phases, block->alloc_event);
        next = (size_t)lives->last_passes[pass] + 1;
        if (lives->before_optimizer[span] && next < phases->pass_count)
            next = (size_t)lives->last_passes[next] + 1;
    }
    return next < phases->pass_count && block->free_event > phases->passes[next].first_event;
}

/* Work of the script's own between a pass and the optimizer's step that follows it. */
static bool is_computed_after_backward(const struct lives *lives, const struct vt_allocation *block,
                                       const struct vt_span *span, uint64_t bits)
{
    const uint64_t others = VT_TRAIT(MODULE) | VT_TRAIT(BACKWARD) | VT_TRAIT(BACKWARD_CALL) |
                            VT_TRAIT(MODULE_APPLY) | VT_TRAIT(DATA) | VT_TRAIT(WORKSPACE) | VT_TRAIT(BUCKET) |
                            VT_TRAIT(GATHERED) | VT_TRAIT(ZEROS);
    bool in_optimizer = span->phase == VT_PHASE_OPTIMIZER || vt_lives_has(lives, block, VT_TRAIT(OPTIMIZER));
    if (lives->dropped[span - lives->phases->spans] && vt_lives_has(lives, block, VT_TRAIT(COPY)))
        return false; /* a copy of something else */
    return (in_optimizer ? bits & VT_LIFE(OUTLIVES_STEP)
                         : span->phase == VT_PHASE_OTHER || span->phase == VT_PHASE_DATA) &&
           vt_pass_before(lives->phases, block->alloc_event) >= 0 && block->free_event != VT_NEVER &&
           !(bits & VT_LIFE(GRAD_MODE)) && !lives->after_optimizer[span - lives->phases->spans] &&
           !is_needed(lives, block) && !vt_lives_has(lives, block, others);
}

static uint64_t life_of(const struct lives *lives, const struct vt_allocation *block)
{
    const struct vt_phases *phases = lives->phases;
    uint64_t bits = life_by_passes(lives, block);
    size_t span = vt_span_index(phases, block->alloc_event);
    uint32_t next_module = vt_next_module_event(phases, block->alloc_event);
    bool freed = block->free_event != VT_NEVER;
    if (freed)
        bits |= VT_LIFE(FREED);
    if (phases->spans[span].phase != VT_PHASE_BACKWARD && block->free_event > phases->spans[span].last_event)
        bits |= VT_LIFE(OUTLIVES_SPAN);
    if (next_module != VT_NEVER && block->free_event > next_module)
        bits |= VT_LIFE(AT_NEXT_FORWARD);
    if (phases->grad_mode[block->alloc_event])
        bits |= VT_LIFE(GRAD_MODE);
    if (freed && lives->made_before[block->free_event] < lives->made_before[block->alloc_event] + 2)
        bits |= VT_LIFE(BRIEF);
    if (!lives->has_phases)
        bits |= VT_LIFE(NO_PHASES);
    if (phases->step_count > 1 && lives->first_step[block->stack_id] == lives->last_step[block->stack_id])
        bits |= VT_LIFE(ONCE);
    /* without phases and steps nothing else shows what passes */
    bool unknown = !lives->has_phases && phases->spans[span].step == 0 && !(bits & VT_LIFE(BRIEF));
    if (!freed || unknown || vt_step_at(phases, block->free_event) > phases->spans[span].step)
        bits |= VT_LIFE(OUTLIVES_STEP);
    if (is_computed_after_backward(lives, block, &phases->spans[span], bits))
        bits |= COMPUTED_AFTER_BACKWARD;
    long recompute = vt_recompute_before(phases, block->alloc_event);
    if (recompute >= 0 && phases->recomputes[recompute].last_event >= block->alloc_event &&
        block->free_event > phases->recomputes[recompute].last_event)
        bits |= VT_LIFE(OUTLIVES_RECOMPUTE);
    return bits;
}

/* What code makes after a pass, by stack. A gradient or state of the script's own is one of a set: those of a
 * place are alive together, when its last is made. How many blocks an optimizer makes meanwhile differs from
 * step to step. */
struct place {
    uint32_t last_made; /* event, of the pass that is looked at */
    long pass;
    bool stays;                   /* some block is no short temporary */
    bool passes;                  /* some block goes before the place has made its last */
    uint64_t bytes, needed_bytes; /* of all blocks; of those that are needed */
};

/* Of what a place makes for one step, variables may hold a little longer. */
#define LEFT_OVER_SHARE 8

/* COMPUTED_AFTER_BACKWARD is only what a place makes that makes sets. */
static void keep_sets(struct lives *lives)
{
    size_t count = lives->replay->allocation_count;
    struct place *places = vt_allocate_zeros(lives->replay->trace->stack_count, sizeof *places);
    for (size_t i = count; i-- > 0;) {
        const struct vt_allocation *block = &lives->replay->allocations[i];
        struct place *place = &places[block->stack_id];
        long pass = vt_pass_before(lives->phases, block->alloc_event);
        if (!vt_lives_holds(lives, block) || pass < 0)
            continue;
        if (place->last_made == 0 || place->pass != pass)
            place->last_made = block->alloc_event, place->pass = pass;
        place->stays |= !(lives->bits[i] & VT_LIFE(BRIEF));
        place->bytes += block->bytes;
        place->needed_bytes += is_needed(lives, block) ? block->bytes : 0;
        place->passes |= block->free_event < place->last_made;
    }
    for (size_t i = 0; i < count; i++) {
        const struct place *place = &places[lives->replay->allocations[i].stack_id];
        if (place->needed_bytes * LEFT_OVER_SHARE > place->bytes || place->passes || !place->stays)
            lives->bits[i] &= ~COMPUTED_AFTER_BACKWARD;
    }
    free(places);
}

void vt_lives_find(const struct vt_replay *replay, const struct vt_traits_by_stack *sites,
                   const struct vt_phases *phases, uint64_t *bits)
{
    struct lives lives = {
        .replay = replay, .phases = phases, .sites = sites, .bits = bits, .has_phases = has_phases(phases)};
    find_optimizers(&lives);
    find_dropped(&lives);
    count_blocks(&lives);
    for (size_t i = 0; i < replay->allocation_count; i++)
        bits[i] = life_of(&lives, &replay->allocations[i]);
    keep_sets(&lives);
    vt_cohorts_find(&lives);
    free(lives.after_optimizer);
    free(lives.before_optimizer);
    free(lives.dropped);
    free(lives.made_before);
    free(lives.first_step);
    free(lives.last_step);
    free(lives.last_passes);
}
