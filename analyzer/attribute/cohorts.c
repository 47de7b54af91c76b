/* Cohorts. One tensor of a parameter's size proves nothing, so the sizes of a group are compared with those
 * of all parameters. A table says which groups, with what, and how many must match. */
#include "attribute/cohorts.h"

#include <stdlib.h>

#include "attribute/counted_sizes.h"
#include "attribute/lives.h"
#include "base/allocate.h"
#include "format/allocator.h"

/* ---- Blocks by life and stack ---- */

struct profile {
    uint64_t life, not_life;     /* all of the first, none of the second */
    uint64_t traits, not_traits; /* one of the first at least, 0 = any stack; none of the second */
    bool parameters_too;
};

#define EARLY (VT_LIFE(BEFORE_FIRST_BACKWARD) | VT_LIFE(PERSISTENT))
static const struct profile left_by_backward = {.life = VT_LIFE(OUTLIVES_SPAN),
                                                .not_life = VT_LIFE(STAYS_ALONE),
                                                .traits = VT_TRAIT(BACKWARD),
                                                .not_traits = VT_TRAIT(WORKSPACE),
                                                .parameters_too = true};
/* State that a script made for its own optimizer. */
static const struct profile early_zeros = {.life = EARLY, .traits = VT_TRAIT(ZEROS)};
/* What an optimizer made in its first step and keeps. */
static const struct profile state = {.life = VT_LIFE(OUTLIVES_STEP) | VT_LIFE(AT_NEXT_BACKWARD),
                                     .traits = VT_TRAIT(OPTIMIZER),
                                     .not_traits = VT_TRAIT(BACKWARD),
                                     .parameters_too = true};

static bool is_parameter(const struct lives *lives, size_t i)
{
    const struct vt_allocation *block = &lives->replay->allocations[i];
    return vt_lives_holds(lives, block) && !vt_lives_has(lives, block, VT_TRAIT(BUFFER)) &&
           (vt_lives_has(lives, block, VT_TRAIT(MODULE_APPLY)) || lives->bits[i] & VT_LIFE(TRAINED));
}

static bool fits(const struct lives *lives, size_t i, const struct profile *profile)
{
    const struct vt_allocation *block = &lives->replay->allocations[i];
    uint64_t life = lives->bits[i], traits = vt_lives_traits(lives, block);
    return (life & profile->life) == profile->life && !(life & profile->not_life) &&
           (!profile->traits || traits & profile->traits) && !(traits & profile->not_traits) &&
           vt_lives_holds(lives, block) && (profile->parameters_too || !is_parameter(lives, i));
}

/* ---- Parameters, by the sizes of gradients ---- */

/* How likely a block from before the first pass is a parameter, by who made it; 0 = it is not. Data comes
 * from the host; so do some parameters. Zeros may be state. */
enum { RANK_ZEROS = 1, RANK_SCRIPT, RANK_APPLY };

static int parameter_rank(const struct lives *lives, size_t i)
{
    uint64_t traits = vt_lives_traits(lives, &lives->replay->allocations[i]);
    if (!vt_lives_holds(lives, &lives->replay->allocations[i]) || !(lives->bits[i] & VT_LIFE(PERSISTENT)) ||
        traits & (VT_TRAIT(BUFFER) | VT_TRAIT(WORKSPACE) | VT_TRAIT(MODULE) | VT_TRAIT(OPTIMIZER)))
        return 0;
    return traits & VT_TRAIT(MODULE_APPLY) ? RANK_APPLY : traits & VT_TRAIT(ZEROS) ? RANK_ZEROS : RANK_SCRIPT;
}

/* Matches each gradient that is alive when the first step's last pass ends with one earlier block of its
 * size: first blocks that modules made, in the order in which they were made, then the rest, the latest
 * first: a script has its data before what it trains with it, and a copy of something is trained rather than
 * that. */
