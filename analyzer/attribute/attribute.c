/* Puts attribution together: operators and traits of stacks, phases, lives, rules, modules. */
#include "attribute/attribute.h"

#include <stdlib.h>
#include <string.h>

#include "attribute/caches.h"
#include "attribute/calls.h"
#include "attribute/find_phases.h"
#include "attribute/held.h"
#include "attribute/identities.h"
#include "attribute/join.h"
#include "attribute/lives.h"
#include "attribute/match.h"
#include "attribute/modules.h"
#include "attribute/named.h"
#include "attribute/owners.h"
#include "attribute/phases.h"
#include "attribute/repeats.h"
#include "attribute/rules.h"
#include "base/allocate.h"
#include "base/index.h"
#include "base/progress.h"
#include "base/task.h"
#include "format/allocator.h"

#define PARTS 8u /* of the work, for its progress */

struct vt_attribution_tables {
    struct vt_arena arena;
    struct vt_label *labels; /* by allocation */
    struct vt_traits_by_stack sites;
    struct vt_names *names;
    struct vt_module_tree *module_tree;
    struct vt_phases phases;
    struct vt_owner *owners;
    size_t owner_count;
    struct vt_owned *owned;  /* by allocation */
    uint32_t *inspection_of; /* by allocation: index of the latest inspection of it, VT_NEVER = none */
    struct vt_held_table held;
};

const struct vt_inspection_holder *vt_holder_of(const struct vt_attribution *attribution, uint32_t allocation)
{
    return vt_held_get(attribution, &attribution->tables->held, allocation);
}

/* What the kind alone says. */
static void label_by_kind(const struct vt_trace *trace, const struct vt_allocation *allocation,
                          struct vt_label *label)
{
    label->rule = VT_RULE_NONE;
    switch (allocation->kind) {
    case VT_ALLOCATION_CONTEXT:
        label->category = VT_CATEGORY_CONTEXT;
        /* the first reading of a device's memory has other processes in it; differences across our own calls
         * do not */
        label->evidence = trace->events[allocation->alloc_event].kind == VT_EVENT_DELTA ? VT_EVIDENCE_EXACT
                                                                                        : VT_EVIDENCE_WEAK;
        break;
    case VT_ALLOCATION_GRAPH: /* of nodes that the program made itself, if their line is known */
        label->category = allocation->stack_id == trace->events[allocation->alloc_event].stack_id
                              ? VT_CATEGORY_WORKSPACE
                              : VT_CATEGORY_UNKNOWN;
        label->evidence = VT_EVIDENCE_WEAK;
        break;
    case VT_ALLOCATION_HOST:
        label->category = VT_CATEGORY_HOST_PINNED;
        label->evidence = VT_EVIDENCE_EXACT;
        break;
    case VT_ALLOCATION_SEGMENT:
    case VT_ALLOCATION_POOL:
        label->category = VT_CATEGORY_CACHED;
        label->evidence = VT_EVIDENCE_EXACT;
        break;
    default:
        label->category = allocation->holds_blocks ? VT_CATEGORY_CACHED : VT_CATEGORY_UNKNOWN;
        break;
    }
}

static bool is_judged(const struct vt_allocation *allocation)
{
    return !vt_is_container(allocation) &&
           (allocation->kind == VT_ALLOCATION_BLOCK || allocation->kind == VT_ALLOCATION_DRIVER ||
            allocation->kind == VT_ALLOCATION_POOLED);
}

static void judge_one(struct vt_attribution *attribution, struct vt_matcher *matcher, const uint64_t *lives,
                      size_t i)
{
    const struct vt_allocation *allocation = &attribution->replay->allocations[i];
    struct vt_label *label = &attribution->tables->labels[i];
    struct vt_rule_subject subject = {
        .life = lives[i],
        .phase = label->phase,
        .kind = allocation->kind,
        .holds_tensors = vt_holds_tensors(&attribution->tables->phases, allocation),
        .bytes = allocation->bytes,
    };
    struct vt_verdict verdict;
    label_by_kind(attribution->trace, allocation, label);
    label->is_copy =
        lives[i] & VT_LIFE(LIKE_ALL_PARAMETERS) &&
        attribution->tables->sites.items[allocation->stack_id].traits & (VT_TRAIT(COPY) | VT_TRAIT(LOADED));
    label->gathered = subject.holds_tensors &&
                      attribution->tables->sites.items[allocation->stack_id].traits & VT_TRAIT(GATHERED);
    if (!is_judged(allocation) || !vt_matcher_judge(matcher, allocation->stack_id, &subject, &verdict))
        return;
    label->rule = verdict.rule;
    label->category = verdict.category;
    label->evidence = verdict.evidence;
}

