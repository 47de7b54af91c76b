#include "findings/driver_overhead.h"

#include <stdlib.h>
#include <string.h>

#include "base/allocate.h"
#include "base/index.h"
#include "trace/frameworks.h"
#include "trace/trace.h"

/* What took memory of the device without an allocation, by the names of functions; the first that fits. */
static const struct {
    const char *beginning, *kind;
    bool of_module;
} calls[] = {
    {"cuGraph", VT_SILENT_GRAPHS, false},
    {"cuDeviceGraph", VT_SILENT_GRAPHS, false},
    {"cuModuleGetFunction", VT_SILENT_MODULES, false},
    {"cuModule", VT_SILENT_MODULES, true},
    {"cuLibrary", VT_SILENT_MODULES, true},
    {"cuKernel", VT_SILENT_MODULES, false},
    {"cuFunc", VT_SILENT_MODULES, false},
    {"cuLaunch", VT_SILENT_MODULES, false},
    {"cuStream", VT_SILENT_STREAMS, false},
    {"cuGreenCtxStream", VT_SILENT_STREAMS, false},
    {"", VT_SILENT_SETTINGS, false},
};

static bool is_silent(const struct vt_event *event, int device_index)
{
    return event->device_index == device_index &&
           (event->kind == VT_EVENT_DELTA || (event->kind == VT_EVENT_CONTEXT_CREATE && event->bytes));
}

/* The context that an event's bytes end with, 0 = the device's last. */
static uint64_t context_of(const struct vt_event *event)
{
    return event->kind == VT_EVENT_DELTA ? event->detail : event->address;
}

struct vt_silent_events vt_silent_events_find(const struct vt_trace *trace)
{
    struct vt_silent_events events = {0};
    size_t capacity = 0;

    for (size_t i = 0; i < trace->rare_event_count; i++) {
        const uint8_t kind = trace->events[trace->rare_events[i]].kind;

        if (kind == VT_EVENT_DELTA || kind == VT_EVENT_CONTEXT_CREATE || kind == VT_EVENT_CONTEXT_DESTROY)
            VT_APPEND(events.items, events.count, capacity, trace->rare_events[i]);
    }
    return events;
}

/* By event, true: its context ended up to `last_event`. Looked at backwards, since an address may be of
 * several contexts, one after the other. */
static void find_gone(const struct vt_trace *trace, const struct vt_silent_events *events,
                      uint32_t last_event, bool *gone)
{
    struct vt_index ended = {0};

    for (size_t i = events->count; i-- > 0;) {
        const struct vt_event *event = &trace->events[events->items[i]];
        const uint64_t context = context_of(event);

        if (events->items[i] > last_event || !context)
            continue;
        if (event->kind == VT_EVENT_CONTEXT_DESTROY)
            vt_index_put(&ended, context, true);
        else
            gone[i] = vt_index_get(&ended, context) == true;
        if (event->kind == VT_EVENT_CONTEXT_CREATE)
            vt_index_put(&ended, context, false);
    }
    vt_index_free(&ended);
}

/* The library or program that called CUDA. */
static const char *caller_of(const struct vt_trace *trace, const struct vt_event *event)
{
    const char *path = vt_cuda_caller(trace, event->stack_id);
    const char *name = path ? vt_cuda_library(path) : NULL, *slash = path ? strrchr(path, '/') : NULL;

    return name ? name : slash ? slash + 1 : path;
}

static struct vt_silent describe_event(const struct vt_trace *trace, const struct vt_event *event)
{
    const char *function = vt_trace_function(trace, trace->stacks[event->stack_id].function);
    struct vt_silent made = {.kind = VT_SILENT_CONTEXT, .bytes = (int64_t)event->bytes};
    size_t i = 0;

    if (event->kind == VT_EVENT_DELTA) {
        function = function ? function : "";
        while (strncmp(function, calls[i].beginning, strlen(calls[i].beginning)))
            i++;
        made.kind = calls[i].kind;
        made.of_module = calls[i].of_module;
    }
    if (!strcmp(made.kind, VT_SILENT_CONTEXT) || !strcmp(made.kind, VT_SILENT_MODULES))
        made.name = caller_of(trace, event);
    return made;
}

struct vt_silents vt_silents_find(const struct vt_trace *trace, const struct vt_silent_events *events,
                                  int device_index, uint32_t first_event, uint32_t last_event)
{
    bool *gone = vt_allocate_zeros(events->count + 1, sizeof *gone);
    struct vt_silents silents = {0};
    size_t capacity = 0;

    find_gone(trace, events, last_event, gone);
    for (size_t i = 0; i < events->count && events->items[i] <= last_event; i++) {
        const struct vt_event *event = &trace->events[events->items[i]];

        if (gone[i] || !is_silent(event, device_index) || events->items[i] < first_event)
            continue;
        silents.bytes = (int64_t)((uint64_t)silents.bytes + event->bytes);
        VT_APPEND(silents.items, silents.count, capacity, describe_event(trace, event));
    }
    free(gone);
    return silents;
}

bool vt_silents_alive(const struct vt_trace *trace, const struct vt_silent_events *events, int device_index,
                      uint32_t last_event)
{
    struct vt_index seen = {0};
    bool alive = false;

    for (size_t i = events->count; !alive && i-- > 0;) {
        const struct vt_event *event = &trace->events[events->items[i]];

        if (events->items[i] > last_event || event->kind == VT_EVENT_DELTA)
            continue;
        alive = event->kind == VT_EVENT_CONTEXT_CREATE && event->device_index == device_index &&
                !vt_index_has(&seen, event->address);
        vt_index_put(&seen, event->address, true);
    }
    vt_index_free(&seen);
    return alive;
}
