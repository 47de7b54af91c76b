/* Out of memory: what was refused, and what the card had free then. */
#include "attribute/failures.h"
#include "report/parts.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define NEAR_NS 1000000000u /* what the driver told at most so long before or after counts as "then" */
#define NEAR_EVENTS 256u

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

static int count_until(void *context, uint32_t event_index, const struct vt_sums *sums)
{
    struct vt_refusal *refusal = context;

    if (event_index > refusal->event_index)
        return 1;
    refusal->driver_bytes = sums->counts.driver_bytes;
    memcpy(refusal->categories, sums->categories, sizeof refusal->categories);
    return 0;
}

/* Without the driver's word on what was free: what the card's size leaves beside this process. */
static void complete(const struct vt_report *report, struct vt_refusal *refusal)
{
    if (refusal->device_index < 0 ||
        vt_category_walk(report->attribution, refusal->device_index, count_until, refusal) < 0)
        return;
    for (size_t i = 0; i < report->trace->device_count; i++) {
        uint64_t total = report->trace->devices[i].total_bytes;

        if (report->trace->devices[i].index != refusal->device_index || !total || refusal->free_told)
            continue;
        refusal->free_known = true;
        refusal->total_bytes = total;
        refusal->free_bytes = total > refusal->driver_bytes ? total - refusal->driver_bytes : 0;
    }
}

/* The last event that asked for memory and got it, VT_NEVER = none. */
static uint32_t last_gain(const struct vt_trace *trace)
{
    for (uint32_t i = (uint32_t)trace->event_count; i-- > 0;)
        if (trace->events[i].kind == VT_EVENT_ALLOC || trace->events[i].kind == VT_EVENT_HANDLE_CREATE)
            return i;
    return VT_NEVER;
}

static void describe(const struct vt_report *report, uint32_t event_index, uint32_t driver_tries,
                     uint32_t gain, struct vt_refusal *refusal)
{
    const struct vt_event *event = &report->trace->events[event_index];
    const struct vt_span *span =
        report->attribution->span_count ? vt_span_at(report->attribution, event_index) : NULL;

    *refusal = (struct vt_refusal){.event_index = event_index,
                                   .t_ns = vt_event_time(report->trace, event_index),
                                   .asked_bytes = event->bytes,
                                   .device_index = event->device_index,
                                   .layer = event->layer,
                                   .driver_tries = driver_tries,
                                   .step = span ? span->step : 0,
                                   .phase = span ? span->phase : VT_PHASE_OTHER};
    /* the process asked for no device memory any more */
    refusal->ends_run =
        gain == VT_NEVER || gain <= event_index || (report->trace->events[gain].flags & VT_FLAG_HOST) != 0;
    refusal->free_told = refusal->free_known = vt_free_near(report->trace, event_index, event->device_index,
                                                            &refusal->free_bytes, &refusal->total_bytes);
}

int vt_find_refusals(struct vt_report *report)
{
    const struct vt_trace *trace = report->trace;
    struct vt_failures failures;
    size_t count = 0;
    uint32_t gain = last_gain(trace);
    int result = vt_failures_find(report->attribution->replay, &failures);

    if (result)
        return result;
    for (size_t i = 0; i < failures.count; i++)
        count += failures.items[i].outcome == VT_FAILURE_FINAL;
    report->refusals = calloc(count + 1, sizeof *report->refusals);
    for (size_t i = 0; report->refusals && i < failures.count; i++) {
        const struct vt_failure *failure = &failures.items[i];

        if (failure->outcome == VT_FAILURE_FINAL)
            describe(report, failure->event_index, failure->tries, gain,
                     &report->refusals[report->refusal_count++]);
        else if (failure->outcome == VT_FAILURE_SURVIVED)
            report->survived_count++;
        if (failure->outcome == VT_FAILURE_SURVIVED &&
            trace->events[failure->event_index].bytes > report->survived_bytes)
            report->survived_bytes = trace->events[failure->event_index].bytes;
    }
    vt_failures_free(&failures);
    if (!report->refusals)
        return -ENOMEM;
    return report->refusal_count ? vt_find_askers(report) : 0;
}

void vt_refusal_show(struct vt_report *report, size_t index)
{
    report->shown_refusal = index;
    complete(report, &report->refusals[index]);
}

int vt_refusal_parse(const struct vt_report *report, const char *at, size_t *index, char *error,
                     size_t error_bytes)
{
    size_t count = report->refusal_count;
    char *end = NULL;
    unsigned long long number = count;

    if (!strncmp(at, "oom#", 4) && at[4] >= '0' && at[4] <= '9')
        number = strtoull(at + 4, &end, 10);
    else if (strcmp(at, "oom"))
        end = "?";
    if (end && *end)
        snprintf(error, error_bytes, "'%.64s' is not oom#NUMBER", at);
    else if (!count)
        snprintf(error, error_bytes, "the trace has no out-of-memory event");
    else if (!number || number > count)
        snprintf(error, error_bytes, "memory ran out %zu time%s in the trace: there is no %.64s", count,
                 count > 1 ? "s" : "", at);
    else
        *index = (size_t)number - 1;
    return (end && *end) || !number || number > count ? -EINVAL : 0;
}

static uint64_t apart(uint64_t a, uint64_t b)
{
    return a > b ? a - b : b - a;
}

int vt_refusal_choose(const struct vt_report *report, const char *at, size_t *index, char *error,
                      size_t error_bytes)
{
    const struct vt_refusal *refusals = report->refusals;
    size_t count = report->refusal_count, chosen = count;
    struct vt_moment moment;
    char label[256];
    int result;

    if (!count || !strncmp(at, "oom", 3))
        return vt_refusal_parse(report, count ? at : "oom", index, error, error_bytes);
    result = vt_moment_parse(report, at, &moment, label, sizeof label, error, error_bytes);
    if (result)
        return result;
    if (moment.peak || moment.end) {
        snprintf(
            error, error_bytes,
            "memory did not run out there: this takes oom#2, step:N, mark:NAME or a time; for that moment: "
            "vramtrace report --at %s",
            at);
        return -EINVAL;
    }
    for (size_t i = 0; i < count; i++) {
        uint32_t event = refusals[i].event_index;

        if (moment.t_ns && (chosen == count ||
                            apart(refusals[i].t_ns, moment.t_ns) < apart(refusals[chosen].t_ns, moment.t_ns)))
            chosen = i;
        if (!moment.t_ns && event >= moment.first &&
            (moment.largest ? event <= moment.last : chosen == count))
            chosen = i;
    }
    *index = chosen;
    if (chosen < count)
        return 0;
    snprintf(error, error_bytes,
             "memory did not run out %s %.64s; it ran out %zu time%s: vramtrace oom lists them",
             moment.largest ? "in" : "after", at, count, count > 1 ? "s" : "");
    return -EINVAL;
}
