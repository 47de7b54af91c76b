#include "stacks/unwind.h"

#include <stddef.h>
#include <string.h>
#include <ucontext.h>

#include "loader/elf_walk.h"

static bool is_valgrinds(const struct vt_elf *object, void *unused)
{
    (void)unused;
    return strstr(object->path, "/vgpreload_") != NULL;
}

void vt_unwind_start(void)
{
    vt_stack_bounds_start(vt_elf_find(is_valgrinds, NULL));
    vt_unwind_tables_start();
}

/* ---- DWARF's stack machine ---- */

enum { EXPRESSION_DEPTH = 16, EXPRESSION_STEPS = 256 };

struct machine {
    const struct vt_unwind_frame *frame;
    struct vt_stack_bounds *bounds;
    uint64_t values[EXPRESSION_DEPTH];
    unsigned depth;
    struct vt_cursor code; /* `failed`: of the whole machine */
    const uint8_t *start;
};

static void push(struct machine *machine, uint64_t value)
{
    machine->code.failed |= machine->depth == EXPRESSION_DEPTH;
    if (!machine->code.failed)
        machine->values[machine->depth++] = value;
}

static uint64_t pop(struct machine *machine)
{
    machine->code.failed |= machine->depth == 0;
    return machine->code.failed ? 0 : machine->values[--machine->depth];
}

static uint64_t of_register(struct machine *machine, uint64_t number)
{
    machine->code.failed |= number >= VT_REGISTER_RETURN;
    return machine->code.failed ? 0 : machine->frame->registers[number];
}

static uint64_t pick(struct machine *machine, uint64_t depth)
{
    machine->code.failed |= depth >= machine->depth;
    return machine->code.failed ? 0 : machine->values[machine->depth - 1 - depth];
}

/* DW_OP_*. */
enum {
    OP_ADDRESS = 0x03,
    OP_DEREFERENCE = 0x06,
    OP_CONSTANT_1U = 0x08, /* then 1s, 2u, 2s, 4u, 4s, 8u, 8s */
    OP_CONSTANT_U = 0x10,
    OP_CONSTANT_S = 0x11,
    OP_DUPLICATE = 0x12,
    OP_DROP = 0x13,
    OP_OVER = 0x14,
    OP_PICK = 0x15,
    OP_SWAP = 0x16,
    OP_ABSOLUTE = 0x19,
    OP_AND = 0x1a,
    OP_MINUS = 0x1c,
    OP_MULTIPLY = 0x1e,
    OP_NEGATE = 0x1f,
    OP_NOT = 0x20,
    OP_OR = 0x21,
    OP_PLUS = 0x22,
    OP_PLUS_CONSTANT = 0x23,
    OP_SHIFT_LEFT = 0x24,
    OP_SHIFT_RIGHT = 0x25,
    OP_SHIFT_RIGHT_SIGNED = 0x26,
    OP_XOR = 0x27,
    OP_BRANCH = 0x28,
    OP_EQUAL = 0x29,
    OP_GREATER_EQUAL = 0x2a,
    OP_GREATER = 0x2b,
    OP_LESS_EQUAL = 0x2c,
    OP_LESS = 0x2d,
    OP_NOT_EQUAL = 0x2e,
    OP_SKIP = 0x2f,
    OP_LITERAL = 0x30,         /* to 0x4f */
    OP_REGISTER_OFFSET = 0x70, /* to 0x8f */
    OP_REGISTER_X_OFFSET = 0x92,
    OP_DEREFERENCE_BYTES = 0x94,
    OP_NOTHING = 0x96,
};

/* False if it is none of these, or if the stack is too short. */
static bool apply_binary(struct machine *machine, uint8_t operation)
{
    uint64_t right = pop(machine), left = pop(machine), result;
    int64_t right_signed = (int64_t)right, left_signed = (int64_t)left;
    uint64_t shift = right & 63;
    switch (operation) {
#define X(name, value)                                                                                       \
    case name:                                                                                               \
        result = value;                                                                                      \
        break;
        X(OP_AND, left & right)
        X(OP_MINUS, left - right)
        X(OP_MULTIPLY, left * right)
        X(OP_OR, left | right)
        X(OP_PLUS, left + right)
        X(OP_SHIFT_LEFT, left << shift)
        X(OP_SHIFT_RIGHT, left >> shift)
        X(OP_SHIFT_RIGHT_SIGNED, (uint64_t)(left_signed >> shift))
        X(OP_XOR, left ^ right)
        X(OP_EQUAL, left == right)
        X(OP_GREATER_EQUAL, left_signed >= right_signed)
        X(OP_GREATER, left_signed > right_signed)
        X(OP_LESS_EQUAL, left_signed <= right_signed)
        X(OP_LESS, left_signed < right_signed)
        X(OP_NOT_EQUAL, left != right)
#undef X
    default:
        return false;
    }
    push(machine, result);
    return !machine->code.failed;
}

