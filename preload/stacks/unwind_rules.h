/* How the caller's registers are found at one place in a function, and the instructions of an unwind table
 * that say so. Threads: any; touches nothing but the table. */
#ifndef VT_UNWIND_RULES_H
#define VT_UNWIND_RULES_H

#include "stacks/dwarf_cursor.h"

/* DWARF's register numbers. VT_REGISTER_RETURN is where a frame executes, and comes last; VT_COLUMN_RETURN is
 * what the tables call the return address. */
#if defined __x86_64__
enum {
    VT_REGISTER_BASE = 6,  /* rbp */
    VT_REGISTER_STACK = 7, /* rsp */
    VT_COLUMN_RETURN = 16,
    VT_REGISTER_RETURN = 16,
    VT_REGISTERS = 17
};
#elif defined __aarch64__
enum {
    VT_REGISTER_BASE = 29,
    VT_COLUMN_RETURN = 30, /* x30, the link register */
    VT_REGISTER_STACK = 31,
    VT_REGISTER_RETURN = 32,
    VT_REGISTERS = 33
};
#else
#error "native stacks: this architecture is not known"
#endif

enum vt_rule_kind {
    VT_RULE_SAME = 0,      /* the caller's value is unchanged; also where the tables say nothing */
    VT_RULE_UNDEFINED,     /* lost; for the return address: the outermost frame */
    VT_RULE_AT_OFFSET,     /* in memory, at CFA + offset */
    VT_RULE_OFFSET,        /* CFA + offset itself */
    VT_RULE_REGISTER,      /* in register `offset` */
    VT_RULE_AT_EXPRESSION, /* in memory, at the address that the expression gives */
    VT_RULE_EXPRESSION,    /* the value that the expression gives */
};

struct vt_rule {
    uint8_t kind;              /* enum vt_rule_kind */
    int32_t offset;            /* for expressions: the length in bytes */
    const uint8_t *expression; /* DWARF expression; points into the table */
};

/* The rules at one place in a function. The CFA (canonical frame address) is the caller's stack pointer. */
struct vt_unwind_row {
    struct vt_rule cfa; /* VT_RULE_OFFSET of cfa_register, or VT_RULE_EXPRESSION */
    uint8_t cfa_register;
    bool signal_frame; /* the caller was interrupted: its address is exact, not a return address */
    struct vt_rule registers[VT_REGISTERS];
};

/* AArch64: the frame returns to where the link register says, of which the tables tell. */
static inline void vt_unwind_set_return(struct vt_unwind_row *row)
{
#if defined __aarch64__
    const struct vt_rule *link = &row->registers[VT_COLUMN_RETURN];
    row->registers[VT_REGISTER_RETURN] =
        link->kind == VT_RULE_SAME ? (struct vt_rule){VT_RULE_REGISTER, VT_COLUMN_RETURN, NULL} : *link;
#else
    (void)row;
#endif
}

/* What several functions' tables have in common (CIE). */
struct vt_unwind_common {
    uint64_t code_factor;
    int64_t data_factor;
    uint8_t pointer_encoding;
    bool signal_frame, sized; /* sized: entries have augmentation data, after its size */
    struct vt_cursor instructions;
};

/* Runs the instructions of a function that starts at `start`, after the common ones, up to the row of
 * `address`. False if they are wrong, or not understood. */
bool vt_unwind_run(const struct vt_unwind_common *common, struct vt_cursor instructions, uintptr_t start,
                   uintptr_t address, struct vt_unwind_row *row);

#endif
