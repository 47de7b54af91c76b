/* Out of memory: which events tell of it, and what the card had free then. */
#include "view/report_parts.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define DRIVER_OUT_OF_MEMORY 2u /* CUDA_ERROR_OUT_OF_MEMORY and cudaErrorMemoryAllocation */
#define NEAR_NS 1000000000u     /* what the driver told at most so long before or after counts as "then" */
#define NEAR_EVENTS 256u

static bool is_refusal(const struct vt_event *event, uint8_t kind)
{
    return event->kind == kind && (kind == VT_EVENT_OOM || event->detail == DRIVER_OUT_OF_MEMORY);
}

/* True for what changes how much a device has free: beyond it, what the driver told is of another state. */
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
            /* The event itself has happened already; what was told before it is of the state before. */
            if (changes_free(event, device_index) && (!side || distance > 0))
                changed[side] = true;
            if (event->kind != VT_EVENT_MEMORY_INFO || event->device_index != device_index)
                continue;
            if ((event->t_ns > t_ns ? event->t_ns - t_ns : t_ns - event->t_ns) > NEAR_NS)
                continue;
            *free_bytes = event->bytes;
            *total_bytes = event->total_bytes;
            return true;
        }
    }
    return false;
}

static int count_until(void *context, uint32_t event_index, const struct vt_counts *counts,
                       const uint64_t categories[VT_CATEGORY_COUNT])
{
    struct vt_refusal *refusal = context;

    if (event_index > refusal->event_index)
        return 1;
    refusal->driver_bytes = counts->driver_bytes;
    memcpy(refusal->categories, categories, sizeof refusal->categories);
    return 0;
}

/* Without the driver's word on what was free: what the card's size leaves beside this process. */
static void complete_last(const struct vt_report *report, struct vt_refusal *refusal)
{
    if (refusal->device_index < 0 ||
        vt_replay_walk(report->attribution->replay, refusal->device_index, count_until, refusal) < 0)
        return;
    for (size_t i = 0; i < report->trace->device_count; i++) {
        uint64_t total = report->trace->devices[i].total_bytes;

        if (report->trace->devices[i].index != refusal->device_index || !total || refusal->free_told)
            continue;
        refusal->free_known = true;
        refusal->free_bytes = total > refusal->driver_bytes ? total - refusal->driver_bytes : 0;
    }
}

static void describe(const struct vt_report *report, uint32_t event_index, struct vt_refusal *refusal)
{
    const struct vt_event *event = &report->trace->events[event_index];
    const struct vt_span *span =
        report->attribution->span_count ? vt_span_at(report->attribution, event_index) : NULL;
    uint64_t total;

    *refusal = (struct vt_refusal){.event_index = event_index,
                                   .t_ns = vt_event_time(report->trace, event_index),
                                   .asked_bytes = event->bytes,
                                   .device_index = event->device_index,
                                   .layer = event->layer,
                                   .step = span ? span->step : 0,
                                   .phase = span ? span->phase : VT_PHASE_OTHER};
    refusal->free_told = refusal->free_known =
        vt_free_near(report->trace, event_index, event->device_index, &refusal->free_bytes, &total);
}

/* Whose word counts. A framework may get memory after all when the driver first refuses, so its own events go
 * first. One that tells nothing (an unknown version) is taken to have failed if it never allocated again
 * after the driver refused. Returns the kind, and the first event that counts. */
static uint8_t choose_kind(const struct vt_trace *trace, size_t *first)
{
    *first = 0;
    for (size_t i = 0; i < trace->event_count; i++) {
        if (trace->events[i].kind == VT_EVENT_OOM)
            return VT_EVENT_OOM;
        if (trace->events[i].layer == VT_LAYER_FRAMEWORK && trace->events[i].kind == VT_EVENT_ALLOC)
            *first = i + 1;
    }
    return VT_EVENT_ALLOC_FAILED;
}

int vt_find_refusals(struct vt_report *report)
{
    const struct vt_trace *trace = report->trace;
    size_t count = 0, first;
    uint8_t kind = choose_kind(trace, &first);
    bool retried = kind == VT_EVENT_ALLOC_FAILED && first; /* the same request again, with the cache freed */

    if (kind == VT_EVENT_OOM)
        first = 0;
    for (size_t i = first; i < trace->event_count; i++)
        count += is_refusal(&trace->events[i], kind);
    report->refusals = calloc(count + 1, sizeof *report->refusals);
    if (!report->refusals)
        return -ENOMEM;
    for (size_t i = first; i < trace->event_count; i++) {
        if (!is_refusal(&trace->events[i], kind))
            continue;
        if (!retried || !report->refusal_count)
            report->refusal_count++;
        describe(report, (uint32_t)i, &report->refusals[report->refusal_count - 1]);
    }
    if (report->refusal_count)
        complete_last(report, &report->refusals[report->refusal_count - 1]);
    return 0;
}
