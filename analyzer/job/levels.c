/* How much driver memory a process had, from change to change: few enough to keep, and exact enough to add
 * up with those of the other processes on a GPU. */
#include "job/levels.h"

#include "attribute/attribute.h"
#include "base/index.h"
#include "job/job_maker.h"
#include "replay/walk.h"
#include "report/gpu_readings.h"
#include "report/job.h"
#include "report/moments.h"
#include "trace/trace.h"

#include <stdlib.h>
#include <string.h>

#define MOST_LEVELS 65536u
#define MOST_CARD_LEVELS 1024u
#define MOST_OTHER_LEVELS 4096u
#define TAKEN UINT64_MAX /* the bytes of one that was not there before */

struct reading {
    const struct vt_trace *trace;
    struct vt_job_device *device;
    struct vt_level *items;
    size_t count, capacity;
    uint64_t own_bytes;
};

/* The larger of each two, from the earlier one's time on. */
static void halve_levels(struct reading *reading)
{
    size_t kept = 0;

    for (size_t i = 0; i + 1 < reading->count; i += 2, kept++) {
        const struct vt_level *one = &reading->items[i], *other = &reading->items[i + 1];
        uint64_t bytes = one->bytes > other->bytes ? one->bytes : other->bytes;

        reading->items[kept] = (struct vt_level){one->t_ns, bytes};
    }
    reading->count = kept;
    reading->device->levels_are_coarse = true;
}

static int visit_event(void *context, uint32_t event_index, const struct vt_counts *counts)
{
    struct reading *reading = context;
    struct vt_job_device *device = reading->device;
    uint64_t own = counts->driver_bytes - counts->context_bytes,
             t_ns = vt_event_time(reading->trace, event_index);

    if (counts->context_bytes && !device->context_bytes)
        device->context_ns = t_ns;
    if (counts->context_bytes > device->context_bytes)
        device->context_bytes = counts->context_bytes;
    if (own == reading->own_bytes)
        return 0;
    reading->own_bytes = own;
    if (reading->count == MOST_LEVELS)
        halve_levels(reading);
    VT_APPEND(reading->items, reading->count, reading->capacity, (struct vt_level){t_ns, own});
    return 0;
}

/* The first ones: a process queries the driver rarely. */
static void read_gpu_levels(const struct vt_trace *trace, struct vt_arena *arena,
                            struct vt_job_device *device)
{
    size_t count = 0;

    for (uint32_t i = 0; i < trace->event_count && count < MOST_CARD_LEVELS; i++)
        count += vt_reports_gpu(&trace->events[i], device->index);
    device->card_levels = vt_job_take(arena, count, sizeof *device->card_levels);
    for (uint32_t i = 0; device->card_level_count < count; i++)
        if (vt_reports_gpu(&trace->events[i], device->index))
            device->card_levels[device->card_level_count++] = (struct vt_level){
                vt_event_time(trace, i), trace->events[i].total_bytes - trace->events[i].bytes};
}

/* The place of that process, else one that is free: without bytes, or after the last. */
static size_t place_of(const struct vt_job_other *others, size_t count, uint32_t pid)
{
    size_t free_place = count;

    for (size_t i = 0; i < count; i++) {
        if (others[i].pid == pid)
            return i;
        if (!others[i].bytes && free_place == count)
            free_place = i;
    }
    return free_place;
}

/* What a list reports for others that the one before did not. */
static void note_others(const struct vt_trace *trace, const struct vt_trace_gpu_use *use,
                        struct vt_job_other *known, size_t *known_count, struct vt_job_device *device)
{
    const uint64_t t_ns = vt_since_start(trace, use->begin_ns);
    uint64_t told[VT_JOB_MOST_OTHERS] = {0};

    for (uint32_t k = 0; k < use->process_count; k++) {
        const struct vt_trace_gpu_process *process = &use->processes[k];
        const size_t at = place_of(known, *known_count, process->pid);

        if (k == use->own || !process->bytes)
            continue;
        if (at == VT_JOB_MOST_OTHERS || process->bytes > use->used_bytes) {
            device->context_told = false; /* who has no trace is not known any more */
            return;
        }
        *known_count += at == *known_count;
        if (known[at].pid != process->pid)
            known[at] = (struct vt_job_other){.pid = process->pid, .bytes = TAKEN};
        told[at] = process->bytes;
    }
    for (size_t i = 0; i < *known_count; i++) {
        if (told[i] == known[i].bytes)
            continue;
        known[i].bytes = told[i];
        known[i].t_ns = t_ns;
        if (device->other_count < MOST_OTHER_LEVELS)
            device->others[device->other_count++] = known[i];
        else
            device->context_told = false;
    }
}

void vt_job_read_others(const struct vt_trace *trace, struct vt_arena *arena, struct vt_job_device *device)
{
    struct vt_job_other known[VT_JOB_MOST_OTHERS] = {0}, levels[MOST_OTHER_LEVELS];
    size_t known_count = 0;

    device->others = levels;
    for (size_t i = 0; i < trace->gpu_use_count; i++) {
        const struct vt_trace_gpu_use *use = &trace->gpu_uses[i];

        if (use->device_index == device->index && use->flags & VT_GPU_PROCESSES &&
            !(use->flags & VT_GPU_PROCESSES_CUT))
            note_others(trace, use, known, &known_count, device);
    }
    device->others = vt_job_copy_items(arena, levels, device->other_count, sizeof *levels);
}

/* When the first context of the device was made, where that was seen: before its first memory. */
static void read_context_begin(const struct vt_trace *trace, struct vt_job_device *device)
{
    for (size_t i = 0; i < trace->rare_event_count; i++) {
        const struct vt_event *event = &trace->events[trace->rare_events[i]];
        const uint64_t t_ns = vt_event_time(trace, trace->rare_events[i]);

        if (event->kind != VT_EVENT_CONTEXT_CREATE || event->device_index != device->index)
            continue;
        device->context_ns = t_ns < device->context_ns ? t_ns : device->context_ns;
        return;
    }
}

void vt_job_read_levels(const struct vt_report *report, struct vt_arena *arena, struct vt_job_device *device)
{
    struct reading reading = {.trace = report->trace, .device = device};
    const struct vt_replay_visitor visitor = {.visit = visit_event, .context = &reading};

    vt_replay_walk(report->attribution->replay, device->index, &visitor);
    read_context_begin(report->trace, device);
    device->levels = vt_job_copy_items(arena, reading.items, reading.count, sizeof *device->levels);
    device->level_count = reading.count;
    free(reading.items);
    read_gpu_levels(report->trace, arena, device);
}
