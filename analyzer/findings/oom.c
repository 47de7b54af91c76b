/* Out of memory: the state of the cache, and what would have been freed next. */
#include "findings/oom.h"

#include <stdlib.h>
#include <string.h>

#include "attribute/attribute.h"
#include "base/allocate.h"
#include "base/index.h"
#include "base/sort.h"
#include "findings/causes.h"
#include "findings/fragmentation.h"
#include "findings/streams.h"
#include "report/blocks.h"
#include "report/report.h"

/* When a block that is alive at the failed request is freed. */
struct end {
    uint32_t allocation, event; /* an expected event may be beyond the trace */
    uint8_t phase;
};

static int by_event(const void *left, const void *right)
{
    const struct end *a = left, *b = right;

    return 2 * vt_order(a->event, b->event) + vt_order(a->allocation, b->allocation);
}

/* The latest allocation of each stack that was freed before an event; VT_NEVER = none. */
static uint32_t *freed_before(const struct vt_replay *replay, uint32_t event_index)
{
    uint32_t *latest = vt_allocate((replay->trace->stack_count + 1) * sizeof *latest);

    memset(latest, 0xff, (replay->trace->stack_count + 1) * sizeof *latest);
    for (uint32_t i = 0; i < replay->allocation_count; i++)
        if (replay->allocations[i].free_event < event_index &&
            replay->allocations[i].stack_id < replay->trace->stack_count)
            latest[replay->allocations[i].stack_id] = i;
    return latest;
}

static bool end_of(const struct vt_report *report, const struct vt_shortage *shortage, uint32_t index,
                   const uint32_t *latest, uint32_t last, struct end *end)
{
    const struct vt_replay *replay = report->attribution->replay;
    const struct vt_allocation *block = &replay->allocations[index], *example = block;
    uint32_t now = shortage->refusal->event_index;
    uint64_t expected = block->free_event;

    if (!shortage->freed_seen) {
        uint32_t known = block->stack_id < replay->trace->stack_count ? latest[block->stack_id] : VT_NEVER;

        if (known == VT_NEVER)
            return false;
        example = &replay->allocations[known];
        expected = (uint64_t)block->alloc_event + (example->free_event - example->alloc_event);
        expected = expected < now ? now : expected < VT_NEVER ? expected : VT_NEVER - 1;
    }
    if (expected == VT_NEVER || (shortage->freed_seen && expected > last))
        return false; /* the program continued and kept it */
    *end = (struct end){.allocation = index,
                        .event = (uint32_t)expected,
                        .phase = vt_span_at(report->attribution, example->free_event)->phase};
    return true;
}

static bool is_together(const struct vt_attribution *attribution, uint32_t left, uint32_t right)
{
    const struct vt_allocation *allocations = attribution->replay->allocations;
    const struct vt_label *a = &attribution->labels[left], *b = &attribution->labels[right];

    return allocations[left].stack_id == allocations[right].stack_id &&
           a->forward_stack_id == b->forward_stack_id && a->category == b->category;
}

static void find_freed(const struct vt_report *report, struct vt_shortage *shortage)
{
    const struct vt_replay *replay = report->attribution->replay;
    uint32_t now = shortage->refusal->event_index, *latest = freed_before(replay, now),
             last =
                 replay->allocation_count ? replay->allocations[replay->allocation_count - 1].alloc_event : 0;
    struct vt_counted counted = vt_counted_at(replay, shortage->device->index, now);
    struct end *ends = vt_allocate_zeros(counted.count + 1, sizeof *ends);
    size_t count = 0;

    shortage->freed_seen = !shortage->refusal->ends_run;
    for (size_t i = 0; i < counted.count; i++)
        count += end_of(report, shortage, counted.items[i], latest, last, &ends[count]);
    shortage->freed = vt_allocate_zeros(count + 1, sizeof *shortage->freed);
    vt_sort(ends, count, sizeof *ends, by_event);
    for (size_t i = 0; i < count; i++) {
        struct vt_freed_next *last =
            shortage->freed_count ? &shortage->freed[shortage->freed_count - 1] : NULL;

        if (!last || !is_together(report->attribution, last->first.allocation, ends[i].allocation)) {
            last = &shortage->freed[shortage->freed_count++];
            *last = (struct vt_freed_next){.after_events = ends[i].event - now, .phase = ends[i].phase};
            vt_block_set(report, ends[i].allocation, &last->first);
        }
        last->bytes += replay->allocations[ends[i].allocation].bytes;
        last->blocks++;
    }
    free(counted.items);
    free(latest);
    free(ends);
}

struct vt_shortage vt_shortage_find(const struct vt_report *report)
{
    const struct vt_oom *refusal = &report->refusals[report->shown_refusal];
    const struct vt_device_report *device =
        report->refusal_count ? vt_report_device(report, refusal->device_index) : NULL;
    struct vt_shortage shortage = {0};

    if (!device || !device->at.state.present)
        return shortage;
    shortage.device = device;
    shortage.refusal = refusal;
    shortage.at = &shortage.device->at;
    shortage.number = report->shown_refusal + 1;
    shortage.is_last = report->shown_refusal + 1 == report->refusal_count;
    shortage.is_chosen = !shortage.is_last;
    uint64_t needed =
        refusal->tried_bytes > refusal->asked_bytes ? refusal->tried_bytes : refusal->asked_bytes;
    if (refusal->free_known && needed > refusal->free_bytes)
        shortage.missing_bytes = needed - refusal->free_bytes;
    shortage.cache =
        vt_fragmentation_find(report->attribution->replay, refusal->device_index, refusal->event_index);
    vt_streams_find(report, refusal->device_index, refusal->event_index, &shortage.cache);
    find_freed(report, &shortage);
    vt_causes_find(report, &shortage);
    return shortage;
}
