/* Out of memory: the requests that failed, and what was free on the GPU then. */
#include "report/oom_events.h"

#include "attribute/failures.h"
#include "attribute/sums.h"
#include "base/allocate.h"
#include "base/index.h"
#include "report/instants.h"
#include "report/moments.h"
#include "report/oom_requesters.h"
#include "trace/frameworks.h"

#include <stdio.h>
#include <string.h>

#define NEAR_NS 1000000000u /* a report of the driver this near counts as "then" */
#define NEAR_EVENTS 256u

/* True for events that change what a device has free: the driver's reports beyond them are of another state.
 */
static bool changes_free(const struct vt_event *event, int device_index)
{
    if (event->layer == VT_LAYER_FRAMEWORK ||
        (event->device_index >= 0 && event->device_index != device_index))
        return false;
    switch (event->kind) {
    case VT_EVENT_ALLOC:
    case VT_EVENT_FREE:
    case VT_EVENT_HANDLE_CREATE:
    case VT_EVENT_HANDLE_RELEASE:
    case VT_EVENT_POOL:
    case VT_EVENT_POOL_DESTROY:
    case VT_EVENT_DELTA:
    case VT_EVENT_CONTEXT_CREATE:
    case VT_EVENT_CONTEXT_DESTROY:
        return true;
    default:
        return false;
    }
}

bool vt_free_near(const struct vt_trace *trace, uint32_t event_index, int device_index, uint64_t *free_bytes,
                  uint64_t *total_bytes)
{
    uint64_t t_ns = event_index < trace->event_count ? trace->events[event_index].t_ns : 0;
    bool changed[2] = {false, false}; /* before, after */

    for (size_t distance = 0; distance < NEAR_EVENTS; distance++) {
        for (int side = 0; side < 2; side++) {
            size_t i = side ? event_index + distance : event_index - distance;
            const struct vt_event *event;

            if (i >= trace->event_count || changed[side]) /* also before the first */
                continue;
            event = &trace->events[i];
            /* The event itself has happened: earlier reports describe the earlier state. */
            if (changes_free(event, device_index) && (!side || distance > 0))
                changed[side] = true;
            if (event->kind != VT_EVENT_MEMORY_INFO || event->device_index != device_index)
                continue;
            if (vt_distance(event->t_ns, t_ns) > NEAR_NS)
                continue;
            *free_bytes = event->bytes;
            *total_bytes = event->total_bytes;
            return true;
        }
    }
    return false;
}

static int count_until(void *context, uint32_t event_index, const struct vt_sums *sums)
{
    struct vt_oom *refusal = context;

    if (event_index > refusal->event_index)
        return 1;
    refusal->driver_bytes = sums->counts.driver_bytes;
    memcpy(refusal->categories, sums->categories, sizeof refusal->categories);
    return 0;
}

/* Time from a failed request to the last allocation after it; 0 = none. */
static uint64_t went_on(const struct vt_trace *trace, const struct vt_oom *refusal)
{
    for (size_t i = trace->event_count; i-- > refusal->event_index + 1;)
        if (trace->events[i].kind == VT_EVENT_ALLOC)
            return vt_event_time(trace, (uint32_t)i) - refusal->t_ns;
    return 0;
}

/* If the driver did not report free memory: the GPU's size minus what this process holds. */
static void estimate_free(const struct vt_trace *trace, struct vt_oom *refusal)
{
    const struct vt_trace_device *gpu = vt_trace_device_of(trace, refusal->device_index);
    uint64_t total = gpu ? gpu->total_bytes : 0;

    if (!total || refusal->free_told)
        return;
    refusal->free_known = true;
    refusal->total_bytes = total;
    refusal->free_bytes = total > refusal->driver_bytes ? total - refusal->driver_bytes : 0;
}

