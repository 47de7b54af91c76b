/* Moves records from a ring into the chunks of a trace. Threads: the writer's. */
#ifndef VT_DRAIN_H
#define VT_DRAIN_H

#include <stdbool.h>
#include <stdint.h>

#include "record/chain_end.h"
#include "record/digest_levels.h"
#include "record/ring.h"
#include "record/top_counters.h"
#include "record/trace_file.h"
#include "record/chunk.h"

struct vt_drain {
    struct vt_ring *ring;
    struct vt_trace_file *file;
    struct vt_chunk chunk; /* taken from the ring, not yet in the file */
    /* NULL: the ring of a dead process, whose addresses and threads can no longer be named. */
    const struct vt_session *session;
    struct vt_defined *seen;
    struct vt_flight *flight;         /* NULL: not in flight mode */
    struct vt_digest_levels *digests; /* NULL: chains get none */
    struct vt_chain_end chain_end;
    bool ends_chain;              /* the chain ends with the current chunk */
    struct vt_top_ranges *ranges; /* NULL: nobody reads the ring's top counters any more */
    uint64_t position;            /* the first slot not taken yet */
    uint64_t failed_requests;     /* requests so far that the driver or a framework could not serve */
    bool ran_out, driver_ran_out; /* a framework ran out of memory; the driver did */
};

/* Appends all committed records as chunks. The file is readable after every step (format.h). Returns 0 or
 * -errno. */
int vt_drain(struct vt_drain *drain);

/* The same up to the last reserved slot; waits briefly for threads that are still filling a record. */
int vt_drain_to_the_end(struct vt_drain *drain);

/* Ends the chain between two chunks, and appends its digest. Returns 0 or -errno. */
int vt_drain_end_chain(struct vt_drain *drain);

/* Skips the record at `position`, which will never be committed, and counts it. */
void vt_drain_abandon(struct vt_drain *drain, uint64_t end);

/* How many events are in the ring. */
uint64_t vt_drain_count_events(const struct vt_drain *drain);

#endif
