/* Writes the chains of one region of a trace to the other: some unchanged, of the others the digests, in
 * which what is alive stays. All definitions are kept, as stored. Runs on its own thread, which opens the
 * trace by its path where the host does not see the descriptor. Then copies what the writer has appended
 * meanwhile, until so little is left that the writer can copy it.
 *
 * Threads: start, wait and stop are called by the writer's. */
#ifndef VT_FLIGHT_COMPACTION_H
#define VT_FLIGHT_COMPACTION_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "record/trace_file.h"

enum vt_chain_flag {
    VT_CHAIN_KEPT = 1, /* kept unchanged */
    VT_CHAIN_GAP = 2,  /* holds events of a gap, or none */
    VT_CHAIN_OOM = 4,
    VT_CHAIN_MARK = 8,    /* other than step marks */
    VT_CHAIN_DIGEST = 16, /* its digest follows it: without, it must be kept */
};

/* A chain; a long gap is several. */
struct vt_flight_chain {
    uint64_t number; /* counted over the whole run */
    uint64_t offset, bytes;
    uint64_t ring_position; /* of its last chunk */
    uint32_t flags;         /* enum vt_chain_flag */
};

struct vt_chains {
    struct vt_flight_chain *items;
    size_t count, capacity;
};
/* False if memory ran out. */
bool vt_chains_add(struct vt_chains *chains, const struct vt_flight_chain *chain);
void vt_chains_free(struct vt_chains *chains);

enum vt_compaction_state {
    VT_COMPACTION_NONE,
    VT_COMPACTION_RUNS,
    VT_COMPACTION_READY,
    VT_COMPACTION_FAILED
};

struct vt_compaction {
    const struct vt_trace_file *file;
    struct vt_chains from;        /* the chains at its start; the writer's own list keeps growing */
    uint64_t from_tail;           /* offset past them */
    uint64_t to_offset, to_limit; /* the other region */
    size_t unmatched_maximum;     /* of each gap's digest */
    _Atomic uint64_t from_end;    /* how far the writer has written by now */
    _Atomic bool stopping;
    _Atomic int state; /* enum vt_compaction_state; futex */
    /* Valid once it is ready: */
    struct vt_chains to;
    uint64_t copied_to; /* in the old region; the writer copies the rest from here */
    uint64_t to_end;    /* in the new region */
};

/* Starts it; the fields above `state` must be set. False if no thread can be made. */
bool vt_compaction_start(struct vt_compaction *compaction);
/* Waits until it has finished, for at most `milliseconds`; -1: as long as it takes. */
void vt_compaction_wait(struct vt_compaction *compaction, int milliseconds);
/* Aborts it, and waits until it has ended. */
void vt_compaction_stop(struct vt_compaction *compaction);

#endif