/* Moves values on the stack. False if it is none of these. */
static bool rearrange_stack(struct machine *machine, uint8_t operation)
{
    switch (operation) {
    case OP_DUPLICATE:
        push(machine, pick(machine, 0));
        return true;
    case OP_DROP:
        pop(machine);
        return true;
    case OP_OVER:
        push(machine, pick(machine, 1));
        return true;
    case OP_PICK:
        push(machine, pick(machine, vt_read_uint(&machine->code, 1)));
        return true;
    case OP_SWAP: {
        uint64_t top = pop(machine), below = pop(machine);
        push(machine, top);
        push(machine, below);
        return true;
    }
    default:
        return false;
    }
}

static void dereference(struct machine *machine, uint64_t bytes)
{
    uint64_t word = 0, address = pop(machine);
    if (bytes == 0 || bytes > sizeof word || machine->code.failed ||
        !vt_stack_read(machine->bounds, address, &word)) {
        machine->code.failed = true;
        return;
    }
    push(machine, bytes == sizeof word ? word : word & ((UINT64_C(1) << bytes * 8) - 1));
}

static void take_branch(struct machine *machine, bool taken)
{
    int64_t distance = vt_read_int(&machine->code, 2);
    if (!taken || machine->code.failed)
        return;
    if (distance < machine->start - machine->code.at || distance > machine->code.end - machine->code.at)
        machine->code.failed = true;
    else
        machine->code.at += distance;
}

/* `kind`: 0 = one byte unsigned, 1 = one byte signed, 2 = two bytes unsigned … */
static uint64_t read_constant(struct vt_cursor *code, unsigned kind)
{
    const size_t bytes = (size_t)1 << kind / 2;
    return kind & 1 ? (uint64_t)vt_read_int(code, bytes) : vt_read_uint(code, bytes);
}

static void run_operation(struct machine *machine)
{
    uint8_t operation = (uint8_t)vt_read_uint(&machine->code, 1);
    uint64_t value;
    if (operation >= OP_LITERAL && operation < OP_LITERAL + 32) {
        push(machine, operation - OP_LITERAL);
        return;
    }
    if (operation >= OP_REGISTER_OFFSET && operation < OP_REGISTER_OFFSET + 32) {
        value = of_register(machine, operation - OP_REGISTER_OFFSET);
        push(machine, value + (uint64_t)vt_read_sleb(&machine->code));
        return;
    }
    if (operation >= OP_CONSTANT_1U && operation < OP_CONSTANT_1U + 8) {
        push(machine, read_constant(&machine->code, operation - OP_CONSTANT_1U));
        return;
    }
    switch (operation) {
    case OP_ADDRESS:
        push(machine, vt_read_uint(&machine->code, 8));
        break;
    case OP_DEREFERENCE:
        dereference(machine, 8);
        break;
    case OP_DEREFERENCE_BYTES:
        dereference(machine, vt_read_uint(&machine->code, 1));
        break;
    case OP_CONSTANT_U:
        push(machine, vt_read_uleb(&machine->code));
        break;
    case OP_CONSTANT_S:
        push(machine, (uint64_t)vt_read_sleb(&machine->code));
        break;
    case OP_ABSOLUTE:
        value = pop(machine);
        push(machine, (int64_t)value < 0 ? -value : value);
        break;
    case OP_NEGATE:
        push(machine, -pop(machine));
        break;
    case OP_NOT:
        push(machine, ~pop(machine));
        break;
    case OP_PLUS_CONSTANT:
        value = vt_read_uleb(&machine->code);
        push(machine, pop(machine) + value);
        break;
    case OP_REGISTER_X_OFFSET:
        value = of_register(machine, vt_read_uleb(&machine->code));
        push(machine, value + (uint64_t)vt_read_sleb(&machine->code));
        break;
    case OP_SKIP:
        take_branch(machine, true);
        break;
    case OP_BRANCH:
        take_branch(machine, pop(machine) != 0);
        break;
    case OP_NOTHING:
        break;
    default:
        if (!rearrange_stack(machine, operation) && !apply_binary(machine, operation))
            machine->code.failed = true;
    }
}

/* `first`: initially on the stack; for a register's rule it is the CFA. */
static bool evaluate_expression(const struct vt_unwind_frame *frame, struct vt_stack_bounds *bounds,
                                const struct vt_rule *rule, const uint64_t *first, uint64_t *result)
{
    struct machine machine = {.frame = frame,
                              .bounds = bounds,
                              .code = {rule->expression, rule->expression + rule->offset, false},
                              .start = rule->expression};
    if (first)
        push(&machine, *first);
    for (int steps = 0; machine.code.at < machine.code.end && !machine.code.failed; steps++) {
        machine.code.failed |= steps == EXPRESSION_STEPS;
        run_operation(&machine);
    }
    *result = pop(&machine);
    return !machine.code.failed;
}

/* ---- one step ---- */

