/* When the bytes in use on a GPU were reported, and what this process held then. */
#include "base/sort.h"
#include "replay/walk.h"
#include "report/gpu_readings.h"

#include "attribute/attribute.h"
#include "replay/replay.h"
#include "report/moments.h"
#include "trace/digest_events.h"

#include <stdlib.h>

/* A call that takes or gives back driver memory is recorded after or before it; what it does comes within
 * this time. */
#define NEAR_NS UINT64_C(10000000)
/* NVML is queried again within this time, at the latest. */
#define PERIOD_NS UINT64_C(1000000000)
#define PLAUSIBLE_BYTES (UINT64_C(1) << 48)

static bool is_plausible(const struct vt_trace_gpu_use *use, int device_index)
{
    return use->device_index == device_index && use->used_bytes < PLAUSIBLE_BYTES;
}

bool vt_reports_gpu(const struct vt_event *event, int device_index)
{
    return event->kind == VT_EVENT_MEMORY_INFO && event->device_index == device_index &&
           event->bytes <= event->total_bytes && event->total_bytes < PLAUSIBLE_BYTES;
}

/* Where blocks are left out, their bytes would pass for cached ones. */
static bool is_seen(const struct vt_trace *trace, uint32_t event_index)
{
    size_t next = 0;

    return vt_is_in_window(trace->gaps, trace->gap_count, event_index, &next) &&
           (next == trace->gap_count || trace->gaps[next].first != event_index + 1);
}

bool vt_last_reading_event(const struct vt_trace *trace, int device_index, uint32_t *event_index)
{
    bool any = false;

    if (!trace->event_count)
        return false;
    for (size_t i = trace->gpu_use_count; i-- > 0;) {
        if (!is_plausible(&trace->gpu_uses[i], device_index))
            continue;
        any = true;
        *event_index = vt_last_event_at(trace, trace->gpu_uses[i].begin_ns);
        if (is_seen(trace, *event_index))
            return true;
    }
    for (size_t i = trace->rare_event_count; i-- > 0 && !any;) {
        *event_index = trace->rare_events[i];
        if (vt_reports_gpu(&trace->events[*event_index], device_index) && is_seen(trace, *event_index))
            return true;
    }
    return false;
}

/* ---- All of them ---- */

struct walk {
    const struct vt_trace *trace;
    const struct vt_replay *replay;
    struct vt_gpu_readings *readings;
    size_t capacity, era_capacity;
    size_t next; /* of those from NVML, which are there before the walk */
    struct vt_counts counts;
    uint64_t spare_bytes, next_spare_bytes; /* of pools; with the event that is visited next */
    uint64_t changed_ns;                    /* the latest change of driver memory; 0 = none */
    int device_index;
    uint32_t era;
    bool from_nvml;
};

static void fill_reading(struct walk *walk, struct vt_gpu_reading *reading)
{
    reading->era = walk->era;
    reading->context_bytes = walk->counts.context_bytes;
    reading->own_bytes = walk->counts.driver_bytes - walk->counts.context_bytes;
    reading->spare_bytes = walk->spare_bytes;
    reading->steady = !walk->changed_ns || walk->changed_ns + NEAR_NS < reading->begin_ns;
}

static void note_reading(struct walk *walk, uint32_t event_index, uint64_t t_ns)
{
    const struct vt_event *event = &walk->trace->events[event_index];
    struct vt_gpu_reading reading = {.event_index = event_index,
                                     .begin_ns = t_ns,
                                     .end_ns = t_ns,
                                     .held_ns = t_ns,
                                     .used_bytes = event->total_bytes - event->bytes,
                                     .total_bytes = event->total_bytes};

    fill_reading(walk, &reading);
    reading.steady = true; /* by the thread whose allocation came before */
    VT_APPEND(walk->readings->items, walk->readings->count, walk->capacity, reading);
}

/* After a change of this process's own memory the next answer is not left out. */
static void stop_holding(struct vt_gpu_reading *reading, uint64_t t_ns)
{
    if (reading->held_ns > t_ns)
        reading->held_ns = t_ns > reading->end_ns ? t_ns : reading->end_ns;
}

/* An answer like the one before was left out, so that one holds until shortly before the next. */
static void set_held(struct vt_gpu_readings *readings)
{
    for (size_t i = 0; i < readings->count; i++) {
        struct vt_gpu_reading *reading = &readings->items[i];
        const uint64_t next_ns = i + 1 < readings->count ? reading[1].begin_ns : UINT64_MAX;

        reading->held_ns = next_ns - reading->end_ns > PERIOD_NS && next_ns > reading->end_ns
                               ? next_ns - PERIOD_NS
                               : reading->end_ns;
    }
}

