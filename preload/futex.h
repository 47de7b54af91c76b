/* Waits for another thread of the process. Threads: any. errno may change. */
#ifndef VT_FUTEX_H
#define VT_FUTEX_H

#include <limits.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define VT_NO_TIMEOUT UINT64_MAX

/* Sleeps as long as the 32-bit word is `seen`, until woken, at most so long. May return early. */
static inline void vt_futex_wait(void *word, uint32_t seen, uint64_t nanoseconds)
{
    const struct timespec time = {(time_t)(nanoseconds / 1000000000), (long)(nanoseconds % 1000000000)};
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, seen, nanoseconds == VT_NO_TIMEOUT ? NULL : &time, NULL, 0);
}

static inline void vt_futex_wake(void *word)
{
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

static inline void vt_futex_set(_Atomic int *word, int value)
{
    atomic_store(word, value);
    vt_futex_wake(word);
}

#endif