static void match_gradients(struct lives *lives)
{
    const struct vt_phases *phases = lives->phases;
    const struct vt_allocation *blocks = lives->replay->allocations;
    struct vt_index gradients = {0};
    uint32_t end = phases->passes[lives->last_passes[0]].last_event;
    size_t count = vt_made_from(lives->replay, phases->passes[0].first_event);
    for (size_t i = 0; i < lives->replay->allocation_count; i++)
        if (vt_alive_at(&blocks[i], end) && fits(lives, i, &left_by_backward))
            vt_size_add(&gradients, blocks[i].bytes);
    for (int rank = RANK_APPLY; rank > 0; rank--)
        for (size_t k = 0; k < count; k++) {
            size_t i = rank == RANK_SCRIPT ? count - 1 - k : k;
            if (parameter_rank(lives, i) == rank && vt_size_take(&gradients, blocks[i].bytes))
                lives->bits[i] |= VT_LIFE(TRAINED);
        }
    vt_index_free(&gradients);
}

static void list_parameters(struct lives *lives)
{
    const uint64_t used =
        lives->phases->pass_count > 0 ? VT_LIFE(AT_NEXT_BACKWARD) | VT_LIFE(CUT) : VT_LIFE(AT_NEXT_FORWARD);
    for (size_t i = 0; i < lives->replay->allocation_count; i++) {
        uint64_t bytes = lives->replay->allocations[i].bytes;
        if (!is_parameter(lives, i) || !(lives->bits[i] & used))
            continue;
        VT_APPEND(lives->parameters, lives->parameter_count, lives->parameter_capacity, (uint32_t)i);
        vt_add_weight(&lives->all, bytes);
        vt_size_add(&lives->known_sizes, bytes);
        if (lives->bits[i] & VT_LIFE(TRAINED))
            vt_add_weight(&lives->trained, bytes);
        lives->largest = bytes > lives->largest ? bytes : lives->largest;
    }
}

/* ---- Enough of a set ---- */

/* What a set must have of the parameters, or of those that are trained: nine tenths, and a few blocks at
 * least. */
#define SET_SHARE_TENTHS 9
#define SET_COUNT_MINIMUM 3

static bool is_most_of(struct weight part, struct weight all)
{
    return all.count > 0 && part.count >= SET_COUNT_MINIMUM &&
           part.bytes * 10 >= all.bytes * SET_SHARE_TENTHS && part.count * 10 >= all.count * SET_SHARE_TENTHS;
}

static bool are_all_parameters(const struct lives *lives, struct weight set)
{
    return is_most_of(set, lives->all) || is_most_of(set, lives->trained);
}

/* Sets `sizes` to those of the parameters, each `times` times. */
static void index_parameters(struct lives *lives, size_t times)
{
    vt_index_free(&lives->sizes);
    for (size_t i = 0; i < lives->parameter_count * times; i++)
        vt_size_add(&lives->sizes, lives->replay->allocations[lives->parameters[i / times]].bytes);
}

/* ---- Likenesses: all blocks of a trace with one profile ---- */

enum measure {
    BY_PARAMETERS,
    BY_OTHER_STATE, /* that belongs to no known parameter */
    BY_STATE,       /* of optimizers: up to STATES_MAXIMUM tensors for each parameter that is trained */
};
#define STATES_MAXIMUM 4
#define FACTORS_MAXIMUM 16 /* that are tried */

#define LEFT_IN_GRAPH                                                                                        \
    {                                                                                                        \
        .life = VT_LIFE(OUTLIVES_SPAN) | VT_LIFE(GRAD_MODE), .traits = VT_TRAIT(BACKWARD),                   \
        .parameters_too = true                                                                               \
    }

/* A few blocks match by chance: those found must be at least one `share`-th of the measure, by bytes and by
 * number; 0 = any number is enough. */
struct likeness {
    struct profile profile;
    uint64_t share;
    bool whole;      /* rather nearly all of them, in a few blocks at least */
    bool also_twice; /* also a block of twice the size: 4 bytes an element instead of 2 */
    bool also_half;  /* also a block of half the size: 2 bytes an element, where the state has 4 */
    bool repeated;   /* any number of blocks for one parameter */
    bool many;       /* some number of times as large, which the largest shows: a gradient for each sample */
    enum measure measure;
    uint64_t gives; /* VT_LIFE_…, 0 = MATCHES_PARAMETER */
};

