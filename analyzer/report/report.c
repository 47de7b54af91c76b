/* A report in memory: the instants of each device and its timeline, in one walk of the replay per device. */
#include "report/parts.h"
#include "base/format.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* The state after an event. */
struct state {
    bool present;
    uint32_t event_index;
    struct vt_sums sums;
};

struct walk {
    const struct vt_report *report;
    struct vt_timeline *timeline;
    uint32_t *column_events; /* the event that each column shows, VT_NEVER = none yet */
    size_t column;           /* the one being filled */
    struct vt_moment at;
    bool blocks; /* the peak goes by block bytes */
    struct state peak, last, at_state;
};

static void keep(struct state *state, uint32_t event_index, const struct vt_sums *sums)
{
    state->present = true;
    state->event_index = event_index;
    state->sums = *sums;
}

static void keep_larger(const struct walk *walk, struct state *state, uint32_t event_index,
                        const struct vt_sums *sums)
{
    if (!state->present ||
        vt_peak_measure(&sums->counts, walk->blocks) > vt_peak_measure(&state->sums.counts, walk->blocks))
        keep(state, event_index, sums);
}

static size_t column_of(const struct walk *walk, uint32_t event_index)
{
    uint64_t duration_ns = walk->report->duration_ns, t_ns = vt_event_time(walk->report->trace, event_index);
    size_t column =
        duration_ns ? (size_t)((double)t_ns / (double)duration_ns * (double)walk->timeline->columns) : 0;

    return column < walk->timeline->columns ? column : walk->timeline->columns - 1;
}

static void set_column(struct walk *walk, size_t column, const struct state *state)
{
    walk->timeline->driver_bytes[column] = state->sums.counts.driver_bytes;
    memcpy(walk->timeline->categories[column], state->sums.categories, sizeof state->sums.categories);
    walk->column_events[column] = state->present ? state->event_index : VT_NEVER;
}

/* Columns up to and with `column` begin with the state that the events before left. */
static void advance(struct walk *walk, size_t column)
{
    while (walk->column < column)
        set_column(walk, ++walk->column, &walk->last);
}

static void show_in_timeline(struct walk *walk)
{
    const struct state *now = &walk->last;
    uint64_t(*shown)[VT_CATEGORY_COUNT] = &walk->timeline->categories[walk->column];
    uint64_t shown_bytes = walk->timeline->driver_bytes[walk->column] - (*shown)[VT_CATEGORY_CACHED];

    if (walk->column_events[walk->column] == VT_NEVER ||
        vt_peak_measure(&now->sums.counts, false) > shown_bytes)
        set_column(walk, walk->column, now);
}

static int visit(void *context, uint32_t event_index, const struct vt_sums *sums)
{
    struct walk *walk = context;

    if (event_index >= walk->at.first && walk->at.largest && event_index <= walk->at.last) {
        if (walk->at_state.event_index < walk->at.first)
            walk->at_state.present = false; /* that was the state before the span */
        keep_larger(walk, &walk->at_state, event_index, sums);
    } else if (event_index <= walk->at.last) {
        keep(&walk->at_state, event_index, sums);
    }
    keep_larger(walk, &walk->peak, event_index, sums);
    advance(walk, column_of(walk, event_index));
    keep(&walk->last, event_index, sums);
    show_in_timeline(walk);
    return 0;
}

static void locate(const struct vt_report *report, uint32_t event_index, uint32_t *step, uint8_t *phase)
{
    const struct vt_span *span = report->attribution->span_count && event_index < report->trace->event_count
                                     ? vt_span_at(report->attribution, event_index)
                                     : NULL;

    *step = span ? span->step : 0;
    *phase = span ? span->phase : VT_PHASE_OTHER;
}

static void set_instant(const struct vt_report *report, const struct state *state, uint32_t event_index,
                        struct vt_instant *instant)
{
    instant->present = true;
    instant->event_index = event_index;
    instant->t_ns = vt_event_time(report->trace, event_index);
    instant->counts = state->sums.counts;
    instant->rounding_bytes = state->sums.rounding_bytes;
    memcpy(instant->categories, state->sums.categories, sizeof instant->categories);
    locate(report, event_index, &instant->step, &instant->phase);
}

