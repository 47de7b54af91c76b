/* The timeline of a device: what its axis covers, and the largest state of each column's part of it. */
#include "report/timeline.h"

#include "attribute/sums.h"
#include "base/allocate.h"
#include "base/index.h"
#include "base/sort.h"
#include "report/instants.h"
#include "report/moments.h"
#include "trace/digest_events.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Time without events is left out where it is at least an eighth of what would be shown, in at most so many
 * places. What is shown of it at the end of a stretch is a 32nd of the events' time: the level that is held.
 */
#define CUTS 6u
#define IDLE_PART 8u
#define HELD_PART 32u

const char *vt_axis_name(unsigned axis)
{
    static const char *const names[VT_AXIS_COUNT] = {"time", "events", "steps", "auto"};

    return axis < VT_AXIS_COUNT ? names[axis] : "?";
}

/* ---- Positions ---- */

/* The last stretch that begins at or before it, or the first. */
static const struct vt_stretch *stretch_at(const struct vt_timeline *timeline, uint32_t event_index,
                                           uint64_t t_ns)
{
    size_t low = 0, high = timeline->stretch_count;

    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        const struct vt_stretch *stretch = &timeline->stretches[middle];
        bool begun =
            timeline->axis == VT_AXIS_TIME ? stretch->t_ns <= t_ns : stretch->first_event <= event_index;

        low = begun ? middle : low;
        high = begun ? high : middle;
    }
    return &timeline->stretches[low];
}

double vt_timeline_position(const struct vt_timeline *timeline, uint32_t event_index, uint64_t t_ns)
{
    bool by_time = timeline->axis == VT_AXIS_TIME;
    const struct vt_stretch *stretch;
    double part, whole;

    if (!timeline->stretch_count ||
        (by_time ? t_ns < timeline->from_ns || t_ns > timeline->to_ns
                 : event_index < timeline->first_event || event_index > timeline->last_event))
        return -1;
    stretch = stretch_at(timeline, event_index, t_ns);
    if (by_time) {
        whole = (double)(stretch->end_ns - stretch->t_ns);
        part = t_ns > stretch->t_ns ? (double)(t_ns - stretch->t_ns) : 0;
    } else {
        whole = (double)(stretch->last_event - stretch->first_event) + 1;
        part = event_index > stretch->first_event ? (double)(event_index - stretch->first_event) : 0;
    }
    if (part >= whole)
        return whole > 0 ? stretch->end_column : stretch->column;
    return stretch->column + part / whole * (stretch->end_column - stretch->column);
}

static size_t column_of(const struct vt_report *report, const struct vt_timeline *timeline,
                        uint32_t event_index)
{
    double position = vt_timeline_position(timeline, event_index, vt_event_time(report->trace, event_index));
    size_t column = position > 0 ? (size_t)position : 0;

    return column < timeline->columns ? column : timeline->columns - 1;
}

/* When each column begins. */
static void set_times(const struct vt_report *report, struct vt_timeline *timeline)
{
    const struct vt_stretch *stretch = timeline->stretches,
                            *last = timeline->stretches + timeline->stretch_count - 1;

    for (size_t i = 0; i < timeline->columns; i++) {
        double width, part;

        while (stretch < last && stretch->end_column <= (double)i)
            stretch++;
        width = stretch->end_column - stretch->column;
        part = (double)i - stretch->column;
        if (timeline->axis == VT_AXIS_TIME)
            timeline->t_ns[i] =
                stretch->t_ns + (uint64_t)((double)(stretch->end_ns - stretch->t_ns) * part / width);
        else
            timeline->t_ns[i] = vt_event_time(
                report->trace,
                stretch->first_event +
                    (uint32_t)(((double)(stretch->last_event - stretch->first_event) + 1) * part / width));
    }
}

/* ---- The axis ---- */

/* Time between two events of the device, or before its first, or after its last. */
struct gap {
    uint64_t t_ns, end_ns;
};
struct activity {
    const struct vt_report *report;
    const struct vt_timeline *timeline;
    struct gap gaps[CUTS + 1]; /* the largest, in order of size; the last is spare */
    size_t count;
    uint64_t last_ns;
    bool any;
};

