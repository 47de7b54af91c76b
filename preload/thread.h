/* Threads of ours, and what they do without the host's descriptors. */
#ifndef VT_THREAD_H
#define VT_THREAD_H

#include <stdbool.h>

/* A detached thread with a small stack, and the caller's mask of signals. Returns 0 or an errno. Any thread.
 */
int vt_thread_start(void *(*main)(void *), void *context);

/* No sandbox has come since our first thread was made: one may kill for calls that the host does not make. */
bool vt_sandbox_is_the_first(void);

/* The calling thread, which must be ours, gets a table of descriptors of its own, empty: the host does not
 * see what it opens, and it holds nothing that the host closes. False where the kernel has no such call. */
bool vt_part_from_descriptors(void);

/* Calls `work` in a thread that has parted from the descriptors, and waits for it. False if it was not
 * called: the kernel cannot, or the calling thread is the host's. */
bool vt_run_apart(void (*work)(void *context), void *context);

#endif
