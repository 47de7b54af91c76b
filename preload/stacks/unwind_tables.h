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

/* With -Dunwinder=libunwind the rules come from libunwind, which no thread of the host may call. So
 * vt_unwind_find only looks up what the writer's thread has asked for it, and counts what it has not: that
 * walk ends there, and the next one after vt_unwind_answer goes on. */
#if defined VT_UNWINDER_LIBUNWIND
uint64_t vt_unwind_unanswered(void); /* how often so far */
void vt_unwind_answer(void);         /* in the writer's thread */
void vt_unwind_forget(void);         /* libraries were unloaded */
#else
static inline uint64_t vt_unwind_unanswered(void)
{
    return 0;
}
static inline void vt_unwind_answer(void) {}
static inline void vt_unwind_forget(void) {}
#endif

#endif
