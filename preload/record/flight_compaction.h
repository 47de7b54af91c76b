/* Writes the chains of one region of a trace to the other: some as they are, of the rest what vt_gap keeps.
 * Definitions are all kept, as they are stored. In a thread of its own, which opens the trace by its path,
 * where the host does not see it. Reads what is not yet complete of the chains that follow, until little is
 * left: that is for the writer.
 *
 * Threads: start, state and stop are the writer's. */
#ifndef VT_FLIGHT_COMPACTION_H
#define VT_FLIGHT_COMPACTION_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "record/trace_file.h"

enum vt_chain_flag {
    VT_CHAIN_KEPT = 1, /* as it is */
    VT_CHAIN_GAP = 2,  /* events of a gap, or none at all */
    VT_CHAIN_REFUSAL = 4,
    VT_CHAIN_MARK = 8, /* not of a step */
};

/* A chain, or of a long gap one of several. */
struct vt_flight_chain {
    uint64_t number; /* counts them over the whole run */
    uint64_t offset, bytes;
    uint64_t ring_position; /* of its last chunk */
    uint32_t flags;         /* enum vt_chain_flag */
};

struct vt_chains {
    struct vt_flight_chain *items;
    size_t count, capacity;
};
/* False without memory. */
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
    struct vt_chains from;        /* what was there when it began; the writer's list goes on */
    uint64_t from_tail;           /* behind them */
    uint64_t to_offset, to_limit; /* the other region */
    _Atomic uint64_t from_end;    /* how far the writer has written */
    _Atomic bool stopping;
    _Atomic int state; /* enum vt_compaction_state; futex */
    /* Once it is ready. */
    struct vt_chains to;
    uint64_t copied_to; /* in the old region: the writer copies from there on */
    uint64_t to_end;    /* in the new region */
};

/* Begins with the fields above `state` set. False if no thread can be had. */
bool vt_compaction_start(struct vt_compaction *compaction);
/* Waits until it no longer runs, `milliseconds` at most; -1: as long as it takes. */
void vt_compaction_wait(struct vt_compaction *compaction, int milliseconds);
/* Makes it end soon, and waits for that. */
void vt_compaction_stop(struct vt_compaction *compaction);

#endif