static uint64_t gap_length(const struct gap *gap)
{
    return gap->end_ns - gap->t_ns;
}

static void add_gap(struct activity *activity, uint64_t end_ns)
{
    struct gap gap = {activity->last_ns, end_ns};
    size_t at = activity->count;

    activity->last_ns = end_ns > activity->last_ns ? end_ns : activity->last_ns;
    if (end_ns <= gap.t_ns)
        return;
    for (; at > 0 && gap_length(&activity->gaps[at - 1]) < gap_length(&gap); at--)
        activity->gaps[at] = activity->gaps[at - 1];
    activity->gaps[at] = gap;
    activity->count += activity->count < CUTS;
}

static int see_activity(void *context, uint32_t event_index, const struct vt_sums *sums)
{
    struct activity *activity = context;

    (void)sums;
    if (event_index < activity->timeline->first_event)
        return 0;
    if (event_index > activity->timeline->last_event)
        return 1;
    add_gap(activity, vt_event_time(activity->report->trace, event_index));
    activity->any = true;
    return 0;
}

static int by_time(const void *a, const void *b)
{
    const struct gap *left = a, *right = b;

    return vt_order(left->t_ns, right->t_ns);
}

/* Stretches of `shown_ns` in all, with the gaps between them, in order, left out. */
static void cut_time(struct vt_timeline *timeline, const struct gap *gaps, size_t count, uint64_t shown_ns)
{
    uint64_t held_ns = count ? shown_ns / HELD_PART + 1 : 0, begin_ns = timeline->from_ns, whole_ns = 0;
    double column = 0, per_ns;

    for (size_t i = 0; i <= count; i++) {
        uint64_t end_ns = i < count ? gaps[i].t_ns : timeline->to_ns;

        if (i < count && end_ns > timeline->from_ns)
            end_ns += gap_length(&gaps[i]) > held_ns ? held_ns : gap_length(&gaps[i]);
        if (end_ns > begin_ns || (i == count && !timeline->stretch_count)) {
            timeline->stretches[timeline->stretch_count++] =
                (struct vt_stretch){.t_ns = begin_ns, .end_ns = end_ns};
            whole_ns += end_ns - begin_ns;
        }
        begin_ns = i < count ? gaps[i].end_ns : begin_ns;
    }
    per_ns = whole_ns ? (double)timeline->columns / (double)whole_ns : 0;
    timeline->cut_ns = timeline->to_ns - timeline->from_ns - whole_ns;
    for (size_t i = 0; i < timeline->stretch_count; i++) {
        struct vt_stretch *stretch = &timeline->stretches[i];
        double last = (double)(timeline->columns - (timeline->stretch_count - 1 - i));

        stretch->column = column;
        column += fmax(1, round((double)(stretch->end_ns - stretch->t_ns) * per_ns));
        stretch->end_column = column = i + 1 == timeline->stretch_count ? last : fmin(column, last);
    }
}

/* An axis of time, without what is idle if `cut`. */
static void make_time(const struct vt_report *report, int device_index, bool cut,
                      struct vt_timeline *timeline)
{
    struct activity activity = {.report = report, .timeline = timeline, .last_ns = timeline->from_ns};
    uint64_t shown_ns = timeline->to_ns - timeline->from_ns;
    size_t count = 0;

    timeline->stretches = vt_allocate_zeros(CUTS + 1, sizeof *timeline->stretches);
    if (cut && timeline->columns > 2 * CUTS) {
        vt_category_walk(report->attribution, device_index, see_activity, &activity);
        add_gap(&activity, timeline->to_ns);
    }
    for (; activity.any && count < activity.count; count++) {
        if (gap_length(&activity.gaps[count]) < shown_ns / IDLE_PART)
            break;
        shown_ns -= gap_length(&activity.gaps[count]);
    }
    if (!shown_ns) { /* all events at one time */
        count = 0;
        shown_ns = timeline->to_ns - timeline->from_ns;
    }
    vt_sort(activity.gaps, count, sizeof *activity.gaps, by_time);
    cut_time(timeline, activity.gaps, count, shown_ns);
}

