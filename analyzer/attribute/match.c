/* Matches stacks and code objects with rules. Text is matched once for each symbol, code object, thread name
 * and operator; a stack then has all bits of its frames. */
#include "attribute/match.h"

#include "attribute/rules.h"

#include <stdlib.h>
#include <string.h>

#include "base/allocate.h"
#include "base/index.h"

/* The rules whose conditions on a stack hold: a run in `candidates`. */
struct stack_rules {
    uint32_t first, count;
    bool known, weighs;             /* weighs: some rule asks for bytes */
    bool judged, holds;             /* a subject was judged; a rule held */
    struct vt_rule_subject subject; /* the latest: most are like the one before */
    struct vt_verdict verdict;
};

struct vt_matcher {
    const struct vt_rules *rules;
    struct vt_traits_by_stack *sites;
    size_t offsets[VT_PATTERN_KINDS +
                   1];     /* by kind: where its patterns begin in a row of bits, in 64-bit words */
    uint64_t *code_bits;   /* by code id: the words of a code object's patterns */
    uint64_t *symbol_bits; /* of each distinct address: the words of a symbol's patterns */
    size_t symbol_count, symbol_capacity;
    struct vt_index symbols; /* address → number of its symbol_bits */
    uint64_t *stack_bits;    /* of the current stack: all words */
    struct stack_rules *stacks;
    uint16_t *candidates;
    size_t candidate_count, candidate_capacity;
};

/* `*` matches any text, also none. */
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

static void match_text(const struct vt_matcher *matcher, enum vt_pattern_kind kind, const char *text,
                       uint64_t *bits)
{
    const struct vt_patterns *patterns = &matcher->rules->patterns[kind];
    for (size_t i = 0; i < patterns->count; i++)
        if (glob(patterns->items[i].text, text))
            set_bit(bits, i);
}

/* Words of the patterns of some kinds: those from `first` on and before `end`. */
static size_t words_of(const struct vt_matcher *matcher, int first, int end)
{
    return matcher->offsets[end] - matcher->offsets[first];
}

/* A code object's words come first, then a symbol's (native, object). */
static size_t code_words(const struct vt_matcher *matcher)
{
    return words_of(matcher, VT_PATTERN_PYTHON, VT_PATTERN_NATIVE);
}

static size_t symbol_words(const struct vt_matcher *matcher)
{
    return words_of(matcher, VT_PATTERN_NATIVE, VT_PATTERN_THREAD);
}

static void match_code(struct vt_matcher *matcher, const struct vt_trace_code *code, uint64_t *bits)
{
    const struct vt_patterns *patterns = &matcher->rules->patterns[VT_PATTERN_PYTHON];
    const char *dot = strrchr(code->name, '.');
    for (size_t i = 0; i < patterns->count; i++)
        if (glob(patterns->items[i].function, code->name) && glob(patterns->items[i].text, code->file))
            set_bit(bits, i);
    match_text(matcher, VT_PATTERN_NAME, dot ? dot + 1 : code->name,
               bits + words_of(matcher, VT_PATTERN_PYTHON, VT_PATTERN_NAME));
}

static const uint64_t *symbol_bits(struct vt_matcher *matcher, uint64_t address)
{
    size_t words = symbol_words(matcher);
    uint32_t known = vt_index_get(&matcher->symbols, address);
    if (known != VT_INDEX_NONE)
        return matcher->symbol_bits + known * words;
    vt_reserve(&matcher->symbol_bits, &matcher->symbol_capacity, (matcher->symbol_count + 1) * words,
               sizeof *matcher->symbol_bits);
    uint64_t *bits = matcher->symbol_bits + matcher->symbol_count * words;
    memset(bits, 0, words * sizeof *bits);
    const struct vt_trace_symbol *symbol = vt_trace_symbol(matcher->sites->trace, address);
    if (symbol) {
        match_text(matcher, VT_PATTERN_NATIVE, symbol->short_name, bits);
        match_text(matcher, VT_PATTERN_OBJECT, symbol->module,
                   bits + words_of(matcher, VT_PATTERN_NATIVE, VT_PATTERN_OBJECT));
    }
    vt_index_put(&matcher->symbols, address, (uint32_t)matcher->symbol_count++);
    return bits;
}

