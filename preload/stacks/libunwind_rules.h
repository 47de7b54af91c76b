/* Unwind rules as libunwind reads them, beside our own reader (unwind_tables.h): the source of all rules with
 * -Dunwinder=libunwind, and otherwise only the tests' second opinion.
 *
 * Threads: one at a time, never the host's: libunwind locks, allocates and changes the signal mask. */
#ifndef VT_LIBUNWIND_RULES_H
#define VT_LIBUNWIND_RULES_H

#include <link.h>

#include "stacks/unwind_rules.h"

/* Opens libunwind, which keeps two descriptors open. False: it is not there, or lacks a function. */
bool vt_libunwind_open(void);

/* The rules at `address`, which is in the loaded `object`. False: no table covers it, or no rule of ours can
 * say what libunwind does there. `row` is the same to the byte if the rules are; its expressions stay. */
bool vt_libunwind_find(const struct dl_phdr_info *object, uintptr_t address, struct vt_unwind_row *row);

#endif
