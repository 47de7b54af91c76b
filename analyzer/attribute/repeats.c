/* Gradients and optimizer state that no inspection saw. A training step repeats what the step before it made:
 * a block from the same stack, of the same size, with the same ordinal among as many in its pass, is the same
 * tensor. So are parameters and buffers that each step replaces. */
#include "attribute/modules.h"
#include "attribute/repeats.h"

#include "attribute/owners.h"
#include "attribute/rules.h"
#include "base/allocate.h"

#include <stdlib.h>
#include <string.h>

#include "base/index.h"
#include "format/allocator.h"

#define AMBIGUOUS (UINT32_MAX - 1)

/* What identifies a place beside the stack. Levels are tried in this order. */
enum level {
    BY_FORWARD_STACK,  /* and size, as on all levels but BY_FORWARD_STACK_ALONE */
    BY_FORWARD_MODULE, /* and its innermost line: another line may call the model, or something may wrap it */
    BY_FORWARD_STACK_ALONE,
    BY_ORDER, /* of making: all that is left where the forward operator is unknown */
    LEVELS
};

/* A place that makes blocks of which an inspection saw some. */
struct place {
    uint64_t scope; /* of the latest block there: its backward pass, else its step */
    uint32_t run;   /* the latest run */
};

/* All blocks that one place made in one scope. */
struct run {
    uint32_t count;
    bool cut; /* the trace ends in it */
};

struct member {
    uint64_t key; /* place_key */
    uint32_t allocation, run, ordinal;
    uint32_t like; /* the allocation that it repeats and an inspection saw, VT_NEVER = none */
};

struct finder {
    const struct vt_replay *replay;
    const struct vt_phases *phases;
    struct vt_module_tree *modules;
    const struct vt_label *labels;
    enum level level;
    uint64_t *stack_keys; /* by stack, 0 = not computed yet */
    uint32_t *candidates; /* allocations whose stacks have places: few, and all that is looked at */
    size_t candidate_count;
    struct vt_placed *placed;
    struct vt_index place_index; /* place_key → places */
    struct place *places;
    struct run *runs;
    struct member *members; /* in the order in which they were made */
    struct vt_index seen; /* hash of place, ordinal and count (0 = any) → allocation that an inspection saw */
    size_t place_count, place_capacity, run_count, run_capacity, member_count, member_capacity;
};

static uint64_t stack_key(struct finder *finder, uint32_t stack_id)
{
    const struct vt_trace *trace = finder->replay->trace;
    const struct vt_trace_stack *stack = &trace->stacks[stack_id];
    if (finder->stack_keys[stack_id] != 0)
        return finder->stack_keys[stack_id];
    uint64_t parts[] = {
        vt_hash_bytes(stack->native, stack->native_count * sizeof *stack->native, VT_HASH_START),
        vt_hash_bytes(stack->python, stack->python_count * sizeof *stack->python, VT_HASH_START)};
    return finder->stack_keys[stack_id] = vt_hash_bytes(parts, sizeof parts, VT_HASH_START) | 1;
}

static uint64_t forward_key(const struct finder *finder, uint32_t index)
{
    uint32_t forward = finder->labels[index].forward_stack_id;
    const struct vt_trace_stack *stack = &finder->replay->trace->stacks[forward];
    const char *module = NULL;
    if (finder->level == BY_ORDER)
        return 0;
    if (finder->level == BY_FORWARD_MODULE && stack->python_count > 0)
        module =
            vt_module_tree_find(finder->modules, forward, finder->replay->allocations[index].alloc_event);
    if (!module)
        return forward;
    uint64_t parts[] = {(uintptr_t)module, stack->python[0].code_id,
                        (uint64_t)stack->python[0].instruction_offset};
    return vt_hash_bytes(parts, sizeof parts, VT_HASH_START);
}

static uint64_t place_key(struct finder *finder, uint32_t index)
{
    const struct vt_allocation *allocation = &finder->replay->allocations[index];
    uint64_t parts[] = {stack_key(finder, allocation->stack_id), forward_key(finder, index),
                        finder->level == BY_FORWARD_STACK_ALONE ? 0 : allocation->bytes,
                        (uint64_t)allocation->device_index};
    return vt_hash_bytes(parts, sizeof parts, VT_HASH_START);
}