static const struct likeness likenesses[] = {
    /* gradients of a pass that was cut short */
    {.profile = {.life = VT_LIFE(CUT),
                 .traits = VT_TRAIT(BACKWARD),
                 .not_traits = VT_TRAIT(WORKSPACE),
                 .parameters_too = true}},
    {.profile = {.life = EARLY, .traits = VT_TRAIT(ZEROS)}, .share = 2, .repeated = true}, /* early_zeros */
    /* gradients of copies of the parameters, which the script fills */
    {.profile = {.life = VT_LIFE(PERSISTENT) | VT_LIFE(ONCE),
                 .not_life = VT_LIFE(BEFORE_FIRST_BACKWARD),
                 .traits = VT_TRAIT(UNFILLED),
                 .not_traits = VT_TRAIT(MODULE) | VT_TRAIT(BACKWARD) | VT_TRAIT(WORKSPACE) | VT_TRAIT(BUCKET),
                 .parameters_too = true},
     .whole = true,
     .also_twice = true},
    /* gradients that the script computes itself: some of its own temporaries have these sizes too */
    {.profile = {.life = COMPUTED_AFTER_BACKWARD, .parameters_too = true},
     .share = STATES_MAXIMUM,
     .repeated = true,
     .measure = BY_STATE},
    /* what an optimizer trains though backward makes no gradient of its size: one share, or one flat copy of
       all */
    {.profile = {.life = EARLY,
                 .not_traits = VT_TRAIT(ZEROS) | VT_TRAIT(MODULE) | VT_TRAIT(MODULE_APPLY) |
                               VT_TRAIT(BUFFER) | VT_TRAIT(WORKSPACE) | VT_TRAIT(BUCKET) | VT_TRAIT(DATA) |
                               VT_TRAIT(OPTIMIZER)},
     .also_half = true,
     .measure = BY_OTHER_STATE,
     .gives = VT_LIFE(TRAINED)},
    /* gradients among what a pass leaves behind that makes a graph; and the same for each sample
       (torch.func.vmap of grad; Jacobians have a row for each output) */
    {.profile = LEFT_IN_GRAPH, .repeated = true},
    {.profile = LEFT_IN_GRAPH, .whole = true, .repeated = true, .many = true},
};

static uint64_t rounded(uint64_t bytes)
{
    return (bytes + VT_TORCH_ROUND_BYTES - 1) / VT_TORCH_ROUND_BYTES * VT_TORCH_ROUND_BYTES;
}

static bool take_like(struct lives *lives, const struct likeness *likeness, uint64_t bytes)
{
    struct vt_index *sizes = &lives->sizes;
    return vt_size_take(sizes, bytes) ||
           (likeness->also_half &&
            (vt_size_take(sizes, 2 * bytes) || vt_size_take(sizes, 2 * bytes - VT_TORCH_ROUND_BYTES))) ||
           (likeness->also_twice && vt_size_take(sizes, rounded(bytes / 2)));
}

/* Sets `sizes`; what they are together. */
static struct weight index_measure(struct lives *lives, enum measure measure)
{
    struct weight all = {0};
    if (measure == BY_PARAMETERS) {
        index_parameters(lives, 1);
        return lives->all;
    }
    vt_index_free(&lives->sizes);
    for (size_t i = 0; i < lives->replay->allocation_count; i++) {
        uint64_t bytes = lives->replay->allocations[i].bytes;
        if (!fits(lives, i, &state) ||
            (measure == BY_OTHER_STATE && vt_size_nearest(&lives->known_sizes, bytes, 1)))
            continue;
        vt_add_weight(&all, bytes);
        vt_size_add(&lives->sizes, bytes);
    }
    return all;
}

/* Marks what matches in `matched`; false if that is not enough. */
static bool match(struct lives *lives, const struct likeness *likeness, const uint32_t *cohort, size_t count,
                  uint64_t factor, uint8_t *matched)
{
    struct weight found = {0}, all = index_measure(lives, likeness->measure);
    for (size_t k = 0; k < count; k++) {
        uint64_t whole = lives->replay->allocations[cohort[k]].bytes,
                 bytes = factor == 1 ? whole : rounded(whole / factor);
        bool taken = take_like(lives, likeness, bytes);
        matched[k] = taken || (likeness->repeated && vt_size_nearest(&lives->sizes, bytes, 0) > 0);
        if (taken)
            vt_add_weight(&found, bytes);
    }
    return likeness->whole ? is_most_of(found, all)
                           : found.bytes * likeness->share >= all.bytes * (likeness->share > 0) &&
                                 found.count * likeness->share >= all.count * (likeness->share > 0);
}