static void judge_all(struct vt_attribution *attribution, struct vt_matcher *matcher, const uint64_t *lives)
{
    for (size_t i = 0; i < attribution->replay->allocation_count; i++)
        judge_one(attribution, matcher, lives, i);
}

/* The event that made the last block that holds tensors. */
static uint32_t last_made_event(const struct vt_attribution *attribution)
{
    const struct vt_replay *replay = attribution->replay;
    uint32_t last = 0;
    for (size_t i = 0; i < replay->allocation_count; i++)
        if (vt_holds_tensors(&attribution->tables->phases, &replay->allocations[i]) &&
            replay->allocations[i].alloc_event > last)
            last = replay->allocations[i].alloc_event;
    return last;
}

/* Events that a block is known to have lived, up to the last block of the trace. */
static uint32_t known_life(const struct vt_allocation *block, uint32_t last_made)
{
    uint32_t end = block->free_event < last_made ? block->free_event : last_made;
    return end > block->alloc_event ? end - block->alloc_event : 0;
}

/* The end of the trace came before its life could show what it is. */
static bool is_cut_short(const struct vt_attribution *attribution, const uint64_t *lives, size_t i)
{
    bool recent = (lives[i] & RECENT) && !(lives[i] & VT_LIFE(ONCE));
    return (lives[i] & VT_LIFE(CUT)) || (recent && attribution->labels[i].evidence == VT_EVIDENCE_WEAK);
}

/* A block whose life the end of the trace cut short gets the category that most earlier blocks of its stack
 * have. Temporaries that lived shorter than it has already are not like it: one line makes a few, then its
 * result. */
static void judge_by_siblings(struct vt_attribution *attribution, const uint64_t *lives)
{
    const struct vt_replay *replay = attribution->replay;
    struct vt_label *labels = attribution->tables->labels;
    const struct vt_phases *phases = &attribution->tables->phases;
    uint32_t last_made = last_made_event(attribution);
    struct siblings {
        uint32_t counts[VT_CATEGORY_COUNT];
        uint32_t least_life; /* of those that are cut: of the first */
        uint16_t rule;
        bool guessed; /* some of them have weak evidence */
    } *siblings = vt_allocate_zeros(attribution->trace->stack_count, sizeof *siblings);
    for (size_t i = replay->allocation_count; i-- > 0;) {
        const struct vt_allocation *block = &replay->allocations[i];
        if (vt_holds_tensors(phases, block) && is_cut_short(attribution, lives, i))
            siblings[block->stack_id].least_life = known_life(block, last_made);
    }
    for (size_t i = 0; i < replay->allocation_count; i++) {
        const struct vt_allocation *block = &replay->allocations[i];
        if (!vt_holds_tensors(phases, block) || is_cut_short(attribution, lives, i) || block->stack_id == 0)
            continue;
        struct siblings *own = &siblings[block->stack_id];
        if (labels[i].category == VT_CATEGORY_TEMPORARY && known_life(block, last_made) < own->least_life)
            continue;
        own->counts[labels[i].category]++;
        own->rule = labels[i].rule;
        own->guessed |= labels[i].evidence == VT_EVIDENCE_WEAK;
    }
    for (size_t i = 0; i < replay->allocation_count; i++) {
        const struct vt_allocation *block = &replay->allocations[i];
        if (!vt_holds_tensors(phases, block) || !is_cut_short(attribution, lives, i))
            continue;
        const struct siblings *own = &siblings[block->stack_id];
        uint32_t most = 0, all = 0;
        for (uint32_t c = 0; c < VT_CATEGORY_COUNT; c++) {
            all += own->counts[c];
            most = own->counts[c] > own->counts[most] ? c : most;
        }
        if (all == 0)
            continue;
        labels[i].category = (uint8_t)most;
        labels[i].evidence =
            own->counts[most] == all && !own->guessed ? VT_EVIDENCE_STRONG : VT_EVIDENCE_WEAK;
        labels[i].rule = own->rule;
    }
    free(siblings);
}

