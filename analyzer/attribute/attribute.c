/* Puts attribution together: operators and traits of stacks, phases, lives, rules, modules. */
#include "attribute/attribute.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "attribute/owners.h"
#include "attribute/phases.h"
#include "attribute/rules.h"
#include "trace/index.h"

#define NO_RULE UINT16_MAX /* also: by the kind of allocation alone */

struct vt_attribution_tables {
    struct vt_arena arena;
    const char **operators, **modules; /* by stack id */
    struct vt_phases phases;
};

/* Modules convert parameters first and buffers after them, from two places in Module._apply. The innermost
 * call of it tells which by its offset in the code; with one place only there is nothing to tell apart. */
static void find_buffers(const struct vt_trace *trace, struct vt_matcher *matcher)
{
    int32_t first = INT32_MAX, last = -1;
    uint32_t code_id = 0;
    for (int round = 0; round < 2; round++) {
        for (uint32_t id = 1; id < trace->stack_count; id++) {
            const struct vt_trace_stack *stack = &trace->stacks[id];
            uint64_t *traits = vt_matcher_traits(matcher, id);
            if (!(*traits >> VT_TRAIT_MODULE_APPLY & 1))
                continue;
            for (uint32_t i = 0; i < stack->python_count; i++) {
                const struct vt_python_frame *frame = &stack->python[i];
                const char *name =
                    frame->code_id < trace->code_count ? trace->codes[frame->code_id].name : NULL;
                size_t bytes = name ? strlen(name) : 0;
                if (bytes < 6 || strcmp(name + bytes - 6, "_apply") != 0)
                    continue;
                int32_t offset = frame->instruction_offset;
                if (round == 0) {
                    first = offset < first ? offset : first;
                    last = offset > last ? offset : last;
                    code_id = frame->code_id;
                } else if (offset == last && last > first && frame->code_id == code_id) {
                    *traits |= UINT64_C(1) << VT_TRAIT_BUFFER;
                }
                break;
            }
        }
    }
}

/* A closure that an optimizer's step calls is the script's: what it does is not the optimizer's work. */
static void find_closures(const struct vt_trace *trace, struct vt_matcher *matcher)
{
    for (uint32_t id = 1; id < trace->stack_count; id++) {
        const struct vt_trace_stack *stack = &trace->stacks[id];
        uint64_t *traits = vt_matcher_traits(matcher, id);
        bool script_inside = false;
        if (!(*traits >> VT_TRAIT_OPTIMIZER & 1))
            continue;
        for (uint32_t i = 0; i < stack->python_count; i++) {
            uint32_t code_id = stack->python[i].code_id;
            const char *file = code_id < trace->code_count ? trace->codes[code_id].file : NULL;
            const char *name = file ? trace->codes[code_id].name : "";
            size_t bytes = strlen(name);
            /* a script may also have an optimizer of its own */
            if (file && (strstr(file, "/optim") || (bytes >= 4 && strcmp(name + bytes - 4, "step") == 0)))
                break;
            script_inside |= file && !vt_trace_code_is_library(trace, code_id);
        }
        if (script_inside)
            *traits &= ~(UINT64_C(1) << VT_TRAIT_OPTIMIZER);
    }
}

/* What follows from the kind alone. */
static void settle_kind(const struct vt_trace *trace, struct vt_allocation *allocation)
{
    switch (allocation->kind) {
    case VT_ALLOCATION_CONTEXT:
        allocation->category = VT_CATEGORY_CONTEXT;
        /* the first look at a device sees other processes too; differences across our own calls do not */
        allocation->evidence = trace->events[allocation->alloc_event].kind == VT_EVENT_DELTA
                                   ? VT_EVIDENCE_EXACT
                                   : VT_EVIDENCE_WEAK;
        break;
    case VT_ALLOCATION_HOST:
    case VT_ALLOCATION_SEGMENT:
    case VT_ALLOCATION_POOL:
        allocation->evidence = VT_EVIDENCE_EXACT;
        break;
    default:
        break;
    }
}