static int make_timeline(struct vt_timeline *timeline, size_t columns, uint64_t duration_ns)
{
    timeline->columns = columns;
    timeline->t_ns = calloc(columns, sizeof *timeline->t_ns);
    timeline->categories = calloc(columns, sizeof *timeline->categories);
    timeline->driver_bytes = calloc(columns, sizeof *timeline->driver_bytes);
    timeline->step = calloc(columns, sizeof *timeline->step);
    timeline->phase = calloc(columns, sizeof *timeline->phase);
    if (!timeline->t_ns || !timeline->categories || !timeline->driver_bytes || !timeline->step ||
        !timeline->phase)
        return -ENOMEM;
    for (size_t i = 0; i < columns; i++)
        timeline->t_ns[i] = (uint64_t)((double)duration_ns * (double)i / (double)columns);
    return 0;
}

const struct vt_instant *vt_shown_instant(const struct vt_device_report *device)
{
    return device->at.present ? &device->at : &device->peak;
}

static int walk_device(const struct vt_report *report, const struct vt_moment *at,
                       struct vt_device_report *device)
{
    struct vt_timeline *timeline = &device->timeline;
    struct walk walk = {.report = report,
                        .timeline = timeline,
                        .blocks = vt_has_blocks(report->attribution->replay, device->index)};
    uint32_t last_event = report->trace->event_count ? (uint32_t)report->trace->event_count - 1 : 0, at_event;
    int result;

    walk.at = at ? *at : (struct vt_moment){0};
    walk.column_events = malloc(timeline->columns * sizeof *walk.column_events);
    if (!walk.column_events)
        return -ENOMEM;
    memset(walk.column_events, 0xff, timeline->columns * sizeof *walk.column_events);
    result = vt_category_walk(report->attribution, device->index, visit, &walk);
    if (result < 0) {
        free(walk.column_events);
        return result;
    }
    advance(&walk, timeline->columns - 1);
    at_event = walk.at.largest && walk.at_state.event_index > walk.at.first ? walk.at_state.event_index
               : walk.at.largest                                            ? walk.at.first
                                                                            : walk.at.last;
    for (size_t i = 0; i < timeline->columns; i++)
        locate(report, walk.column_events[i] == VT_NEVER ? 0 : walk.column_events[i], &timeline->step[i],
               &timeline->phase[i]);
    free(walk.column_events);
    set_instant(report, &walk.peak, walk.peak.event_index, &device->peak);
    set_instant(report, &walk.last, last_event, &device->end);
    if (at && at->peak)
        set_instant(report, &walk.peak, walk.peak.event_index, &device->at);
    else if (at && at->end)
        set_instant(report, &walk.last, last_event, &device->at);
    else if (at)
        set_instant(report, &walk.at_state, at_event, &device->at);
    return 0;
}

static int make_device(const struct vt_report *report, const struct vt_report_options *options,
                       const struct vt_moment *at, struct vt_grouper *grouper,
                       struct vt_device_report *device)
{
    size_t columns = options->timeline_columns ? options->timeline_columns : VT_TIMELINE_COLUMNS;
    unsigned groups = options->groups ? options->groups : (1u << VT_BY_COUNT) - 1;
    int result = make_timeline(&device->timeline, columns, report->duration_ns);

    device->name = "";
    for (size_t i = 0; i < report->trace->device_count; i++) {
        if (report->trace->devices[i].index != device->index)
            continue;
        device->name = report->trace->devices[i].name;
        device->total_bytes = report->trace->devices[i].total_bytes;
    }
    if (!result)
        result = walk_device(report, at, device);
    if (!result)
        result = vt_group_instant(grouper, device->index, groups, &device->peak);
    if (!result)
        result = vt_group_instant(grouper, device->index, groups, &device->end);
    if (!result && device->at.present)
        result = vt_group_instant(grouper, device->index, groups, &device->at);
    if (!result)
        result = vt_leaks_find(report->attribution, device->index, &device->leaks);
    if (!result && options->blocks)
        result = vt_list_blocks(report->attribution->replay, device->index,
                                device->at.present ? &device->at : &device->peak);
    if (!result && options->explain)
        result = vt_explain(report->attribution, options->explain, device->index, vt_shown_instant(device),
                            &device->explanation);
    return result;
}

/* A device is reported if it ever held memory, or if it is asked for. */
static bool is_wanted(const struct vt_report *report, const struct vt_report_options *options,
                      int device_index)
{
    const struct vt_replay *replay = report->attribution->replay;

    if (options->device_index >= 0)
        return device_index == options->device_index;
    for (size_t i = 0; i < replay->allocation_count; i++)
        if (replay->allocations[i].device_index == device_index)
            return true;
    return false;
}

