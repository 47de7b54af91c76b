/* The recorder's own threads, and their own descriptor tables. */
#ifndef VT_THREAD_H
#define VT_THREAD_H

#include <stdbool.h>

/* Starts a detached thread with a small stack and the caller's signal mask. Returns 0 or an errno. Any
 * thread. */
int vt_thread_start(void *(*main)(void *), void *context);

/* The first call in such a thread: nothing that it does is recorded, and it gets our name. */
void vt_thread_begin(void);

/* True if no seccomp sandbox was installed since our first thread was made: a later one may kill for calls
 * that the host does not make. */
bool vt_sandbox_is_the_first(void);

/* Gives the calling thread, which must be ours, its own empty descriptor table: the host does not see what
 * it opens, and it does not keep open what the host closes. False if the kernel has no such call. */
bool vt_part_from_descriptors(void);

/* Calls `work` in a thread with its own descriptor table, and waits for it. False if it was not called: the
 * kernel has no such call, or the calling thread is the host's. */
bool vt_run_apart(void (*work)(void *context), void *context);

#endif
