/* Page-locked host memory. It lies on no GPU and counts in no GPU's sum, so it has a peak of its own. */
#include "report/host_memory.h"

#include "attribute/attribute.h"
#include "base/allocate.h"
#include "base/index.h"
#include "base/sort.h"
#include "report/blocks.h"
#include "report/instants.h"
#include "report/report.h"

#include <stdlib.h>

struct change {
    uint32_t event;
    int64_t bytes;
};

/* What an event frees is gone before what it allocates is there. */
static int compare_changes(const void *left, const void *right)
{
    const struct change *a = left, *b = right;
    return 2 * vt_order(a->event, b->event) + vt_order(a->bytes, b->bytes);
}

static struct change *list_changes(const struct vt_replay *replay, size_t *count)
{
    struct change *changes = NULL;
    size_t capacity = 0;

    *count = 0;
    for (size_t i = 0; i < replay->allocation_count; i++) {
        const struct vt_allocation *allocation = &replay->allocations[i];
        if (!vt_is_host_memory(allocation) || allocation->alloc_event == allocation->free_event)
            continue;
        VT_APPEND(changes, *count, capacity,
                  (struct change){allocation->alloc_event, (int64_t)allocation->bytes});
        VT_APPEND(changes, *count, capacity,
                  (struct change){allocation->free_event, -(int64_t)allocation->bytes});
    }
    vt_sort(changes, *count, sizeof *changes, compare_changes);
    return changes;
}

static uint32_t find_peak(const struct vt_replay *replay, struct vt_host_memory *host)
{
    size_t count;
    struct change *changes = list_changes(replay, &count);
    uint32_t event = 0;
    int64_t bytes = 0;

    for (size_t i = 0; i < count; i++) {
        if (changes[i].event == VT_NEVER)
            break;
        bytes += changes[i].bytes;
        if (bytes > (int64_t)host->peak_bytes) {
            host->peak_bytes = (uint64_t)bytes;
            event = changes[i].event;
        }
    }
    host->end_bytes = (uint64_t)bytes;
    free(changes);
    return event;
}

void vt_host_memory_find(struct vt_report *report, struct vt_grouper *grouper)
{
    struct vt_host_memory *host = &report->host;
    const uint32_t peak = find_peak(report->attribution->replay, host);
    const bool has_at = report->device_count && report->devices[0].at.state.present;

    if (!host->peak_bytes)
        return;
    host->peak = (struct vt_state){.present = true, .event_index = peak};
    vt_state_finish(report, &host->peak);
    const uint32_t shown = has_at ? report->devices[0].at.state.event_index : peak;
    host->shown_bytes = vt_group_host_memory(grouper, shown, VT_BY_LINE, &host->lines);
    vt_group_host_memory(grouper, shown, VT_BY_STACK, &host->stacks);
}
