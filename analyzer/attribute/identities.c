/* Two identities of an optimizer whose code is known (VT_STATES in frameworks.def).
 *
 * States: each of its lines that makes states makes one for each parameter, so these lines make blocks of the
 * same sizes, and there are as many lines as the class has states.
 * Gradients: it makes states for parameters that have a gradient, so gradients of that many bytes are alive.
 *
 * Blocks of the smallest size may be counters as well as states, and tell nothing alone. */
#include "attribute/identities.h"

#include <stdlib.h>
#include <string.h>

#include "attribute/counted_sizes.h"
#include "attribute/rules.h"
#include "base/allocate.h"
#include "base/index.h"
#include "base/sort.h"
#include "format/allocator.h"
#include "trace/frameworks.h"

#define LINES 16u /* of an optimizer that make states; code that is known has fewer */

/* A line of the optimizer's, and the states that it made. */
struct line {
    uint64_t key;
    uint64_t *sizes;
    size_t count, capacity;
    uint64_t bytes;
    bool large; /* some are larger than the smallest block */
};

struct check {
    struct vt_attribution *attribution;
    const struct vt_phases *phases;
    struct vt_label *labels;
    const struct vt_optimizer_states **optimizers; /* by stack: in whose step it is, NULL = in none */
    uint64_t *keys;                                /* by stack: of the line of its optimizer */
    const struct vt_optimizer_states *optimizer;   /* that is checked */
    struct line lines[LINES];                      /* the one with most blocks first */
    size_t line_count;
    int64_t *gradients; /* by event: bytes of gradients alive after it */
    size_t identity_capacity;
};

static const struct vt_allocation *block_of(const struct check *check, size_t i)
{
    return &check->attribution->replay->allocations[i];
}

static bool is_own(const struct check *check, size_t i)
{
    const struct vt_allocation *block = block_of(check, i);
    return vt_holds_tensors(check->phases, block) && check->optimizers[block->stack_id] == check->optimizer;
}

/* Whether its life is that of a state: what a step leaves behind. What an inspection says counts first. Of
 * the last step nobody knows what it would have left: none of it counts. */
static bool lives_as_state(const struct check *check, size_t i)
{
    const struct vt_label *label = &check->labels[i];
    uint32_t freed = block_of(check, i)->free_event;
    if (label->evidence == VT_EVIDENCE_EXACT)
        return label->category == VT_CATEGORY_OPTIMIZER_STATE;
    return label->step < check->attribution->step_count &&
           (freed == VT_NEVER || vt_step_at(check->phases, freed) > label->step);
}

static bool is_state(const struct check *check, size_t i, bool by_life)
{
    return by_life ? lives_as_state(check, i) : check->labels[i].category == VT_CATEGORY_OPTIMIZER_STATE;
}

static void change(struct vt_identity *identity, struct vt_label *label, enum vt_category category)
{
    label->category = (uint8_t)category;
    label->evidence = VT_EVIDENCE_WEAK;
    label->rule = VT_RULE_IDENTITY;
    if (category == VT_CATEGORY_OPTIMIZER_STATE && !label->owner)
        label->module = NULL;
    identity->blocks++;
}

static void weaken(struct vt_identity *identity, struct vt_label *label)
{
    if (label->evidence != VT_EVIDENCE_STRONG)
        return;
    label->evidence = VT_EVIDENCE_WEAK;
    identity->blocks++;
}

/* ---- The lines that make states ---- */

static void clear_lines(struct check *check)
{
    for (size_t i = 0; i < check->line_count; i++)
        free(check->lines[i].sizes);
    check->line_count = 0;
}

static int compare_lines(const void *left, const void *right)
{
    const struct line *a = left, *b = right;
    return 2 * vt_order(b->count, a->count) + vt_order(a->key, b->key);
}

static struct line *line_of(struct check *check, uint64_t key)
{
    for (size_t i = 0; i < check->line_count; i++)
        if (check->lines[i].key == key)
            return &check->lines[i];
    return NULL;
}

/* Returns the bytes of all states. */
static uint64_t find_lines(struct check *check, bool by_life)
{
    uint64_t bytes = 0;
    clear_lines(check);
    for (size_t i = 0; i < check->attribution->replay->allocation_count; i++) {
        if (!is_own(check, i) || !is_state(check, i, by_life))
            continue;
        const struct vt_allocation *block = block_of(check, i);
        struct line *line = line_of(check, check->keys[block->stack_id]);
        if (!line && check->line_count < LINES) {
            line = &check->lines[check->line_count++];
            *line = (struct line){.key = check->keys[block->stack_id]};
        }
        if (!line)
            continue;
        VT_APPEND(line->sizes, line->count, line->capacity, block->bytes);
        line->bytes += block->bytes;
        line->large |= block->bytes > VT_TORCH_ROUND_BYTES;
    }
    for (size_t i = check->line_count; i-- > 0;)
        if (!check->lines[i].large) { /* counters */
            free(check->lines[i].sizes);
            check->lines[i] = check->lines[--check->line_count];
        }
    for (size_t i = 0; i < check->line_count; i++) {
        vt_sort_numbers(check->lines[i].sizes, check->lines[i].count);
        bytes += check->lines[i].bytes;
    }
    vt_sort(check->lines, check->line_count, sizeof *check->lines, compare_lines);
    return bytes;
}