static void add_bits(uint64_t *bits, const uint64_t *more, size_t words)
{
    for (size_t i = 0; i < words; i++)
        bits[i] |= more[i];
}

static void gather_bits(struct vt_matcher *matcher, uint32_t stack_id)
{
    const struct vt_trace *trace = matcher->sites->trace;
    const struct vt_trace_stack *stack = &trace->stacks[stack_id];
    const char *operator_name = matcher->sites->items[stack_id].operator_name;
    uint64_t *row = matcher->stack_bits;
    size_t code = code_words(matcher), symbol = symbol_words(matcher);
    memset(row, 0, words_of(matcher, 0, VT_PATTERN_KINDS) * sizeof *row);
    for (uint32_t i = 0; i < stack->python_count; i++)
        if (stack->python[i].code_id < trace->code_count)
            add_bits(row, matcher->code_bits + stack->python[i].code_id * code, code);
    for (uint32_t i = 0; i < stack->native_count; i++) {
        const uint64_t *bits = symbol_bits(matcher, stack->native[i]);
        add_bits(row + matcher->offsets[VT_PATTERN_NATIVE], bits, symbol);
    }
    match_text(matcher, VT_PATTERN_THREAD, vt_trace_thread_name(trace, stack->thread_id),
               row + matcher->offsets[VT_PATTERN_THREAD]);
    if (operator_name)
        match_text(matcher, VT_PATTERN_OP, operator_name, row + matcher->offsets[VT_PATTERN_OP]);
}

static uint64_t innermost(const struct vt_trace *trace, uint32_t stack_id)
{
    const struct vt_trace_stack *stack = &trace->stacks[stack_id];
    if (stack->python_count == 0)
        return VT_INNERMOST_NONE;
    return vt_trace_code_is_library(trace, stack->python[0].code_id) ? VT_INNERMOST_LIBRARY
                                                                     : VT_INNERMOST_USER;
}

static bool pattern_condition_holds(const struct vt_matcher *matcher, const struct vt_condition *condition,
                                    const uint64_t *row)
{
    const uint64_t *bits = row + matcher->offsets[condition->kind];
    for (uint32_t i = 0; i < condition->count; i++) {
        uint32_t pattern = matcher->rules->alternatives[condition->first + i];
        if (bits[pattern / 64] >> (pattern % 64) & 1)
            return true;
    }
    return false;
}

