/* The steps of a device in one walk of the replay, and the statistics that pick the outliers. */
#include "findings/steps.h"

#include "attribute/sums.h"
#include "base/allocate.h"
#include "base/index.h"
#include "format/past.h"
#include "base/sort.h"
#include "report/instants.h"
#include "report/moments.h"
#include "trace/digest_events.h"

#include <stdlib.h>

/* A step stands out if it exceeds the median by more than VT_STEP_SPREADS times the usual distance from it
 * (the median absolute deviation scaled to a standard deviation; one odd step does not move it), and by a
 * part of the median that matters: steps often have equal bytes, so the usual distance is often 0, while
 * times always differ. Only few steps may stand out: on a busy machine many are slow. */
#define DEVIATION 1.4826
#define LARGE_PART 0.02
#define SLOW_PART 0.5
#define FEWEST_STEPS 5
#define ONE_IN 20 /* may stand out, but at least LEAST_MANY and at most MOST_MANY */
#define LEAST_MANY 3
#define MOST_MANY 10

struct walk {
    const struct vt_attribution *attribution;
    struct vt_step *items; /* those that have spans; most steps of a long trace have none */
    uint32_t *places;      /* among the items, by span */
    int device_index;
    bool has_blocks;
    struct vt_state last;  /* after the last event so far */
    struct vt_state since; /* after the last one that a landmark counts from */
};

/* Adds blocks that are in no category: their bytes are known, they are not. */
static void add_unseen(struct vt_state *state, uint64_t bytes)
{
    state->unseen_bytes = bytes;
    state->block_bytes += bytes;
    state->categories[VT_CATEGORY_CACHED] -= bytes;
}

static struct vt_step *step_of(const struct walk *walk, uint32_t event_index)
{
    const struct vt_span *span = vt_span_at(walk->attribution, event_index);
    return &walk->items[walk->places[span - walk->attribution->spans]];
}

static void note_peak(const struct walk *walk, struct vt_step *step, const struct vt_state *state)
{
    if (!step->peak.present ||
        vt_state_measure(state, walk->has_blocks) > vt_state_measure(&step->peak, walk->has_blocks))
        step->peak = *state;
}

/* A landmark of a digest: the largest state since the last one, in whose step it was. */
static void note_between(struct walk *walk, const struct vt_event *landmark)
{
    struct vt_state most = walk->since;
    if (!most.present || landmark->address <= most.block_bytes)
        return;
    if (walk->last.driver_bytes > most.driver_bytes) { /* it grows when blocks need it */
        most.categories[VT_CATEGORY_CACHED] += walk->last.driver_bytes - most.driver_bytes;
        most.driver_bytes = walk->last.driver_bytes;
    }
    add_unseen(&most, landmark->address - most.block_bytes);
    note_peak(walk, step_of(walk, most.event_index), &most);
}

/* A landmark with which a step begins: what the step before it ended with. */
static void note_end(struct walk *walk, uint32_t event_index)
{
    const struct vt_event *landmark = &walk->attribution->trace->events[event_index];
    struct vt_state *end = &walk->last;
    if (!end->present || (landmark->kind != VT_EVENT_RAN && landmark->kind != VT_EVENT_AFTER) ||
        landmark->bytes <= end->block_bytes || !event_index ||
        step_of(walk, event_index) == step_of(walk, event_index - 1))
        return;
    add_unseen(end, landmark->bytes - end->block_bytes);
    step_of(walk, end->event_index)->end = *end;
}

static int visit_event(void *context, uint32_t event_index, const struct vt_sums *sums)
{
    struct walk *walk = context;
    const struct vt_event *event = &walk->attribution->trace->events[event_index];
    struct vt_state state = {0};
    vt_state_keep(&state, event_index, sums);
    if (vt_is_landmark(event)) {
        note_between(walk, event);
        note_end(walk, event_index);
    }
    struct vt_step *step = step_of(walk, event_index);
    walk->last = step->end = state;
    if (!event->head_start || vt_is_landmark(event))
        walk->since = state;
    note_peak(walk, step, &state);
    return 0;
}

/* Numbers the steps that have spans, in order. Returns how many they are. */
static size_t number_steps(const struct vt_attribution *attribution, uint32_t *places)
{
    size_t count = 0;
    for (size_t i = 0; i < attribution->span_count; i++) {
        count += !i || attribution->spans[i].step != attribution->spans[i - 1].step;
        places[i] = (uint32_t)count - 1;
    }
    return count;
}

static void set_bounds(const struct walk *walk)
{
    for (size_t i = walk->attribution->span_count; i-- > 0;) {
        const struct vt_span *span = &walk->attribution->spans[i];
        struct vt_step *step = &walk->items[walk->places[i]];

        if (step->last_event < span->last_event)
            step->last_event = span->last_event;
        step->first_event = span->first_event;
        step->step = span->step;
    }
}