/* By how much a block may be larger than was asked for; the most is with a limit to splitting. */
static uint64_t rest_of(uint64_t bytes)
{
    return bytes <= VT_TORCH_SMALL_BYTES          ? 0
           : bytes < VT_TORCH_LARGE_SEGMENT_BYTES ? VT_TORCH_SMALL_BYTES
                                                  : VT_TORCH_LARGE_SEGMENT_BYTES;
}

static bool is_same_size(uint64_t one, uint64_t other)
{
    return vt_distance(one, other) <= rest_of(one < other ? one : other);
}

/* A process may have ended between the states of a parameter. */
static bool are_equal(const struct line *line, const struct line *other, bool complete)
{
    size_t k = 0, left_out = complete ? 0 : 1;
    for (size_t i = 0; i < line->count; i++)
        if (k < other->count && is_same_size(line->sizes[i], other->sizes[k]))
            k++;
        else if (left_out-- == 0)
            return false;
    return k == other->count;
}

static bool has_all_states(const struct check *check)
{
    const struct vt_optimizer_states *optimizer = check->optimizer;
    bool equal = check->line_count >= optimizer->least && check->line_count <= optimizer->most;
    for (size_t i = 1; equal && i < optimizer->least; i++)
        equal = are_equal(&check->lines[0], &check->lines[i], check->attribution->trace->complete);
    return equal;
}

/* ---- States ---- */

/* Its class as inspections recorded it: one that is derived may run in the file of another. */
static const char *class_of(const struct check *check)
{
    const struct vt_trace *trace = check->attribution->trace;
    const char *found = NULL, *name = check->optimizer->name;
    for (size_t i = 0; i < trace->optimizer_count; i++) {
        const char *class_name = trace->optimizers[i].class_name;
        if (strncmp(class_name, name, strlen(name)) != 0)
            continue;
        if (found && strcmp(found, class_name) != 0)
            return name;
        found = class_name;
    }
    return found ? found : name;
}

static struct vt_identity *add_identity(struct check *check, enum vt_identity_kind kind,
                                        struct vt_identity *made)
{
    struct vt_attribution *attribution = check->attribution;
    made->kind = (uint8_t)kind;
    made->optimizer = class_of(check);
    VT_APPEND(attribution->identities, attribution->identity_count, check->identity_capacity, *made);
    return &attribution->identities[attribution->identity_count - 1];
}

/* Whether labels differ from what lives say; decides by these if `identity` is not NULL. */
static bool differ_from_lives(struct check *check, struct vt_identity *identity)
{
    bool differ = false;
    for (size_t i = 0; i < check->attribution->replay->allocation_count; i++) {
        if (!is_own(check, i) || check->labels[i].step >= check->attribution->step_count ||
            !(check->labels[i].category == VT_CATEGORY_OPTIMIZER_STATE ||
              line_of(check, check->keys[block_of(check, i)->stack_id])))
            continue;
        bool state = lives_as_state(check, i), differs = state != is_state(check, i, false);
        differ |= differs;
        if (differs && identity)
            change(identity, &check->labels[i], state ? VT_CATEGORY_OPTIMIZER_STATE : VT_CATEGORY_TEMPORARY);
    }
    return differ;
}

/* Of all steps, or of the last alone, which lives did not decide. */
static void weaken_states(struct check *check, struct vt_identity *identity, bool of_all)
{
    for (size_t i = 0; i < check->attribution->replay->allocation_count; i++)
        if (is_own(check, i) && (is_state(check, i, false) || lives_as_state(check, i)) &&
            (of_all || check->labels[i].step >= check->attribution->step_count))
            weaken(identity, &check->labels[i]);
}

