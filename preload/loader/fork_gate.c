#include "loader/fork_gate.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "guard.h"
#include "hash.h"
#include "signals.h"

enum { TURNS = 400, TURN_NS = 50000 }; /* about 40 ms, with timer slack */

enum { SHARDS = 16 }; /* so that threads rarely share a cache line */

static struct {
    struct {
        _Alignas(64) _Atomic int inside;
    } shards[SHARDS];
    _Alignas(64) _Atomic int forks; /* in progress */
} fork_gate;

static void wait_for_fork(_Atomic int *inside)
{
    for (int turn = 0; turn < TURNS; turn++) {
        atomic_fetch_sub(inside, 1);
        vt_nap(TURN_NS);
        atomic_fetch_add(inside, 1);
        if (atomic_load(&fork_gate.forks) == 0)
            return;
    }
}

void vt_gate_enter(struct vt_gate *gate)
{
    vt_signals_block(&gate->signals);
    gate->inside = &fork_gate.shards[vt_hash((uintptr_t)&vt_guard) >> 60].inside;
    atomic_fetch_add(gate->inside, 1);
    if (atomic_load(&fork_gate.forks) != 0)
        wait_for_fork(gate->inside);
}

void vt_gate_leave(const struct vt_gate *gate)
{
    atomic_fetch_sub_explicit(gate->inside, 1, memory_order_release);
    vt_signals_restore(&gate->signals);
}

static void before_fork(void)
{
    int turn = 0;
    atomic_fetch_add(&fork_gate.forks, 1);
    for (int i = 0; i < SHARDS; i++)
        while (atomic_load(&fork_gate.shards[i].inside) > 0 && turn++ < TURNS)
            vt_nap(TURN_NS);
}

static void after_in_parent(void)
{
    atomic_fetch_sub(&fork_gate.forks, 1);
}

static void (*_Atomic call_in_child)(void);

static void after_in_child(void)
{
    void (*call)(void) = atomic_load(&call_in_child);
    for (int i = 0; i < SHARDS; i++)
        atomic_store(&fork_gate.shards[i].inside, 0);
    atomic_store(&fork_gate.forks, 0);
    if (call)
        call();
}

void vt_gate_start(void (*in_child)(void))
{
    static _Atomic bool started; /* a forked child inherits the handlers */
    atomic_store(&call_in_child, in_child);
    if (!atomic_exchange(&started, true))
        pthread_atfork(before_fork, after_in_parent, after_in_child);
}
