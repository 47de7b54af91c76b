/* The unwind tables that compilers write (.eh_frame): where a function has saved its caller's registers.
 *
 * Threads: any, at any time: no lock of ours, no allocation, no descriptor, no system call. (If glibc is
 * older than 2.35, loaded libraries are found by dl_iterate_phdr, inside the fork gate.) */
#ifndef VT_UNWIND_TABLES_H
#define VT_UNWIND_TABLES_H

#include "stacks/unwind_rules.h"

/* The rules at `address`, which must be inside the function (for a return address: one less). False: no
 * table covers it. */
bool vt_unwind_find(uintptr_t address, struct vt_unwind_row *row);

/* Once, from a thread that may take the loader's lock. Looks up glibc's lock-free search. */
void vt_unwind_tables_start(void);

#endif
