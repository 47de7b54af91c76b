/* Gradients and optimizer state that no look saw: a training step makes the same things in the same places as
 * the one before it. What was made on the same stack, of the same size, as the same of so many in its pass,
 * is the same thing. So are parameters and buffers that are replaced in each step. */
#include "attribute/inspected.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/index.h"

#define AMBIGUOUS (UINT32_MAX - 1)

/* An allocator need not split what is left of a block: PyTorch's leaves as much as this. */
#define REMAINDER_BYTES (UINT64_C(1) << 20)

/* What tells a place beside the stack, tried in this order. */
enum level {
    BY_FORWARD_STACK,  /* and size, as for all but one */
    BY_FORWARD_MODULE, /* and its innermost line: the model may be called elsewhere, or be wrapped anew */
    BY_FORWARD_STACK_ALONE,
    BY_ORDER, /* that of things is left where the forward operator is not known */
    LEVELS
};

/* Where things are made, of which a look saw some. */
struct place {
    uint64_t scope; /* of the latest there: its backward pass, else its step */
    uint32_t run;   /* the latest */
};

/* All that was made in one place in one scope. */
struct run {
    uint32_t count;
    bool cut;       /* the trace ends in it */
    bool disagrees; /* what is known of it came in another order */
};

struct member {
    uint32_t allocation, run, ordinal;
    uint32_t like; /* what it is the same as, VT_NEVER = nothing that a look saw */
};

struct likeness {
    const struct vt_replay *replay;
    const struct vt_phases *phases;
    struct vt_module_tree *modules;
    const struct vt_label *labels;
    enum level level;
    uint64_t *keys;       /* by allocation: what tells its place, 0 = not asked for */
    uint64_t *stack_keys; /* by stack, 0 = not asked for */
    struct vt_placed *placed;
    struct vt_index place_index; /* hash of what tells a place → places */
    struct place *places;
    struct run *runs;
    struct member *members; /* in order of their making */
    struct vt_index seen;   /* hash of place, ordinal and count (0 = any) → allocation that a look saw */
    size_t place_count, place_capacity, run_count, run_capacity, member_count, member_capacity;
};

static uint64_t stack_key(struct likeness *likeness, uint32_t stack_id)
{
    const struct vt_trace *trace = likeness->replay->trace;
    const struct vt_trace_stack *stack = &trace->stacks[stack_id];
    if (likeness->stack_keys[stack_id] != 0)
        return likeness->stack_keys[stack_id];
    uint64_t parts[] = {vt_hash_bytes(stack->native, stack->native_count * sizeof *stack->native, VT_HASH_START),
                        vt_hash_bytes(stack->python, stack->python_count * sizeof *stack->python, VT_HASH_START)};
    return likeness->stack_keys[stack_id] = vt_hash_bytes(parts, sizeof parts, VT_HASH_START) | 1;
}

static uint64_t forward_key(const struct likeness *likeness, uint32_t index)
{
    uint32_t forward = likeness->labels[index].forward_stack_id;
    const struct vt_trace_stack *stack = &likeness->replay->trace->stacks[forward];
    const char *module = NULL;
    if (likeness->level == BY_ORDER)
        return 0;
    if (likeness->level != BY_FORWARD_MODULE || stack->python_count == 0 ||
        vt_module_tree_find(likeness->modules, forward, likeness->replay->allocations[index].alloc_event,
                            &module) ||
        !module)
        return forward;
    uint64_t parts[] = {(uintptr_t)module, stack->python[0].code_id,
                        (uint64_t)stack->python[0].instruction_offset};
    return vt_hash_bytes(parts, sizeof parts, VT_HASH_START);
}

static uint64_t place_key(struct likeness *likeness, uint32_t index)
{
    const struct vt_allocation *allocation = &likeness->replay->allocations[index];
    if (likeness->keys[index] == 0) {
        uint64_t parts[] = {stack_key(likeness, allocation->stack_id), forward_key(likeness, index),
                            likeness->level == BY_FORWARD_STACK_ALONE ? 0 : allocation->bytes,
                            (uint64_t)allocation->device_index};
        likeness->keys[index] = vt_hash_bytes(parts, sizeof parts, VT_HASH_START) | 1;
    }
    return likeness->keys[index];
}