static uint64_t seen_key(const struct member *member, uint32_t count)
{
    uint64_t parts[] = {member->key, member->ordinal, count};
    return vt_hash_bytes(parts, sizeof parts, VT_HASH_START);
}

static bool is_seen(const struct finder *finder, uint32_t allocation)
{
    return finder->placed->inspection_of[allocation] != VT_NEVER;
}

/* On all levels but BY_ORDER a gradient takes part only if its forward operator is known. */
static bool takes_part(const struct finder *finder, uint32_t index)
{
    const struct vt_label *label = &finder->labels[index];
    return vt_holds_tensors(finder->phases, &finder->replay->allocations[index]) &&
           (finder->level == BY_ORDER || label->forward_stack_id || label->phase != VT_PHASE_BACKWARD);
}

/* A parameter or buffer that a step made: a script may assign a new tensor in each step. */
static bool is_replaced(const struct vt_label *label)
{
    return label->step > 0 &&
           (label->category == VT_CATEGORY_PARAMETER || label->category == VT_CATEGORY_BUFFER);
}

static bool is_repeated(const struct vt_label *label)
{
    return label->category == VT_CATEGORY_GRADIENT || label->category == VT_CATEGORY_OPTIMIZER_STATE ||
           is_replaced(label);
}

static uint32_t step_at(const struct finder *finder, uint32_t event)
{
    return event >= VT_NEVER - 1 ? UINT32_MAX : vt_step_at(finder->phases, event);
}

/* Nothing outlives the last step. */
static bool may_outlive_step(const struct finder *finder, uint32_t index)
{
    uint32_t step = finder->labels[index].step;
    return step == finder->phases->step_count ||
           step_at(finder, finder->replay->allocations[index].free_event) > step;
}

/* True if its category allows it to repeat `like`. Rules take what a step keeps for activations. A step may
 * also put weights in place for a while (averaged, merged with adapters). */
static bool may_be_like(const struct finder *finder, uint32_t index, uint32_t like)
{
    const struct vt_label *label = &finder->labels[index];
    if (is_replaced(&finder->labels[like]))
        return label->evidence != VT_EVIDENCE_EXACT && label->step > 0 &&
               (may_outlive_step(finder, index) || !may_outlive_step(finder, like));
    return finder->labels[like].category == label->category;
}

static void find_places(struct finder *finder)
{
    for (size_t k = 0; k < finder->candidate_count; k++) {
        uint32_t i = finder->candidates[k];
        if (!is_seen(finder, i) || !is_repeated(&finder->labels[i]) || !takes_part(finder, i))
            continue;
        uint64_t key = place_key(finder, i);
        if (vt_index_get(&finder->place_index, key) != VT_INDEX_NONE)
            continue;
        vt_index_put(&finder->place_index, key, (uint32_t)finder->place_count);
        VT_APPEND(finder->places, finder->place_count, finder->place_capacity,
                  (struct place){.scope = UINT64_MAX});
    }
}

/* *cut: the trace may end in the middle of it. */
static uint64_t scope_of(const struct finder *finder, uint32_t index, bool *cut)
{
    const struct vt_phases *phases = finder->phases;
    const struct vt_label *label = &finder->labels[index];
    long pass = label->phase == VT_PHASE_BACKWARD
                    ? vt_pass_before(phases, finder->replay->allocations[index].alloc_event)
                    : -1;
    *cut = pass >= 0 ? (size_t)pass + 1 == phases->pass_count : label->step == phases->step_count;
    return pass >= 0 ? (uint64_t)pass << 1 | 1 : (uint64_t)label->step << 1;
}

static void add_member(struct finder *finder, uint32_t index)
{
    if (!takes_part(finder, index))
        return;
    uint64_t key = place_key(finder, index);
    uint32_t at = vt_index_get(&finder->place_index, key);
    if (at == VT_INDEX_NONE)
        return;
    struct place *place = &finder->places[at];
    bool cut;
    uint64_t scope = scope_of(finder, index, &cut);
    if (place->scope != scope) {
        place->scope = scope;
        place->run = (uint32_t)finder->run_count;
        VT_APPEND(finder->runs, finder->run_count, finder->run_capacity, (struct run){.cut = cut});
    }
    struct member member = {.key = key,
                            .allocation = index,
                            .run = place->run,
                            .ordinal = finder->runs[place->run].count++,
                            .like = finder->placed->like[index]};
    VT_APPEND(finder->members, finder->member_count, finder->member_capacity, member);
}

