/* Matches stacks against rules. Text is looked at once per symbol, code object and operator; a stack is then
 * the union of its frames' bits. */
#include "attribute/rules_private.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/index.h"

/* Which rules' stack conditions hold, as a run in `candidates`. */
struct stack_rules {
    uint32_t first, count;
    bool known;
};

struct vt_matcher {
    const struct vt_rules *rules;
    const struct vt_trace *trace;
    const char *const *operators;
    size_t words[VT_PATTERN_KINDS]; /* of 64 bits, per set of patterns */
    uint64_t *symbol_bits;          /* native and object patterns of each distinct address */
    size_t symbol_count, symbol_capacity;
    struct vt_index symbols;
    uint64_t *code_bits;  /* Python patterns by code id, first word of each: whether it was looked at */
    uint64_t *stack_bits; /* of the stack being matched, all kinds one after the other */
    uint64_t *traits;
    struct stack_rules *stacks;
    uint16_t *candidates;
    size_t candidate_count, candidate_capacity;
};

/* `*` stands for anything, also nothing. */
static bool glob(const char *pattern, const char *text)
{
    const char *star = NULL, *after = NULL;
    for (;;) {
        if (*pattern == '*') {
            star = ++pattern;
            after = text;
            if (*star == '\0')
                return true;
        } else if (*text && *pattern == *text) {
            pattern++;
            text++;
        } else if (*text == '\0' && *pattern == '\0') {
            return true;
        } else if (star && *after) {
            pattern = star;
            text = ++after;
        } else {
            return false;
        }
    }
}

static void set_bit(uint64_t *bits, size_t bit)
{
    bits[bit / 64] |= UINT64_C(1) << (bit % 64);
}

static void match_text(const struct vt_patterns *patterns, const char *text, uint64_t *bits)
{
    for (size_t i = 0; i < patterns->count; i++)
        if (glob(patterns->items[i].text, text))
            set_bit(bits, i);
}

/* Native and object bits of an address, one after the other. */
static const uint64_t *symbol_bits(struct vt_matcher *matcher, uint64_t address)
{
    size_t native = matcher->words[VT_PATTERN_NATIVE], words = native + matcher->words[VT_PATTERN_OBJECT];
    uint32_t known = vt_index_get(&matcher->symbols, address);
    if (known != VT_INDEX_NONE)
        return matcher->symbol_bits + known * words;
    if (vt_reserve(&matcher->symbol_bits, &matcher->symbol_capacity, (matcher->symbol_count + 1) * words,
                   sizeof *matcher->symbol_bits))
        return NULL;
    uint64_t *bits = matcher->symbol_bits + matcher->symbol_count * words;
    memset(bits, 0, words * sizeof *bits);
    const struct vt_trace_symbol *symbol = vt_trace_symbol(matcher->trace, address);
    if (symbol) {
        match_text(&matcher->rules->patterns[VT_PATTERN_NATIVE], symbol->short_name, bits);
        match_text(&matcher->rules->patterns[VT_PATTERN_OBJECT], symbol->module, bits + native);
    }
    return vt_index_put(&matcher->symbols, address, (uint32_t)matcher->symbol_count++) ? NULL : bits;
}

static const uint64_t *code_bits(struct vt_matcher *matcher, uint32_t code_id)
{
    const struct vt_trace_code *code = &matcher->trace->codes[code_id];
    const struct vt_patterns *patterns = &matcher->rules->patterns[VT_PATTERN_PYTHON];
    uint64_t *known = matcher->code_bits + code_id * (matcher->words[VT_PATTERN_PYTHON] + 1);
    if (known[0] || !code->file)
        return known + 1;
    known[0] = 1;
    for (size_t i = 0; i < patterns->count; i++)
        if (glob(patterns->items[i].function, code->name) && glob(patterns->items[i].text, code->file))
            set_bit(known + 1, i);
    return known + 1;
}