static bool stack_condition_holds(const struct vt_matcher *matcher, uint32_t stack_id,
                                  const struct vt_condition *condition)
{
    if (condition->kind == VT_CONDITION_TRAIT)
        return (matcher->sites->items[stack_id].traits & condition->bits) != 0;
    if (condition->kind == VT_CONDITION_INNERMOST)
        return (innermost(matcher->sites->trace, stack_id) & condition->bits) != 0;
    return pattern_condition_holds(matcher, condition, matcher->stack_bits);
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

static void match_codes(struct vt_matcher *matcher)
{
    const struct vt_trace *trace = matcher->sites->trace;
    const struct vt_clauses *classes = &matcher->rules->clauses[VT_CLAUSE_CODE];
    for (size_t id = 0; id < trace->code_count; id++) {
        uint64_t *row = matcher->code_bits + id * code_words(matcher);
        if (!trace->codes[id].file || !trace->codes[id].name)
            continue;
        match_code(matcher, &trace->codes[id], row);
        for (size_t k = 0; k < classes->count; k++) {
            const struct vt_condition *conditions = matcher->rules->conditions + classes->items[k].first;
            bool holds = true;
            for (uint32_t i = 0; i < classes->items[k].count && holds; i++)
                holds = pattern_condition_holds(matcher, &conditions[i], row) != conditions[i].negated;
            matcher->sites->code_classes[id] |= (uint32_t)holds << classes->items[k].bit;
        }
    }
}

static void match_traits(struct vt_matcher *matcher)
{
    const struct vt_clauses *traits = &matcher->rules->clauses[VT_CLAUSE_TRAIT];
    for (uint32_t id = 0; id < matcher->sites->trace->stack_count; id++) {
        gather_bits(matcher, id);
        for (size_t i = 0; i < traits->count; i++)
            if (stack_clause_holds(matcher, id, &traits->items[i]))
                matcher->sites->items[id].traits |= UINT64_C(1) << traits->items[i].bit;
    }
}

struct vt_matcher *vt_matcher_make(const struct vt_rules *rules, struct vt_traits_by_stack *sites)
{
    const struct vt_trace *trace = sites->trace;
    struct vt_matcher *matcher = vt_allocate_zeros(1, sizeof *matcher);
    matcher->rules = rules;
    matcher->sites = sites;
    for (int kind = 0; kind < VT_PATTERN_KINDS; kind++)
        matcher->offsets[kind + 1] = matcher->offsets[kind] + rules->patterns[kind].count / 64 + 1;
    matcher->stack_bits =
        vt_allocate_zeros(words_of(matcher, 0, VT_PATTERN_KINDS), sizeof *matcher->stack_bits);
    matcher->code_bits =
        vt_allocate_zeros(trace->code_count + 1, code_words(matcher) * sizeof *matcher->code_bits);
    matcher->stacks = vt_allocate_zeros(trace->stack_count, sizeof *matcher->stacks);
    match_codes(matcher);
    match_traits(matcher);
    return matcher;
}

void vt_matcher_free(struct vt_matcher *matcher)
{
    if (!matcher)
        return;
    vt_index_free(&matcher->symbols);
    free(matcher->symbol_bits);
    free(matcher->code_bits);
    free(matcher->stack_bits);
    free(matcher->stacks);
    free(matcher->candidates);
    free(matcher);
}

static bool asks_for_bytes(const struct vt_rules *rules, const struct vt_clause *clause)
{
    for (uint32_t i = 0; i < clause->count; i++)
        if (rules->conditions[clause->first + i].kind == VT_CONDITION_BYTES)
            return true;
    return false;
}

static struct stack_rules *candidates_of(struct vt_matcher *matcher, uint32_t stack_id)
{
    struct stack_rules *known = &matcher->stacks[stack_id];
    const struct vt_clauses *rules = &matcher->rules->clauses[VT_CLAUSE_RULE];
    if (known->known)
        return known;
    gather_bits(matcher, stack_id);
    vt_reserve(&matcher->candidates, &matcher->candidate_capacity, matcher->candidate_count + rules->count,
               sizeof *matcher->candidates);
    known->known = true;
    known->first = (uint32_t)matcher->candidate_count;
    for (size_t i = 0; i < rules->count; i++)
        if (stack_clause_holds(matcher, stack_id, &rules->items[i])) {
            matcher->candidates[matcher->candidate_count++] = (uint16_t)i;
            known->weighs |= asks_for_bytes(matcher->rules, &rules->items[i]);
        }
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

/* Sets `judged` of the stack by the first rule that holds. */
static void find_rule(const struct vt_matcher *matcher, struct stack_rules *stack)
{
    const struct vt_rules *rules = matcher->rules;
    const struct vt_rule_subject *subject = &stack->subject;
    stack->judged = true;
    stack->holds = false;
    for (uint32_t c = 0; c < stack->count && !stack->holds; c++) {
        uint16_t rule = matcher->candidates[stack->first + c];
        const struct vt_clause *clause = &rules->clauses[VT_CLAUSE_RULE].items[rule];
        bool holds = subject->holds_tensors || clause->has_kind;
        for (uint32_t i = 0; i < clause->count && holds; i++) {
            const struct vt_condition *condition = &rules->conditions[clause->first + i];
            if (condition->kind >= VT_FIRST_SUBJECT_CONDITION)
                holds = subject_condition_holds(condition, subject) != condition->negated;
        }
        stack->holds = holds;
        if (holds)
            stack->verdict =
                (struct vt_verdict){.rule = rule, .category = clause->category, .evidence = clause->evidence};
    }
}

bool vt_matcher_judge(struct vt_matcher *matcher, uint32_t stack_id, const struct vt_rule_subject *subject,
                      struct vt_verdict *verdict)
{
    struct stack_rules *stack = candidates_of(matcher, stack_id);
    const struct vt_rule_subject *last = &stack->subject;
    if (!stack->judged || last->life != subject->life || last->phase != subject->phase ||
        last->kind != subject->kind || last->holds_tensors != subject->holds_tensors ||
        (stack->weighs && last->bytes != subject->bytes)) {
        stack->subject = *subject;
        find_rule(matcher, stack);
    }
    if (stack->holds)
        *verdict = stack->verdict;
    return stack->holds;
}
