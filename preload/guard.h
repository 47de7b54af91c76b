/* Re-entry guard: CUDA calls that our own code makes (a driver call, a lookup) pass through unrecorded.
 * Inside the guard the thread cannot be cancelled: it would end with a half-written record, and with the
 * locks that its caller holds.
 *
 * Initial-exec thread-locals: reading them takes one instruction and never allocates. */
#ifndef VT_GUARD_H
#define VT_GUARD_H

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

struct vt_guard {
    uintptr_t frame;  /* of the hook that this thread is in; 0: none */
    int cancel_state; /* the host's */
};
extern __thread struct vt_guard vt_guard __attribute__((tls_model("initial-exec"), visibility("hidden")));

/* `frame` in our own threads: nothing that they do is recorded. */
#define VT_GUARD_OWN_THREAD UINTPTR_MAX

/* True if a signal handler of the host jumped out of the hook that this thread was in: then a call comes
 * from the same stack depth or above. If so, leaves the guard. */
bool vt_guard_abandoned(uintptr_t frame);

/* True if the caller may record. It must then call vt_leave with the same `saved_errno`, a local variable. */
static inline bool vt_enter(int *saved_errno)
{
    if (__builtin_expect(vt_guard.frame != 0, 0) && !vt_guard_abandoned((uintptr_t)saved_errno))
        return false;
    int state;
    *saved_errno = errno;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
    vt_guard.cancel_state = state;
    atomic_signal_fence(memory_order_seq_cst); /* a signal handler may run in between, and enter too */
    vt_guard.frame = (uintptr_t)saved_errno;
    return true;
}

static inline void vt_leave(int saved_errno)
{
    const int state = *(volatile int *)&vt_guard.cancel_state;
    atomic_signal_fence(memory_order_seq_cst);
    vt_guard.frame = 0;
    atomic_signal_fence(memory_order_seq_cst);
    pthread_setcancelstate(state, NULL);
    errno = saved_errno;
}

/* A sleep that is not a cancellation point: the host's thread must not end in our code. */
static inline void vt_nap(long nanoseconds)
{
    syscall(SYS_nanosleep, &(struct timespec){.tv_nsec = nanoseconds}, NULL);
}

#endif
