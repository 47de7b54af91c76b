/* Re-entry guard: what our own code causes (a driver call of ours, a lookup) is passed through unrecorded.
 *
 * One initial-exec thread-local word, so that reading it is one instruction and never allocates. */
#ifndef VT_GUARD_H
#define VT_GUARD_H

#include <errno.h>
#include <stdbool.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

extern __thread int vt_guard_depth __attribute__((tls_model("initial-exec"), visibility("hidden")));

/* True if the caller may record; then it must call vt_leave with the same `saved_errno`. */
static inline bool vt_enter(int *saved_errno)
{
    if (__builtin_expect(vt_guard_depth != 0, 0))
        return false;
    vt_guard_depth = 1;
    *saved_errno = errno;
    return true;
}

static inline void vt_leave(int saved_errno)
{
    errno = saved_errno;
    vt_guard_depth = 0;
}

/* A sleep that is no cancellation point: the host's thread must not end inside us. */
static inline void vt_nap(long nanoseconds)
{
    syscall(SYS_nanosleep, &(struct timespec){.tv_nsec = nanoseconds}, NULL);
}

#endif