static void unite(uint64_t *bits, const uint64_t *more, size_t words)
{
    for (size_t i = 0; i < words; i++)
        bits[i] |= more[i];
}

static int gather_bits(struct vt_matcher *matcher, uint32_t stack_id)
{
    const struct vt_trace_stack *stack = &matcher->trace->stacks[stack_id];
    size_t words[VT_PATTERN_KINDS],
        native = matcher->words[VT_PATTERN_NATIVE] + matcher->words[VT_PATTERN_OBJECT];
    memcpy(words, matcher->words, sizeof words);
    uint64_t *python = matcher->stack_bits + native, *operator= python + words[VT_PATTERN_PYTHON];
    memset(matcher->stack_bits, 0,
           (native + words[VT_PATTERN_PYTHON] + words[VT_PATTERN_OP]) * sizeof *python);
    for (uint32_t i = 0; i < stack->native_count; i++) {
        const uint64_t *bits = symbol_bits(matcher, stack->native[i]);
        if (!bits)
            return -ENOMEM;
        unite(matcher->stack_bits, bits, native);
    }
    for (uint32_t i = 0; i < stack->python_count; i++)
        if (stack->python[i].code_id < matcher->trace->code_count)
            unite(python, code_bits(matcher, stack->python[i].code_id), words[VT_PATTERN_PYTHON]);
    if (matcher->operators[stack_id])
        match_text(&matcher->rules->patterns[VT_PATTERN_OP], matcher->operators[stack_id], operator);
    return 0;
}

static uint64_t innermost(const struct vt_matcher *matcher, uint32_t stack_id)
{
    const struct vt_trace_stack *stack = &matcher->trace->stacks[stack_id];
    if (stack->python_count == 0)
        return VT_INNERMOST_NONE;
    return vt_trace_code_is_library(matcher->trace, stack->python[0].code_id) ? VT_INNERMOST_LIBRARY
                                                                              : VT_INNERMOST_USER;
}

static bool stack_condition_holds(const struct vt_matcher *matcher, uint32_t stack_id,
                                  const struct vt_condition *condition)
{
    if (condition->kind == VT_CONDITION_TRAIT)
        return (matcher->traits[stack_id] & condition->bits) != 0;
    if (condition->kind == VT_CONDITION_INNERMOST)
        return (innermost(matcher, stack_id) & condition->bits) != 0;
    const uint64_t *bits = matcher->stack_bits;
    for (int kind = 0; kind < condition->kind; kind++)
        bits += matcher->words[kind];
    for (uint32_t i = 0; i < condition->count; i++) {
        uint32_t pattern = matcher->rules->alternatives[condition->first + i];
        if (bits[pattern / 64] >> (pattern % 64) & 1)
            return true;
    }
    return false;
}

/* Whether the clause's conditions on the stack hold. */
static bool stack_clause_holds(const struct vt_matcher *matcher, uint32_t stack_id,
                               const struct vt_clause *clause)
{
    for (uint32_t i = 0; i < clause->count; i++) {
        const struct vt_condition *condition = &matcher->rules->conditions[clause->first + i];
        if (condition->kind < VT_FIRST_SUBJECT_CONDITION &&
            stack_condition_holds(matcher, stack_id, condition) == condition->negated)
            return false;
    }
    return true;
}

static int match_traits(struct vt_matcher *matcher)
{
    const struct vt_clauses *traits = &matcher->rules->traits;
    for (uint32_t id = 0; id < matcher->trace->stack_count; id++) {
        int error = gather_bits(matcher, id);
        if (error)
            return error;
        for (size_t i = 0; i < traits->count; i++)
            if (stack_clause_holds(matcher, id, &traits->items[i]))
                matcher->traits[id] |= UINT64_C(1) << traits->items[i].trait;
    }
    return 0;
}