static uint64_t seen_key(struct likeness *likeness, const struct member *member, uint32_t count)
{
    uint64_t parts[] = {place_key(likeness, member->allocation), member->ordinal, count};
    return vt_hash_bytes(parts, sizeof parts, VT_HASH_START);
}

static bool is_seen(const struct likeness *likeness, uint32_t allocation)
{
    return likeness->placed->inspection_of[allocation] != VT_NEVER;
}

/* On some levels a gradient takes part only if its forward operator is known. */
static bool takes_part(const struct likeness *likeness, uint32_t index)
{
    const struct vt_label *label = &likeness->labels[index];
    return vt_holds_tensors(likeness->phases, &likeness->replay->allocations[index]) &&
           (likeness->level == BY_ORDER || label->forward_stack_id || label->phase != VT_PHASE_BACKWARD);
}

/* A parameter or buffer that a step made: a script may assign another tensor in each. */
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

static uint32_t step_at(const struct likeness *likeness, uint32_t event)
{
    const struct vt_phases *phases = likeness->phases;
    return event >= VT_NEVER - 1
               ? UINT32_MAX
               : phases->spans[vt_span_index(phases->spans, phases->span_count, event)].step;
}

/* Whether it can be what `like` is. Rules take what a step made and kept for an activation. */
static bool may_be_like(const struct likeness *likeness, uint32_t index, uint32_t like)
{
    const struct vt_label *label = &likeness->labels[index];
    if (is_replaced(&likeness->labels[like]))
        return label->evidence != VT_EVIDENCE_EXACT && label->step > 0 &&
               step_at(likeness, likeness->replay->allocations[index].free_event) > label->step;
    return likeness->labels[like].category == label->category;
}

static int find_places(struct likeness *likeness)
{
    const struct vt_replay *replay = likeness->replay;
    for (uint32_t i = 0; i < replay->allocation_count; i++) {
        if (!is_seen(likeness, i) || !is_repeated(&likeness->labels[i]) || !takes_part(likeness, i) ||
            vt_index_get(&likeness->place_index, place_key(likeness, i)) != VT_INDEX_NONE)
            continue;
        int error = vt_reserve(&likeness->places, &likeness->place_capacity, likeness->place_count + 1,
                               sizeof *likeness->places);
        if (!error)
            error =
                vt_index_put(&likeness->place_index, place_key(likeness, i), (uint32_t)likeness->place_count);
        if (error)
            return error;
        likeness->places[likeness->place_count++] = (struct place){.scope = UINT64_MAX};
    }
    return 0;
}

/* *cut: nothing came after it that would show that it is whole. */
static uint64_t scope_of(const struct likeness *likeness, uint32_t index, bool *cut)
{
    const struct vt_phases *phases = likeness->phases;
    const struct vt_label *label = &likeness->labels[index];
    long pass = label->phase == VT_PHASE_BACKWARD
                    ? vt_pass_before(phases, likeness->replay->allocations[index].alloc_event)
                    : -1;
    *cut = pass >= 0 ? (size_t)pass + 1 == phases->pass_count : label->step == phases->step_count;
    return pass >= 0 ? (uint64_t)pass << 1 | 1 : (uint64_t)label->step << 1;
}

static int add_member(struct likeness *likeness, uint32_t index)
{
    if (!takes_part(likeness, index))
        return 0;
    uint32_t at = vt_index_get(&likeness->place_index, place_key(likeness, index));
    if (at == VT_INDEX_NONE)
        return 0;
    struct place *place = &likeness->places[at];
    bool cut;
    uint64_t scope = scope_of(likeness, index, &cut);
    int error = vt_reserve(&likeness->members, &likeness->member_capacity, likeness->member_count + 1,
                           sizeof *likeness->members);
    if (!error && place->scope != scope) {
        error = vt_reserve(&likeness->runs, &likeness->run_capacity, likeness->run_count + 1,
                           sizeof *likeness->runs);
        if (!error) {
            place->scope = scope;
            place->run = (uint32_t)likeness->run_count++;
            likeness->runs[place->run] = (struct run){.cut = cut};
        }
    }
    if (error)
        return error;
    likeness->members[likeness->member_count++] =
        (struct member){.allocation = index,
                        .run = place->run,
                        .ordinal = likeness->runs[place->run].count++,
                        .like = likeness->placed->like[index]};
    return 0;
}

