/* What hosts call (host.h), also for C++. */
#ifndef HOST_CALLS_H
#define HOST_CALLS_H

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

/* Finds libcuda, starts it and makes a context. Ends the process with status 77 where there is none. */
void host_begin(void);

/* The two halves of it: the library and its functions, without a call; then the calls. */
void host_find(void);
void host_start(void);

/* The context that host_begin made becomes this thread's. */
void host_use_context(void);

/* One allocation and one free by the driver. Both must succeed, else the process ends with status 78. */
void host_pair(void);
void host_pairs(int count);
uint64_t host_alloc(size_t bytes); /* 0 where it fails */
uint64_t host_alloc_by(int (*function)(uint64_t *, size_t),
                       size_t bytes); /* cuMemAlloc_v2, found by the host */
void host_free(uint64_t address);

/* One block as a framework reports it: all that a forked child can do, since no driver works there. */
void host_block_pair(void);

/* Written at once to descriptor 1, in one piece. */
void host_say(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* A figure that may differ between runs. run.py compares medians; the one with the recorder may be greater
 * (allowed > 0) or smaller (allowed < 0) than the bare one by so much. */
void host_measure(const char *name, double value, double allowed);

/* The open descriptors, as /proc/self/fd shows them, on one line after the label. */
void host_list_descriptors(const char *label);

/* Tasks of this process, as /proc/self/task shows them; -1 if it cannot be read. */
int host_count_tasks(void);

double host_seconds(void); /* a monotonic clock */
void host_nap_ms(int milliseconds);
pthread_t host_thread(void *(*run)(void *), void *argument, size_t stack_bytes); /* stack 0: as usual */

/* Waits for a child and says how it ended. */
void host_wait(int pid, const char *label);

#endif
