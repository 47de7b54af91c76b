/* How much driver memory a process had, from change to change: few enough to keep, and exact enough to add up
 * with those of the other processes on a card. */
#include "job/parts.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/index.h"
#include "attribute/attribute.h"
#include "report/parts.h"
#include "trace/trace.h"

#define MOST_LEVELS 65536u
#define MOST_CARD_LEVELS 1024u

struct reading {
    const struct vt_trace *trace;
    struct vt_job_device *device;
    struct vt_job_level *items;
    size_t count, capacity;
    uint64_t own_bytes;
    bool failed;
};

/* Of each two the larger, from the earlier one's time on. */
static void halve(struct reading *reading)
{
    size_t kept = 0;

    for (size_t i = 0; i + 1 < reading->count; i += 2, kept++) {
        const struct vt_job_level *one = &reading->items[i], *other = &reading->items[i + 1];
        uint64_t bytes = one->bytes > other->bytes ? one->bytes : other->bytes;

        reading->items[kept] = (struct vt_job_level){one->t_ns, bytes};
    }
    reading->count = kept;
    reading->device->levels_are_coarse = true;
}

static int visit(void *context, uint32_t event_index, const struct vt_counts *counts)
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
        halve(reading);
    reading->failed =
        VT_APPEND(reading->items, reading->count, reading->capacity, (struct vt_job_level){t_ns, own}) != 0;
    return reading->failed;
}

static bool tells_card(const struct vt_event *event, const struct vt_job_device *device)
{
    return event->kind == VT_EVENT_MEMORY_INFO && event->device_index == device->index &&
           event->bytes <= event->total_bytes;
}

/* The first of them; a process asks the driver now and then only. */
static int read_card_levels(const struct vt_trace *trace, struct vt_arena *arena,
                            struct vt_job_device *device)
{
    size_t count = 0;

    for (uint32_t i = 0; i < trace->event_count && count < MOST_CARD_LEVELS; i++)
        count += tells_card(&trace->events[i], device);
    device->card_levels = vt_job_take(arena, count, sizeof *device->card_levels);
    for (uint32_t i = 0; device->card_levels && device->card_level_count < count; i++)
        if (tells_card(&trace->events[i], device))
            device->card_levels[device->card_level_count++] = (struct vt_job_level){
                vt_event_time(trace, i), trace->events[i].total_bytes - trace->events[i].bytes};
    return device->card_levels ? 0 : -ENOMEM;
}

int vt_job_read_levels(const struct vt_report *report, struct vt_arena *arena, struct vt_job_device *device)
{
    struct reading reading = {.trace = report->trace, .device = device};
    const struct vt_replay_visitor visitor = {.visit = visit, .context = &reading};

    vt_replay_walk(report->attribution->replay, device->index, &visitor);
    device->levels = reading.failed ? NULL : vt_job_take(arena, reading.count, sizeof *device->levels);
    if (device->levels) {
        device->level_count = reading.count;
        if (reading.count)
            memcpy(device->levels, reading.items, reading.count * sizeof *device->levels);
    }
    free(reading.items);
    return device->levels ? read_card_levels(report->trace, arena, device) : -ENOMEM;
}
