/* Replay: from events to allocations with lifetimes, nested by address, and the counts at every event.
 *
 * The same byte is seen at several layers. Driver memory is counted once: a driver allocation (or VMM
 * mapping) that ever held a framework block is a segment; the blocks in it and its cached rest add up to it. */
#ifndef VT_REPLAY_H
#define VT_REPLAY_H

#include "base/words.h"
#include "trace/trace.h"

#define VT_NEVER UINT32_MAX

enum vt_allocation_kind {
    VT_ALLOCATION_BLOCK,   /* framework block inside a segment (or a block whose segment was not seen) */
    VT_ALLOCATION_SEGMENT, /* driver memory that blocks are cut from: its free rest is `cached` */
    VT_ALLOCATION_DRIVER,  /* driver memory used as it is (cudaMalloc of a program or library) */
    VT_ALLOCATION_POOLED,  /* sub-allocation of a driver pool: lies in the pool's reserved bytes; its category
                              is CACHED if it holds framework blocks, which then count instead of it */
    VT_ALLOCATION_POOL,    /* a pool's reserved bytes, one allocation per change (grows by alloc, shrinks by free) */
    VT_ALLOCATION_CONTEXT, /* context, modules, libraries: measured by differences of free memory */
    VT_ALLOCATION_HOST,    /* page-locked host memory: never part of a device's sum */
};

/* What is counted where. Managed memory counts on its device with its whole size, wherever its pages are.
 * Memory of another process or API that is mapped here (VT_FLAG_FOREIGN) has an allocation, for showing, but
 * is in no sum: the process that made it counts it. What was captured into a graph (VT_FLAG_CAPTURED) has no
 * allocation. Physical memory of the virtual memory calls is alive from its creation until it has neither a
 * reference nor a mapping; its address is that of its first mapping. A block whose segment was not seen counts
 * as driver memory itself. */

struct vt_allocation {
    uint64_t address; /* 0 where there is none (context, pool growth) */
    uint64_t bytes;
    uint64_t rounding_bytes; /* of bytes: beyond what was asked for; 0 where that is not known (attribution) */
    uint64_t sequence;    /* of the alloc event: autograd node */
    uint32_t alloc_event; /* index in trace->events */
    uint32_t free_event;  /* VT_NEVER = alive at the end */
    uint32_t stack_id;
    uint32_t parent; /* of a block: index of its segment's allocation, VT_NEVER = none seen */
    int8_t device_index; /* -1 = host or unknown */
    uint8_t kind;        /* enum vt_allocation_kind */
    uint8_t flags;       /* enum vt_event_flag */
    uint8_t category;    /* enum vt_category; set by attribution, UNKNOWN before */
    uint8_t evidence;    /* enum vt_evidence */
    uint8_t phase;       /* enum vt_phase in which it was made */
    uint16_t rule;       /* index of the rule that gave the category (attribution) */
    uint32_t step;       /* step in which it was made, from 1; 0 = before the first */
    const char *owner;   /* "layers.3.weight · exp_avg", NULL = unknown; owned by the attribution */
    const char *module;  /* "layers.3", NULL = unknown */
    uint32_t forward_stack_id; /* made in backward: stack of the forward operator it belongs to, 0 = unknown */
};

/* Whether it is there after an event. VT_NEVER comes after all of them. */
static inline bool vt_alive_at(const struct vt_allocation *allocation, uint32_t event_index)
{
    return allocation->alloc_event <= event_index && allocation->free_event > event_index;
}

/* What an allocation itself adds to its category while it is alive: 0 for segments and pools (their rest is
 * `cached`), and for what is in no sum. */
uint64_t vt_allocation_own_bytes(const struct vt_allocation *allocation);

/* Counts of one device just after one event. driver_bytes = what the driver gave (segments, driver, pools,
 * context); segment_bytes and block_bytes as in the report's VIEW. */
struct vt_counts {
    uint64_t driver_bytes, segment_bytes, block_bytes, context_bytes, host_pinned_bytes;
    uint64_t rounding_bytes; /* of the categories' bytes: more than was asked for, where that is known */
};

struct vt_replay {
    const struct vt_trace *trace;
    struct vt_allocation *allocations; /* in order of alloc_event */
    size_t allocation_count;
    int device_count; /* 1 + the highest device index seen; at least 1 */
    /* Disagreements met on the way, each counted and shown by `info`: */
    uint64_t unknown_frees;       /* of an address that no event had allocated */
    uint64_t doubled_allocations; /* address was alive already: the old one is closed there */
    uint64_t total_mismatches;    /* events where the framework's own counter differs from ours */
    uint64_t implausible_events;  /* sizes that no device has: left out */

    uint32_t *first_freed, *next_freed; /* private: allocations by free_event, as chains ending in VT_NEVER */
};

int vt_replay_make(const struct vt_trace *trace, struct vt_replay **replay);
void vt_replay_free(struct vt_replay *replay);

/* True if a framework had blocks on the device: then its peak goes by their bytes. */
static inline bool vt_has_blocks(const struct vt_replay *replay, int device_index)
{
    for (size_t i = 0; i < replay->allocation_count; i++)
        if (replay->allocations[i].kind == VT_ALLOCATION_BLOCK &&
            replay->allocations[i].device_index == device_index)
            return true;
    return false;
}

/* Walks all events in order for one device; after each event that touches that device, calls `visit`
 * with the counts and the bytes per category (which sum to driver_bytes; host_pinned is told beside and is not
 * in the sum). `changed` is the allocation made or freed, or NULL. Returns early when visit returns non-zero. */
typedef int (*vt_replay_visit)(void *context, uint32_t event_index, const struct vt_counts *counts,
                               const uint64_t categories[VT_CATEGORY_COUNT]);
int vt_replay_walk(const struct vt_replay *replay, int device_index, vt_replay_visit visit, void *context);

/* Checks that the categories sum to the driver bytes, and that both agree with the allocations alive, after
 * every event of the device. Returns 0, or -EINVAL and says in `error` where it does not hold. */
int vt_replay_verify(const struct vt_replay *replay, int device_index, char *error, size_t error_bytes);

#endif
