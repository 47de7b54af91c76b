/* Finds the moment that --at, --from or --to names. */
#ifndef VT_REPORT_MOMENTS_H
#define VT_REPORT_MOMENTS_H

#include "base/error_text.h"
#include "report/report.h"

/* Where --at points: the state after event `last`, or the largest state within `first` to `last`. */
struct vt_moment {
    uint32_t first, last;
    bool largest;
    bool peak, end, reserved; /* the device's own */
    bool timed;               /* a time was asked for */
    uint64_t t_ns;            /* that time; 0 = another moment */
};

/* Reads options->at, or chooses "oom" without it; sets report->has_at, at_label and shown_refusal. *moment is
 * set only with has_at. -EINVAL with the reason. */
int vt_find_moment(struct vt_report *report, const struct vt_report_options *options,
                   struct vt_moment *moment, struct vt_error_text reason);

/* What a timeline shall show: from the first event of a moment to the last of another. */
struct vt_range {
    struct vt_moment from, to;
    bool has_from, has_to;
};
/* Reads options->from and options->to. -EINVAL as above. */
int vt_find_range(const struct vt_report *report, const struct vt_report_options *options,
                  struct vt_range *range, struct vt_error_text reason);

/* The last event that is not after `t_ns`, a time as events have it; 0 = none. */
uint32_t vt_last_event_at(const struct vt_trace *trace, uint64_t t_ns);
/* A time as events have it, since recording began; 0 = before. */
uint64_t vt_since_start(const struct vt_trace *trace, uint64_t t_ns);
/* Time of an event since recording began. */
uint64_t vt_event_time(const struct vt_trace *trace, uint32_t event_index);

#endif