static bool have_same_owners(const struct vt_placed *placed, uint32_t a, uint32_t b)
{
    const struct vt_owned *left = &placed->owned[a], *right = &placed->owned[b];
    return left->count > 0 && left->count == right->count && left->key == right->key;
}

static int note_seen(struct likeness *likeness, uint64_t key, uint32_t allocation)
{
    uint32_t known = vt_index_get(&likeness->seen, key);
    if (known != VT_INDEX_NONE &&
        (known == AMBIGUOUS || !have_same_owners(likeness->placed, known, allocation)))
        allocation = AMBIGUOUS;
    return vt_index_put(&likeness->seen, key, allocation);
}

static int note_all_seen(struct likeness *likeness)
{
    int error = 0;
    for (size_t i = 0; i < likeness->member_count && !error; i++) {
        struct member *member = &likeness->members[i];
        if (!is_seen(likeness, member->allocation) || !is_repeated(&likeness->labels[member->allocation]))
            continue;
        member->like = member->allocation;
        uint32_t count = likeness->runs[member->run].count;
        error = note_seen(likeness, seen_key(likeness, member, count), member->allocation);
        if (!error)
            error = note_seen(likeness, seen_key(likeness, member, 0), member->allocation);
    }
    return error;
}

static void find_disagreements(struct likeness *likeness)
{
    for (size_t i = 0; i < likeness->member_count; i++) {
        const struct member *member = &likeness->members[i];
        struct run *run = &likeness->runs[member->run];
        uint32_t like = vt_index_get(&likeness->seen, seen_key(likeness, member, run->count));
        if (member->like != VT_NEVER && like < AMBIGUOUS)
            run->disagrees |= !have_same_owners(likeness->placed, like, member->like);
    }
}

/* Whether the tensors of the other fit, with not much left over. */
static bool fits(const struct likeness *likeness, uint32_t index, uint32_t like)
{
    const struct vt_allocation *allocations = likeness->replay->allocations;
    uint64_t needed = allocations[like].bytes - likeness->labels[like].rounding_bytes;
    return allocations[index].bytes == allocations[like].bytes ||
           (likeness->placed->owned[like].count == 1 && allocations[index].bytes >= needed &&
            allocations[index].bytes - needed <= REMAINDER_BYTES);
}

/* A different count means that something else happened there, unless it was cut short. */
static void find_likes(struct likeness *likeness)
{
    for (size_t i = 0; i < likeness->member_count; i++) {
        struct member *member = &likeness->members[i];
        const struct run *run = &likeness->runs[member->run];
        if (member->like != VT_NEVER || run->disagrees)
            continue;
        uint32_t like = vt_index_get(&likeness->seen, seen_key(likeness, member, run->count));
        if (like == VT_INDEX_NONE && run->cut)
            like = vt_index_get(&likeness->seen, seen_key(likeness, member, 0));
        if (like < AMBIGUOUS && may_be_like(likeness, member->allocation, like) &&
            fits(likeness, member->allocation, like))
            member->like = like;
    }
}

/* A look saw it, or a level before this one knew it. */
static bool is_settled(const struct likeness *likeness, const struct member *member)
{
    return is_seen(likeness, member->allocation) || likeness->placed->like[member->allocation] != VT_NEVER;
}

/* Whether the earlier of two namesakes, freed at `free_event`, was alive when the later was made, and not
 * just until that took its place. */
static bool is_double(const struct likeness *likeness, const struct member *member, uint32_t free_event,
                      uint32_t alloc_event)
{
    if (free_event <= alloc_event)
        return false;
    return !is_replaced(&likeness->labels[member->like]) ||
           step_at(likeness, free_event) > step_at(likeness, alloc_event);
}

