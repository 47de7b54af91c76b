/* The counts of one device after each of its events, and the check that they agree. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "replay/build.h"

bool vt_allocation_is_driver_memory(const struct vt_allocation *allocation)
{
    if (allocation->flags & VT_FLAG_FOREIGN)
        return false;
    switch (allocation->kind) {
    case VT_ALLOCATION_SEGMENT:
    case VT_ALLOCATION_DRIVER:
    case VT_ALLOCATION_POOL:
    case VT_ALLOCATION_CONTEXT:
        return true;
    case VT_ALLOCATION_BLOCK:
        return allocation->parent == VT_NEVER;
    default:
        return false;
    }
}

uint64_t vt_allocation_own_bytes(const struct vt_allocation *allocation)
{
    bool counts = allocation->category != VT_CATEGORY_CACHED && !(allocation->flags & VT_FLAG_FOREIGN) &&
                  allocation->category < VT_CATEGORY_COUNT;
    return counts ? allocation->bytes : 0;
}

struct walk {
    struct vt_counts counts;
    uint64_t categories[VT_CATEGORY_COUNT];
};

static void change(struct walk *walk, const struct vt_allocation *allocation, bool begins)
{
    uint64_t bytes = begins ? allocation->bytes : 0 - allocation->bytes;
    uint64_t own = vt_allocation_own_bytes(allocation);
    if (allocation->flags & VT_FLAG_FOREIGN)
        return;
    if (vt_allocation_is_driver_memory(allocation))
        walk->counts.driver_bytes += bytes;
    if (allocation->kind == VT_ALLOCATION_SEGMENT || allocation->kind == VT_ALLOCATION_POOL) {
        walk->counts.segment_bytes += bytes;
        walk->categories[VT_CATEGORY_CACHED] += bytes;
    } else if (allocation->kind == VT_ALLOCATION_BLOCK) {
        walk->counts.block_bytes += bytes;
    } else if (allocation->kind == VT_ALLOCATION_CONTEXT) {
        walk->counts.context_bytes += bytes;
    } else if (allocation->kind == VT_ALLOCATION_HOST) {
        walk->counts.host_pinned_bytes += bytes;
    }
    if (own == 0)
        return;
    walk->categories[allocation->category] += bytes;
    walk->counts.rounding_bytes += begins ? allocation->rounding_bytes : 0 - allocation->rounding_bytes;
    /* what lies in a segment or pool is taken out of its free rest */
    if ((allocation->kind == VT_ALLOCATION_BLOCK && allocation->parent != VT_NEVER) ||
        allocation->kind == VT_ALLOCATION_POOLED)
        walk->categories[VT_CATEGORY_CACHED] -= bytes;
}

/* Page-locked memory has no device of its own; it is told with every device. */
static bool concerns(const struct vt_allocation *allocation, int device_index)
{
    return allocation->device_index == device_index || allocation->kind == VT_ALLOCATION_HOST;
}

int vt_replay_walk(const struct vt_replay *replay, int device_index, vt_replay_visit visit, void *context)
{
    const struct vt_trace *trace = replay->trace;
    struct walk walk = {0};
    size_t next = 0;
    for (uint32_t i = 0; i < trace->event_count; i++) {
        bool touched = trace->events[i].device_index == device_index;
        for (uint32_t freed = replay->first_freed[i]; freed != VT_NEVER; freed = replay->next_freed[freed]) {
            if (replay->allocations[freed].alloc_event < i &&
                concerns(&replay->allocations[freed], device_index)) {
                change(&walk, &replay->allocations[freed], false);
                touched = true;
            }
        }
        for (; next < replay->allocation_count && replay->allocations[next].alloc_event == i; next++) {
            const struct vt_allocation *made = &replay->allocations[next];
            if (made->free_event != i && concerns(made, device_index)) {
                change(&walk, made, true);
                touched = true;
            }
        }
        if (!touched)
            continue;
        int stop = visit(context, i, &walk.counts, walk.categories);
        if (stop)
            return stop;
    }
    return 0;
}

struct verification {
    const struct vt_replay *replay;
    char *error;
    size_t error_bytes;
};

static int verify_event(void *context, uint32_t event_index, const struct vt_counts *counts,
                        const uint64_t categories[VT_CATEGORY_COUNT])
{
    const struct verification *check = context;
    uint64_t sum = 0;
    for (int i = 0; i < VT_CATEGORY_COUNT; i++)
        if (i != VT_CATEGORY_HOST_PINNED)
            sum += categories[i];
    const char *wrong = NULL;
    if (sum != counts->driver_bytes)
        wrong = "categories do not sum to driver bytes";
    else if (categories[VT_CATEGORY_CACHED] > counts->segment_bytes)
        wrong = "blocks are larger than the segments they lie in";
    else if (categories[VT_CATEGORY_HOST_PINNED] != counts->host_pinned_bytes)
        wrong = "page-locked host memory differs";
    else if (counts->segment_bytes + counts->context_bytes > counts->driver_bytes)
        wrong = "segments and contexts are larger than driver bytes";
    if (!wrong)
        return 0;
    if (check->error_bytes > 0)
        snprintf(check->error, check->error_bytes,
                 "event %" PRIu32 ": %s (sum %" PRIu64 ", driver %" PRIu64 ", segments %" PRIu64
                 ", blocks %" PRIu64 ", cached %" PRIu64 ")",
                 event_index, wrong, sum, counts->driver_bytes, counts->segment_bytes, counts->block_bytes,
                 categories[VT_CATEGORY_CACHED]);
    return -EINVAL;
}

/* Every block lies within its parent's life. */
static int verify_nesting(const struct verification *check, int device_index)
{
    const struct vt_replay *replay = check->replay;
    for (size_t i = 0; i < replay->allocation_count; i++) {
        const struct vt_allocation *allocation = &replay->allocations[i];
        if (allocation->device_index != device_index || allocation->parent == VT_NEVER)
            continue;
        const struct vt_allocation *parent = &replay->allocations[allocation->parent];
        if (parent->alloc_event <= allocation->alloc_event && parent->free_event >= allocation->free_event &&
            parent->category == VT_CATEGORY_CACHED && parent->device_index == device_index)
            continue;
        if (check->error_bytes > 0)
            snprintf(check->error, check->error_bytes, "allocation %zu does not lie in its parent's life", i);
        return -EINVAL;
    }
    return 0;
}

int vt_replay_verify(const struct vt_replay *replay, int device_index, char *error, size_t error_bytes)
{
    struct verification check = {.replay = replay, .error = error, .error_bytes = error_bytes};
    int result = vt_replay_walk(replay, device_index, verify_event, &check);
    return result ? result : verify_nesting(&check, device_index);
}
