/* Thins a run of events: those in windows stay; of the others, blocks that a framework makes and frees
 * between the same two windows are left out. So what is alive at each instant of a window is exact, and each
 * block that is kept has its own times. */
#ifndef VT_THIN_H
#define VT_THIN_H

#include <stdbool.h>

#include "base/index.h"
#include "trace/survey.h"

/* What the code of a stack does, as far as thinning asks: the first block that it makes after code of another
 * kind stays too, and the first block of backward that outlives it, so that each pass and step remains
 * recognisable. */
enum vt_stack_kind {
    VT_STACK_OTHER,
    VT_STACK_DATA,
    VT_STACK_FORWARD,
    VT_STACK_BACKWARD,
    VT_STACK_OPTIMIZER,
    VT_STACK_KINDS
};

/* What VT_EVENT_NODE has as bytes where it stands for the block for which the node was made. */
#define VT_NODE_OF_BLOCK UINT64_C(1)

/* Where events are missing: kept ones [first, end) lie in a gap. */
struct vt_gap {
    uint32_t first, end;
    uint64_t omitted_events;
};

/* Whether an event lies in no gap: then what is alive after it is all there. Events are asked for in order;
 * *next is 0 at first. */
static inline bool vt_is_in_window(const struct vt_gap *gaps, size_t gap_count, uint32_t event, size_t *next)
{
    while (*next < gap_count && gaps[*next].end <= event)
        ++*next;
    return *next == gap_count || event < gaps[*next].first;
}

/* Bytes of all blocks of an event's device, those that are left out too; only of events that make or free
 * one. */
static inline bool vt_has_event_bytes(const struct vt_event *event)
{
    return event->layer == VT_LAYER_FRAMEWORK &&
           (event->kind == VT_EVENT_ALLOC || event->kind == VT_EVENT_FREE);
}
struct vt_event_bytes {
    uint64_t after;   /* the event */
    uint64_t between; /* at most, after events that are left out since the last one of the device; 0 = none */
};

struct vt_thinner {
    const struct vt_window *windows; /* in order; those before the next event are behind it */
    size_t window_count;
    const uint8_t *kinds; /* by stack id: enum vt_stack_kind */
    size_t kind_count;
    /* The result. */
    struct vt_event *events;
    uint64_t *numbers; /* of each, as recorded */
    struct vt_event_bytes *bytes;
    size_t count, capacity, number_capacity, bytes_capacity;
    struct vt_gap *gaps;
    size_t gap_count, gap_capacity;
    uint64_t omitted_events, omitted_blocks, omitted_bytes;
    uint64_t unkept_events; /* of those: the recorder left them out (VT_EVENT_GAP_END) */
    uint64_t unseen_passes; /* backward passes there, without those that are shown (VT_EVENT_RAN) */
    uint64_t added_events;  /* in the file, that say where gaps are and what ran there */
    /* The state. */
    uint64_t next;    /* number of the next event */
    bool in_recorded; /* gap, of the recorder */
    bool in_gap;
    size_t dropped;       /* of the gap at hand: events that are empty in the result */
    struct vt_index live; /* address → blocks */
    struct vt_thin_sizes
        *sizes;            /* of the blocks so far, by stack id: of small requests, then of large ones */
    struct vt_index pages; /* of driver memory → 1 = no block of it has been kept yet */
    struct vt_thin_device {
        struct vt_event_bytes bytes; /* so far: what its next event gets */
        uint8_t kind;                /* of the last code that is not VT_STACK_OTHER */
        uint32_t run, kept_run;    /* counts changes of kind; the last of which an outliving block was kept */
    } devices[VT_MAX_DEVICES + 1]; /* the last: of what has none */
    struct vt_thin_block *blocks;
    size_t block_count, block_capacity;
};

/* Takes the next events. What the recorder left out lies in gaps, too. 0, or -E2BIG if more than 2^32 - 2
 * would stay. */
int vt_thin_take(struct vt_thinner *thinner, const struct vt_event *events, size_t count);
void vt_thin_end(struct vt_thinner *thinner);
/* Frees all but the result. */
void vt_thin_free(struct vt_thinner *thinner);

#endif