/* As match, with the factors that some block would have to the largest parameter. */
static bool match_many(struct lives *lives, const struct likeness *likeness, const uint32_t *cohort,
                       size_t count, uint8_t *matched)
{
    uint64_t last = 0, largest = lives->largest;
    for (size_t i = count, tries = 0; i-- > 0 && tries < FACTORS_MAXIMUM && largest > VT_TORCH_ROUND_BYTES;) {
        uint64_t factor = lives->replay->allocations[cohort[i]].bytes / (largest - VT_TORCH_ROUND_BYTES + 1);
        tries += factor >= 2 && factor != last;
        if (factor >= 2 && factor != last && match(lives, likeness, cohort, count, factor, matched))
            return true;
        last = factor;
    }
    return false;
}

static void match_likeness(struct lives *lives, const struct likeness *likeness)
{
    size_t all = lives->replay->allocation_count, count = 0;
    uint32_t *cohort = vt_allocate((all + 1) * sizeof *cohort);
    for (size_t i = 0; i < all; i++)
        if (fits(lives, i, &likeness->profile))
            cohort[count++] = (uint32_t)i;
    uint8_t *matched = vt_allocate(count + 1);
    bool enough = likeness->many ? match_many(lives, likeness, cohort, count, matched)
                                 : match(lives, likeness, cohort, count, 1, matched);
    for (size_t k = 0; k < count && enough; k++)
        if (matched[k])
            lives->bits[cohort[k]] |= likeness->gives ? likeness->gives : VT_LIFE(MATCHES_PARAMETER);
    free(matched);
    free(cohort);
}

/* ---- Groups: what one line makes between two passes, or a file that is read holds ---- */

#define SETS_MAXIMUM                                                                                         \
    8 /* that a line makes at once: it may copy the model twice, or an optimizer's states                    \
       */

struct member {
    uint64_t
        line; /* that made it: hash of its Python lines, since native frames change as the program warms up */
    uint32_t passes; /* before it */
    uint32_t allocation;
};

static int compare_members(const void *a, const void *b)
{
    const struct member *left = a, *right = b;
    return left->line != right->line       ? vt_order(left->line, right->line)
           : left->passes != right->passes ? vt_order(left->passes, right->passes)
                                           : vt_order(left->allocation, right->allocation);
}

/* Those of a group that are dropped before a pass, or kept, and match the parameters, each once. */
static struct weight match_group(struct lives *lives, const struct member *group, size_t count, uint64_t kept)
{
    const uint64_t used = VT_LIFE(AT_NEXT_BACKWARD) | VT_LIFE(CUT);
    struct weight matched = {0};
    index_parameters(lives, 1);
    for (size_t i = 0; i < count; i++) {
        uint64_t bytes = lives->replay->allocations[group[i].allocation].bytes;
        if (!(lives->bits[group[i].allocation] & used) == !kept && vt_size_take(&lives->sizes, bytes))
            vt_add_weight(&matched, bytes);
    }
    return matched;
}

/* A file has weights, and perhaps an optimizer's state after or before them. If as much as the weights is
 * dropped before it is used, they were copied into the model (copies until then), and what is left is state.
 * If not, the first set is a copy of the weights; the rest is state only if the optimizer makes none. */
static void judge_loaded(struct lives *lives, const struct member *group, size_t count)
{
    const uint64_t used = VT_LIFE(AT_NEXT_BACKWARD) | VT_LIFE(CUT);
    bool dropped = are_all_parameters(lives, match_group(lives, group, count, 0));
    struct weight taken = {0};
    if (!dropped && !are_all_parameters(lives, match_group(lives, group, count, used)))
        return;
    index_parameters(lives, 1);
    for (size_t i = 0; i < count; i++) {
        uint64_t *life = &lives->bits[group[i].allocation],
                 bytes = lives->replay->allocations[group[i].allocation].bytes;
        bool kept = *life & used, first = !dropped && !are_all_parameters(lives, taken);
        if (kept && vt_size_take(&lives->sizes, bytes)) {
            vt_add_weight(&taken, bytes);
            first = !dropped;
        }
        *life |= kept && !first && !lives->has_state ? VT_LIFE(MATCHES_PARAMETER)
                 : kept || dropped                   ? VT_LIFE(LIKE_ALL_PARAMETERS)
                                                     : 0;
    }
}

