/* Keeps forks apart from our walks over the loaded libraries.
 *
 * dl_iterate_phdr takes a lock of the loader that glibc does not release in a forked child (seen with 2.36):
 * a child that was forked while another thread held it waits for ever at its first dlopen. So all our code
 * that may take that lock does so inside this gate, and a fork waits until the gate is empty. A signal
 * handler may fork in the midst of our code: signals wait outside the gate.
 *
 * Threads: any. Waits are bounded on both sides: after that a fork, or a walk, goes ahead. */
#ifndef VT_FORK_GATE_H
#define VT_FORK_GATE_H

#include <signal.h>
#include <stdatomic.h>

enum { VT_GATE_SHARDS = 16 }; /* so that threads seldom share a cache line */

struct vt_fork_gate {
    struct {
        _Alignas(64) _Atomic int inside;
    } shards[VT_GATE_SHARDS];
    _Alignas(64) _Atomic int forks; /* in progress */
};
extern struct vt_fork_gate vt_fork_gate __attribute__((visibility("hidden")));

/* Once per session. `in_child`: called in each forked child, by its only thread. */
void vt_gate_start(void (*in_child)(void));

struct vt_gate {
    _Atomic int *inside;
    sigset_t signals; /* that the thread blocked before */
};

/* Waits while a fork is in progress. */
void vt_gate_enter(struct vt_gate *gate);
void vt_gate_leave(const struct vt_gate *gate);

#endif
