/* Thins a trace: events in windows stay; between two windows, blocks that a framework both makes and frees
 * there are left out. So what is alive in a window is exact, and each kept block keeps its own times. */
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

/* Where events are missing: the kept events [first, end) lie in a gap. */
struct vt_gap {
    uint32_t first, end;
    uint64_t omitted_events;
};

/* Whether an event lies in a window: then everything alive after it is known. Ask in the order of events,
 * with *next 0 at first. */
static inline bool vt_is_in_window(const struct vt_gap *gaps, size_t gap_count, uint32_t event, size_t *next)
{
    while (*next < gap_count && gaps[*next].end <= event)
        ++*next;
    return *next == gap_count || event < gaps[*next].first;
}

/* Bytes of all blocks on an event's device, including those left out; only for events that make or free one.
 */
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
    uint64_t unkept_events; /* those of them that the recorder left out (VT_EVENT_GAP_END) */
    uint64_t unseen_passes; /* backward passes there, less those that VT_EVENT_RAN shows */
    uint64_t added_events;  /* events of the file that only mark gaps and what ran in them */
    /* The state. */
    uint64_t next;    /* number of the next event */
    bool in_recorded; /* in a gap of the recorder */
    bool in_gap;
    size_t dropped;       /* empty events in the result, of the current gap */
    struct vt_index live; /* address → blocks */
    struct vt_thin_sizes
        *sizes;            /* of the blocks so far, by stack id: of small requests, then of large ones */
    struct vt_index pages; /* of driver memory → 1 = no block of it has been kept yet */
    struct vt_thin_device {
        struct vt_event_bytes bytes; /* so far, for the next event */
        uint8_t kind;                /* of the last stack that is not VT_STACK_OTHER */
        uint32_t run, kept_run;    /* counts changes of kind; the last of which an outliving block was kept */
    } devices[VT_MAX_DEVICES + 1]; /* the last one: for events without a device */
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