int vt_matcher_make(const struct vt_rules *rules, const struct vt_trace *trace, const char *const *operators,
                    struct vt_matcher **made)
{
    struct vt_matcher *matcher = calloc(1, sizeof *matcher);
    size_t words = 0;
    *made = matcher;
    if (!matcher)
        return -ENOMEM;
    matcher->rules = rules;
    matcher->trace = trace;
    matcher->operators = operators;
    for (int kind = 0; kind < VT_PATTERN_KINDS; kind++) {
        matcher->words[kind] = rules->patterns[kind].count / 64 + 1;
        words += matcher->words[kind];
    }
    matcher->stack_bits = calloc(words, sizeof *matcher->stack_bits);
    matcher->code_bits =
        calloc(trace->code_count, (matcher->words[VT_PATTERN_PYTHON] + 1) * sizeof *matcher->code_bits);
    matcher->traits = calloc(trace->stack_count, sizeof *matcher->traits);
    matcher->stacks = calloc(trace->stack_count, sizeof *matcher->stacks);
    if (!matcher->stack_bits || !matcher->code_bits || !matcher->traits || !matcher->stacks)
        return -ENOMEM;
    return match_traits(matcher);
}

void vt_matcher_free(struct vt_matcher *matcher)
{
    if (!matcher)
        return;
    vt_index_free(&matcher->symbols);
    free(matcher->symbol_bits);
    free(matcher->code_bits);
    free(matcher->stack_bits);
    free(matcher->traits);
    free(matcher->stacks);
    free(matcher->candidates);
    free(matcher);
}

uint64_t *vt_matcher_traits(struct vt_matcher *matcher, uint32_t stack_id)
{
    return &matcher->traits[stack_id];
}

static const struct stack_rules *candidates_of(struct vt_matcher *matcher, uint32_t stack_id)
{
    struct stack_rules *known = &matcher->stacks[stack_id];
    const struct vt_clauses *rules = &matcher->rules->rules;
    if (known->known)
        return known;
    if (gather_bits(matcher, stack_id) ||
        vt_reserve(&matcher->candidates, &matcher->candidate_capacity,
                   matcher->candidate_count + rules->count, sizeof *matcher->candidates))
        return known; /* no memory: no rule holds */
    known->known = true;
    known->first = (uint32_t)matcher->candidate_count;
    for (size_t i = 0; i < rules->count; i++)
        if (stack_clause_holds(matcher, stack_id, &rules->items[i]))
            matcher->candidates[matcher->candidate_count++] = (uint16_t)i;
    known->count = (uint32_t)matcher->candidate_count - known->first;
    return known;
}

static bool subject_condition_holds(const struct vt_condition *condition,
                                    const struct vt_rule_subject *subject)
{
    switch (condition->kind) {
    case VT_CONDITION_PHASE:
        return condition->bits >> subject->phase & 1;
    case VT_CONDITION_KIND:
        return condition->bits >> subject->kind & 1;
    case VT_CONDITION_LIFE:
        return (condition->bits & subject->life) != 0;
    default:
        return (subject->bytes >= condition->bits) == condition->at_least;
    }
}

bool vt_matcher_judge(struct vt_matcher *matcher, uint32_t stack_id, const struct vt_rule_subject *subject,
                      struct vt_verdict *verdict)
{
    const struct stack_rules *stack = candidates_of(matcher, stack_id);
    const struct vt_rules *rules = matcher->rules;
    for (uint32_t c = 0; c < stack->count; c++) {
        uint16_t rule = matcher->candidates[stack->first + c];
        const struct vt_clause *clause = &rules->rules.items[rule];
        bool holds = subject->holds_tensors || clause->has_kind;
        for (uint32_t i = 0; i < clause->count && holds; i++) {
            const struct vt_condition *condition = &rules->conditions[clause->first + i];
            if (condition->kind >= VT_FIRST_SUBJECT_CONDITION)
                holds = subject_condition_holds(condition, subject) != condition->negated;
        }
        if (holds) {
            *verdict =
                (struct vt_verdict){.rule = rule, .category = clause->category, .evidence = clause->evidence};
            return true;
        }
    }
    return false;
}