static void set_steps(struct vt_attribution *attribution)
{
    size_t span = 0;
    for (size_t i = 0; i < attribution->replay->allocation_count; i++) {
        while (attribution->spans[span].last_event < attribution->replay->allocations[i].alloc_event)
            span++;
        attribution->tables->labels[i].phase = attribution->spans[span].phase;
        attribution->tables->labels[i].step = attribution->spans[span].step;
    }
}

/* Blocks that no inspection saw get the module that made them; gradients get the module whose forward made
 * their node. This says nothing about parameters (but gathered ones), buffers and state. */
static void set_modules(struct vt_attribution *attribution)
{
    struct vt_module_tree *tree = attribution->tables->module_tree;
    for (size_t i = 0; i < attribution->replay->allocation_count; i++) {
        const struct vt_allocation *allocation = &attribution->replay->allocations[i];
        struct vt_label *label = &attribution->tables->labels[i];
        if (label->owner || (label->category == VT_CATEGORY_PARAMETER && !label->gathered) ||
            label->category == VT_CATEGORY_BUFFER || label->category == VT_CATEGORY_OPTIMIZER_STATE ||
            label->category == VT_CATEGORY_CACHED)
            continue;
        label->module = vt_module_tree_find(tree, allocation->stack_id, allocation->alloc_event);
        if (!label->module)
            label->module = vt_module_tree_find(tree, label->forward_stack_id, allocation->alloc_event);
    }
}

/* Adds copies of the owners that an inspection saw in `source`, for another allocation. */
static void copy_owners(struct vt_attribution_tables *tables, size_t *capacity,
                        const struct vt_placed *placed, uint32_t source, uint32_t index)
{
    const struct vt_owned *seen = &placed->owned[source];
    vt_reserve(&tables->owners, capacity, tables->owner_count + seen->count, sizeof *tables->owners);
    tables->owned[index] = (struct vt_owned){.first = (uint32_t)tables->owner_count, .count = seen->count};
    for (uint32_t i = 0; i < seen->count; i++) {
        struct vt_owner *owner = &tables->owners[tables->owner_count++];
        *owner = placed->owners[seen->first + i];
        owner->allocation = index;
        if (source != index)
            owner->evidence = VT_EVIDENCE_STRONG;
    }
}

/* Owners of all allocations: those that inspections saw, and copies of them for allocations that repeat
 * these. Repeats with several tensors share a copy: a flat buffer has thousands, and each step makes one. */
static void list_owners(struct vt_attribution *attribution, const struct vt_placed *placed)
{
    const struct vt_replay *replay = attribution->replay;
    struct vt_attribution_tables *tables = attribution->tables;
    struct vt_label *labels = tables->labels;
    size_t capacity = 0;
    uint32_t *copies = /* by source: the allocation whose copy others share, 0 = none */
        vt_allocate_zeros(replay->allocation_count + 1, sizeof *copies);
    tables->owned = vt_allocate_zeros(replay->allocation_count + 1, sizeof *tables->owned);
    for (uint32_t i = 0; i < replay->allocation_count; i++) {
        uint32_t source = placed->like[i] != VT_NEVER ? placed->like[i] : i;
        if (placed->inspection_of[source] == VT_NEVER)
            continue;
        if (source != i && copies[source]) {
            tables->owned[i] = tables->owned[copies[source]];
        } else {
            copy_owners(tables, &capacity, placed, source, i);
            if (source != i && placed->owned[source].count > 1)
                copies[source] = i;
        }
        if (tables->owned[i].count == 1)
            tables->owners[tables->owned[i].first].share_bytes = replay->allocations[i].bytes;
        labels[i].owner = labels[source].owner;
        labels[i].module = labels[source].module;
        labels[i].rounding_bytes =
            labels[source].rounding_bytes + replay->allocations[i].bytes - replay->allocations[source].bytes;
    }
    free(copies);
    attribution->owners = tables->owners;
    attribution->owner_count = tables->owner_count;
}

