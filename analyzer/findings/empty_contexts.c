/* Contexts on devices on which the process never had memory. */
#include "findings/empty_contexts.h"

#include <string.h>

#include "base/index.h"
#include "report/moments.h"
#include "trace/trace.h"

/* How many contexts of a device are alive, as events are gone through. */
struct walk {
    const struct vt_trace *trace;
    struct vt_index devices; /* by context alive: its device */
    unsigned alive[VT_MAX_DEVICES];
    struct vt_empty_context found[VT_MAX_DEVICES];
    bool any[VT_MAX_DEVICES];
};

static void make_context(struct walk *walk, const struct vt_event *event, uint64_t t_ns,
                         struct vt_places *places)
{
    const int device = event->device_index;

    if (device < 0 || device >= (int)VT_MAX_DEVICES ||
        vt_index_get(&walk->devices, event->address) < VT_MAX_DEVICES)
        return;
    if (!walk->any[device])
        walk->found[device] = (struct vt_empty_context){
            .device_index = device, .t_ns = t_ns, .place = vt_place_of(places, event->stack_id)};
    walk->any[device] = true;
    walk->alive[device]++;
    walk->found[device].ended = false;
    vt_index_put(&walk->devices, event->address, (uint32_t)device);
}

static void end_context(struct walk *walk, const struct vt_event *event, uint64_t t_ns)
{
    const uint32_t device = vt_index_get(&walk->devices, event->address);

    if (device >= VT_MAX_DEVICES)
        return;
    if (!--walk->alive[device]) {
        walk->found[device].ended = true;
        walk->found[device].end_ns = t_ns;
    }
    vt_index_put(&walk->devices, event->address, VT_MAX_DEVICES);
}

static void walk_through(struct walk *walk, struct vt_places *places)
{
    for (size_t i = 0; i < walk->trace->rare_event_count; i++) {
        const uint32_t index = walk->trace->rare_events[i];
        const struct vt_event *event = &walk->trace->events[index];

        if (event->kind == VT_EVENT_CONTEXT_CREATE)
            make_context(walk, event, vt_event_time(walk->trace, index), places);
        else if (event->kind == VT_EVENT_CONTEXT_DESTROY)
            end_context(walk, event, vt_event_time(walk->trace, index));
    }
}

/* In a container another process may have the number that seems to be ours: then what NVML reports for it
 * does not fit our memory on other GPUs. */
static bool is_own_trusted(const struct vt_report *report)
{
    for (size_t i = 0; i < report->device_count; i++)
        if (report->devices[i].last_card.present &&
            !strcmp(report->devices[i].last_card.processes, VT_PROCESSES_DO_NOT_FIT))
            return false;
    return true;
}

/* By the last reading that lists this process. */
static void read_bytes(const struct vt_trace *trace, struct vt_empty_context *context)
{
    for (size_t i = 0; i < trace->gpu_use_count; i++) {
        const struct vt_trace_gpu_use *use = &trace->gpu_uses[i];

        if (use->device_index != context->device_index || !(use->flags & VT_GPU_PROCESSES) ||
            use->own >= use->process_count || use->processes[use->own].bytes > use->used_bytes)
            continue;
        context->bytes_known = true;
        context->bytes = use->processes[use->own].bytes;
    }
}

void vt_empty_contexts_find(struct vt_report *report)
{
    struct walk walk = {.trace = report->trace};
    const bool trusted = is_own_trusted(report);
    size_t capacity = 0;

    walk_through(&walk, report->places);
    for (int device = 0; device < (int)VT_MAX_DEVICES; device++) {
        if (!walk.any[device] || vt_held_memory(report, device))
            continue;
        if (trusted)
            read_bytes(report->trace, &walk.found[device]);
        VT_APPEND(report->bare_contexts, report->bare_context_count, capacity, walk.found[device]);
    }
    vt_index_free(&walk.devices);
}
