#include "stacks/steps.h"

#include "stacks/unwind.h"

_Atomic uint64_t vt_steps[1 << VT_PAIR_BITS][2];

void vt_steps_forget(void)
{
    for (size_t i = 0; i < sizeof vt_steps / sizeof *vt_steps; i++)
        for (int j = 0; j < 2; j++)
            if (atomic_load_explicit(&vt_steps[i][j], memory_order_relaxed))
                atomic_store_explicit(&vt_steps[i][j], 0, memory_order_relaxed);
}

static uint64_t pack_other(enum vt_other_step other)
{
    return (uint64_t)other << VT_BASE_BITS;
}

/* `cfa` in bytes. If it does not fit, the full unwinder is needed. */
static uint64_t pack_step(enum vt_step_kind kind, int64_t cfa, uint64_t base)
{
    const int64_t units = cfa / VT_CFA_UNIT, limit = INT64_C(1) << (VT_CFA_BITS - 1);
    if (kind == VT_STEP_OTHER || cfa % VT_CFA_UNIT || units < -limit || units >= limit)
        return pack_other(VT_OTHER_FULL);
    return (uint64_t)kind << VT_KIND_SHIFT | ((uint64_t)units & ((1 << VT_CFA_BITS) - 1)) << VT_BASE_BITS |
           base;
}

/* *words: how far below the CFA. */
static bool is_saved(const struct vt_rule *rule, uint64_t *words)
{
    *words = (uint64_t)(rule->offset / -8);
    return rule->kind == VT_RULE_AT_OFFSET && rule->offset < 0 && rule->offset % 8 == 0 &&
           *words < VT_BASE_AT_ITSELF;
}

#if defined __x86_64__
enum { OP_RBP_OFFSET = 0x70 + VT_REGISTER_BASE, OP_DEREFERENCE = 0x06 };

/* Parses "base pointer + offset"; *rest is what follows. */
static bool is_base_offset(const struct vt_rule *rule, int64_t *offset, struct vt_cursor *rest)
{
    *rest = (struct vt_cursor){rule->expression, rule->expression + rule->offset, false};
    const bool is_base = vt_read_uint(rest, 1) == OP_RBP_OFFSET;
    *offset = vt_read_sleb(rest);
    return is_base && !rest->failed;
}

static bool pack_base(const struct vt_rule *rule, uint64_t *base)
{
    struct vt_cursor rest;
    int64_t offset;
    if (rule->kind == VT_RULE_SAME) {
        *base = VT_BASE_SAME;
        return true;
    }
    if (is_saved(rule, base))
        return true;
    *base = VT_BASE_AT_ITSELF;
    return rule->kind == VT_RULE_AT_EXPRESSION && is_base_offset(rule, &offset, &rest) && offset == 0 &&
           rest.at == rest.end;
}

static uint64_t pack_row(const struct vt_unwind_row *row)
{
    const struct vt_rule *address = &row->registers[VT_REGISTER_RETURN];
    uint64_t base;
    int64_t cfa = row->cfa.offset;
    struct vt_cursor rest;
    enum vt_step_kind kind = VT_STEP_OTHER;
    if (address->kind != VT_RULE_AT_OFFSET || address->offset != -8 ||
        !pack_base(&row->registers[VT_REGISTER_BASE], &base))
        return pack_other(VT_OTHER_FULL);
    if (row->cfa.kind == VT_RULE_OFFSET)
        kind = row->cfa_register == VT_REGISTER_STACK  ? VT_STEP_FROM_STACK
               : row->cfa_register == VT_REGISTER_BASE ? VT_STEP_FROM_BASE
                                                       : VT_STEP_OTHER;
    else if (is_base_offset(&row->cfa, &cfa, &rest) && rest.end - rest.at == 1 && *rest.at == OP_DEREFERENCE)
        kind = VT_STEP_FROM_MEMORY;
    return pack_step(kind, cfa, base);
}
#else
static uint64_t pack_row(const struct vt_unwind_row *row)
{
    const struct vt_rule *base = &row->registers[VT_REGISTER_BASE];
    const bool from_stack = row->cfa_register == VT_REGISTER_STACK;
    uint64_t address_words, base_words;
    if (row->cfa.kind != VT_RULE_OFFSET || (!from_stack && row->cfa_register != VT_REGISTER_BASE) ||
        !is_saved(&row->registers[VT_REGISTER_RETURN], &address_words))
        return pack_other(VT_OTHER_FULL);
    if (is_saved(base, &base_words) && base_words == address_words + 1)
        return pack_step(from_stack ? VT_STEP_FROM_STACK : VT_STEP_FROM_BASE, row->cfa.offset, base_words);
    return pack_step(from_stack && base->kind == VT_RULE_SAME ? VT_STEP_WITHOUT_BASE : VT_STEP_OTHER,
                     row->cfa.offset, address_words);
}
#endif

static uint64_t read_tables(uintptr_t address)
{
    struct vt_unwind_row row;
    if (!vt_unwind_find(address - 1, &row))
        return pack_other(vt_unwind_is_signal_return(address) ? VT_OTHER_FULL : VT_OTHER_END);
    if (row.registers[VT_REGISTER_RETURN].kind == VT_RULE_UNDEFINED)
        return pack_other(VT_OTHER_END);
    if (row.signal_frame || row.registers[VT_REGISTER_STACK].kind != VT_RULE_SAME)
        return pack_other(VT_OTHER_FULL);
    return pack_row(&row);
}

uint64_t vt_step_find(uintptr_t address)
{
    const uint64_t unanswered = vt_unwind_unanswered();
    const uint64_t step = read_tables(address);
    if (address >> VT_ADDRESS_BITS || vt_unwind_unanswered() != unanswered)
        return step;
    struct vt_step_place place = vt_step_place_of(address);
    uint64_t before = atomic_exchange_explicit(&place.pair[0], place.tag | step, memory_order_relaxed);
    if (before)
        atomic_store_explicit(&place.pair[1], before, memory_order_relaxed);
    return step;
}
