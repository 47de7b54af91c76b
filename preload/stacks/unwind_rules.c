#include "stacks/unwind_rules.h"

#include <string.h>

enum { REMEMBERED_MAXIMUM = 4 };

struct program {
    const struct vt_unwind_common *common;
    struct vt_unwind_row row;     /* so far */
    struct vt_unwind_row initial; /* after the common part */
    struct vt_unwind_row remembered[REMEMBERED_MAXIMUM];
    unsigned remembered_count;
    struct vt_rule ignored; /* for registers that are not needed, such as vectors */
    uintptr_t location, address;
};

static struct vt_rule *rule_of(struct program *program, uint64_t number)
{
    return number < VT_REGISTERS ? &program->row.registers[number] : &program->ignored;
}

static void restore_rule(struct program *program, uint64_t number)
{
    if (number < VT_REGISTERS)
        program->row.registers[number] = program->initial.registers[number];
}

static struct vt_rule read_expression(struct vt_cursor *code, enum vt_rule_kind kind)
{
    const uint64_t bytes = vt_read_uleb(code);
    const uint8_t *expression = code->at;
    code->failed |= bytes > INT32_MAX;
    vt_skip_bytes(code, bytes);
    return (struct vt_rule){.kind = (uint8_t)kind, .offset = (int32_t)bytes, .expression = expression};
}

static struct vt_rule offset_rule(struct vt_cursor *code, enum vt_rule_kind kind, int64_t offset)
{
    code->failed |= offset != (int32_t)offset;
    return (struct vt_rule){.kind = (uint8_t)kind, .offset = (int32_t)offset};
}

static void set_cfa(struct program *program, struct vt_cursor *code, uint64_t number, int64_t offset)
{
    code->failed |= number >= VT_REGISTER_RETURN;
    program->row.cfa_register = (uint8_t)number;
    program->row.cfa = offset_rule(code, VT_RULE_OFFSET, offset);
}

/* DW_CFA_*; first those with their operand in the low six bits. */
enum {
    ADVANCE = 1,
    OFFSET = 2,
    RESTORE = 3,
    NOTHING = 0x00,
    SET_LOCATION = 0x01,
    ADVANCE_1 = 0x02,
    ADVANCE_2 = 0x03,
    ADVANCE_4 = 0x04,
    OFFSET_EXTENDED = 0x05,
    RESTORE_EXTENDED = 0x06,
    UNDEFINED = 0x07,
    SAME_VALUE = 0x08,
    REGISTER = 0x09,
    REMEMBER_STATE = 0x0a,
    RESTORE_STATE = 0x0b,
    DEFINE_CFA = 0x0c,
    DEFINE_CFA_REGISTER = 0x0d,
    DEFINE_CFA_OFFSET = 0x0e,
    DEFINE_CFA_EXPRESSION = 0x0f,
    EXPRESSION = 0x10,
    OFFSET_EXTENDED_SIGNED = 0x11,
    DEFINE_CFA_SIGNED = 0x12,
    DEFINE_CFA_OFFSET_SIGNED = 0x13,
    VALUE_OFFSET = 0x14,
    VALUE_OFFSET_SIGNED = 0x15,
    VALUE_EXPRESSION = 0x16,
    AARCH64_NEGATE_SIGNED = 0x2d, /* of the return address, which is read without its signature anyway */
    GNU_ARGUMENTS_SIZE = 0x2e,
    GNU_NEGATIVE_OFFSET_EXTENDED = 0x2f,
};

/* An offset operand, scaled by the table's unit. */
static int64_t read_offset(const struct program *program, struct vt_cursor *code, bool is_signed)
{
    return (is_signed ? vt_read_sleb(code) : (int64_t)vt_read_uleb(code)) * program->common->data_factor;
}

