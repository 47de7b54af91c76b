/* What each kind of event does, and the replay of them all. */
#include "replay/memory.h"
#include "replay/replay.h"

#include <stdlib.h>
#include <string.h>

#include "base/allocate.h"
#include "base/progress.h"
#include "replay/build.h"
#include "replay/graph_nodes.h"
#include "replay/virtual_memory.h"

/* Compares with the framework's own counter. A framework that has one reports `detail` too. */
static void compare_total(struct vt_build *build, const struct vt_event *event)
{
    if (event->head_start || !event->detail || event->device_index < 0)
        return;
    const struct vt_build_device *device = vt_build_device(build, event->device_index);
    if (device->block_bytes - device->uncounted_bytes != event->total_bytes)
        build->replay->total_mismatches++;
}

/* Whether another framework counts these bytes: one framework may take its memory from a block of the other.
 */
static bool lies_in_counted_block(struct vt_build *build, const struct vt_event *event)
{
    struct vt_interval block;
    return event->flags & VT_FLAG_UNCOUNTED && event->device_index >= 0 && event->bytes &&
           vt_intervals_overlap(&vt_build_device(build, event->device_index)->blocks, event->address,
                                event->address + event->bytes, &block) &&
           block.start <= event->address && event->bytes <= block.end - event->address &&
           !(build->replay->allocations[block.value].flags & VT_FLAG_UNCOUNTED);
}

static void block_free(struct vt_build *build, const struct vt_event *event)
{
    uint32_t index = vt_index_get(&build->blocks, event->address);
    if (lies_in_counted_block(build, event))
        return;
    if (!vt_build_is_alive(build, index))
        build->replay->unknown_frees++;
    else
        vt_build_end(build, index);
}

static void free_failed(struct vt_build *build, const struct vt_event *event)
{
    uint32_t known = vt_index_get(&build->free_index, event->thread_id);
    if (known == VT_INDEX_NONE || build->frees[known].event_index == VT_NEVER)
        return;
    const struct vt_build_free latest = build->frees[known];
    const struct vt_event *freed = &build->replay->trace->events[latest.event_index];
    if (freed->address != event->address)
        return; /* the event of the free that failed was lost */
    build->frees[known].event_index = VT_NEVER;
    if (freed->kind == VT_EVENT_FREE && !(freed->flags & VT_FLAG_CAPTURED))
        vt_build_keep_memory(build, event->address, latest.what);
    else if (freed->kind == VT_EVENT_UNMAP)
        vt_build_map_again(build, freed, latest);
    else if (freed->kind == VT_EVENT_HANDLE_RELEASE)
        vt_build_keep_reference(build, event->address, latest.what);
}

static void pool_event(struct vt_build *build, const struct vt_event *event)
{
    if (event->flags & VT_FLAG_CAPTURED) {
        if (event->device_index >= 0)
            vt_graph_nodes_grow(build, event);
        return;
    }
    uint32_t index = vt_index_get(&build->pool_index, event->address);
    uint64_t reserved = event->kind == VT_EVENT_POOL_DESTROY ? 0 : event->total_bytes;
    if (index == VT_INDEX_NONE) {
        index = (uint32_t)build->pool_count;
        vt_index_put(&build->pool_index, event->address, index);
        VT_APPEND(build->pools, build->pool_count, build->pool_capacity,
                  (struct vt_build_pool){.device_index = event->device_index});
    }
    struct vt_build_pool *known = &build->pools[index];
    if ((event->flags & VT_FLAG_HOST) || known->device_index < 0)
        return;
    vt_build_device(build, known->device_index)->pool_reserved_bytes += reserved - known->reserved_bytes;
    known->reserved_bytes = reserved;
    vt_build_settle_pools(build, known->device_index);
}

/* The first reading of a device's free memory shows how much contexts, libraries and other processes hold:
 * the used bytes that no event explains. */
static void memory_info_event(struct vt_build *build, const struct vt_event *event)
{
    struct vt_build_device *device = vt_build_device(build, event->device_index);
    if (event->device_index < 0 || device->info_seen || event->total_bytes < event->bytes)
        return;
    device->info_seen = true;
    uint64_t used = event->total_bytes - event->bytes;
    if (used <= device->driver_bytes)
        return;
    vt_build_set_growth(build, VT_ALLOCATION_CONTEXT, event->device_index,
                        device->context.bytes + (used - device->driver_bytes));
}

static void export_event(struct vt_build *build, const struct vt_event *event)
{
    uint32_t memory = vt_index_get(&build->memory, event->address);
    if (!vt_build_is_alive(build, memory))
        memory = vt_build_memory_of(build, event->address);
    vt_build_share(build, event->detail, memory);
}

static bool is_plausible(const struct vt_event *event)
{
    uint64_t bytes = event->bytes;
    if (event->kind == VT_EVENT_DELTA && (int64_t)bytes < 0)
        bytes = 0 - bytes;
    switch (event->kind) {
    case VT_EVENT_POOL:
    case VT_EVENT_MEMORY_INFO:
    case VT_EVENT_BIND:
    case VT_EVENT_BIND_ADDRESS:
    case VT_EVENT_UNBIND:
        return bytes < VT_PLAUSIBLE_BYTES && event->total_bytes < VT_PLAUSIBLE_BYTES;
    default:
        return bytes < VT_PLAUSIBLE_BYTES;
    }
}

static void framework_event(struct vt_build *build, const struct vt_event *event)
{
    if (event->kind == VT_EVENT_ALLOC && lies_in_counted_block(build, event))
        return;
    if (event->kind == VT_EVENT_ALLOC) {
        uint32_t old = vt_index_get(&build->blocks, event->address);
        if (vt_build_is_alive(build, old)) {
            build->replay->doubled_allocations++;
            vt_build_end(build, old);
        }
        vt_build_add_block(build, event);
    } else {
        block_free(build, event);
    }
    compare_total(build, event);
}