static bool is_judged(const struct vt_allocation *allocation)
{
    return allocation->category != VT_CATEGORY_CACHED &&
           (allocation->kind == VT_ALLOCATION_BLOCK || allocation->kind == VT_ALLOCATION_DRIVER ||
            allocation->kind == VT_ALLOCATION_POOLED);
}

static void judge_all(struct vt_attribution *attribution, struct vt_matcher *matcher, const uint32_t *lives)
{
    struct vt_replay *replay = attribution->replay;
    for (size_t i = 0; i < replay->allocation_count; i++) {
        struct vt_allocation *allocation = &replay->allocations[i];
        struct vt_rule_subject subject = {
            .life = lives[i],
            .phase = allocation->phase,
            .kind = allocation->kind,
            .holds_tensors = vt_holds_tensors(&attribution->tables->phases, allocation),
            .bytes = allocation->bytes,
        };
        struct vt_verdict verdict;
        allocation->rule = NO_RULE;
        settle_kind(attribution->trace, allocation);
        if (!is_judged(allocation) || !vt_matcher_judge(matcher, allocation->stack_id, &subject, &verdict))
            continue;
        allocation->rule = verdict.rule;
        allocation->category = verdict.category;
        allocation->evidence = verdict.evidence;
    }
}

/* What the end of the trace cut short is what most of its stack's earlier blocks were. */
static int judge_by_siblings(struct vt_attribution *attribution, const uint32_t *lives)
{
    struct vt_replay *replay = attribution->replay;
    const struct vt_phases *phases = &attribution->tables->phases;
    size_t stacks = attribution->trace->stack_count;
    uint32_t(*counts)[VT_CATEGORY_COUNT] = calloc(stacks, sizeof *counts);
    uint16_t *rules = calloc(stacks, sizeof *rules);
    if (!counts || !rules) {
        free(counts);
        free(rules);
        return -ENOMEM;
    }
    for (size_t i = 0; i < replay->allocation_count; i++) {
        const struct vt_allocation *block = &replay->allocations[i];
        if (!vt_holds_tensors(phases, block) || (lives[i] & VT_LIFE_CUT) || block->stack_id == 0)
            continue;
        counts[block->stack_id][block->category]++;
        rules[block->stack_id] = block->rule;
    }
    for (size_t i = 0; i < replay->allocation_count; i++) {
        struct vt_allocation *block = &replay->allocations[i];
        if (!vt_holds_tensors(phases, block) || !(lives[i] & VT_LIFE_CUT))
            continue;
        const uint32_t *seen = counts[block->stack_id];
        uint32_t most = 0, all = 0;
        for (uint32_t c = 0; c < VT_CATEGORY_COUNT; c++) {
            all += seen[c];
            most = seen[c] > seen[most] ? c : most;
        }
        if (all == 0)
            continue;
        block->category = (uint8_t)most;
        block->evidence = seen[most] == all ? VT_EVIDENCE_STRONG : VT_EVIDENCE_WEAK;
        block->rule = rules[block->stack_id];
    }
    free(counts);
    free(rules);
    return 0;
}

static void set_steps(struct vt_attribution *attribution)
{
    size_t span = 0;
    for (size_t i = 0; i < attribution->replay->allocation_count; i++) {
        struct vt_allocation *allocation = &attribution->replay->allocations[i];
        while (attribution->spans[span].last_event < allocation->alloc_event)
            span++;
        allocation->phase = attribution->spans[span].phase;
        allocation->step = attribution->spans[span].step;
    }
}

/* Parameters and what goes with them live in modules by their names, not by where they were made. */
static void set_modules(struct vt_attribution *attribution)
{
    const struct vt_attribution_tables *tables = attribution->tables;
    for (size_t i = 0; i < attribution->replay->allocation_count; i++) {
        struct vt_allocation *allocation = &attribution->replay->allocations[i];
        allocation->module = NULL;
        if (allocation->category == VT_CATEGORY_PARAMETER || allocation->category == VT_CATEGORY_BUFFER ||
            allocation->category == VT_CATEGORY_GRADIENT ||
            allocation->category == VT_CATEGORY_OPTIMIZER_STATE || allocation->category == VT_CATEGORY_CACHED)
            continue;
        allocation->module = tables->modules[allocation->stack_id];
        if (!allocation->module)
            allocation->module = tables->modules[allocation->forward_stack_id];
    }
}