static void step_register(struct program *program, struct vt_cursor *code, uint8_t operation)
{
    const bool is_signed = operation == OFFSET_EXTENDED_SIGNED || operation == VALUE_OFFSET_SIGNED;
    const uint64_t number = vt_read_uleb(code);
    struct vt_rule *rule = rule_of(program, number);
    switch (operation) {
    case OFFSET_EXTENDED:
    case OFFSET_EXTENDED_SIGNED:
        *rule = offset_rule(code, VT_RULE_AT_OFFSET, read_offset(program, code, is_signed));
        break;
    case GNU_NEGATIVE_OFFSET_EXTENDED:
        *rule = offset_rule(code, VT_RULE_AT_OFFSET, -read_offset(program, code, false));
        break;
    case VALUE_OFFSET:
    case VALUE_OFFSET_SIGNED:
        *rule = offset_rule(code, VT_RULE_OFFSET, read_offset(program, code, is_signed));
        break;
    case REGISTER:
        *rule = offset_rule(code, VT_RULE_REGISTER, (int64_t)vt_read_uleb(code));
        break;
    case EXPRESSION:
    case VALUE_EXPRESSION:
        *rule = read_expression(code, operation == EXPRESSION ? VT_RULE_AT_EXPRESSION : VT_RULE_EXPRESSION);
        break;
    case RESTORE_EXTENDED:
        restore_rule(program, number);
        break;
    case UNDEFINED:
    case SAME_VALUE:
        *rule = (struct vt_rule){.kind = operation == UNDEFINED ? VT_RULE_UNDEFINED : VT_RULE_SAME};
        break;
    default:
        code->failed = true;
    }
}

static void step_extended(struct program *program, struct vt_cursor *code, uint8_t operation)
{
    struct vt_unwind_row *row = &program->row;
    uint64_t number;
    switch (operation) {
    case NOTHING:
    case AARCH64_NEGATE_SIGNED:
        break;
    case SET_LOCATION:
        program->location = vt_read_pointer(code, program->common->pointer_encoding, NULL);
        break;
    case ADVANCE_1:
    case ADVANCE_2:
    case ADVANCE_4:
        program->location +=
            vt_read_uint(code, (size_t)1 << (operation - ADVANCE_1)) * program->common->code_factor;
        break;
    case REMEMBER_STATE:
        code->failed |= program->remembered_count == REMEMBERED_MAXIMUM;
        if (!code->failed)
            program->remembered[program->remembered_count++] = *row;
        break;
    case RESTORE_STATE:
        code->failed |= program->remembered_count == 0;
        if (!code->failed)
            *row = program->remembered[--program->remembered_count];
        break;
    case DEFINE_CFA:
        number = vt_read_uleb(code);
        set_cfa(program, code, number, (int64_t)vt_read_uleb(code));
        break;
    case DEFINE_CFA_SIGNED:
        number = vt_read_uleb(code);
        set_cfa(program, code, number, read_offset(program, code, true));
        break;
    case DEFINE_CFA_REGISTER:
        set_cfa(program, code, vt_read_uleb(code), row->cfa.offset);
        break;
    case DEFINE_CFA_OFFSET:
        set_cfa(program, code, row->cfa_register, (int64_t)vt_read_uleb(code));
        break;
    case DEFINE_CFA_OFFSET_SIGNED:
        set_cfa(program, code, row->cfa_register, read_offset(program, code, true));
        break;
    case DEFINE_CFA_EXPRESSION:
        row->cfa = read_expression(code, VT_RULE_EXPRESSION);
        break;
    case GNU_ARGUMENTS_SIZE:
        vt_read_uleb(code);
        break;
    default:
        step_register(program, code, operation);
    }
}

/* Runs until the row of program->address is complete. */
static bool run_until(struct program *program, struct vt_cursor *code)
{
    while (!code->failed && code->at < code->end && program->location <= program->address) {
        uint8_t byte = (uint8_t)vt_read_uint(code, 1), operand = byte & 0x3f;
        switch (byte >> 6) {
        case ADVANCE:
            program->location += operand * program->common->code_factor;
            break;
        case OFFSET:
            *rule_of(program, operand) =
                offset_rule(code, VT_RULE_AT_OFFSET, read_offset(program, code, false));
            break;
        case RESTORE:
            restore_rule(program, operand);
            break;
        default:
            step_extended(program, code, byte);
        }
    }
    return !code->failed;
}

bool vt_unwind_run(const struct vt_unwind_common *common, struct vt_cursor instructions, uintptr_t start,
                   uintptr_t address, struct vt_unwind_row *row)
{
    struct vt_cursor first = common->instructions;
    struct program program;
    memset(&program.row, 0, sizeof program.row);
    program.common = common;
    program.remembered_count = 0;
    program.location = 0;
    program.address = address;
    if (!run_until(&program, &first))
        return false;
    program.initial = program.row;
    program.location = start;
    if (!run_until(&program, &instructions))
        return false;
    *row = program.row;
    row->signal_frame = common->signal_frame;
    vt_unwind_set_return(row);
    return true;
}
