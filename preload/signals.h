/* Signals of the calling thread. Threads: any. No error, errno stays. */
#ifndef VT_SIGNALS_H
#define VT_SIGNALS_H

#include <signal.h>

/* Blocks all signals but those that a thread causes itself: if one of these comes while it is blocked, the
 * kernel ends the process although it has a handler (SIGSYS for what a seccomp filter traps; SIGSEGV for
 * memory made at the first touch). */
void vt_signals_block(sigset_t *before);
void vt_signals_restore(const sigset_t *before);

#endif