static void check_states(struct check *check)
{
    struct vt_identity *identity, made = {.states = check->optimizer->least};
    made.found_bytes = find_lines(check, false);
    bool holds = has_all_states(check);
    if (holds)
        made.states = (uint32_t)check->line_count;
    if (check->line_count > 0)
        made.expected_bytes = holds ? made.found_bytes : check->lines[0].bytes * made.states;
    made.result = holds ? VT_IDENTITY_HOLDS : VT_IDENTITY_BROKEN;
    uint64_t by_life = find_lines(check, true);
    if (has_all_states(check) && differ_from_lives(check, NULL)) {
        made.states = (uint32_t)check->line_count;
        made.expected_bytes = by_life;
        made.result = VT_IDENTITY_RESTORED;
    }
    if (made.expected_bytes == 0)
        return; /* none were made in its step */
    identity = add_identity(check, VT_IDENTITY_STATES, &made);
    if (identity->result == VT_IDENTITY_RESTORED) {
        differ_from_lives(check, identity);
        find_lines(check, false);
        identity->result = has_all_states(check) ? VT_IDENTITY_RESTORED : VT_IDENTITY_BROKEN;
    }
    if (identity->result != VT_IDENTITY_HOLDS)
        weaken_states(check, identity, identity->result == VT_IDENTITY_BROKEN);
}

/* ---- Gradients ---- */

/* Memory that gradients are reduced in may hold them. */
static bool holds_gradients(const struct vt_label *label)
{
    return label->category == VT_CATEGORY_GRADIENT || label->category == VT_CATEGORY_COMMUNICATION;
}

static void count_gradients(struct check *check)
{
    const struct vt_replay *replay = check->attribution->replay;
    const size_t events = replay->trace->event_count;
    memset(check->gradients, 0, (events + 1) * sizeof *check->gradients);
    for (size_t i = 0; i < replay->allocation_count; i++) {
        const struct vt_allocation *block = &replay->allocations[i];
        if (!vt_holds_tensors(check->phases, block) || !holds_gradients(&check->labels[i]))
            continue;
        check->gradients[block->alloc_event] += (int64_t)block->bytes;
        if (block->free_event != VT_NEVER)
            check->gradients[block->free_event] -= (int64_t)block->bytes;
    }
    for (size_t e = 1; e <= events; e++)
        check->gradients[e] += check->gradients[e - 1];
}

/* Adds up runs of the optimizer's blocks, in which it makes first states for parameters. Whether each has
 * enough gradients alive when it begins. */
static bool has_all_gradients(const struct check *check, struct vt_identity *identity)
{
    const uint64_t key = check->lines[0].key;
    uint64_t states = 0, alive = 0, unsure = 0;
    bool enough = true;
    identity->expected_bytes = identity->found_bytes = 0;
    for (size_t i = 0; i < check->attribution->replay->allocation_count; i++) {
        const struct vt_allocation *block = block_of(check, i);
        if (!vt_holds_tensors(check->phases, block))
            continue;
        bool own = is_own(check, i);
        if (own && check->keys[block->stack_id] == key && is_state(check, i, false) &&
            block->bytes > VT_TORCH_ROUND_BYTES) {
            alive = states ? alive : (uint64_t)check->gradients[block->alloc_event];
            states += block->bytes;
            unsure += VT_TORCH_ROUND_BYTES + rest_of(block->bytes); /* gradients may share a block */
        }
        if (states && (!own || i + 1 == check->attribution->replay->allocation_count)) {
            identity->expected_bytes += states;
            identity->found_bytes += alive < states ? alive : states;
            enough = enough && alive + unsure >= states;
            states = unsure = 0;
        }
    }
    return enough;
}

/* What backward passes made, by size: lists, the latest first, of indices of allocations from 1 on. */
struct made {
    struct vt_index heads;
    uint32_t *next;
};

static bool may_be_gradient(const struct check *check, size_t i)
{
    const struct vt_label *label = &check->labels[i];
    return vt_holds_tensors(check->phases, block_of(check, i)) && label->phase == VT_PHASE_BACKWARD &&
           label->evidence != VT_EVIDENCE_EXACT && !holds_gradients(label) &&
           !check->optimizers[block_of(check, i)->stack_id];
}

/* Takes what may be the gradient that the optimizer works on when it makes `own`: what is alive and of its
 * size. Only a single one is it for sure enough. */
static void take_gradient(struct check *check, struct made *made, const struct vt_allocation *own,
                          struct vt_identity *identity)
{
    const uint64_t middle = vt_size_bucket(own->bytes),
                   reach = vt_size_bucket(own->bytes + rest_of(own->bytes)) - middle;
    uint32_t found = 0, count = 0;
    for (uint64_t near = middle > reach ? middle - reach : 0; near <= middle + reach; near++) {
        uint32_t at = vt_index_get(&made->heads, near);
        if (at == VT_INDEX_NONE || at == 0)
            continue;
        vt_index_put(&made->heads, near, 0);
        for (; at; at = made->next[at - 1]) {
            if (block_of(check, at - 1)->free_event <= own->alloc_event)
                continue;
            if (count++ > 0)
                weaken(identity, &check->labels[at - 1]);
            found = count == 1 ? at : found;
        }
    }
    if (count == 1)
        change(identity, &check->labels[found - 1], VT_CATEGORY_GRADIENT);
    else if (count > 1)
        weaken(identity, &check->labels[found - 1]);
}