static void make_events(struct vt_timeline *timeline)
{
    free(timeline->stretches);
    timeline->stretches = vt_allocate_zeros(1, sizeof *timeline->stretches);
    timeline->stretches[timeline->stretch_count++] =
        (struct vt_stretch){.t_ns = timeline->from_ns,
                            .end_ns = timeline->to_ns,
                            .first_event = timeline->first_event,
                            .last_event = timeline->last_event,
                            .end_column = (double)timeline->columns};
}

static void make_steps(const struct vt_report *report, struct vt_timeline *timeline)
{
    const struct vt_attribution *attribution = report->attribution;
    struct vt_stretch *last = NULL;

    timeline->stretches = vt_allocate_zeros(attribution->span_count + 1, sizeof *timeline->stretches);
    for (size_t i = 0; i < attribution->span_count; i++) {
        const struct vt_span *span = &attribution->spans[i];

        if (span->last_event < timeline->first_event || span->first_event > timeline->last_event)
            continue;
        if (!last || span->step > last->step) {
            last = &timeline->stretches[timeline->stretch_count++];
            *last = (struct vt_stretch){.step = span->step,
                                        .first_event = span->first_event > timeline->first_event
                                                           ? span->first_event
                                                           : timeline->first_event};
        }
        last->last_event = span->last_event < timeline->last_event ? span->last_event : timeline->last_event;
    }
    if (!last) {
        make_events(timeline);
        return;
    }
    for (size_t i = 0; i < timeline->stretch_count; i++) {
        struct vt_stretch *stretch = &timeline->stretches[i];
        double columns = (double)timeline->columns / (double)timeline->stretch_count;

        stretch->column = (double)i * columns;
        stretch->end_column = (double)(i + 1) * columns;
        stretch->t_ns = vt_event_time(report->trace, stretch->first_event);
        stretch->end_ns = vt_event_time(report->trace, stretch->last_event);
    }
}

static int make_axis(const struct vt_report *report, int device_index, unsigned axis,
                     struct vt_timeline *timeline, struct vt_error_text reason)
{
    bool none = timeline->first_event > timeline->last_event; /* events in the range */

    timeline->axis = axis == VT_AXIS_AUTO ? VT_AXIS_TIME : (uint8_t)axis;
    if (timeline->axis == VT_AXIS_TIME) {
        make_time(report, device_index, axis == VT_AXIS_AUTO && !none, timeline);
        return 0;
    }
    if (axis == VT_AXIS_STEPS && !report->step_count)
        return vt_fail(reason, "no training steps were found: use --axis time or --axis events");
    if (none || !report->trace->event_count)
        return vt_fail(reason, "no event lies between --from and --to: use --axis time");
    if (axis == VT_AXIS_STEPS)
        make_steps(report, timeline);
    else
        make_events(timeline);
    return 0;
}

/* ---- The range ---- */

static int set_range(const struct vt_report *report, const struct vt_range *range,
                     const struct vt_device_report *device, struct vt_timeline *timeline,
                     struct vt_error_text reason)
{
    const struct vt_trace *trace = report->trace;
    const struct vt_moment *from = &range->from, *to = &range->to;
    uint32_t last_event = trace->event_count ? (uint32_t)trace->event_count - 1 : 0;

    timeline->last_event = last_event;
    timeline->to_ns = report->duration_ns;
    if (range->has_from && !from->end) {
        timeline->first_event = from->peak ? device->peak.state.event_index : from->first;
        timeline->from_ns = from->timed ? from->t_ns : vt_event_time(trace, timeline->first_event);
        if (from->timed && vt_event_time(trace, from->last) < from->t_ns)
            timeline->first_event = from->last + 1;
    } else if (range->has_from) {
        timeline->first_event = last_event;
        timeline->from_ns = vt_event_time(trace, last_event);
    }
    if (range->has_to && !to->end) {
        timeline->last_event = to->peak ? device->peak.state.event_index : to->last;
        timeline->to_ns = to->timed ? to->t_ns : vt_event_time(trace, timeline->last_event);
    }
    if (timeline->from_ns <= timeline->to_ns &&
        (timeline->first_event <= timeline->last_event || from->timed || to->timed))
        return 0;
    if (from->peak || to->peak)
        return vt_fail(reason, "the peak of GPU %d is %s: nothing lies between --from and --to",
                       device->index, from->peak ? "after --to" : "before --from");
    return vt_fail(reason, "--from is after --to: nothing lies between them");
}

