#include "findings/findings.h"

#include "attribute/attribute.h"
#include "base/progress.h"
#include "findings/advice.h"
#include "findings/empty_contexts.h"
#include "findings/fragmentation.h"
#include "findings/gpu_accounting.h"
#include "findings/graph_pools.h"
#include "findings/holder_table.h"
#include "findings/inference.h"
#include "findings/leaks/leaks.h"
#include "findings/oom.h"
#include "findings/steps.h"
#include "findings/streams.h"

/* Where memory did run out, no forecast says when it would. */
static void drop_forecasts(const struct vt_report *report, struct vt_device_report *device)
{
    bool ran_out = false;

    for (size_t i = 0; i < report->refusal_count; i++)
        ran_out |= report->refusals[i].device_index == device->index;
    for (size_t i = 0; ran_out && i < device->leaks.count; i++)
        device->leaks.items[i].forecast_step = 0;
}

static void diagnose_device(const struct vt_report *report, unsigned wanted, struct vt_device_report *device)
{
    struct vt_advice_search *advice =
        wanted & VT_FIND_ADVICE ? vt_advice_begin(report, device->index, &device->advices) : NULL;

    if (wanted & VT_FIND_LEAKS)
        vt_leaks_find(report->attribution, report->places, device->index, &device->leaks);
    drop_forecasts(report, device);
    if (advice) {
        vt_advice_end(advice);
        device->reserved_unused =
            vt_reserved_unused_at(report, device->index, device->peak.state.event_index);
        device->inference = vt_inference_find(report, device);
    }
    if (wanted & VT_FIND_FRAGMENTATION) {
        device->fragmentation = vt_fragmentation_find(report->attribution->replay, device->index,
                                                      device->shown->state.event_index);
        vt_streams_find(report, device->index, device->shown->state.event_index, &device->fragmentation);
        vt_fragmentation_describe(report, &device->fragmentation);
    }
    if (wanted)
        device->cache_release = vt_cache_release(report->attribution->replay, device->index);
    if (wanted & VT_FIND_GRAPH_POOLS)
        device->graph_pools = vt_graph_pools_find(report, device->index, device->shown->state.event_index);
    if (wanted & VT_FIND_CARD)
        vt_gpu_account(report, device);
    if (wanted & VT_FIND_HOLDERS)
        device->holders = vt_holder_table_make(report, device->index, device->shown->state.event_index);
    if (wanted & VT_FIND_STEPS)
        device->steps = vt_steps_make(report, device->index);
}

void vt_diagnose(struct vt_report *report, unsigned wanted)
{
    if (wanted & VT_FIND_SHORTAGE) /* what others hold may be the cause */
        wanted |= VT_FIND_CARD;
    for (size_t i = 0; i < report->device_count; i++) {
        vt_progress_tell(VT_WORK_REPORT, report->device_count + i, 2 * report->device_count);
        diagnose_device(report, wanted, &report->devices[i]);
    }
    if (wanted & VT_FIND_CARD) {
        vt_empty_contexts_find(report);
        vt_gpu_account_oom(report);
    }
    if (wanted & VT_FIND_SHORTAGE)
        report->shortage = vt_shortage_find(report);
}
