/* Re-entry guard: calls that our own code causes (a driver call, a lookup) are passed through unrecorded.
 * Within it the thread cannot be cancelled: it would end with a record half written, and with the locks that
 * its caller holds.
 *
 * Initial-exec thread-local words: reading them is one instruction and never allocates. */
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

/* In our own threads: nothing that they do is recorded. */
#define VT_GUARD_OWN_THREAD UINTPTR_MAX

/* Whether the hook that this thread was in is gone because a signal handler of the host jumped out of it:
 * then a call comes from the same depth of the stack or above. If so, leaves the guard in its place. */
bool vt_guard_abandoned(uintptr_t frame);

/* True if the caller may record; then it must call vt_leave with the same `saved_errno`, a local variable. */
static inline bool vt_enter(int *saved_errno)
{
    if (__builtin_expect(vt_guard.frame != 0, 0) && !vt_guard_abandoned((uintptr_t)saved_errno))
        return false;
    int state;
    *saved_errno = errno;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
    vt_guard.cancel_state = state;
    atomic_signal_fence(memory_order_seq_cst); /* a signal handler may come in between, and enter too */
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

/* A sleep that is no cancellation point: the host's thread must not end in our code. */
static inline void vt_nap(long nanoseconds)
{
    syscall(SYS_nanosleep, &(struct timespec){.tv_nsec = nanoseconds}, NULL);
}

#endif
