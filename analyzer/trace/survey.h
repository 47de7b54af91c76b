/* The first reading of a long trace: what is in it, and which events are kept.
 *
 * Events are numbered as recorded. A window is a run of events that is kept whole; a gap lies between
 * two windows. */
#ifndef VT_SURVEY_H
#define VT_SURVEY_H

#include <stdbool.h>
#include <stddef.h>

#include "base/index.h"
#include "vramtrace/format.h"

struct vt_window {
    uint64_t first, end; /* numbers of events: [first, end) */
};

/* The windows that a reader of the trace needs in full. */
#define VT_NEEDS 8u
struct vt_needs {
    struct vt_window items[VT_NEEDS];
    size_t count;
};

/* Numbers of events; the first and the last ones if there are very many. */
struct vt_instants {
    uint64_t *items;
    size_t count, capacity;
};

/* The peak of a device's framework memory in each part of the run. */
#define VT_SURVEY_PARTS 2048u /* at most */
struct vt_survey_device {
    uint64_t bytes, peak_bytes;
    uint64_t peak_event;                   /* the first with these bytes */
    uint64_t part_peaks[VT_SURVEY_PARTS];  /* bytes + 1, 0 = no event in this part */
    uint64_t part_events[VT_SURVEY_PARTS]; /* the first with them */
};

#define VT_SURVEY_KINDS 256u
#define VT_SURVEY_LAYERS 4u
struct vt_survey {
    uint64_t budget; /* set by the caller: keep about this many events */
    uint64_t events;
    uint64_t kinds[VT_SURVEY_KINDS][VT_SURVEY_LAYERS]; /* events by kind and layer, 0 = an unknown one */
    uint64_t start_ns, part_ns; /* parts cover this much time each, from the first event on */
    struct vt_survey_device *devices[VT_MAX_DEVICES];
    struct vt_index live; /* address → blocks */
    struct vt_survey_block {
        uint64_t bytes; /* 0 = not alive */
        int8_t device_index;
    } * blocks;
    size_t block_count, block_capacity;
    struct vt_instants shown;  /* refusals and inspections */
    struct vt_instants growth; /* of driver memory: reports ask there if free memory would have been enough */
    uint64_t last_refusal;     /* event + 1, 0 = none: the one that is shown */
    uint32_t *stack_events;    /* by stack id */
    size_t stack_capacity;
};

/* Call before taking events with stack ids up to `stacks`. */
void vt_survey_reach(struct vt_survey *survey, size_t stacks);
/* Takes the next events. */
void vt_survey_take(struct vt_survey *survey, const struct vt_event *events, size_t count);
/* What to keep: windows in order that neither overlap nor touch, including the `asked` ones. Returns how
 * many there are; the caller frees them. */
size_t vt_survey_windows(const struct vt_survey *survey, const struct vt_window *asked, size_t asked_count,
                         struct vt_window **windows);
void vt_survey_free(struct vt_survey *survey);

#endif
