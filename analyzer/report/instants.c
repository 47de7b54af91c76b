/* The instants of a device and its timeline, in one walk of the replay. */
#include "report/parts.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

uint64_t vt_state_measure(const struct vt_state *state, bool has_blocks)
{
    return has_blocks ? state->block_bytes : state->driver_bytes - state->categories[VT_CATEGORY_CACHED];
}

void vt_state_keep(struct vt_state *state, uint32_t event_index, const struct vt_sums *sums)
{
    state->present = true;
    state->event_index = event_index;
    state->driver_bytes = sums->counts.driver_bytes;
    state->segment_bytes = sums->counts.segment_bytes;
    state->block_bytes = sums->counts.block_bytes;
    state->context_bytes = sums->counts.context_bytes;
    state->host_pinned_bytes = sums->counts.host_pinned_bytes;
    state->rounding_bytes = sums->rounding_bytes;
    memcpy(state->categories, sums->categories, sizeof state->categories);
}

static void locate(const struct vt_report *report, uint32_t event_index, uint32_t *step, uint8_t *phase)
{
    const struct vt_span *span = report->attribution->span_count && event_index < report->trace->event_count
                                     ? vt_span_at(report->attribution, event_index)
                                     : NULL;

    *step = span ? span->step : 0;
    *phase = span ? span->phase : VT_PHASE_OTHER;
}

void vt_state_finish(const struct vt_report *report, struct vt_state *state)
{
    state->t_ns = vt_event_time(report->trace, state->event_index);
    state->used_bytes = vt_used_bytes(state->categories);
    locate(report, state->event_index, &state->step, &state->phase);
}

struct walk {
    const struct vt_report *report;
    struct vt_timeline *timeline;
    uint32_t *column_events; /* the event that each column shows, VT_NEVER = none yet */
    size_t column;           /* the one being filled */
    struct vt_moment at;
    bool has_blocks;
    struct vt_state peak, last, at_state;
};

static void keep_larger(const struct walk *walk, struct vt_state *state)
{
    if (!state->present ||
        vt_state_measure(&walk->last, walk->has_blocks) > vt_state_measure(state, walk->has_blocks))
        *state = walk->last;
}

static size_t column_of(const struct walk *walk, uint32_t event_index)
{
    uint64_t duration_ns = walk->report->duration_ns, t_ns = vt_event_time(walk->report->trace, event_index);
    size_t column =
        duration_ns ? (size_t)((double)t_ns / (double)duration_ns * (double)walk->timeline->columns) : 0;

    return column < walk->timeline->columns ? column : walk->timeline->columns - 1;
}

static void set_column(struct walk *walk, size_t column)
{
    const struct vt_state *state = &walk->last;

    walk->timeline->driver_bytes[column] = state->driver_bytes;
    memcpy(walk->timeline->categories[column], state->categories, sizeof state->categories);
    walk->column_events[column] = state->present ? state->event_index : VT_NEVER;
}

/* Columns up to and with `column` begin with the state that the events before left. */
static void advance(struct walk *walk, size_t column)
{
    while (walk->column < column)
        set_column(walk, ++walk->column);
}

static void show_in_timeline(struct walk *walk)
{
    const uint64_t *shown = walk->timeline->categories[walk->column];
    uint64_t shown_bytes = walk->timeline->driver_bytes[walk->column] - shown[VT_CATEGORY_CACHED];

    if (walk->column_events[walk->column] == VT_NEVER || vt_state_measure(&walk->last, false) > shown_bytes)
        set_column(walk, walk->column);
}

static int visit(void *context, uint32_t event_index, const struct vt_sums *sums)
{
    struct walk *walk = context;

    advance(walk, column_of(walk, event_index));
    vt_state_keep(&walk->last, event_index, sums);
    if (event_index >= walk->at.first && walk->at.largest && event_index <= walk->at.last) {
        if (walk->at_state.event_index < walk->at.first)
            walk->at_state.present = false; /* that was the state before the span */
        keep_larger(walk, &walk->at_state);
    } else if (event_index <= walk->at.last) {
        walk->at_state = walk->last;
    }
    keep_larger(walk, &walk->peak);
    show_in_timeline(walk);
    return 0;
}

static int make_timeline(const struct vt_report *report, struct vt_timeline *timeline)
{
    size_t columns = timeline->columns;

    timeline->t_ns = calloc(columns, sizeof *timeline->t_ns);
    timeline->categories = calloc(columns, sizeof *timeline->categories);
    timeline->driver_bytes = calloc(columns, sizeof *timeline->driver_bytes);
    timeline->step = calloc(columns, sizeof *timeline->step);
    timeline->phase = calloc(columns, sizeof *timeline->phase);
    if (!timeline->t_ns || !timeline->categories || !timeline->driver_bytes || !timeline->step ||
        !timeline->phase)
        return -ENOMEM;
    for (size_t i = 0; i < columns; i++)
        timeline->t_ns[i] = (uint64_t)((double)report->duration_ns * (double)i / (double)columns);
    return 0;
}

static void set_instant(const struct vt_report *report, const struct vt_state *state, uint32_t event_index,
                        struct vt_instant *instant)
{
    instant->state = *state;
    instant->state.present = true;
    instant->state.event_index = event_index;
    vt_state_finish(report, &instant->state);
}

/* The event of --at: of the largest state, or that of the moment itself. */
static uint32_t event_at(const struct walk *walk)
{
    if (!walk->at.largest)
        return walk->at.last;
    return walk->at_state.event_index > walk->at.first ? walk->at_state.event_index : walk->at.first;
}

int vt_walk_device(const struct vt_report *report, const struct vt_moment *at,
                   struct vt_device_report *device)
{
    struct vt_timeline *timeline = &device->timeline;
    uint32_t last_event = report->trace->event_count ? (uint32_t)report->trace->event_count - 1 : 0;
    struct walk walk = {.report = report,
                        .timeline = timeline,
                        .at = at ? *at : (struct vt_moment){0},
                        .has_blocks = vt_has_blocks(report->attribution->replay, device->index)};
    int result = make_timeline(report, timeline);

    walk.column_events = malloc(timeline->columns * sizeof *walk.column_events);
    if (result || !walk.column_events) {
        free(walk.column_events);
        return -ENOMEM;
    }
    memset(walk.column_events, 0xff, timeline->columns * sizeof *walk.column_events);
    result = vt_category_walk(report->attribution, device->index, visit, &walk);
    advance(&walk, timeline->columns - 1);
    for (size_t i = 0; i < timeline->columns; i++)
        locate(report, walk.column_events[i] == VT_NEVER ? 0 : walk.column_events[i], &timeline->step[i],
               &timeline->phase[i]);
    free(walk.column_events);
    if (result < 0)
        return result;
    set_instant(report, &walk.peak, walk.peak.event_index, &device->peak);
    set_instant(report, &walk.last, last_event, &device->end);
    if (at && at->peak)
        device->at = device->peak;
    else if (at && at->end)
        device->at = device->end;
    else if (at)
        set_instant(report, &walk.at_state, event_at(&walk), &device->at);
    return 0;
}
