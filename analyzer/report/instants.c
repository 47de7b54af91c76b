/* The instants of a device, in one walk of the replay. */
#include "report/instants.h"

#include "attribute/sums.h"
#include "report/gpu_readings.h"
#include "report/moments.h"

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
    state->gathered_bytes = sums->gathered_bytes;
    state->half_copy_bytes = sums->half_copy_bytes;
    state->rounding_bytes = sums->rounding_bytes;
    memcpy(state->categories, sums->categories, sizeof state->categories);
}

const struct vt_span *vt_report_span(const struct vt_report *report, uint32_t event_index)
{
    static const struct vt_span outside = {.phase = VT_PHASE_OTHER};

    return report->attribution->span_count && event_index < report->trace->event_count
               ? vt_span_at(report->attribution, event_index)
               : &outside;
}

void vt_state_finish(const struct vt_report *report, struct vt_state *state)
{
    state->t_ns = vt_event_time(report->trace, state->event_index);
    state->used_bytes = vt_used_bytes(state->categories) + state->unseen_bytes;
    state->step = vt_report_span(report, state->event_index)->step;
    state->phase = vt_report_span(report, state->event_index)->phase;
}

struct walk {
    const struct vt_report *report;
    struct vt_moment at;
    bool has_blocks;
    bool has_reading;
    uint32_t reading_event; /* the last one's */
    struct vt_state peak, reserved, last, at_state, last_read;
    uint64_t driver_peak_bytes;
};

static void keep_larger(const struct walk *walk, struct vt_state *state)
{
    if (!state->present ||
        vt_state_measure(&walk->last, walk->has_blocks) > vt_state_measure(state, walk->has_blocks))
        *state = walk->last;
}

static int visit_event(void *context, uint32_t event_index, const struct vt_sums *sums)
{
    struct walk *walk = context;

    vt_state_keep(&walk->last, event_index, sums);
    if (event_index >= walk->at.first && walk->at.largest && event_index <= walk->at.last) {
        if (walk->at_state.event_index < walk->at.first)
            walk->at_state.present = false; /* that was the state before the span */
        keep_larger(walk, &walk->at_state);
    } else if (event_index <= walk->at.last) {
        walk->at_state = walk->last;
    }
    keep_larger(walk, &walk->peak);
    if (walk->has_reading && event_index <= walk->reading_event)
        walk->last_read = walk->last;
    if (!walk->reserved.present || walk->last.segment_bytes > walk->reserved.segment_bytes)
        walk->reserved = walk->last;
    if (walk->last.driver_bytes - walk->last.context_bytes > walk->driver_peak_bytes)
        walk->driver_peak_bytes = walk->last.driver_bytes - walk->last.context_bytes;
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

void vt_walk_device(const struct vt_report *report, const struct vt_moment *at,
                    struct vt_device_report *device)
{
    uint32_t last_event = report->trace->event_count ? (uint32_t)report->trace->event_count - 1 : 0;
    struct walk walk = {.report = report,
                        .at = at ? *at : (struct vt_moment){0},
                        .has_blocks = vt_has_blocks(report->attribution->replay, device->index)};

    walk.has_reading = vt_last_reading_event(report->trace, device->index, &walk.reading_event);
    vt_category_walk(report->attribution, device->index, visit_event, &walk);
    set_instant(report, &walk.peak, walk.peak.event_index, &device->peak);
    set_instant(report, &walk.last, last_event, &device->end);
    device->last_read = walk.last_read;
    if (walk.last_read.present)
        vt_state_finish(report, &device->last_read);
    device->reserved_peak_bytes = walk.reserved.segment_bytes;
    device->driver_peak_bytes = walk.driver_peak_bytes;
    if (at && at->peak)
        device->at = device->peak;
    else if (at && at->end)
        device->at = device->end;
    else if (at && at->reserved)
        set_instant(report, &walk.reserved, walk.reserved.event_index, &device->at);
    else if (at)
        set_instant(report, &walk.at_state, event_at(&walk), &device->at);
}