void vt_complete_refusal(const struct vt_report *report, struct vt_oom *refusal)
{
    if (refusal->device_index >= 0) {
        vt_category_walk(report->attribution, refusal->device_index, count_until, refusal);
        estimate_free(report->trace, refusal);
    }
    refusal->went_on_ns = went_on(report->trace, refusal);
    if (refusal->free_known && refusal->total_bytes > refusal->free_bytes + refusal->driver_bytes)
        refusal->other_bytes = refusal->total_bytes - refusal->free_bytes - refusal->driver_bytes;
}

/* The last event that obtained memory, VT_NEVER = none. */
static uint32_t last_gain(const struct vt_trace *trace)
{
    for (uint32_t i = (uint32_t)trace->event_count; i-- > 0;)
        if (trace->events[i].kind == VT_EVENT_ALLOC || trace->events[i].kind == VT_EVENT_HANDLE_CREATE)
            return i;
    return VT_NEVER;
}

static void describe_oom(const struct vt_report *report, const struct vt_failure *failure, uint32_t gain,
                         struct vt_oom *refusal)
{
    const uint32_t event_index = failure->event_index;
    const struct vt_event *event = &report->trace->events[event_index];
    const struct vt_span *span = vt_report_span(report, event_index);

    *refusal = (struct vt_oom){
        .number = report->refusal_count,
        .event_index = event_index,
        .t_ns = vt_event_time(report->trace, event_index),
        .asked_bytes = event->bytes,
        .device_index = event->device_index,
        .layer = event->layer,
        .of_framework = event->layer == VT_LAYER_FRAMEWORK,
        .stack_id = event->stack_id,
        .limit = event->layer == VT_LAYER_FRAMEWORK ? vt_limit_of(report->trace, event->stack_id) : NULL,
        .driver_tries = failure->tries,
        .tried_bytes = failure->tried_bytes,
        .step = span->step,
        .phase = span->phase};
    /* the process requested no device memory after it */
    refusal->ends_run =
        gain == VT_NEVER || gain <= event_index || (report->trace->events[gain].flags & VT_FLAG_HOST) != 0;
    refusal->free_told = refusal->free_known = vt_free_near(report->trace, event_index, event->device_index,
                                                            &refusal->free_bytes, &refusal->total_bytes);
}

static void add_survived(struct vt_report *report, uint32_t event_index)
{
    const struct vt_event *event = &report->trace->events[event_index];
    const struct vt_span *span = vt_report_span(report, event_index);

    if (report->survived_count++ && event->bytes <= report->survived.bytes)
        return;
    report->survived =
        (struct vt_survived){.t_ns = vt_event_time(report->trace, event_index),
                             .bytes = event->bytes,
                             .step = span->step,
                             .phase = span->phase,
                             .emptied = report->trace->stacks[event->stack_id].native_count == 0 ||
                                        vt_shows_kind(report->trace, event->stack_id, VT_OBJECT_NODES),
                             .place = vt_place_of(report->places, event->stack_id)};
}

void vt_find_refusals(struct vt_report *report)
{
    const struct vt_trace *trace = report->trace;
    struct vt_failures failures;
    size_t count = 0;
    uint32_t gain = last_gain(trace);

    vt_failures_find(report->attribution->replay, &failures);
    report->untold_limit = vt_limit_unreported(trace);
    for (size_t i = 0; i < failures.count; i++)
        count += failures.items[i].outcome == VT_FAILURE_FINAL;
    report->refusals = vt_allocate_zeros(count + 1, sizeof *report->refusals);
    for (size_t i = 0; i < failures.count; i++) {
        const struct vt_failure *failure = &failures.items[i];

        if (failure->outcome == VT_FAILURE_FINAL)
            describe_oom(report, failure, gain, report->refusals + report->refusal_count++);
        else if (failure->outcome == VT_FAILURE_SURVIVED)
            add_survived(report, failure->event_index);
    }
    vt_failures_free(&failures);
    if (report->refusal_count)
        vt_find_askers(report);
}
