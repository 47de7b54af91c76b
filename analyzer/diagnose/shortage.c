/* Out of memory: the facts. */
#include "diagnose/oom.h"
#include "report/parts.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

void vt_asker_name(const struct vt_report *report, const struct vt_refusal *refusal, char *text, size_t bytes)
{
    const struct vt_event *event = &report->trace->events[refusal->event_index];
    uint32_t stack_id = refusal->asker_stack;
    struct vt_frame user, frame;
    bool known = vt_trace_user_frame(report->trace, event->stack_id, &user);

    if (stack_id != event->stack_id && vt_trace_user_frame(report->trace, stack_id, &frame)) {
        /* Some other function of the engine says nothing to a person. */
        bool node = known && user.kind == VT_FRAME_NATIVE && strstr(user.function, "Backward");
        int used =
            snprintf(text, bytes, "%.64s%sthe backward of ", node ? user.function : "", node ? ", " : "");
        vt_name_frame(report->trace, &frame, text + used, bytes - (size_t)used - 1);
        strcat(text, node ? "," : "");
    } else if (known) {
        vt_name_frame(report->trace, &user, text, bytes);
    } else {
        snprintf(text, bytes, "a call without a recorded stack");
    }
}

/* When a block alive at the refusal is freed. */
struct end {
    uint32_t allocation, event; /* the event may lie beyond the trace: it is expected */
    uint8_t phase;
};

static int by_event(const void *left, const void *right)
{
    const struct end *a = left, *b = right;

    if (a->event != b->event)
        return a->event < b->event ? -1 : 1;
    return a->allocation < b->allocation ? -1 : a->allocation > b->allocation;
}

/* The latest allocation of each stack that was freed before an event; VT_NEVER = none. NULL without memory.
 */
static uint32_t *freed_before(const struct vt_replay *replay, uint32_t event_index)
{
    uint32_t *latest = malloc((replay->trace->stack_count + 1) * sizeof *latest);

    if (!latest)
        return NULL;
    memset(latest, 0xff, (replay->trace->stack_count + 1) * sizeof *latest);
    for (uint32_t i = 0; i < replay->allocation_count; i++)
        if (replay->allocations[i].free_event < event_index &&
            replay->allocations[i].stack_id < replay->trace->stack_count)
            latest[replay->allocations[i].stack_id] = i;
    return latest;
}

static bool end_of(const struct vt_report *report, const struct vt_shortage *shortage, uint32_t index,
                   const uint32_t *latest, struct end *end)
{
    const struct vt_replay *replay = report->attribution->replay;
    const struct vt_allocation *block = &replay->allocations[index], *example = block;
    uint32_t now = shortage->refusal->event_index;
    uint64_t expected = block->free_event;

    if (!shortage->freed_is_told) {
        uint32_t known = block->stack_id < replay->trace->stack_count ? latest[block->stack_id] : VT_NEVER;

        if (known == VT_NEVER)
            return false;
        example = &replay->allocations[known];
        expected = (uint64_t)block->alloc_event + (example->free_event - example->alloc_event);
        expected = expected < now ? now : expected < VT_NEVER ? expected : VT_NEVER - 1;
    }
    if (expected == VT_NEVER)
        return false;
    *end =
        (struct end){index, (uint32_t)expected, vt_span_at(report->attribution, example->free_event)->phase};
    return true;
}

static bool is_together(const struct vt_attribution *attribution, uint32_t left, uint32_t right)
{
    const struct vt_allocation *allocations = attribution->replay->allocations;
    const struct vt_label *a = &attribution->labels[left], *b = &attribution->labels[right];

    return allocations[left].stack_id == allocations[right].stack_id &&
           a->forward_stack_id == b->forward_stack_id && a->category == b->category;
}

static int find_freed(const struct vt_report *report, struct vt_shortage *shortage)
{
    const struct vt_replay *replay = report->attribution->replay;
    uint32_t now = shortage->refusal->event_index, *latest = freed_before(replay, now);
    struct end *ends = calloc(replay->allocation_count + 1, sizeof *ends);
    size_t count = 0;

    shortage->freed_is_told = !shortage->refusal->ends_run;
    for (uint32_t i = 0; latest && ends && i < replay->allocation_count; i++)
        count += vt_is_counted(&replay->allocations[i], shortage->device->index, now) &&
                 end_of(report, shortage, i, latest, &ends[count]);
    shortage->freed = calloc(count + 1, sizeof *shortage->freed);
    if (!latest || !ends || !shortage->freed) {
        free(latest);
        free(ends);
        return -ENOMEM;
    }
    qsort(ends, count, sizeof *ends, by_event);
    for (size_t i = 0; i < count; i++) {
        struct vt_freed_next *last =
            shortage->freed_count ? &shortage->freed[shortage->freed_count - 1] : NULL;

        if (!last || !is_together(report->attribution, last->allocation, ends[i].allocation)) {
            last = &shortage->freed[shortage->freed_count++];
            *last = (struct vt_freed_next){.allocation = ends[i].allocation,
                                           .after_events = ends[i].event - now,
                                           .phase = ends[i].phase};
        }
        last->bytes += replay->allocations[ends[i].allocation].bytes;
        last->blocks++;
    }
    free(latest);
    free(ends);
    return 0;
}

int vt_shortage_find(const struct vt_report *report, struct vt_shortage *shortage)
{
    const struct vt_refusal *refusal = report->refusals + report->shown_refusal;
    int result;

    *shortage = (struct vt_shortage){.refusal = refusal};
    for (size_t i = 0; i < report->device_count; i++)
        if (report->devices[i].index == refusal->device_index && report->devices[i].at.present)
            shortage->device = &report->devices[i];
    if (refusal->free_known && refusal->asked_bytes > refusal->free_bytes)
        shortage->missing_bytes = refusal->asked_bytes - refusal->free_bytes;
    if (!shortage->device)
        return 0;
    if (refusal->free_known && refusal->total_bytes > refusal->free_bytes + refusal->driver_bytes)
        shortage->other_bytes = refusal->total_bytes - refusal->free_bytes - refusal->driver_bytes;
    result = vt_fragmentation_find(report->attribution->replay, refusal->device_index, refusal->event_index,
                                   &shortage->cache);
    if (!result)
        result = find_freed(report, shortage);
    if (result)
        vt_shortage_free(shortage);
    return result;
}

void vt_shortage_free(struct vt_shortage *shortage)
{
    vt_fragmentation_free(&shortage->cache);
    free(shortage->freed);
    shortage->freed = NULL;
}