/* ---- The columns ---- */

struct walk {
    const struct vt_report *report;
    struct vt_timeline *timeline;
    size_t column;        /* the one being filled */
    size_t gap;           /* the next */
    struct vt_state last; /* after the last event so far */
};

static void set_column(struct walk *walk, size_t column)
{
    const struct vt_state *state = &walk->last;

    walk->timeline->driver_bytes[column] = state->driver_bytes;
    memcpy(walk->timeline->categories[column], state->categories, sizeof state->categories);
    walk->timeline->event[column] = state->present ? state->event_index : VT_NEVER;
}

/* Columns up to and with `column` begin with the state that the events before left. */
static void advance_to(struct walk *walk, size_t column)
{
    while (walk->column < column)
        set_column(walk, ++walk->column);
}

static int visit_event(void *context, uint32_t event_index, const struct vt_sums *sums)
{
    struct walk *walk = context;
    struct vt_timeline *timeline = walk->timeline;
    const struct vt_trace *trace = walk->report->trace;
    const uint64_t *shown;

    if (event_index > timeline->last_event)
        return 1;
    if (!vt_is_in_window(trace->gaps, trace->gap_count, event_index, &walk->gap))
        return 0; /* not all that was alive then is there */
    if (event_index >= timeline->first_event)
        advance_to(walk, column_of(walk->report, timeline, event_index));
    vt_state_keep(&walk->last, event_index, sums);
    shown = timeline->categories[walk->column];
    if (event_index < timeline->first_event || timeline->event[walk->column] == VT_NEVER ||
        vt_state_measure(&walk->last, false) >
            timeline->driver_bytes[walk->column] - shown[VT_CATEGORY_CACHED])
        set_column(walk, walk->column);
    return 0;
}

static void fill_columns(const struct vt_report *report, int device_index, struct vt_timeline *timeline)
{
    struct walk walk = {.report = report, .timeline = timeline};
    size_t columns = timeline->columns;

    timeline->t_ns = vt_allocate_zeros(columns, sizeof *timeline->t_ns);
    timeline->event = vt_resize(NULL, columns, sizeof *timeline->event);
    timeline->categories = vt_allocate_zeros(columns, sizeof *timeline->categories);
    timeline->driver_bytes = vt_allocate_zeros(columns, sizeof *timeline->driver_bytes);
    timeline->step = vt_allocate_zeros(columns, sizeof *timeline->step);
    timeline->phase = vt_allocate_zeros(columns, sizeof *timeline->phase);
    memset(timeline->event, 0xff, columns * sizeof *timeline->event);
    set_times(report, timeline);
    vt_category_walk(report->attribution, device_index, visit_event, &walk);
    advance_to(&walk, columns - 1);
    for (size_t i = 0; i < columns; i++) {
        timeline->event[i] = timeline->event[i] == VT_NEVER ? 0 : timeline->event[i];
        timeline->step[i] = vt_report_span(report, timeline->event[i])->step;
        timeline->phase[i] = vt_report_span(report, timeline->event[i])->phase;
    }
}

int vt_timeline_make(const struct vt_report *report, const struct vt_range *range, unsigned axis,
                     size_t columns, struct vt_device_report *device, struct vt_error_text reason)
{
    struct vt_timeline *timeline = &device->timeline;
    int result;

    timeline->columns = columns;
    result = set_range(report, range, device, timeline, reason);
    if (!result)
        result = make_axis(report, device->index, axis, timeline, reason);
    if (!result)
        fill_columns(report, device->index, timeline);
    return result;
}

void vt_timeline_free(struct vt_timeline *timeline)
{
    free(timeline->t_ns);
    free(timeline->event);
    free(timeline->categories);
    free(timeline->driver_bytes);
    free(timeline->step);
    free(timeline->phase);
    free(timeline->stretches);
}