static int attribute(struct vt_attribution *attribution, struct vt_matcher **matcher, uint32_t **lives)
{
    struct vt_attribution_tables *tables = attribution->tables;
    const struct vt_trace *trace = attribution->trace;
    struct vt_replay *replay = attribution->replay;
    tables->operators = calloc(trace->stack_count, sizeof *tables->operators);
    tables->modules = calloc(trace->stack_count, sizeof *tables->modules);
    *lives = calloc(replay->allocation_count + 1, sizeof **lives);
    if (!tables->operators || !tables->modules || !*lives)
        return -ENOMEM;
    int error = vt_operators_find(trace, &tables->arena, tables->operators);
    if (!error)
        error = vt_modules_find(trace, &tables->arena, tables->modules);
    if (!error)
        error = vt_matcher_make(attribution->rules, trace, tables->operators, matcher);
    if (error)
        return error;
    find_buffers(trace, *matcher);
    find_closures(trace, *matcher);
    error = vt_phases_find(replay, *matcher, &tables->phases);
    if (error)
        return error;
    attribution->spans = tables->phases.spans;
    attribution->span_count = tables->phases.span_count;
    attribution->step_count = tables->phases.step_count;
    set_steps(attribution);
    error = vt_lives_find(replay, *matcher, &tables->phases, *lives);
    if (error)
        return error;
    judge_all(attribution, *matcher, *lives);
    error = judge_by_siblings(attribution, *lives);
    if (!error)
        error = vt_join_backward(replay, tables->phases.grad_mode);
    if (!error)
        set_modules(attribution);
    return error;
}

int vt_attribute(const struct vt_trace *trace, struct vt_replay *replay, const char *rules_path,
                 struct vt_attribution **made, char *error_text, size_t error_bytes)
{
    struct vt_attribution *attribution = calloc(1, sizeof *attribution);
    struct vt_matcher *matcher = NULL;
    uint32_t *lives = NULL;
    *made = NULL;
    if (error_bytes > 0)
        error_text[0] = '\0';
    if (!attribution)
        return -ENOMEM;
    attribution->trace = trace;
    attribution->replay = replay;
    attribution->tables = calloc(1, sizeof *attribution->tables);
    int error = attribution->tables ? vt_rules_load(rules_path, &attribution->rules, error_text, error_bytes)
                                    : -ENOMEM;
    if (!error)
        error = attribute(attribution, &matcher, &lives);
    vt_matcher_free(matcher);
    free(lives);
    if (error)
        vt_attribution_free(attribution);
    else
        *made = attribution;
    return error;
}

void vt_attribution_free(struct vt_attribution *attribution)
{
    if (!attribution)
        return;
    struct vt_attribution_tables *tables = attribution->tables;
    if (tables) {
        vt_phases_free(&tables->phases);
        free(tables->operators);
        free(tables->modules);
        vt_arena_free(&tables->arena);
    }
    free(tables);
    vt_rules_free(attribution->rules);
    free(attribution);
}

const struct vt_span *vt_span_at(const struct vt_attribution *attribution, uint32_t event_index)
{
    static const struct vt_span none = {.phase = VT_PHASE_OTHER};
    if (attribution->span_count == 0)
        return &none;
    return &attribution->spans[vt_span_index(attribution->spans, attribution->span_count, event_index)];
}

const char *vt_rule_name(const struct vt_attribution *attribution, uint16_t rule)
{
    return rule == NO_RULE ? "" : vt_rules_name(attribution->rules, rule);
}

const char *vt_operator_of(const struct vt_attribution *attribution, uint32_t stack_id)
{
    return stack_id < attribution->trace->stack_count ? attribution->tables->operators[stack_id] : NULL;
}