static void set_names(struct vt_attribution *attribution, const uint64_t *lives)
{
    const struct vt_replay *replay = attribution->replay;
    struct vt_attribution_tables *tables = attribution->tables;
    struct vt_placed placed = {0};
    vt_owners_place(replay, &tables->phases, tables->names, tables->labels, &placed);
    vt_held_find(attribution, &tables->phases, &tables->arena, &tables->held);
    vt_named_judge(attribution, &tables->phases, lives, tables->labels, &placed);
    vt_repeats_find(replay, &tables->phases, tables->module_tree, tables->labels, &placed);
    vt_calls_judge(replay, &tables->phases, tables->labels, &placed);
    list_owners(attribution, &placed);
    set_modules(attribution);
    attribution->inspection_counts = placed.counts;
    tables->inspection_of = placed.inspection_of;
    vt_held_name_caches(attribution, lives, tables->labels, tables->inspection_of);
    vt_held_find_leaves(attribution, &tables->held, &tables->sites, lives, tables->labels);
    free(placed.owners);
    free(placed.owned);
    free(placed.like);
}

/* What is found beside the lives of blocks, on a thread of its own. */
struct beside {
    struct vt_attribution *attribution;
    uint64_t *lives; /* bits of caches alone */
    struct vt_task task;
};

static int find_beside(void *context)
{
    struct beside *beside = context;
    struct vt_attribution *attribution = beside->attribution;
    struct vt_attribution_tables *tables = attribution->tables;
    vt_join_backward(attribution->replay, &tables->sites, tables->labels);
    vt_caches_find(attribution->replay, &tables->sites, &tables->phases, beside->lives,
                   &attribution->concurrent_calls, &attribution->calling_threads);
    return 0;
}

static void find_lives(struct vt_attribution *attribution, uint64_t *lives)
{
    const struct vt_attribution_tables *tables = attribution->tables;
    const size_t count = attribution->replay->allocation_count;
    struct beside beside = {.attribution = attribution, .lives = vt_allocate_zeros(count + 1, sizeof *lives)};
    vt_task_begin(&beside.task, find_beside, &beside);
    vt_lives_find(attribution->replay, &tables->sites, &tables->phases, lives);
    vt_task_end(&beside.task);
    for (size_t i = 0; i < count; i++)
        lives[i] |= beside.lives[i];
    free(beside.lives);
}

/* Autocast makes a weight in half of its precision, or more of what else has that size. */
static void find_half_copies(struct vt_attribution *attribution)
{
    const struct vt_replay *replay = attribution->replay;
    struct vt_label *labels = attribution->tables->labels;
    struct vt_index halves = {0};
    for (size_t i = 0; i < replay->allocation_count; i++)
        if (labels[i].category == VT_CATEGORY_PARAMETER)
            vt_index_put(&halves,
                         (replay->allocations[i].bytes / 2 + VT_TORCH_ROUND_BYTES - 1) /
                             VT_TORCH_ROUND_BYTES * VT_TORCH_ROUND_BYTES,
                         1);
    for (size_t i = 0; i < replay->allocation_count; i++)
        labels[i].is_half_copy =
            attribution->tables->sites.items[replay->allocations[i].stack_id].traits & VT_TRAIT(AUTOCAST) &&
            labels[i].category == VT_CATEGORY_ACTIVATION &&
            vt_index_has(&halves, replay->allocations[i].bytes);
    vt_index_free(&halves);
}

static void attribute(struct vt_attribution *attribution)
{
    struct vt_attribution_tables *tables = attribution->tables;
    const struct vt_trace *trace = attribution->trace;
    const struct vt_replay *replay = attribution->replay;
    tables->labels = vt_allocate_zeros(replay->allocation_count + 1, sizeof *tables->labels);
    attribution->labels = tables->labels;
    uint64_t *lives = vt_allocate_zeros(replay->allocation_count + 1, sizeof *lives);
    vt_progress_tell(VT_WORK_ATTRIBUTE, 0, PARTS);
    vt_trace_settle_frames(trace);
    struct vt_matcher *matcher = vt_traits_by_stack_make(trace, attribution->rules, &tables->sites);
    tables->names = vt_names_make(trace);
    tables->module_tree = vt_module_tree_make(&tables->sites, tables->names);
    vt_phases_find(replay, &tables->sites, &tables->phases);
    vt_progress_tell(VT_WORK_ATTRIBUTE, 3, PARTS);
    attribution->spans = tables->phases.spans;
    attribution->span_count = tables->phases.span_count;
    attribution->step_count = tables->phases.step_count;
    attribution->requests = tables->phases.requests;
    set_steps(attribution);
    find_lives(attribution, lives);
    vt_progress_tell(VT_WORK_ATTRIBUTE, 5, PARTS);
    judge_all(attribution, matcher, lives);
    vt_progress_tell(VT_WORK_ATTRIBUTE, 6, PARTS);
    judge_by_siblings(attribution, lives);
    vt_progress_tell(VT_WORK_ATTRIBUTE, 7, PARTS);
    set_names(attribution, lives);
    vt_identities_check(attribution, &tables->sites, &tables->phases, tables->labels);
    vt_join_callers(replay, &tables->sites, &tables->phases, tables->labels);
    find_half_copies(attribution);
    vt_matcher_free(matcher);
    free(lives);
}

