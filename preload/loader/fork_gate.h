/* Keeps forks and our walks over the loaded libraries apart.
 *
 * dl_iterate_phdr takes a lock of the loader that glibc leaves locked in a forked child (seen with 2.36): if
 * a process forks while another thread holds it, the child hangs at its first dlopen. So all our code that
 * may take that lock does so inside this gate, and a fork waits until the gate is empty. Signals wait
 * outside the gate, because a handler may fork.
 *
 * Threads: any. Waits are bounded on both sides: after that, the fork or the walk goes ahead. */
#ifndef VT_FORK_GATE_H
#define VT_FORK_GATE_H

#include <signal.h>
#include <stdatomic.h>

/* Once per session. `in_child` is called in each forked child, by its only thread. */
void vt_gate_start(void (*in_child)(void));

struct vt_gate {
    _Atomic int *inside;
    sigset_t signals; /* the thread's signal mask before */
};

/* Waits while a fork is in progress. */
void vt_gate_enter(struct vt_gate *gate);
void vt_gate_leave(const struct vt_gate *gate);

#endif