int64_t vt_spare_change(const struct vt_allocation *allocation)
{
    return allocation->flags & VT_FLAG_FOREIGN        ? 0
           : allocation->kind == VT_ALLOCATION_POOL   ? (int64_t)allocation->bytes
           : allocation->kind == VT_ALLOCATION_POOLED ? -(int64_t)allocation->bytes
                                                      : 0;
}

static void change_spare(void *context, uint32_t allocation, bool begins)
{
    struct walk *walk = context;
    const int64_t bytes = vt_spare_change(&walk->replay->allocations[allocation]);

    walk->next_spare_bytes += (uint64_t)(begins ? bytes : -bytes);
}

static int visit_event(void *context, uint32_t event_index, const struct vt_counts *counts)
{
    struct walk *walk = context;
    struct vt_gpu_readings *readings = walk->readings;
    const uint64_t t_ns = vt_event_time(walk->trace, event_index);

    while (walk->from_nvml && walk->next < readings->count &&
           readings->items[walk->next].event_index < event_index)
        fill_reading(walk, &readings->items[walk->next++]);
    if (walk->next && counts->driver_bytes != walk->counts.driver_bytes)
        stop_holding(&readings->items[walk->next - 1], t_ns);
    if (counts->driver_bytes != walk->counts.driver_bytes) {
        walk->changed_ns = t_ns + 1;
        for (size_t i = walk->next; i-- > 0 && readings->items[i].end_ns + NEAR_NS > t_ns;)
            readings->items[i].steady = false;
    }
    if (walk->counts.context_bytes && !counts->context_bytes) {
        walk->era++;
        VT_APPEND(readings->era_starts, readings->era_count, walk->era_capacity, event_index);
    }
    walk->counts = *counts;
    walk->spare_bytes = walk->next_spare_bytes;
    if (!walk->from_nvml && vt_reports_gpu(&walk->trace->events[event_index], walk->device_index))
        note_reading(walk, event_index, t_ns);
    return 0;
}

static int by_time(const void *left, const void *right)
{
    return vt_order(((const struct vt_gpu_reading *)left)->begin_ns,
                    ((const struct vt_gpu_reading *)right)->begin_ns);
}

static void take_from_nvml(struct walk *walk)
{
    const struct vt_trace *trace = walk->trace;
    struct vt_gpu_readings *readings = walk->readings;

    for (size_t i = 0; i < trace->gpu_use_count; i++) {
        const struct vt_trace_gpu_use *use = &trace->gpu_uses[i];
        const struct vt_gpu_reading reading = {.use = use,
                                               .event_index = vt_last_event_at(trace, use->begin_ns),
                                               .begin_ns = vt_since_start(trace, use->begin_ns),
                                               .end_ns = vt_since_start(trace, use->end_ns),
                                               .used_bytes = use->used_bytes,
                                               .total_bytes = use->total_bytes};

        if (is_plausible(use, walk->device_index))
            VT_APPEND(readings->items, readings->count, walk->capacity, reading);
    }
    vt_sort(readings->items, readings->count, sizeof *readings->items, by_time);
    set_held(readings);
    walk->from_nvml = readings->count > 0;
}

struct vt_gpu_readings vt_gpu_readings_find(const struct vt_report *report, int device_index)
{
    struct vt_gpu_readings readings = {0};
    struct walk walk = {.trace = report->trace,
                        .replay = report->attribution->replay,
                        .readings = &readings,
                        .device_index = device_index};
    const struct vt_replay_visitor visitor = {.change = change_spare, .visit = visit_event, .context = &walk};

    VT_APPEND(readings.era_starts, readings.era_count, walk.era_capacity, 0);
    take_from_nvml(&walk);
    vt_replay_walk(report->attribution->replay, device_index, &visitor);
    while (walk.from_nvml && walk.next < readings.count)
        fill_reading(&walk, &readings.items[walk.next++]);
    for (size_t i = 0; i < readings.count; i++)
        if (readings.items[i].use && readings.items[i].use->flags & VT_GPU_UNSTEADY)
            readings.items[i].steady = false;
    return readings;
}

void vt_gpu_readings_free(struct vt_gpu_readings *readings)
{
    free(readings->items);
    free(readings->era_starts);
    *readings = (struct vt_gpu_readings){0};
}
