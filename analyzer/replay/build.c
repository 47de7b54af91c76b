/* Begins, ends and nests allocations while events are replayed. */
#include "replay/build.h"

#include <errno.h>
#include <string.h>

#define SEGMENT_SHIFT 21u /* a framework's segments have 2 MiB or more */

/* Only the sums that the replay needs; walk.c has the rest. */
static void add_to_sums(struct vt_build *build, const struct vt_allocation *allocation, bool begins)
{
    struct vt_build_device *device = vt_build_device(build, allocation->device_index);
    uint64_t bytes = begins ? allocation->bytes : 0 - allocation->bytes;
    if (vt_is_driver_memory(allocation))
        device->driver_bytes += bytes;
    if (allocation->kind == VT_ALLOCATION_BLOCK)
        device->block_bytes += bytes;
    if (allocation->kind == VT_ALLOCATION_BLOCK && allocation->flags & VT_FLAG_UNCOUNTED)
        device->uncounted_bytes += bytes;
    if (allocation->kind == VT_ALLOCATION_POOLED)
        device->pooled_bytes += bytes;
}

uint32_t vt_build_add(struct vt_build *build, enum vt_allocation_kind kind, uint64_t bytes, int device_index)
{
    struct vt_replay *replay = build->replay;
    const struct vt_event *event = &replay->trace->events[build->event_index];
    struct vt_allocation added = {
        .bytes = bytes,
        .sequence = event->sequence,
        .alloc_event = build->event_index,
        .free_event = VT_NEVER,
        .stack_id = event->stack_id,
        .parent = VT_NEVER,
        .device_index = (int8_t)device_index,
        .kind = (uint8_t)kind,
        .flags = event->flags,
    };
    const uint32_t made = (uint32_t)replay->allocation_count;
    VT_APPEND(replay->allocations, replay->allocation_count, build->allocation_capacity, added);
    /* A block is counted once its parent is known. */
    if (kind != VT_ALLOCATION_BLOCK)
        add_to_sums(build, &replay->allocations[made], true);
    return made;
}

static bool is_direct_range(const struct vt_allocation *allocation)
{
    return (allocation->kind == VT_ALLOCATION_DRIVER || allocation->kind == VT_ALLOCATION_SEGMENT ||
            allocation->kind == VT_ALLOCATION_POOLED) &&
           allocation->bytes > 0 && allocation->address > 0 &&
           allocation->address + allocation->bytes > allocation->address;
}

void vt_build_add_memory(struct vt_build *build, struct vt_build_device *device, uint64_t start, uint64_t end,
                         uint32_t allocation)
{
    memset(device->known, 0, sizeof device->known);
    vt_ranges_insert(&build->ranges, &device->memory_root, start, end, allocation);
}

void vt_build_remove_memory(struct vt_build *build, struct vt_build_device *device, uint64_t start)
{
    memset(device->known, 0, sizeof device->known);
    vt_ranges_remove(&build->ranges, &device->memory_root, start);
}

void vt_build_end_blocks(struct vt_build *build, int device_index, uint64_t start, uint64_t bytes)
{
    struct vt_build_device *device = vt_build_device(build, device_index);
    struct vt_interval block;
    uint64_t end = start + bytes;
    while (start < end && vt_intervals_overlap(&device->blocks, start, end, &block)) {
        start = block.end;
        const struct vt_allocation *inside = &build->replay->allocations[block.value];
        if (inside->parent != VT_NEVER) /* else it never lay in this memory */
            vt_build_end(build, block.value);
    }
}

void vt_build_end(struct vt_build *build, uint32_t index)
{
    struct vt_allocation *allocation = &build->replay->allocations[index];
    struct vt_build_device *device = vt_build_device(build, allocation->device_index);
    allocation->free_event = build->event_index;
    add_to_sums(build, allocation, false);
    if (allocation->kind == VT_ALLOCATION_BLOCK) {
        vt_intervals_remove(&device->blocks, allocation->address, index);
    } else if (is_direct_range(allocation)) {
        const struct vt_range_node *node = vt_ranges_overlap(&build->ranges, device->memory_root,
                                                             allocation->address, allocation->address + 1);
        if (node && node->value == index && node->start == allocation->address &&
            node->end == allocation->address + allocation->bytes) {
            vt_build_remove_memory(build, device, allocation->address);
            vt_build_end_blocks(build, allocation->device_index, allocation->address, allocation->bytes);
        }
    }
}

void vt_build_enter(struct vt_build *build, uint32_t index)
{
    const struct vt_allocation *allocation = &build->replay->allocations[index];
    if (!is_direct_range(allocation) || (allocation->flags & (VT_FLAG_FOREIGN | VT_FLAG_ESTIMATE)))
        return; /* an array's address is a handle, not a range of memory */
    struct vt_build_device *device = vt_build_device(build, allocation->device_index);
    uint64_t start = allocation->address, end = start + allocation->bytes;
    const struct vt_range_node *node;
    while ((node = vt_ranges_overlap(&build->ranges, device->memory_root, start, end))) {
        uint32_t victim = node->value;
        if (vt_index_get(&build->memory, build->replay->allocations[victim].address) != victim)
            return; /* a mapping: only a damaged trace has both at one address */
        build->replay->doubled_allocations++;
        vt_build_end(build, victim);
    }
    vt_build_add_memory(build, device, start, end, index);
}