/* The set is those of a line that are alive when its last is made; or several sets. */
static void judge_line(struct lives *lives, const struct member *group, size_t count)
{
    const struct vt_allocation *blocks = lives->replay->allocations;
    uint32_t complete = blocks[group[count - 1].allocation].alloc_event;
    struct weight all = {0}, matched = {0};
    for (size_t i = 0; i < count; i++)
        if (blocks[group[i].allocation].free_event > complete)
            vt_add_weight(&all, blocks[group[i].allocation].bytes);
    uint64_t sets = (all.bytes + lives->all.bytes / 2) / lives->all.bytes;
    sets = sets < 1 ? 1 : sets > SETS_MAXIMUM ? SETS_MAXIMUM : sets;
    index_parameters(lives, sets);
    for (size_t i = 0; i < count; i++) {
        const struct vt_allocation *block = &blocks[group[i].allocation];
        if (block->free_event > complete && vt_size_take(&lives->sizes, block->bytes))
            vt_add_weight(&matched, block->bytes);
    }
    bool is_set = are_all_parameters(lives, (struct weight){matched.bytes / sets, matched.count / sets});
    for (size_t i = 0; i < count && is_set; i++)
        if (blocks[group[i].allocation].free_event > complete)
            lives->bits[group[i].allocation] |= VT_LIFE(LIKE_ALL_PARAMETERS);
}

/* Made by the script itself, without gradients, from values that it has: copies or results. */
static const struct profile of_line = {.not_traits =
                                           VT_TRAIT(MODULE) | VT_TRAIT(MODULE_APPLY) | VT_TRAIT(BACKWARD) |
                                           VT_TRAIT(OPTIMIZER) | VT_TRAIT(BACKWARD_CALL) | VT_TRAIT(DATA) |
                                           VT_TRAIT(LOADED) | VT_TRAIT(WORKSPACE) | VT_TRAIT(BUCKET)};
static const struct profile of_file = {.traits = VT_TRAIT(LOADED),
                                       .not_traits = VT_TRAIT(MODULE) | VT_TRAIT(MODULE_APPLY)};