/* Where digests do not show each pass, they do not show the peak of each step. */
static bool is_whole(const struct vt_trace *trace, const struct vt_step *step)
{
    bool whole = true;

    for (uint32_t i = step->first_event; i <= step->last_event && trace->unseen_passes && whole; i++)
        whole = !trace->events[i].head_start;
    return whole;
}

/* Leaves out steps that are not whole; a step without an event of this device keeps what was there. */
static void finish_steps(const struct vt_report *report, struct vt_steps *steps, size_t with_spans)
{
    const struct vt_trace *trace = report->trace;
    struct vt_state before = {0};

    for (size_t i = 0; i < with_spans; i++) {
        struct vt_step step = steps->items[i];

        step.t_ns = step.step ? vt_event_time(trace, step.first_event) : 0;
        step.duration_ns = vt_event_time(trace, step.last_event) - step.t_ns;
        step.before_bytes = before.used_bytes;
        if (!step.peak.present) {
            step.peak = step.end = before;
            step.peak.event_index = step.first_event;
            step.end.event_index = step.last_event;
        }
        vt_state_finish(report, &step.peak);
        vt_state_finish(report, &step.end);
        before = step.end;
        if (steps->count && steps->items[steps->count - 1].step + 1 == step.step)
            steps->items[steps->count - 1].duration_ns = step.t_ns - steps->items[steps->count - 1].t_ns;
        if (is_whole(trace, &step))
            steps->items[steps->count++] = step;
    }
}

/* With the mean of the middle two. */
static uint64_t exact_median(uint64_t *values, size_t count)
{
    vt_sort_numbers(values, count);
    return count % 2 ? values[count / 2] : values[count / 2 - 1] / 2 + values[count / 2] / 2;
}

/* The threshold that at most `many` values exceed. `values` are in order. */
static uint64_t least_limit(const uint64_t *values, size_t count)
{
    size_t many = count / ONE_IN;

    many = many < LEAST_MANY ? LEAST_MANY : many > MOST_MANY ? MOST_MANY : many;
    return values[count > many ? count - 1 - many : 0];
}

/* The threshold above which a value stands out. Overwrites `values`. */
static double limit_of(uint64_t *values, size_t count, double part, uint64_t *middle)
{
    double spread, least, few;

    *middle = exact_median(values, count);
    few = (double)least_limit(values, count);
    for (size_t i = 0; i < count; i++)
        values[i] = values[i] > *middle ? values[i] - *middle : *middle - values[i];
    spread = VT_STEP_SPREADS * DEVIATION * (double)exact_median(values, count);
    least = part * (double)*middle;
    least = (double)*middle + (spread > least ? spread : least);
    return least > few ? least : few;
}

/* The last step's time is shown but not judged: it lasts until the end of the trace. */
static void find_outstanding(struct vt_steps *steps)
{
    uint64_t *values = vt_allocate_zeros(steps->count + 1, sizeof *values);
    struct vt_step *items = steps->items;
    size_t first = steps->count && !items[0].step, count = 0;
    double limit;

    if (steps->count - first > FEWEST_STEPS) {
        for (size_t i = first; i < steps->count; i++)
            values[count++] = items[i].peak.used_bytes;
        limit = limit_of(values, count, LARGE_PART, &steps->median_peak_bytes);
        for (size_t i = first; i < steps->count; i++)
            items[i].large = (double)items[i].peak.used_bytes > limit;
        count = 0;
        for (size_t i = first; i + 1 < steps->count; i++)
            values[count++] = items[i].duration_ns;
        limit = limit_of(values, count, SLOW_PART, &steps->median_ns);
        for (size_t i = first; i + 1 < steps->count; i++)
            items[i].slow = (double)items[i].duration_ns > limit;
    }
    for (size_t i = 0; i < steps->count; i++) {
        if (items[i].large)
            items[i].outliers[items[i].outlier_count++] = "peak";
        if (items[i].slow)
            items[i].outliers[items[i].outlier_count++] = "time";
    }
    free(values);
}

struct vt_steps vt_steps_make(const struct vt_report *report, int device_index)
{
    const struct vt_attribution *attribution = report->attribution;
    uint32_t *places = vt_allocate((attribution->span_count + 1) * sizeof *places);
    const size_t with_spans = number_steps(attribution, places);
    struct vt_steps steps = {.items = vt_allocate_zeros(with_spans + 1, sizeof *steps.items)};
    struct walk walk = {.attribution = attribution,
                        .items = steps.items,
                        .places = places,
                        .device_index = device_index,
                        .has_blocks = vt_has_blocks(attribution->replay, device_index)};

    set_bounds(&walk);
    if (attribution->span_count)
        vt_category_walk(attribution, device_index, visit_event, &walk);
    finish_steps(report, &steps, with_spans);
    free(places);
    find_outstanding(&steps);
    return steps;
}