static bool have_same_owners(const struct vt_placed *placed, uint32_t a, uint32_t b)
{
    const struct vt_owned *left = &placed->owned[a], *right = &placed->owned[b];
    return left->count > 0 && left->count == right->count && left->key == right->key;
}

static void note_seen(struct finder *finder, uint64_t key, uint32_t allocation)
{
    uint32_t known = vt_index_get(&finder->seen, key);
    if (known != VT_INDEX_NONE &&
        (known == AMBIGUOUS || !have_same_owners(finder->placed, known, allocation)))
        allocation = AMBIGUOUS;
    vt_index_put(&finder->seen, key, allocation);
}

static void note_all_seen(struct finder *finder)
{
    for (size_t i = 0; i < finder->member_count; i++) {
        struct member *member = &finder->members[i];
        if (!is_seen(finder, member->allocation) || !is_repeated(&finder->labels[member->allocation]))
            continue;
        member->like = member->allocation;
        uint32_t count = finder->runs[member->run].count;
        note_seen(finder, seen_key(member, count), member->allocation);
        note_seen(finder, seen_key(member, 0), member->allocation);
    }
}

/* True if the tensors in `like` fit, and leave no more than an unsplit remainder. */
static bool fits(const struct finder *finder, uint32_t index, uint32_t like)
{
    const struct vt_allocation *allocations = finder->replay->allocations;
    uint64_t needed = allocations[like].bytes - finder->labels[like].rounding_bytes;
    return allocations[index].bytes == allocations[like].bytes ||
           (finder->placed->owned[like].count == 1 && allocations[index].bytes >= needed &&
            allocations[index].bytes - needed <= VT_TORCH_SMALL_BYTES);
}

/* Another count means that the run did something else, unless it was cut short. */
static void find_likes(struct finder *finder)
{
    for (size_t i = 0; i < finder->member_count; i++) {
        struct member *member = &finder->members[i];
        const struct run *run = &finder->runs[member->run];
        if (member->like != VT_NEVER)
            continue;
        uint32_t like = vt_index_get(&finder->seen, seen_key(member, run->count));
        if (like == VT_INDEX_NONE && run->cut)
            like = vt_index_get(&finder->seen, seen_key(member, 0));
        if (like < AMBIGUOUS && may_be_like(finder, member->allocation, like) &&
            fits(finder, member->allocation, like))
            member->like = like;
    }
}

/* An inspection saw it, or an earlier level found it. */
static bool is_settled(const struct finder *finder, const struct member *member)
{
    return is_seen(finder, member->allocation) || finder->placed->like[member->allocation] != VT_NEVER;
}

/* True if the earlier of two blocks of one name, freed at `free_event`, was alive when the later was made,
 * unless the later replaced it then. */
static bool is_double(const struct finder *finder, const struct member *member, uint32_t free_event,
                      uint32_t alloc_event)
{
    if (free_event <= alloc_event)
        return false;
    return !is_replaced(&finder->labels[member->like]) ||
           step_at(finder, free_event) > step_at(finder, alloc_event);
}

/* A tensor is in one place at a time: a block that was made while another of its name was alive is something
 * else. */