static bool may_be_member(const struct lives *lives, size_t i, bool loaded)
{
    const struct vt_allocation *block = &lives->replay->allocations[i];
    bool in_graph = lives->bits[i] & VT_LIFE(GRAD_MODE) && !vt_lives_has(lives, block, VT_TRAIT(COPY));
    return loaded ? fits(lives, i, &of_file) : block->stack_id != 0 && !in_graph && fits(lives, i, &of_line);
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

/* Only as many blocks as there are parameters can be a set of them, so that all groups together take no
 * longer than there are blocks. */
static void judge_groups(struct lives *lives, bool loaded)
{
    const struct vt_replay *replay = lives->replay;
    struct member *members = vt_allocate((replay->allocation_count + 1) * sizeof *members);
    size_t count = 0, end;
    for (size_t i = 0; i < replay->allocation_count; i++)
        if (may_be_member(lives, i, loaded))
            members[count++] = (struct member){
                loaded ? 0 : line_of(replay->trace, replay->allocations[i].stack_id),
                (uint32_t)(vt_pass_before(lives->phases, replay->allocations[i].alloc_event) + 1),
                (uint32_t)i};
    if (count > 1)
        qsort(members, count, sizeof *members, compare_members);
    for (size_t i = 0; i < count; i = end) {
        for (end = i + 1;
             end < count && members[end].line == members[i].line && members[end].passes == members[i].passes;)
            end++;
        if (are_all_parameters(lives, (struct weight){.bytes = UINT64_MAX / 16, .count = end - i}))
            (loaded ? judge_loaded : judge_line)(lives, members + i, end - i);
    }
    free(members);
}

/* ---- Gradients in other memory ---- */

/* An optimizer's step leaves state for half of what is trained, at least. */
static bool makes_own_state(const struct lives *lives)
{
    static const struct profile made = {.life = VT_LIFE(PERSISTENT),
                                        .traits = VT_TRAIT(OPTIMIZER),
                                        .not_traits = VT_TRAIT(OWN_UPDATE),
                                        .parameters_too = true};
    uint64_t bytes = 0;
    for (size_t i = 0; i < lives->replay->allocation_count; i++)
        bytes += fits(lives, i, &made) ? lives->replay->allocations[i].bytes : 0;
    return bytes * 2 >= lives->trained.bytes;
}

/* Passes that have begun by an event; without the one that it is in. */
static size_t passes_ended(const struct vt_phases *phases, uint32_t event)
{
    long begun = event == VT_NEVER ? (long)phases->pass_count - 1 : vt_pass_before(phases, event);
    bool within = begun >= 0 && phases->passes[begun].last_event >= event;
    return (size_t)(begun + (within ? 0 : 1));
}

enum holder { BACKWARD, BUCKETS, ZEROS, HOLDERS };

/* Sets the bytes that are alive when each pass ends: of gradients that backward made, of buckets, of early
 * zeros. */
static void weigh_passes(const struct lives *lives, int64_t (*held)[HOLDERS])
{
    const struct vt_phases *phases = lives->phases;
    for (size_t i = 0; i < lives->replay->allocation_count; i++) {
        const struct vt_allocation *block = &lives->replay->allocations[i];
        bool in_bucket = vt_lives_has(lives, block, VT_TRAIT(BUCKET));
        size_t first = passes_ended(phases, block->alloc_event),
               end = passes_ended(phases, block->free_event);
        if (!vt_lives_holds(lives, block) || first >= end)
            continue;
        bool has[HOLDERS] = {!in_bucket && fits(lives, i, &left_by_backward), in_bucket,
                             fits(lives, i, &early_zeros)};
        for (int holder = 0; holder < HOLDERS; holder++) {
            held[first][holder] += has[holder] ? (int64_t)block->bytes : 0;
            held[end][holder] -= has[holder] ? (int64_t)block->bytes : 0;
        }
    }
    for (size_t i = 1; i < phases->pass_count; i++)
        for (int holder = 0; holder < HOLDERS; holder++)
            held[i][holder] += held[i - 1][holder];
}

/* Gradients may be views of the buckets that are sent, or of zeros that the script made for them: some pass
 * then leaves almost no gradients of its own. (Under no_sync the passes before it do.) Zeros with the sizes
 * of parameters are no state where an optimizer makes its own: gradients are added up in them. */
static void find_gradient_holders(struct lives *lives)
{
    const struct vt_replay *replay = lives->replay;
    size_t count = lives->phases->pass_count;
    int64_t(*held)[HOLDERS] = vt_allocate_zeros(count + 1, sizeof *held);
    int64_t parameter_bytes = (int64_t)lives->all.bytes;
    bool buckets = false, zeros = count > 0;
    weigh_passes(lives, held);
    for (size_t i = 0; i < count; i++) {
        buckets |= held[i][BACKWARD] < held[i][BUCKETS] / 2;
        zeros &= !held[i][BUCKETS] && held[i][BACKWARD] < parameter_bytes / 2 &&
                 held[i][ZEROS] >= parameter_bytes / 2;
    }
    for (size_t i = 0; i < replay->allocation_count; i++)
        if ((buckets && vt_lives_has(lives, &replay->allocations[i], VT_TRAIT(BUCKET))) ||
            ((zeros || (lives->has_state && lives->bits[i] & VT_LIFE(MATCHES_PARAMETER))) &&
             fits(lives, i, &early_zeros)))
            lives->bits[i] |= VT_LIFE(HOLDS_GRADIENTS);
    free(held);
}

void vt_cohorts_find(struct lives *lives)
{
    if (lives->phases->pass_count > 0)
        match_gradients(lives);
    list_parameters(lives);
    for (size_t i = 0; i < sizeof likenesses / sizeof likenesses[0]; i++)
        match_likeness(lives, &likenesses[i]);
    lives->has_state = makes_own_state(lives);
    find_gradient_holders(lives);
    for (int loaded = 0; loaded < 2 && lives->all.bytes > 0; loaded++)
        judge_groups(lives, loaded);
    vt_index_free(&lives->sizes);
    vt_index_free(&lives->known_sizes);
    free(lives->parameters);
}
