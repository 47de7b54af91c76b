/* The calling thread's signal mask. Threads: any. No errors; errno stays. */
#ifndef VT_SIGNALS_H
#define VT_SIGNALS_H

#include <signal.h>

/* Blocks all signals except those that a thread causes itself. If one of these came while blocked, the
 * kernel would kill the process although it has a handler (SIGSYS from a seccomp filter; SIGSEGV from memory
 * made at the first touch). */
void vt_signals_block(sigset_t *before);
void vt_signals_restore(const sigset_t *before);

#endif
