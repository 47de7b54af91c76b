/* The counts of one device after each of its events, and the check that they agree. */
#include "replay/walk.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/allocate.h"
#include "replay/replay.h"

static void add_to_counts(struct vt_counts *counts, const struct vt_allocation *allocation, bool begins)
{
    uint64_t bytes = begins ? allocation->bytes : 0 - allocation->bytes;
    if (allocation->flags & VT_FLAG_FOREIGN)
        return;
    if (vt_is_driver_memory(allocation))
        counts->driver_bytes += bytes;
    counts->cached_bytes += (uint64_t)(begins ? vt_cached_change(allocation) : -vt_cached_change(allocation));
    switch (allocation->kind) {
    case VT_ALLOCATION_SEGMENT:
    case VT_ALLOCATION_POOL:
        counts->segment_bytes += bytes;
        break;
    case VT_ALLOCATION_BLOCK:
        counts->block_bytes += bytes;
        break;
    case VT_ALLOCATION_CONTEXT:
        counts->context_bytes += bytes;
        break;
    case VT_ALLOCATION_HOST:
        counts->host_pinned_bytes += bytes;
        break;
    default:
        break;
    }
}

/* The state of a walk. */
struct walk {
    const struct vt_replay *replay;
    const struct vt_replay_visitor *visitor;
    struct vt_counts counts;
    int device_index;
    bool touched; /* the event at hand touches the device */
};

static void take_change(struct walk *walk, uint32_t index, bool begins)
{
    const struct vt_allocation *allocation = &walk->replay->allocations[index];
    if (allocation->alloc_event == allocation->free_event ||
        (allocation->device_index != walk->device_index && allocation->kind != VT_ALLOCATION_HOST))
        return;
    walk->touched = true;
    add_to_counts(&walk->counts, allocation, begins);
    if (walk->visitor->change)
        walk->visitor->change(walk->visitor->context, index, begins);
}

int vt_replay_walk(const struct vt_replay *replay, int device_index, const struct vt_replay_visitor *visitor)
{
    const struct vt_trace *trace = replay->trace;
    struct walk walk = {.replay = replay, .visitor = visitor, .device_index = device_index};
    uint32_t next = 0;
    for (uint32_t i = 0; i < trace->event_count; i++) {
        walk.touched = replay->devices[i] == device_index;
        for (uint32_t freed = replay->first_freed[i]; freed != VT_NEVER; freed = replay->next_freed[freed])
            take_change(&walk, freed, false);
        for (; next < replay->allocation_count && replay->allocations[next].alloc_event == i; next++)
            take_change(&walk, next, true);
        int stop = walk.touched && visitor->visit ? visitor->visit(visitor->context, i, &walk.counts) : 0;
        if (stop)
            return stop;
    }
    return 0;
}

/* ---- Verification. */

struct verification {
    uint64_t *driver_changes, *block_changes; /* by event, then their sums up to it; modulo 2^64 */
    char *error;
    size_t error_bytes;
};

/* Sums what is alive after each event. Unlike the walk it follows no chains of frees. */
static void sum_alive(const struct vt_replay *replay, int device_index, struct verification *check)
{
    size_t events = replay->trace->event_count;
    check->driver_changes = vt_allocate_zeros(events + 1, sizeof *check->driver_changes);
    check->block_changes = vt_allocate_zeros(events + 1, sizeof *check->block_changes);
    for (size_t i = 0; i < replay->allocation_count; i++) {
        const struct vt_allocation *allocation = &replay->allocations[i];
        size_t end = allocation->free_event < events ? allocation->free_event : events;
        if (allocation->device_index != device_index || (allocation->flags & VT_FLAG_FOREIGN))
            continue;
        if (vt_is_driver_memory(allocation)) {
            check->driver_changes[allocation->alloc_event] += allocation->bytes;
            check->driver_changes[end] -= allocation->bytes;
        }
        if (allocation->kind == VT_ALLOCATION_BLOCK) {
            check->block_changes[allocation->alloc_event] += allocation->bytes;
            check->block_changes[end] -= allocation->bytes;
        }
    }
    for (size_t i = 1; i < events; i++) {
        check->driver_changes[i] += check->driver_changes[i - 1];
        check->block_changes[i] += check->block_changes[i - 1];
    }
}

static int verify_event(void *context, uint32_t event_index, const struct vt_counts *counts)
{
    const struct verification *check = context;
    const char *wrong = NULL;
    if (counts->driver_bytes != check->driver_changes[event_index])
        wrong = "driver bytes differ from the allocations alive";
    else if (counts->block_bytes != check->block_changes[event_index])
        wrong = "block bytes differ from the allocations alive";
    else if (counts->cached_bytes > counts->segment_bytes)
        wrong = "blocks are larger than the segments they lie in";
    else if (counts->segment_bytes + counts->context_bytes > counts->driver_bytes)
        wrong = "segments and contexts are larger than driver bytes";
    if (!wrong)
        return 0;
    snprintf(check->error, check->error_bytes,
             "event %" PRIu32 ": %s (driver %" PRIu64 ", segments %" PRIu64 ", blocks %" PRIu64
             ", cached %" PRIu64 ")",
             event_index, wrong, counts->driver_bytes, counts->segment_bytes, counts->block_bytes,
             counts->cached_bytes);
    return -EINVAL;
}

/* Checks that each block's life is within its parent's. */
static int verify_nesting(const struct vt_replay *replay, int device_index, const struct verification *check)
{
    for (size_t i = 0; i < replay->allocation_count; i++) {
        const struct vt_allocation *allocation = &replay->allocations[i];
        if (allocation->device_index != device_index || allocation->parent == VT_NEVER)
            continue;
        const struct vt_allocation *parent = &replay->allocations[allocation->parent];
        if (parent->alloc_event <= allocation->alloc_event && parent->free_event >= allocation->free_event &&
            vt_is_container(parent) && parent->device_index == device_index)
            continue;
        snprintf(check->error, check->error_bytes, "allocation %zu does not lie in its parent's life", i);
        return -EINVAL;
    }
    return 0;
}

int vt_replay_verify(const struct vt_replay *replay, int device_index, char *error, size_t error_bytes)
{
    struct verification check = {.error = error, .error_bytes = error_bytes};
    const struct vt_replay_visitor visitor = {.visit = verify_event, .context = &check};
    sum_alive(replay, device_index, &check);
    int result = vt_replay_walk(replay, device_index, &visitor);
    if (!result)
        result = verify_nesting(replay, device_index, &check);
    free(check.driver_changes);
    free(check.block_changes);
    return result;
}
