/* Page-locked host memory. It lies on no GPU and counts in no GPU's sum, so it has a peak of its own. */
#include "report/host_memory.h"

#include "attribute/attribute.h"
#include "base/peak.h"
#include "report/blocks.h"
#include "report/instants.h"
#include "report/report.h"

static struct vt_peak_found find_peak(const struct vt_replay *replay)
{
    struct vt_peak peak = {0};

    for (size_t i = 0; i < replay->allocation_count; i++) {
        const struct vt_allocation *allocation = &replay->allocations[i];

        if (vt_is_host_memory(allocation))
            vt_peak_add(&peak, allocation->alloc_event, allocation->free_event, allocation->bytes);
    }
    return vt_peak_find(&peak, (uint32_t)replay->trace->event_count);
}

void vt_host_memory_find(struct vt_report *report, struct vt_grouper *grouper)
{
    struct vt_host_memory *host = &report->host;
    const struct vt_peak_found peak = find_peak(report->attribution->replay);
    const bool has_at = report->device_count && report->devices[0].at.state.present;

    if (!peak.bytes)
        return;
    host->peak_bytes = peak.bytes;
    host->end_bytes = peak.left;
    host->peak = (struct vt_state){.present = true, .event_index = peak.event};
    vt_state_finish(report, &host->peak);
    const uint32_t shown = has_at ? report->devices[0].at.state.event_index : peak.event;
    host->shown_bytes = vt_group_host_memory(grouper, shown, VT_BY_LINE, &host->lines);
    vt_group_host_memory(grouper, shown, VT_BY_STACK, &host->stacks);
}
