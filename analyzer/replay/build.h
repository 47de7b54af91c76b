/* Private to replay/: the state while events are replayed. */
#ifndef VT_REPLAY_BUILD_H
#define VT_REPLAY_BUILD_H

#include "base/index.h"
#include "base/intervals.h"
#include "base/ranges.h"
#include "replay/replay.h"

/* Device -1 (host or unknown) has a slot too. */
#define VT_DEVICE_SLOTS (VT_MAX_DEVICES + 1)
/* More than any device has. Larger sizes are damage: they are left out, since their sums could overflow. */
#define VT_PLAUSIBLE_BYTES (UINT64_C(1) << 48)

struct vt_build_list {
    uint32_t *items; /* indices of allocations */
    size_t count, capacity;
};

/* An amount that changes without allocation calls. Each growth is an allocation, and the latest one ends
 * first. */
struct vt_usage_growth {
    struct vt_build_list made;
    uint64_t bytes;
};

/* A cache by address: segments in which blocks were found lately. */
#define VT_KNOWN_SEGMENTS 64u
struct vt_build_segment {
    uint64_t start, end; /* 0, 0 = none */
    uint32_t allocation;
};

struct vt_build_device {
    uint32_t memory_root;       /* ranges of driver memory; values are allocations */
    struct vt_intervals blocks; /* live ones; values are allocations */
    struct vt_build_segment known[VT_KNOWN_SEGMENTS];
    uint64_t driver_bytes, block_bytes;
    uint64_t uncounted_bytes; /* of them those of frameworks without a counter */
    uint64_t pooled_bytes, pool_reserved_bytes;
    struct vt_usage_growth pool, context, graph;
    struct vt_build_list owned; /* ends with the device's last context */
    uint32_t contexts;
    bool info_seen;
};

/* Physical memory, or a multicast object, which has no allocation. */
struct vt_build_handle {
    uint32_t allocation; /* VT_INDEX_NONE: a multicast object */
    int32_t references;  /* below 0: more releases than references so far; some may turn out to have failed */
    uint32_t mappings;
    uint32_t bindings;     /* of this memory, to multicast objects */
    uint64_t mapped_bytes; /* in memory ranges */
    uint32_t bound_root;   /* ranges of what is bound to this object (virtual_memory.c) */
    bool is_object;        /* a multicast object; one of another process has an allocation */
    bool in_use;           /* referred to, mapped or bound */
};

/* An allocation node of a graph (graph_nodes.c). */
struct vt_build_node {
    uint64_t bytes;             /* 0 = its memory is there */
    uint64_t graph, executable; /* addresses; 0 = none yet, 1 = gone */
    uint32_t stack_id, thread_id;
    int device_index;
};

struct vt_build_mapping {
    uint64_t address, bytes;
    uint32_t handle;
    uint32_t unmap_event; /* VT_NEVER = mapped */
    uint32_t surplus;     /* unmappings since then */
    bool in_ranges;
    bool in_mapped; /* in `mapped_root` */
};

struct vt_build_pool {
    uint64_t reserved_bytes;
    int8_t device_index;
};

struct vt_build_context {
    struct vt_build_list owned;
    uint64_t bytes; /* signed: the part of the device's context bytes that ends with it */
    uint32_t references;
    int8_t device_index;
};

/* A thread's latest free, which VT_EVENT_FREE_FAILED may undo. */
struct vt_build_free {
    uint32_t event_index; /* VT_NEVER = it was undone */
    uint32_t what;        /* the allocation, handle or mapping; VT_INDEX_NONE = none known */
};
#define VT_BUILD_GRAPH_MEMORY (VT_INDEX_NONE - 1) /* what: memory that a graph's launch made */

struct vt_build {
    struct vt_replay *replay;
    size_t allocation_capacity;
    uint32_t event_index; /* of the event being replayed */
    struct vt_index memory, blocks, handle_index, mapping_index, pool_index, context_index; /* by address */
    struct vt_index share_index; /* identity → the latest of its shares */
    size_t share_capacity;
    struct vt_index graph_memory; /* addresses of graphs' allocation nodes */
    struct vt_build_node *nodes;
    size_t node_count, node_capacity;
    uint32_t captures;          /* that have not ended */
    struct vt_index balances;   /* allocation → memory.c */
    struct vt_index free_index; /* thread → its place in `frees` */
    struct vt_build_free *frees;
    size_t free_count, free_capacity;
    struct vt_build_handle *handles;
    size_t handle_count, handle_capacity;
    struct vt_build_mapping *mappings;
    size_t mapping_count, mapping_capacity;
    uint32_t mapped_root; /* ranges of mappings; values are mappings */
    struct vt_build_pool *pools;
    size_t pool_count, pool_capacity;
    struct vt_build_context *contexts;
    size_t context_count, context_capacity;
    size_t context_total; /* alive, on all devices */
    struct vt_ranges ranges;
    struct vt_build_device devices[VT_DEVICE_SLOTS];
};

static inline struct vt_allocation *vt_build_allocation(struct vt_build *build, uint32_t index)
{
    return &build->replay->allocations[index];
}

static inline bool vt_build_is_alive(struct vt_build *build, uint32_t index)
{
    return index != VT_INDEX_NONE && vt_build_allocation(build, index)->free_event == VT_NEVER;
}

static inline struct vt_build_device *vt_build_device(struct vt_build *build, int device_index)
{
    return &build->devices[device_index + 1];
}

/* Adds an allocation made by the current event; returns its index. */
uint32_t vt_build_add(struct vt_build *build, enum vt_allocation_kind kind, uint64_t bytes, int device_index);
/* Adds the block that `event` reports. Blocks that overlap it end: their frees were lost. */
void vt_build_add_block(struct vt_build *build, const struct vt_event *event);
/* Ends an allocation at the current event, its range and the blocks in it too. */
void vt_build_end(struct vt_build *build, uint32_t allocation);
/* Undoes the end of driver memory, as if it had never ended. The caller enters its range again. */
void vt_build_revive(struct vt_build *build, uint32_t allocation);
/* The same for pooled memory. Its place may have been used since, so a new allocation begins now. */
void vt_build_begin_again(struct vt_build *build, uint32_t allocation);
/* Adds driver memory to its device's ranges. Memory that overlaps it ends: its free was lost. */
void vt_build_enter(struct vt_build *build, uint32_t allocation);
/* Changes the ranges of driver memory. */
void vt_build_add_memory(struct vt_build *build, struct vt_build_device *device, uint64_t start, uint64_t end,
                         uint32_t allocation);
void vt_build_remove_memory(struct vt_build *build, struct vt_build_device *device, uint64_t start);
/* Ends the blocks in driver memory at [start, start + bytes). */
void vt_build_end_blocks(struct vt_build *build, int device_index, uint64_t start, uint64_t bytes);
/* Sets the bytes that a device's pools, contexts or graphs hold. */
void vt_build_set_growth(struct vt_build *build, enum vt_allocation_kind kind, int device_index,
                         uint64_t bytes);
/* Sets the bytes of a device's pools to what they reserved, or to what is alive in them if that is more. */
void vt_build_settle_pools(struct vt_build *build, int device_index);
/* Remembers that `event`, the current one, frees `what`. */
void vt_build_note_free(struct vt_build *build, const struct vt_event *event, uint32_t what);
/* Remembers that an allocation has this identity, 0 = none. */
void vt_build_share(struct vt_build *build, uint64_t identity, uint32_t allocation);

#endif
