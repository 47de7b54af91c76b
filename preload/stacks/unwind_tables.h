/* The unwind tables that compilers write (.eh_frame): where a function has saved its caller's registers.
 *
 * Threads: any, at any time: no lock of ours, no allocation, no descriptor, no system call. (If glibc is
 * older than 2.35, loaded libraries are found by dl_iterate_phdr, inside the fork gate.) */
#ifndef VT_UNWIND_TABLES_H
#define VT_UNWIND_TABLES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* DWARF's register numbers on x86-64. */
enum {
    VT_REGISTER_RBX = 3,
    VT_REGISTER_RBP = 6,
    VT_REGISTER_RSP = 7,
    VT_REGISTER_RETURN = 16,
    VT_REGISTERS = 17
};

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

/* The rules at `address`, which must be inside the function (for a return address: one less). False: no
 * table covers it. */
bool vt_unwind_find(uintptr_t address, struct vt_unwind_row *row);

/* Once, from a thread that may take the loader's lock. Looks up glibc's lock-free search. */
void vt_unwind_tables_start(void);

/* One value of DWARF's variable-length encodings. */
bool vt_leb_unsigned(const uint8_t **at, const uint8_t *end, uint64_t *value);
bool vt_leb_signed(const uint8_t **at, const uint8_t *end, int64_t *value);

#endif
