/* Replay: from events to allocations with lifetimes, nested by address, and the counts at every event.
 *
 * The same byte is seen at several layers. Driver memory is counted once: a driver allocation (or VMM
 * mapping) that ever held a framework block is a segment; the blocks in it and its cached rest add up to it.
 */
#ifndef VT_REPLAY_H
#define VT_REPLAY_H

#include "base/index.h"
#include "trace/trace.h"

#define VT_NEVER UINT32_MAX

enum vt_allocation_kind {
    VT_ALLOCATION_BLOCK,   /* framework block inside a segment (or a block whose segment was not seen) */
    VT_ALLOCATION_SEGMENT, /* driver memory that blocks are cut from: its free rest is `cached` */
    VT_ALLOCATION_DRIVER,  /* driver memory used as it is (cudaMalloc of a program or library) */
    VT_ALLOCATION_POOLED,  /* part of a driver pool's reserved bytes */
    VT_ALLOCATION_POOL,    /* a pool's reserved bytes, one allocation per change (grows by alloc, shrinks by
                              free) */
    VT_ALLOCATION_CONTEXT, /* context, modules, libraries: measured by differences of free memory */
    VT_ALLOCATION_HOST,    /* page-locked host memory: never part of a device's sum */
    VT_ALLOCATION_GRAPH,   /* memory that a device holds for nodes of graphs, one allocation per change */
};

/* What counts where. Managed memory counts in full on its device, wherever its pages are. Memory of another
 * process or API that is mapped here (VT_FLAG_FOREIGN) has an allocation, so that it can be shown, but is in
 * no sum: the process that made it counts it. An allocation captured into a graph (VT_FLAG_CAPTURED) has
 * none. Physical memory of the virtual memory calls lives from its creation until it has neither a reference
 * nor a mapping; its address is that of its first mapping. A block whose segment was not seen counts as
 * driver memory itself. */

struct vt_allocation {
    uint64_t address; /* 0 where there is none (context, pool growth) */
    uint64_t bytes;
    uint64_t sequence;    /* of the alloc event: autograd node */
    uint32_t alloc_event; /* index in trace->events */
    uint32_t free_event;  /* VT_NEVER = alive at the end */
    uint32_t stack_id;
    uint32_t parent;     /* of a block: index of the allocation that it lies in, VT_NEVER = none seen */
    int8_t device_index; /* -1 = host or unknown */
    uint8_t kind;        /* enum vt_allocation_kind */
    uint8_t flags;       /* enum vt_event_flag */
    bool holds_blocks;   /* POOLED: framework blocks lie in it and count instead of it */
};

/* Whether it is alive after an event. VT_NEVER comes after all of them. */
static inline bool vt_alive_at(const struct vt_allocation *allocation, uint32_t event_index)
{
    return allocation->alloc_event <= event_index && allocation->free_event > event_index;
}

/* Whether blocks are cut from it. Then only its unused rest counts. */
static inline bool vt_is_container(const struct vt_allocation *allocation)
{
    return allocation->kind == VT_ALLOCATION_SEGMENT || allocation->kind == VT_ALLOCATION_POOL ||
           allocation->holds_blocks;
}

/* Whether it counts as driver memory itself. */
static inline bool vt_is_driver_memory(const struct vt_allocation *allocation)
{
    if (allocation->flags & VT_FLAG_FOREIGN)
        return false;
    switch (allocation->kind) {
    case VT_ALLOCATION_SEGMENT:
    case VT_ALLOCATION_DRIVER:
    case VT_ALLOCATION_POOL:
    case VT_ALLOCATION_CONTEXT:
    case VT_ALLOCATION_GRAPH:
        return true;
    case VT_ALLOCATION_BLOCK:
        return allocation->parent == VT_NEVER;
    default:
        return false;
    }
}

/* What it adds to the sums while it is alive: 0 for containers and for foreign memory. */
static inline uint64_t vt_allocation_own_bytes(const struct vt_allocation *allocation)
{
    return vt_is_container(allocation) || (allocation->flags & VT_FLAG_FOREIGN) ? 0 : allocation->bytes;
}

/* What it adds to the cached bytes while it is alive: containers add their bytes, and whatever lies in them
 * subtracts its own. */
static inline int64_t vt_cached_change(const struct vt_allocation *allocation)
{
    int64_t bytes = (int64_t)allocation->bytes;
    if (allocation->flags & VT_FLAG_FOREIGN)
        return 0;
    switch (allocation->kind) {
    case VT_ALLOCATION_SEGMENT:
    case VT_ALLOCATION_POOL:
        return bytes;
    case VT_ALLOCATION_BLOCK:
        return allocation->parent == VT_NEVER ? 0 : -bytes;
    case VT_ALLOCATION_POOLED:
        return allocation->holds_blocks ? 0 : -bytes;
    default:
        return 0;
    }
}

/* One device just after one event. */
struct vt_counts {
    uint64_t driver_bytes;  /* all driver memory: segments, driver, pools, contexts, graphs */
    uint64_t segment_bytes; /* segments and pools */
    uint64_t cached_bytes;  /* their unused rest */
    uint64_t block_bytes, context_bytes, host_pinned_bytes;
};

/* Memory shared by several processes: an allocation that this one exported, or imported (foreign). One for
 * each allocation and identity. */
struct vt_share {
    uint64_t identity; /* the same in all of them */
    uint32_t allocation;
};

struct vt_replay {
    const struct vt_trace *trace;
    struct vt_allocation *allocations; /* in order of alloc_event */
    size_t allocation_count;
    int device_count; /* 1 + the highest device index seen; at least 1 */
    struct vt_share *shares;
    size_t share_count;
    /* Disagreements, which `info` shows: */
    uint64_t unknown_frees;       /* of an address that no event had allocated */
    uint64_t doubled_allocations; /* at an address that was alive: the old allocation ends there */
    uint64_t total_mismatches;    /* events where the framework's own counter differs from ours */
    uint64_t implausible_events;  /* sizes that no device has: left out */

    /* Private: */
    uint32_t *first_freed, *next_freed; /* allocations by free_event, as chains ending in VT_NEVER */
    int8_t *devices;                    /* by event: its device. A walk reads these, not the events */
};

/* The caller frees it, before the trace. */
struct vt_replay *vt_replay_make(const struct vt_trace *trace);
void vt_replay_free(struct vt_replay *replay);

static inline int vt_compare_alloc_event(const void *allocation, const void *event_index)
{
    return vt_order(((const struct vt_allocation *)allocation)->alloc_event, *(const uint32_t *)event_index);
}

/* Index of the first allocation that was made at the event or later. */
static inline size_t vt_made_from(const struct vt_replay *replay, uint32_t event_index)
{
    return vt_lower_bound(replay->allocations, replay->allocation_count, sizeof *replay->allocations,
                          &event_index, vt_compare_alloc_event);
}

/* True if a framework had blocks on the device: then the peak is that of their bytes. */
static inline bool vt_has_blocks(const struct vt_replay *replay, int device_index)
{
    for (size_t i = 0; i < replay->allocation_count; i++)
        if (replay->allocations[i].kind == VT_ALLOCATION_BLOCK &&
            replay->allocations[i].device_index == device_index)
            return true;
    return false;
}

#endif