static void drop_doubles(struct finder *finder)
{
    const struct vt_allocation *allocations = finder->replay->allocations;
    struct vt_index until = {0}, from = {0}; /* owner → event */
    for (size_t i = finder->member_count; i-- > 0;) {
        struct member *member = &finder->members[i];
        if (member->like == VT_NEVER)
            continue;
        uint64_t key = (uintptr_t)finder->labels[member->like].owner;
        const struct vt_allocation *allocation = &allocations[member->allocation];
        uint32_t next = vt_index_get(&from, key);
        if (is_settled(finder, member))
            vt_index_put(&from, key, allocation->alloc_event);
        else if (next != VT_INDEX_NONE && is_double(finder, member, allocation->free_event, next))
            member->like = VT_NEVER;
    }
    for (size_t i = 0; i < finder->member_count; i++) {
        struct member *member = &finder->members[i];
        if (member->like == VT_NEVER)
            continue;
        uint64_t key = (uintptr_t)finder->labels[member->like].owner;
        const struct vt_allocation *allocation = &allocations[member->allocation];
        uint32_t busy = vt_index_get(&until, key);
        if (busy != VT_INDEX_NONE && is_double(finder, member, busy, allocation->alloc_event) &&
            !is_settled(finder, member))
            member->like = VT_NEVER;
        else /* VT_NEVER is VT_INDEX_NONE */
            vt_index_put(&until, key,
                         allocation->free_event < VT_NEVER ? allocation->free_event : VT_NEVER - 1);
    }
    vt_index_free(&until);
    vt_index_free(&from);
}

static void find_repeats(struct finder *finder)
{
    find_places(finder);
    for (size_t i = 0; i < finder->candidate_count && finder->place_count > 0; i++)
        add_member(finder, finder->candidates[i]);
    note_all_seen(finder);
    find_likes(finder);
    drop_doubles(finder);
    for (size_t i = 0; i < finder->member_count; i++)
        if (finder->members[i].like != finder->members[i].allocation)
            finder->placed->like[finder->members[i].allocation] = finder->members[i].like;
    vt_index_free(&finder->place_index);
    vt_index_free(&finder->seen);
    free(finder->places);
    free(finder->runs);
    free(finder->members);
}

/* ---- Categories ---- */

static void give_category(struct vt_label *label, uint8_t category, uint8_t evidence)
{
    label->category = category;
    label->evidence = evidence;
    label->rule = VT_RULE_INSPECTION;
}

/* Rules take what a step puts in the place of a parameter for something else. */
static void give_categories(const uint32_t *likes, struct vt_label *labels, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (likes[i] != VT_NEVER && labels[likes[i]].category != labels[i].category)
            give_category(&labels[i], labels[likes[i]].category, VT_EVIDENCE_STRONG);
}

/* ---- All ---- */

/* Blocks of stacks that made what an inspection saw and steps repeat; a stack of another thread is the same.
 */
static void list_candidates(struct finder *finder)
{
    enum { UNKNOWN, NO, YES };
    const struct vt_replay *replay = finder->replay;
    struct vt_index keys = {0};
    uint8_t *known = vt_allocate_zeros(replay->trace->stack_count, 1);
    finder->candidates = vt_allocate((replay->allocation_count + 1) * sizeof *finder->candidates);
    for (uint32_t i = 0; i < replay->allocation_count; i++)
        if (is_seen(finder, i) && is_repeated(&finder->labels[i]))
            vt_index_put(&keys, stack_key(finder, replay->allocations[i].stack_id), 1);
    for (uint32_t i = 0; i < replay->allocation_count && keys.count > 0; i++) {
        uint32_t stack_id = replay->allocations[i].stack_id;
        if (known[stack_id] == UNKNOWN)
            known[stack_id] = vt_index_get(&keys, stack_key(finder, stack_id)) == VT_INDEX_NONE ? NO : YES;
        if (known[stack_id] == YES)
            finder->candidates[finder->candidate_count++] = i;
    }
    vt_index_free(&keys);
    free(known);
}

void vt_repeats_find(const struct vt_replay *replay, const struct vt_phases *phases,
                     struct vt_module_tree *modules, struct vt_label *labels, struct vt_placed *placed)
{
    size_t count = replay->allocation_count + 1;
    struct finder all = {
        .replay = replay, .phases = phases, .modules = modules, .labels = labels, .placed = placed};
    all.stack_keys = vt_allocate_zeros(replay->trace->stack_count, sizeof *all.stack_keys);
    placed->like = vt_allocate(count * sizeof *placed->like);
    memset(placed->like, 0xff, count * sizeof *placed->like);
    list_candidates(&all);
    for (enum level level = 0; level < LEVELS && placed->owner_count > 0; level++) {
        struct finder finder = all;
        finder.level = level;
        find_repeats(&finder);
    }
    give_categories(placed->like, labels, replay->allocation_count);
    free(all.candidates);
    free(all.stack_keys);
}
