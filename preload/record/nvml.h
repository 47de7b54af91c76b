/* What NVML says of the cards: a thread of our own asks it, the writer puts its answers into the trace
 * (format.h, struct vt_card_use). That thread has descriptors of its own and a copy of the library of its
 * own; it exists only once the process has memory on a card, and where there is an NVML.
 *
 * Threads: the writer's. */
#ifndef VT_NVML_H
#define VT_NVML_H

#include "record/chunk.h"
#include "record/session.h"

struct vt_nvml;

/* NULL where it is not wanted, must not be (limited address space), or without memory. */
struct vt_nvml *vt_nvml_make(struct vt_session *session);

/* Many times a second: starts the thread when it is time, takes its answer, and asks anew. `urgent` changes
 * when an answer is wanted soon (a refused request). */
void vt_nvml_tend(struct vt_nvml *nvml, uint64_t urgent, struct vt_buffer *definitions);

/* Ends the thread, and takes what it had answered; waits for it, but not for ever. */
void vt_nvml_stop(struct vt_nvml *nvml, struct vt_buffer *definitions);

/* How many threads run for it. */
unsigned vt_nvml_threads(const struct vt_nvml *nvml);

#endif