int vt_attribute(const struct vt_trace *trace, const struct vt_replay *replay, const char *rules_path,
                 struct vt_attribution **made, char *error_text, size_t error_bytes)
{
    struct vt_attribution *attribution = vt_allocate_zeros(1, sizeof *attribution);
    *made = NULL;
    if (error_bytes > 0)
        error_text[0] = '\0';
    attribution->trace = trace;
    attribution->replay = replay;
    attribution->tables = vt_allocate_zeros(1, sizeof *attribution->tables);
    int error = vt_rules_load(rules_path, &attribution->rules, error_text, error_bytes);
    if (error) {
        vt_attribution_free(attribution);
        return error;
    }
    attribute(attribution);
    *made = attribution;
    return 0;
}

void vt_attribution_free(struct vt_attribution *attribution)
{
    if (!attribution)
        return;
    struct vt_attribution_tables *tables = attribution->tables;
    vt_phases_free(&tables->phases);
    free(tables->labels);
    vt_traits_by_stack_free(&tables->sites);
    free(tables->owners);
    free(tables->owned);
    free(tables->inspection_of);
    free(attribution->identities);
    vt_module_tree_free(tables->module_tree);
    vt_names_free(tables->names);
    vt_arena_free(&tables->arena);
    free(tables);
    vt_rules_free(attribution->rules);
    free(attribution);
}

const struct vt_span *vt_span_at(const struct vt_attribution *attribution, uint32_t event_index)
{
    static const struct vt_span none = {.phase = VT_PHASE_OTHER};
    if (attribution->span_count == 0)
        return &none;
    return &attribution->spans[vt_span_index(&attribution->tables->phases, event_index)];
}

const char *vt_rule_name(const struct vt_attribution *attribution, uint16_t rule)
{
    struct vt_rule_source source;
    vt_rules_source(attribution->rules, rule, &source);
    return rule == VT_RULE_INSPECTION ? "seen by an inspection" : source.name;
}

void vt_rule_text(const struct vt_attribution *attribution, uint16_t rule, struct vt_rule_source *source)
{
    vt_rules_source(attribution->rules, rule, source);
}

bool vt_made_node(const struct vt_attribution *attribution, uint32_t event_index)
{
    return event_index < attribution->trace->event_count &&
           attribution->tables->phases.grad_mode[event_index];
}

const struct vt_stack_traits *vt_stack_traits_of(const struct vt_attribution *attribution, uint32_t stack_id)
{
    static const struct vt_stack_traits none;
    return stack_id < attribution->trace->stack_count ? &attribution->tables->sites.items[stack_id] : &none;
}

bool vt_code_is(const struct vt_attribution *attribution, uint32_t code_id, enum vt_code_class code_class)
{
    return vt_traits_by_stack_code_is(&attribution->tables->sites, code_id, code_class);
}

const char *vt_operator_of(const struct vt_attribution *attribution, uint32_t stack_id)
{
    return vt_stack_traits_of(attribution, stack_id)->operator_name;
}

const struct vt_owner *vt_owners_of(const struct vt_attribution *attribution, uint32_t allocation,
                                    size_t *count)
{
    const struct vt_owned *owned = attribution->tables->owned;
    *count = owned && allocation < attribution->replay->allocation_count ? owned[allocation].count : 0;
    return *count > 0 ? attribution->owners + owned[allocation].first : NULL;
}

const struct vt_inspection *vt_inspection_of(const struct vt_attribution *attribution, uint32_t allocation)
{
    const uint32_t *inspection_of = attribution->tables ? attribution->tables->inspection_of : NULL;
    bool seen = inspection_of && allocation < attribution->replay->allocation_count &&
                inspection_of[allocation] != VT_NEVER;
    return seen ? &attribution->trace->inspections[inspection_of[allocation]] : NULL;
}

const char *vt_module_class(const struct vt_attribution *attribution, const char *module)
{
    return attribution->tables && attribution->tables->names && module
               ? vt_names_class(attribution->tables->names, module)
               : NULL;
}