static int known_devices(const struct vt_report *report)
{
    int count = report->attribution->replay->device_count;

    for (size_t i = 0; i < report->trace->device_count; i++)
        if (report->trace->devices[i].index >= count)
            count = report->trace->devices[i].index + 1;
    return count < (int)VT_MAX_DEVICES ? count : (int)VT_MAX_DEVICES;
}

static int make_devices(struct vt_report *report, const struct vt_report_options *options,
                        const struct vt_moment *at)
{
    struct vt_grouper *grouper = NULL;
    int count = known_devices(report),
        result = vt_grouper_make(report->attribution, options->depth, &grouper);

    report->devices = calloc((size_t)count + 1, sizeof *report->devices);
    if (!report->devices && !result)
        result = -ENOMEM;
    for (int i = 0; !result && i < count; i++) {
        if (!is_wanted(report, options, i))
            continue;
        report->devices[report->device_count].index = i;
        result = make_device(report, options, at, grouper, &report->devices[report->device_count++]);
    }
    vt_grouper_free(grouper);
    return result;
}

static uint64_t duration_of(const struct vt_trace *trace)
{
    uint64_t start = trace->header.start_monotonic_ns, end = trace->header.end_monotonic_ns;
    uint64_t duration = end > start ? end - start : 0;
    uint64_t last = trace->event_count ? vt_event_time(trace, (uint32_t)trace->event_count - 1) : 0;

    return duration > last ? duration : last;
}

/* What --at means, and which of the times that memory ran out is shown. */
static int find_moment(struct vt_report *report, const struct vt_report_options *options,
                       struct vt_moment *at, bool *has_at, char *error, size_t error_bytes)
{
    const char *moment = options->at;
    size_t count = report->refusal_count, shown = count - 1;
    char numbered[32];
    int result = 0;

    if (moment && options->oom == VT_AT_OOM_ONLY) {
        result = vt_refusal_choose(report, moment, &shown, error, error_bytes);
        snprintf(numbered, sizeof numbered, "oom#%zu", shown + 1);
        moment = numbered;
    }
    if (!result && moment && count && !strncmp(moment, "oom", 3))
        result = vt_refusal_parse(report, moment, &shown, error, error_bytes);
    if (result)
        return result;
    if (count)
        vt_refusal_show(report, shown);
    if (!moment && count &&
        (options->oom == VT_AT_OOM_ONLY ||
         (options->oom == VT_AT_OOM_IF_IT_ENDED_THE_RUN && report->refusals[shown].ends_run)))
        moment = "oom";
    *has_at = moment != NULL;
    return moment ? vt_moment_parse(report, moment, at, report->at_label, sizeof report->at_label, error,
                                    error_bytes)
                  : 0;
}

int vt_report_make(const struct vt_attribution *attribution, const struct vt_report_options *options,
                   struct vt_report **made, char *error, size_t error_bytes)
{
    struct vt_report *report = calloc(1, sizeof *report);
    struct vt_moment at;
    bool has_at = false;
    int result;

    *made = NULL;
    snprintf(error, error_bytes, "out of memory");
    if (!report)
        return -ENOMEM;
    report->trace = attribution->trace;
    report->attribution = attribution;
    report->duration_ns = duration_of(report->trace);
    result = vt_find_refusals(report);
    if (!result)
        result = find_moment(report, options, &at, &has_at, error, error_bytes);
    if (!result && options->device_index >= known_devices(report)) {
        snprintf(error, error_bytes, "no device %d in the trace; the highest is %d", options->device_index,
                 known_devices(report) - 1);
        result = -EINVAL;
    }
    if (!result)
        result = make_devices(report, options, has_at ? &at : NULL);
    if (result) {
        vt_report_free(report);
        return result;
    }
    *made = report;
    return 0;
}

static void free_instant(struct vt_instant *instant)
{
    for (int by = 0; by < VT_BY_COUNT; by++)
        vt_groups_free(&instant->groups[by]);
    free(instant->blocks);
}

void vt_report_free(struct vt_report *report)
{
    if (!report)
        return;
    for (size_t i = 0; i < report->device_count; i++) {
        struct vt_device_report *device = &report->devices[i];
        vt_leaks_free(&device->leaks);
        free_instant(&device->peak);
        free_instant(&device->end);
        free_instant(&device->at);
        free(device->explanation.reasons);
        free(device->timeline.t_ns);
        free(device->timeline.categories);
        free(device->timeline.driver_bytes);
        free(device->timeline.step);
        free(device->timeline.phase);
    }
    free(report->devices);
    free(report->refusals);
    free(report);
}