static void decide_gradients(struct check *check, struct vt_identity *identity)
{
    const size_t count = check->attribution->replay->allocation_count;
    struct made made = {.next = vt_allocate_zeros(count + 1, sizeof *made.next)};
    for (size_t i = 0; i < count; i++) {
        const struct vt_allocation *block = block_of(check, i);
        if (may_be_gradient(check, i)) {
            uint32_t head = vt_index_get(&made.heads, vt_size_bucket(block->bytes));
            made.next[i] = head == VT_INDEX_NONE ? 0 : head;
            vt_index_put(&made.heads, vt_size_bucket(block->bytes), (uint32_t)i + 1);
        } else if (is_own(check, i) && block->bytes > VT_TORCH_ROUND_BYTES &&
                   check->gradients[block->alloc_event] < (int64_t)block->bytes) {
            take_gradient(check, &made, block, identity);
        }
    }
    vt_index_free(&made.heads);
    free(made.next);
}

static void check_gradients(struct check *check)
{
    struct vt_identity found = {0}, again = {0};
    find_lines(check, false);
    if (check->line_count == 0)
        return;
    if (!check->gradients)
        check->gradients = vt_allocate((check->attribution->trace->event_count + 1) * sizeof(int64_t));
    count_gradients(check);
    if (!has_all_gradients(check, &found)) {
        decide_gradients(check, &found);
        count_gradients(check);
        found.result = has_all_gradients(check, &again) ? VT_IDENTITY_RESTORED : VT_IDENTITY_BROKEN;
        if (found.result == VT_IDENTITY_BROKEN)
            weaken_states(check, &found, true);
    }
    if (found.expected_bytes > 0)
        add_identity(check, VT_IDENTITY_GRADIENTS, &found);
}

/* ---- All optimizers ---- */

/* The innermost frame in an optimizer's file is the line that makes the block. */
static void read_stack(struct check *check, uint32_t stack_id)
{
    const struct vt_trace *trace = check->attribution->trace;
    const struct vt_trace_stack *stack = &trace->stacks[stack_id];
    for (uint32_t i = 0; i < stack->python_count && !check->optimizers[stack_id]; i++) {
        const struct vt_python_frame *frame = &stack->python[i];
        if (frame->code_id >= trace->code_count || !trace->codes[frame->code_id].file)
            continue;
        check->optimizers[stack_id] = vt_optimizer_states_of(trace->codes[frame->code_id].file);
        check->keys[stack_id] = (uint64_t)frame->code_id << 32 | (uint32_t)frame->instruction_offset;
    }
}

/* An optimizer that could not get its memory has made a part of its states. */
static bool ran_out(const struct check *check)
{
    const struct vt_trace *trace = check->attribution->trace;
    for (size_t k = 0; k < trace->rare_event_count; k++) {
        const struct vt_event *event = &trace->events[trace->rare_events[k]];
        if (event->kind == VT_EVENT_OOM && event->stack_id < trace->stack_count &&
            check->optimizers[event->stack_id] == check->optimizer)
            return true;
    }
    return false;
}

/* Blocks may be missing, or the stacks that made them. */
static bool lacks_events(const struct vt_trace *trace)
{
    return trace->gap_count || trace->leaves_out || trace->omitted_events || trace->paused_events ||
           trace->missing_stacks || trace->damaged_bytes || trace->header.counters.dropped ||
           trace->header.counters.without_stack;
}

/* Optimizers in the order of their addresses in the table. */
static bool next_optimizer(struct check *check)
{
    const struct vt_optimizer_states *next = NULL;
    for (size_t id = 1; id < check->attribution->trace->stack_count; id++) {
        const struct vt_optimizer_states *optimizer = check->optimizers[id];
        if (optimizer > check->optimizer && (!next || optimizer < next))
            next = optimizer;
    }
    check->optimizer = next;
    return next != NULL;
}

void vt_identities_check(struct vt_attribution *attribution, const struct vt_traits_by_stack *sites,
                         const struct vt_phases *phases, struct vt_label *labels)
{
    const struct vt_trace *trace = attribution->trace;
    struct check check = {.attribution = attribution, .phases = phases, .labels = labels};
    if (lacks_events(trace))
        return;
    check.optimizers = vt_allocate_zeros(trace->stack_count + 1, sizeof(void *));
    check.keys = vt_allocate_zeros(trace->stack_count + 1, sizeof *check.keys);
    for (uint32_t id = 1; id < trace->stack_count; id++)
        if (sites->items[id].traits & VT_TRAIT(OPTIMIZER))
            read_stack(&check, id);
    while (next_optimizer(&check)) {
        if (ran_out(&check))
            continue;
        if (check.optimizer->least > 1)
            check_states(&check);
        check_gradients(&check);
    }
    clear_lines(&check);
    free(check.optimizers);
    free(check.keys);
    free(check.gradients);
}
