/* The allocation that each tensor of an inspection lay in: one pass over inspections and the allocations that
 * were alive then. */
#include "attribute/sightings.h"

#include "attribute/owners.h"

#include <stdlib.h>

#include "base/allocate.h"
#include "base/index.h"
#include "base/ranges.h"

/* An allocation that is alive at some inspection. */
struct holder {
    uint32_t allocation;
    uint32_t first_inspection, end_inspection;
};

struct sweep {
    const struct vt_replay *replay;
    struct holder *holders; /* in order of first_inspection */
    uint32_t *ending;       /* indices of holders, in order of end_inspection */
    size_t holder_count, holder_capacity;
    struct vt_ranges ranges;
    uint32_t roots[VT_MAX_DEVICES];
    bool census; /* place the tensors of the census, not the named ones */
    struct vt_inspection_counts *counts;
    struct vt_sighting *sightings;
    size_t count, capacity;
};

static int compare_event(const void *inspection, const void *event_index)
{
    uint32_t own = ((const struct vt_inspection *)inspection)->event_index,
             at = *(const uint32_t *)event_index;
    return (own > at) - (own < at);
}

/* The first inspection after an event. */
static uint32_t inspection_after(const struct vt_trace *trace, uint32_t event_index)
{
    return (uint32_t)vt_lower_bound(trace->inspections, trace->inspection_count, sizeof *trace->inspections,
                                    &event_index, compare_event);
}

static int by_end(const void *a, const void *b, void *holders)
{
    uint32_t left = ((struct holder *)holders)[*(const uint32_t *)a].end_inspection;
    uint32_t right = ((struct holder *)holders)[*(const uint32_t *)b].end_inspection;
    return (left > right) - (left < right);
}

static void find_holders(struct sweep *sweep, const struct vt_phases *phases)
{
    const struct vt_replay *replay = sweep->replay;
    for (size_t i = 0; i < replay->allocation_count; i++) {
        const struct vt_allocation *allocation = &replay->allocations[i];
        if (!vt_holds_tensors(phases, allocation) || allocation->address == 0 || allocation->bytes == 0 ||
            allocation->address > UINT64_MAX - allocation->bytes || allocation->device_index < 0 ||
            allocation->device_index >= (int)VT_MAX_DEVICES)
            continue;
        uint32_t first = inspection_after(replay->trace, allocation->alloc_event);
        uint32_t end = inspection_after(replay->trace, allocation->free_event);
        if (first == end)
            continue;
        VT_APPEND(sweep->holders, sweep->holder_count, sweep->holder_capacity,
                  (struct holder){(uint32_t)i, first, end});
    }
    sweep->ending = vt_allocate_zeros(sweep->holder_count + 1, sizeof *sweep->ending);
    for (uint32_t i = 0; i < sweep->holder_count; i++)
        sweep->ending[i] = i;
    if (sweep->holder_count > 1)
        qsort_r(sweep->ending, sweep->holder_count, sizeof *sweep->ending, by_end, sweep->holders);
}

static void enter_allocation(struct sweep *sweep, uint32_t holder)
{
    const struct vt_allocation *allocation = &sweep->replay->allocations[sweep->holders[holder].allocation];
    uint32_t *root = &sweep->roots[allocation->device_index];
    uint64_t end = allocation->address + allocation->bytes;
    if (vt_ranges_overlap(&sweep->ranges, *root, allocation->address, end))
        return; /* two pools recorded memory at one address; the first keeps it */
    vt_ranges_insert(&sweep->ranges, root, allocation->address, end, holder);
}

static void leave_allocation(struct sweep *sweep, uint32_t holder)
{
    const struct vt_allocation *allocation = &sweep->replay->allocations[sweep->holders[holder].allocation];
    uint32_t *root = &sweep->roots[allocation->device_index];
    const struct vt_range_node *there =
        vt_ranges_overlap(&sweep->ranges, *root, allocation->address, allocation->address + 1);
    if (there && there->value == holder)
        vt_ranges_remove(&sweep->ranges, root, allocation->address);
}

/* Where a tensor lies, named or of the census. */
struct position {
    uint64_t data_address, bytes, storage_address, storage_bytes;
    int8_t device_index;
};

