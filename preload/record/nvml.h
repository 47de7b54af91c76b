/* NVML's view of the GPUs: a thread queries it, and the writer puts the answers into the trace (format.h,
 * struct vt_gpu_use). The thread has its own descriptors and its own copy of the library. It exists only
 * once the process has memory on a GPU, and only where there is an NVML.
 *
 * Threads: the writer's. */
#ifndef VT_NVML_H
#define VT_NVML_H

#include "record/chunk.h"
#include "record/session.h"

struct vt_nvml;

/* NULL if it is switched off, must not run (limited address space), or memory ran out. */
struct vt_nvml *vt_nvml_make(struct vt_session *session);

/* Called about ten times a second: starts the thread when it is time, takes its answer, and asks again. A
 * changed `urgent` requests an answer soon (after a failed request). */
void vt_nvml_tend(struct vt_nvml *nvml, uint64_t urgent, struct vt_buffer *definitions);

/* Ends the thread and takes its last answer; waits for a bounded time. */
void vt_nvml_stop(struct vt_nvml *nvml, struct vt_buffer *definitions);

/* How many threads are running for it. */
unsigned vt_nvml_threads(const struct vt_nvml *nvml);

#endif
