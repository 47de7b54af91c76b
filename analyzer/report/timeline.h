/* A device's memory over time, in columns. */
#ifndef VT_TIMELINE_H
#define VT_TIMELINE_H

#include <stddef.h>
#include <stdint.h>

#include "base/error_text.h"
#include "base/words.h"

struct vt_report;
struct vt_device_report;
struct vt_range;

/* What the columns are in proportion to. AUTO is for callers only: it becomes TIME, without idle time. */
enum vt_axis { VT_AXIS_TIME, VT_AXIS_EVENTS, VT_AXIS_STEPS, VT_AXIS_AUTO, VT_AXIS_COUNT };
const char *vt_axis_name(unsigned axis); /* "time", "events", "steps", "auto" */

/* A part of an axis. On an axis of time its columns are in proportion to time, and the time between two
 * stretches is left out: the device has no event there. An axis of events has one stretch; an axis of steps
 * has one for each step, all of the same width. In these two, columns are in proportion to events. */
struct vt_stretch {
    uint64_t t_ns, end_ns;            /* since recording began */
    uint32_t first_event, last_event; /* not set on an axis of time */
    uint32_t step;                    /* on an axis of steps; 0 = before the first */
    double column, end_column;        /* of the timeline, from 0; where one ends the next begins */
};

/* Each column holds the largest state of its part of the axis, without the cache, so that no peak is lost. */
struct vt_timeline {
    size_t columns;
    uint8_t axis; /* enum vt_axis, never AUTO */
    /* The requested range, with both ends. */
    uint64_t from_ns, to_ns; /* since recording began */
    uint32_t first_event, last_event;
    struct vt_stretch *stretches; /* in order, one at least */
    size_t stretch_count;
    uint64_t cut_ns; /* of the range: left out before, between and after stretches */
    uint64_t *t_ns;  /* where each column begins; since recording began */
    uint32_t *event; /* after which the state shown was; 0 where there was none yet */
    uint64_t (*categories)[VT_CATEGORY_COUNT];
    uint64_t *driver_bytes;
    uint32_t *step;
    uint8_t *phase;
};

/* Where an event at that time lies: in columns from 0 on, with a fraction; what was left out is where it was
 * cut. -1 = not in the range. */
double vt_timeline_position(const struct vt_timeline *timeline, uint32_t event_index, uint64_t t_ns);

/* Makes the timeline of a device whose peak is found. -EINVAL with the reason for a range or an axis
 * that has nothing in it. */
int vt_timeline_make(const struct vt_report *report, const struct vt_range *range, unsigned axis,
                     size_t columns, struct vt_device_report *device, struct vt_error_text reason);
void vt_timeline_free(struct vt_timeline *timeline);

#endif