static void place_tensor(struct sweep *sweep, const struct position *at, struct vt_sighting sighting)
{
    if (at->bytes == 0 || at->storage_bytes == 0)
        return;
    sweep->counts->tensors++;
    uint64_t storage_end = at->storage_address + at->storage_bytes;
    const struct vt_range_node *there = vt_ranges_overlap(&sweep->ranges, sweep->roots[at->device_index],
                                                          at->storage_address, at->storage_address + 1);
    if (!there) {
        const struct vt_trace *trace = sweep->replay->trace;
        const uint32_t event = trace->inspections[sighting.inspection].event_index;
        sweep->counts->homeless += !trace->events[event].head_start; /* a digest leaves blocks out */
        return;
    }
    if (storage_end > there->end || at->data_address >= storage_end) {
        sweep->counts->misplaced++;
        return;
    }
    uint64_t left = storage_end - at->data_address;
    sighting.allocation = sweep->holders[there->value].allocation;
    sighting.bytes = at->bytes < left ? at->bytes : left;
    VT_APPEND(sweep->sightings, sweep->count, sweep->capacity, sighting);
}

#define POSITION_OF(item)                                                                                    \
    &(struct position)                                                                                       \
    {                                                                                                        \
        (item)->data_address, (item)->bytes, (item)->storage_address, (item)->storage_bytes,                 \
            (item)->device_index                                                                             \
    }

static void place_tensors(struct sweep *sweep, uint32_t index)
{
    const struct vt_inspection *inspection = &sweep->replay->trace->inspections[index];
    for (size_t i = 0; !sweep->census && i < inspection->tensor_count; i++)
        place_tensor(sweep, POSITION_OF(&inspection->tensors[i]),
                     (struct vt_sighting){.inspection = index, .tensor = &inspection->tensors[i]});
    for (size_t i = 0; sweep->census && i < inspection->holder_count; i++)
        place_tensor(sweep, POSITION_OF(&inspection->holders[i]),
                     (struct vt_sighting){.inspection = index, .holder = &inspection->holders[i]});
}

static void sweep_inspections(struct sweep *sweep)
{
    const struct vt_trace *trace = sweep->replay->trace;
    size_t entered = 0, left = 0;
    for (uint32_t inspection = 0; inspection < trace->inspection_count; inspection++) {
        for (; left < sweep->holder_count && sweep->holders[sweep->ending[left]].end_inspection <= inspection;
             left++)
            leave_allocation(sweep, sweep->ending[left]);
        for (; entered < sweep->holder_count && sweep->holders[entered].first_inspection <= inspection;
             entered++)
            enter_allocation(sweep, (uint32_t)entered);
        place_tensors(sweep, inspection);
    }
}

static uint64_t address_of(const struct vt_sighting *sighting)
{
    return sighting->tensor ? sighting->tensor->data_address : sighting->holder->data_address;
}

static int compare_sightings(const void *a, const void *b)
{
    const struct vt_sighting *left = a, *right = b;
    if (left->allocation != right->allocation)
        return left->allocation < right->allocation ? -1 : 1;
    if (address_of(left) != address_of(right))
        return address_of(left) < address_of(right) ? -1 : 1;
    if (left->bytes != right->bytes)
        return left->bytes < right->bytes ? -1 : 1;
    if (left->inspection != right->inspection)
        return left->inspection > right->inspection ? -1 : 1;
    if (!left->tensor)
        return left->holder < right->holder ? -1 : left->holder > right->holder;
    if (left->tensor->kind != right->tensor->kind)
        return left->tensor->kind < right->tensor->kind ? -1 : 1;
    return left->tensor < right->tensor ? -1
                                        : left->tensor > right->tensor; /* in the order of the inspection */
}

void vt_sightings_find(const struct vt_replay *replay, const struct vt_phases *phases, bool census,
                       struct vt_inspection_counts *counts, struct vt_sighting **sightings, size_t *count)
{
    struct sweep sweep = {.replay = replay, .census = census, .counts = counts};
    vt_ranges_init(&sweep.ranges);
    find_holders(&sweep, phases);
    sweep_inspections(&sweep);
    if (sweep.count > 1)
        qsort(sweep.sightings, sweep.count, sizeof *sweep.sightings, compare_sightings);
    vt_ranges_free(&sweep.ranges);
    free(sweep.holders);
    free(sweep.ending);
    *sightings = sweep.sightings;
    *count = sweep.count;
}