static bool apply_rule(const struct vt_unwind_frame *frame, struct vt_stack_bounds *bounds,
                       const struct vt_rule *rule, unsigned number, uint64_t cfa, uint64_t *value)
{
    uint64_t address;
    switch (rule->kind) {
    case VT_RULE_SAME:
        *value = frame->registers[number];
        return true;
    case VT_RULE_UNDEFINED:
        *value = 0;
        return true;
    case VT_RULE_AT_OFFSET:
        return vt_stack_read(bounds, cfa + (uint64_t)(int64_t)rule->offset, value);
    case VT_RULE_OFFSET:
        *value = cfa + (uint64_t)(int64_t)rule->offset;
        return true;
    case VT_RULE_REGISTER:
        if ((uint32_t)rule->offset >= VT_REGISTERS)
            return false;
        *value = frame->registers[rule->offset];
        return true;
    case VT_RULE_AT_EXPRESSION:
        return evaluate_expression(frame, bounds, rule, &cfa, &address) &&
               vt_stack_read(bounds, address, value);
    default:
        return evaluate_expression(frame, bounds, rule, &cfa, value);
    }
}

#if defined __aarch64__
/* The kernel's frame of a signal: 128 bytes of siginfo, then a ucontext with x0 to x30, sp and pc. No table
 * covers the code in the vDSO that a handler returns to: mov x8, #139; svc #0. */
enum { SIGNAL_REGISTERS = 128 + offsetof(ucontext_t, uc_mcontext.regs) };

bool vt_unwind_is_signal_return(uintptr_t address)
{
    static const uint32_t code[] = {0xd2801168, 0xd4000001};
    return address % 4 == 0 && vt_stack_is_readable(address, address + sizeof code) &&
           memcmp((const void *)address, code, sizeof code) == 0;
}

static bool step_over_signal(struct vt_unwind_frame *frame, struct vt_stack_bounds *bounds)
{
    struct vt_unwind_frame caller = {.exact = true};
    const uint64_t registers = frame->registers[VT_REGISTER_STACK] + SIGNAL_REGISTERS;
    if (!vt_unwind_is_signal_return(frame->registers[VT_REGISTER_RETURN]))
        return false;
    for (unsigned i = 0; i < VT_REGISTERS; i++)
        if (!vt_stack_read(bounds, registers + i * 8, &caller.registers[i]))
            return false;
    *bounds = vt_stack_bounds_of(caller.registers[VT_REGISTER_STACK]);
    *frame = caller;
    return true;
}
#else
bool vt_unwind_is_signal_return(uintptr_t address)
{
    (void)address;
    return false;
}

static bool step_over_signal(struct vt_unwind_frame *frame, struct vt_stack_bounds *bounds)
{
    (void)frame, (void)bounds;
    return false;
}
#endif

/* Stacks grow down. Only what was interrupted may be on another stack, or may not have moved the stack
 * pointer yet (AArch64). */
static bool is_caller(const struct vt_unwind_frame *caller, const struct vt_unwind_frame *frame)
{
    const uint64_t above = caller->registers[VT_REGISTER_STACK], stack = frame->registers[VT_REGISTER_STACK];
    return caller->exact || above > stack ||
           (frame->exact && above == stack &&
            caller->registers[VT_REGISTER_RETURN] != frame->registers[VT_REGISTER_RETURN]);
}

bool vt_unwind_step(struct vt_unwind_frame *frame, struct vt_stack_bounds *bounds)
{
    struct vt_unwind_row row;
    struct vt_unwind_frame caller;
    uint64_t cfa;
    if (!vt_unwind_find(frame->registers[VT_REGISTER_RETURN] - !frame->exact, &row))
        return !frame->exact && step_over_signal(frame, bounds);
    const struct vt_rule *address = &row.registers[VT_REGISTER_RETURN];
    if (address->kind == VT_RULE_UNDEFINED ||
        (!frame->exact && address->kind == VT_RULE_REGISTER && address->offset == VT_COLUMN_RETURN))
        return false; /* the second: the frame's own call has overwritten it */
    if (row.cfa.kind == VT_RULE_OFFSET)
        cfa = frame->registers[row.cfa_register] + (uint64_t)(int64_t)row.cfa.offset;
    else if (!evaluate_expression(frame, bounds, &row.cfa, NULL, &cfa))
        return false;
    for (unsigned i = 0; i < VT_REGISTERS; i++) {
        const struct vt_rule own_stack = {.kind = VT_RULE_OFFSET};
        const struct vt_rule *rule = &row.registers[i];
        if (i == VT_REGISTER_STACK && rule->kind == VT_RULE_SAME)
            rule = &own_stack;
        if (!apply_rule(frame, bounds, rule, i, cfa, &caller.registers[i]))
            return false;
    }
    caller.registers[VT_REGISTER_RETURN] = vt_without_signature(caller.registers[VT_REGISTER_RETURN]);
    caller.exact = row.signal_frame;
    if (!is_caller(&caller, frame))
        return false;
    if (row.signal_frame)
        *bounds = vt_stack_bounds_of(caller.registers[VT_REGISTER_STACK]);
    *frame = caller;
    return true;
}