static void delta_event(struct vt_build *build, const struct vt_event *event)
{
    if (event->device_index >= 0)
        vt_build_change_context(build, event->device_index, event->detail, event->bytes);
}

static void driver_event(struct vt_build *build, const struct vt_event *event)
{
    static void (*const take[])(struct vt_build * build, const struct vt_event *event) = {
        [VT_EVENT_ALLOC] = vt_build_driver_alloc,
        [VT_EVENT_FREE] = vt_build_driver_free,
        [VT_EVENT_FREE_FAILED] = free_failed,
        [VT_EVENT_POOL_DESTROY] = pool_event,
        [VT_EVENT_POOL] = pool_event,
        [VT_EVENT_CAPTURE] = vt_graph_nodes_capture,
        [VT_EVENT_CAPTURE_END] = vt_graph_nodes_capture,
        [VT_EVENT_GRAPH] = vt_graph_nodes_capture,
        [VT_EVENT_EXPORT] = export_event,
        [VT_EVENT_MEMORY_INFO] = memory_info_event,
        [VT_EVENT_DELTA] = delta_event,
        [VT_EVENT_CONTEXT_CREATE] = vt_build_context_create,
        [VT_EVENT_CONTEXT_DESTROY] = vt_build_context_destroy,
    };
    if (event->kind == VT_EVENT_UNRESERVE || event->kind == VT_EVENT_POOL_DESTROY)
        vt_build_note_free(build, event, VT_INDEX_NONE);
    if (event->kind < sizeof take / sizeof *take && take[event->kind])
        take[event->kind](build, event);
    else
        vt_build_virtual_event(build, event);
}

static void replay_event(struct vt_build *build, const struct vt_event *event)
{
    if (!is_plausible(event))
        build->replay->implausible_events++;
    else if (event->layer == VT_LAYER_FRAMEWORK &&
             (event->kind == VT_EVENT_ALLOC || event->kind == VT_EVENT_FREE))
        framework_event(build, event);
    else
        driver_event(build, event);
}

static void link_frees(struct vt_replay *replay)
{
    size_t events = replay->trace->event_count;
    replay->first_freed = vt_allocate((events + 1) * sizeof *replay->first_freed);
    replay->next_freed = vt_allocate((replay->allocation_count + 1) * sizeof *replay->next_freed);
    memset(replay->first_freed, 0xff, (events + 1) * sizeof *replay->first_freed); /* VT_NEVER */
    for (size_t i = replay->allocation_count; i-- > 0;) {
        const struct vt_allocation *allocation = &replay->allocations[i];
        replay->next_freed[i] = VT_NEVER;
        if (allocation->free_event == VT_NEVER)
            continue;
        replay->next_freed[i] = replay->first_freed[allocation->free_event];
        replay->first_freed[allocation->free_event] = (uint32_t)i;
    }
}

static void free_build(struct vt_build *build)
{
    struct vt_index *indices[] = {&build->memory,        &build->blocks,       &build->handle_index,
                                  &build->mapping_index, &build->pool_index,   &build->context_index,
                                  &build->balances,      &build->graph_memory, &build->share_index,
                                  &build->free_index};
    for (size_t i = 0; i < sizeof indices / sizeof *indices; i++)
        vt_index_free(indices[i]);
    for (size_t i = 0; i < VT_DEVICE_SLOTS; i++) {
        free(build->devices[i].pool.made.items);
        free(build->devices[i].context.made.items);
        free(build->devices[i].graph.made.items);
        free(build->devices[i].owned.items);
        vt_intervals_free(&build->devices[i].blocks);
    }
    for (size_t i = 0; i < build->context_count; i++)
        free(build->contexts[i].owned.items);
    free(build->frees);
    free(build->nodes);
    free(build->handles);
    free(build->mappings);
    free(build->pools);
    free(build->contexts);
    vt_ranges_free(&build->ranges);
    free(build);
}

#define PREFETCHED_EVENTS 8u /* ahead: nearly all events look up a block's address in a large index */

struct vt_replay *vt_replay_make(const struct vt_trace *trace)
{
    struct vt_replay *replay = vt_allocate_zeros(1, sizeof *replay);
    struct vt_build *build = vt_allocate_zeros(1, sizeof *build);
    vt_ranges_init(&build->ranges);
    build->replay = replay;
    replay->trace = trace;
    replay->device_count = 1;
    replay->devices = vt_allocate(trace->event_count + 1);
    vt_reserve(&replay->allocations, &build->allocation_capacity, trace->event_count / 2 + 1,
               sizeof *replay->allocations);
    for (size_t i = 0; i < trace->event_count; i++) {
        build->event_index = (uint32_t)i;
        replay->devices[i] = trace->events[i].device_index;
        if (replay->device_count <= replay->devices[i])
            replay->device_count = replay->devices[i] + 1;
        vt_progress_at(VT_WORK_REPLAY, i, trace->event_count);
        if (i + PREFETCHED_EVENTS < trace->event_count)
            vt_index_prefetch(&build->blocks, trace->events[i + PREFETCHED_EVENTS].address);
        replay_event(build, &trace->events[i]);
    }
    link_frees(replay);
    free_build(build);
    return replay;
}

void vt_replay_free(struct vt_replay *replay)
{
    if (!replay)
        return;
    free(replay->allocations);
    free(replay->first_freed);
    free(replay->next_freed);
    free(replay->devices);
    free(replay->shares);
    free(replay);
}
