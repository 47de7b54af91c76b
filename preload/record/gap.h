/* What stays of a run of events in flight mode: blocks that were made and freed within it are left out, in
 * the driver as in a framework, and what else does not matter later. So whatever is alive after the run is
 * there, each with its own time and stack. Knows nothing of files.
 *
 * Threads: one. Memory: what stays, at most VT_GAP_EVENTS_MAXIMUM events, from the kernel. */
#ifndef VT_GAP_H
#define VT_GAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vramtrace/format.h"

enum {
    VT_GAP_EVENTS_MAXIMUM = 1 << 21,
    VT_GAP_NOTES = 4096, /* marks that it keeps, of more every second, fourth …; refusals: the first ones */
    VT_GAP_THREADS = 32,
    VT_GAP_FREES =
        64, /* the latest frees of driver memory, which may still turn out to have failed: they stay */
};

struct vt_flight_gap {
    /* In order, VT_EVENT_NONE = left out; after vt_gap_end without those. Until then head_start is 1 + the
     * position of another: of driver memory the block that shows what it is for, of that block its free or
     * itself. */
    struct vt_event *events;
    size_t count, capacity;
    size_t left_out; /* of the events at hand */
    uint32_t
        *places; /* 1 + positions in events, 0 = none: what may still be left out, found by what it is of */
    size_t place_count, used;
    uint64_t first_ns, last_ns;
    uint64_t omitted_events, omitted_blocks, omitted_bytes;
    uint64_t passes, pass_stride;           /* backward passes so far; one in so many is shown */
    uint64_t hidden_passes, earlier_passes; /* that earlier gaps do not show; passes when the latest began */
    size_t passes_maximum, shown_passes, refusals;
    uint64_t marks, mark_stride;
    size_t shown_marks;
    bool has_blocks;
    bool backward; /* the latest framework's block was made in a backward pass */
    struct vt_event
        last_forward; /* the last block that made a node, since the last pass; stack_id 0 = none */
    struct vt_gap_thread {
        uint32_t thread_id, node_stack; /* 0 = none */
        uint64_t sequence;
    } threads[VT_GAP_THREADS]; /* of autograd's nodes, as far as they were seen */
    bool in_earlier;           /* gap: its events say that themselves */
    uint32_t driver_position;  /* 1 + of the latest driver memory of which no block was kept yet; 0 = none */
    struct {
        uint32_t made, freed; /* 1 + positions, 0 = none */
    } frees[VT_GAP_FREES];    /* a ring */
    uint64_t free_count;
    bool failed; /* no memory, or more than the maximum stays */
};

/* Begins a run. It shows so many backward passes; of more every second, fourth … What the struct has of
 * memory is used again. */
void vt_gap_begin(struct vt_flight_gap *gap, size_t passes_maximum);
/* Takes the next event, also those of an earlier gap. False if it failed. */
bool vt_gap_take(struct vt_flight_gap *gap, const struct vt_event *event);
/* Ends the run: `events` are what stays, VT_EVENT_GAP_BEGIN first and VT_EVENT_GAP_END last. False if it
 * failed. */
bool vt_gap_end(struct vt_flight_gap *gap);
void vt_gap_free(struct vt_flight_gap *gap);

#endif
