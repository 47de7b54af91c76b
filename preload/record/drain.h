/* From a ring to the chunks of a trace. Threads: the writer's. */
#ifndef VT_DRAIN_H
#define VT_DRAIN_H

#include <stdbool.h>
#include <stdint.h>

#include "record/ring.h"
#include "record/top_counters.h"
#include "record/trace_file.h"
#include "record/chunk.h"

struct vt_drain {
    struct vt_ring *ring;
    struct vt_trace_file *file;
    struct vt_chunk chunk; /* what is taken from the ring and not yet in the file */
    /* NULL: the ring of a process that is gone, whose addresses and threads nobody can name any more. */
    const struct vt_session *session;
    struct vt_defined *seen;
    struct vt_flight *flight;     /* NULL: none */
    struct vt_top_ranges *ranges; /* NULL: nobody looks at the ring's top any more */
    uint64_t position;            /* the first slot that is not taken */
    uint64_t refusals;            /* requests that the driver or a framework refused, so far */
    bool ran_out, driver_ran_out; /* for lack of memory: a framework refused one; the driver did */
};

/* Appends what is committed as chunks. The file is readable after every step (format.h). Returns 0 or -errno.
 */
int vt_drain(struct vt_drain *drain);

/* The same to the end of what is reserved; waits briefly for threads that are still writing a record. */
int vt_drain_to_the_end(struct vt_drain *drain);

/* Skips the record at `position`, which will never be committed, and counts it. */
void vt_drain_abandon(struct vt_drain *drain, uint64_t end);

/* How many events are in the ring. */
uint64_t vt_drain_count_events(const struct vt_drain *drain);

#endif