/* A tensor is in one place at a time: what was made while its namesake lived is something else. */
static int drop_doubles(struct likeness *likeness)
{
    const struct vt_allocation *allocations = likeness->replay->allocations;
    struct vt_index until = {0}, from = {0}; /* owner's text → event */
    int error = 0;
    for (size_t i = likeness->member_count; i-- > 0 && !error;) {
        struct member *member = &likeness->members[i];
        if (member->like == VT_NEVER)
            continue;
        uint64_t key = (uintptr_t)likeness->labels[member->like].owner;
        const struct vt_allocation *allocation = &allocations[member->allocation];
        uint32_t next = vt_index_get(&from, key);
        if (is_settled(likeness, member))
            error = vt_index_put(&from, key, allocation->alloc_event);
        else if (next != VT_INDEX_NONE && is_double(likeness, member, allocation->free_event, next))
            member->like = VT_NEVER;
    }
    for (size_t i = 0; i < likeness->member_count && !error; i++) {
        struct member *member = &likeness->members[i];
        if (member->like == VT_NEVER)
            continue;
        uint64_t key = (uintptr_t)likeness->labels[member->like].owner;
        const struct vt_allocation *allocation = &allocations[member->allocation];
        uint32_t busy = vt_index_get(&until, key);
        if (busy != VT_INDEX_NONE && is_double(likeness, member, busy, allocation->alloc_event) &&
            !is_settled(likeness, member))
            member->like = VT_NEVER;
        else /* one below "never", which is the index's "none" */
            error = vt_index_put(&until, key,
                                 allocation->free_event < VT_NEVER ? allocation->free_event : VT_NEVER - 1);
    }
    vt_index_free(&until);
    vt_index_free(&from);
    return error;
}

static int find(struct likeness *likeness)
{
    size_t count = likeness->replay->allocation_count;
    int error = find_places(likeness);
    for (uint32_t i = 0; i < count && likeness->place_count > 0 && !error; i++)
        error = add_member(likeness, i);
    if (!error)
        error = note_all_seen(likeness);
    if (!error) {
        find_disagreements(likeness);
        find_likes(likeness);
        error = drop_doubles(likeness);
    }
    for (size_t i = 0; i < likeness->member_count && !error; i++)
        if (likeness->members[i].like != likeness->members[i].allocation)
            likeness->placed->like[likeness->members[i].allocation] = likeness->members[i].like;
    vt_index_free(&likeness->place_index);
    vt_index_free(&likeness->seen);
    free(likeness->places);
    free(likeness->runs);
    free(likeness->members);
    return error;
}

/* Rules knew no better. */
static void give_categories(const uint32_t *likes, struct vt_label *labels, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        uint32_t like = likes[i];
        if (like == VT_NEVER || like == i || labels[like].category == labels[i].category)
            continue;
        labels[i].category = labels[like].category;
        labels[i].evidence = VT_EVIDENCE_STRONG;
        labels[i].rule = VT_RULE_INSPECTION;
    }
}

int vt_likeness_find(const struct vt_replay *replay, const struct vt_phases *phases,
                     struct vt_module_tree *modules, struct vt_label *labels, struct vt_placed *placed)
{
    size_t count = replay->allocation_count + 1;
    uint64_t *stack_keys = calloc(replay->trace->stack_count, sizeof *stack_keys);
    placed->like = malloc(count * sizeof *placed->like);
    int error = placed->like && stack_keys ? 0 : -ENOMEM;
    if (!error)
        memset(placed->like, 0xff, count * sizeof *placed->like);
    for (enum level level = 0; level < LEVELS && placed->owner_count > 0 && !error; level++) {
        struct likeness likeness = {.replay = replay,
                                    .phases = phases,
                                    .modules = modules,
                                    .labels = labels,
                                    .level = level,
                                    .keys = calloc(count, sizeof *likeness.keys),
                                    .stack_keys = stack_keys,
                                    .placed = placed};
        error = likeness.keys ? find(&likeness) : -ENOMEM;
        free(likeness.keys);
    }
    if (!error)
        give_categories(placed->like, labels, replay->allocation_count);
    free(stack_keys);
    return error;
}