/* Sets a block's parent if driver memory covers the whole block. That memory becomes segments. */
static void find_parent(struct vt_build *build, struct vt_allocation *block)
{
    struct vt_build_device *device = vt_build_device(build, block->device_index);
    uint64_t end = block->address + block->bytes;
    struct vt_build_segment *known = &device->known[(block->address >> SEGMENT_SHIFT) % VT_KNOWN_SEGMENTS];
    if (known->start <= block->address && end <= known->end) {
        block->parent = known->allocation;
        return;
    }
    const struct vt_range_node *node =
        vt_ranges_overlap(&build->ranges, device->memory_root, block->address, block->address + 1);
    if (!node || (node->end < end && vt_ranges_covered(&build->ranges, device->memory_root, block->address,
                                                       end) != block->bytes))
        return;
    block->parent = node->value;
    if (node->end >= end && !node->open) {
        *known = (struct vt_build_segment){node->start, node->end, node->value};
        return;
    }
    uint32_t held;
    while ((held = vt_ranges_close_one(&build->ranges, device->memory_root, block->address, end)) !=
           VT_RANGE_NONE) {
        struct vt_allocation *memory = &build->replay->allocations[held];
        if (memory->kind == VT_ALLOCATION_DRIVER)
            memory->kind = VT_ALLOCATION_SEGMENT;
        memory->holds_blocks = memory->kind == VT_ALLOCATION_POOLED;
    }
}

/* Adds a block to its device's live ones, finds its parent and counts it. */
static void enter_block(struct vt_build *build, uint32_t index)
{
    struct vt_allocation *block = &build->replay->allocations[index];
    struct vt_build_device *device = vt_build_device(build, block->device_index);
    uint64_t start = block->address, end = start + block->bytes;
    block->parent = VT_NEVER;
    if (end > start && start > 0) {
        struct vt_interval other;
        while (vt_intervals_insert(&device->blocks, start, end, index) == -EEXIST &&
               vt_intervals_overlap(&device->blocks, start, end, &other)) {
            build->replay->doubled_allocations++;
            vt_build_end(build, other.value);
        }
        find_parent(build, block);
    }
    add_to_sums(build, block, true);
}

void vt_build_add_block(struct vt_build *build, const struct vt_event *event)
{
    const uint32_t made = vt_build_add(build, VT_ALLOCATION_BLOCK, event->bytes, event->device_index);
    build->replay->allocations[made].address = event->address;
    enter_block(build, made);
    vt_index_put(&build->blocks, event->address, made);
}

void vt_build_revive(struct vt_build *build, uint32_t index)
{
    struct vt_allocation *allocation = &build->replay->allocations[index];
    allocation->free_event = VT_NEVER;
    add_to_sums(build, allocation, true);
}

void vt_build_begin_again(struct vt_build *build, uint32_t index)
{
    const struct vt_allocation old = build->replay->allocations[index];
    const uint32_t made = vt_build_add(build, old.kind, old.bytes, old.device_index);
    struct vt_allocation *again = &build->replay->allocations[made];
    again->address = old.address;
    again->stack_id = old.stack_id;
    again->sequence = old.sequence;
    again->flags = old.flags;
    vt_index_put(&build->memory, old.address, made);
    vt_build_enter(build, made);
    vt_build_settle_pools(build, old.device_index);
}

void vt_build_set_growth(struct vt_build *build, enum vt_allocation_kind kind, int device_index,
                         uint64_t bytes)
{
    struct vt_build_device *device = vt_build_device(build, device_index);
    struct vt_usage_growth *growth = kind == VT_ALLOCATION_POOL    ? &device->pool
                                     : kind == VT_ALLOCATION_GRAPH ? &device->graph
                                                                   : &device->context;
    while (growth->bytes > bytes && growth->made.count > 0) {
        uint32_t last = growth->made.items[--growth->made.count];
        growth->bytes -= build->replay->allocations[last].bytes;
        vt_build_end(build, last);
    }
    if (growth->bytes >= bytes)
        return;
    const uint32_t made = vt_build_add(build, kind, bytes - growth->bytes, device_index);
    build->replay->allocations[made].flags = 0;
    growth->bytes = bytes;
    VT_APPEND(growth->made.items, growth->made.count, growth->made.capacity, made);
}

void vt_build_settle_pools(struct vt_build *build, int device_index)
{
    struct vt_build_device *device = vt_build_device(build, device_index);
    uint64_t bytes = device->pool_reserved_bytes;
    if (bytes < device->pooled_bytes)
        bytes = device->pooled_bytes;
    vt_build_set_growth(build, VT_ALLOCATION_POOL, device_index, bytes);
}

void vt_build_note_free(struct vt_build *build, const struct vt_event *event, uint32_t what)
{
    const struct vt_build_free latest = {.event_index = build->event_index, .what = what};
    uint32_t known = vt_index_get(&build->free_index, event->thread_id);
    if (known != VT_INDEX_NONE) {
        build->frees[known] = latest;
        return;
    }
    vt_index_put(&build->free_index, event->thread_id, (uint32_t)build->free_count);
    VT_APPEND(build->frees, build->free_count, build->free_capacity, latest);
}

void vt_build_share(struct vt_build *build, uint64_t identity, uint32_t allocation)
{
    struct vt_replay *replay = build->replay;
    uint32_t known = identity != 0 ? vt_index_get(&build->share_index, identity) : VT_INDEX_NONE;
    if (identity == 0 || allocation == VT_INDEX_NONE ||
        (known != VT_INDEX_NONE && replay->shares[known].allocation == allocation))
        return;
    vt_index_put(&build->share_index, identity, (uint32_t)replay->share_count);
    VT_APPEND(replay->shares, replay->share_count, build->share_capacity,
              (struct vt_share){.identity = identity, .allocation = allocation});
}
