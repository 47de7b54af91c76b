/* What each kind of event does, and the replay of them all. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/progress.h"
#include "replay/build.h"

/* A second opening of another process's memory gives the same address and wants a second closing. */
static int open_again(struct vt_build *build, uint64_t address)
{
    uint32_t opens = vt_index_get(&build->foreign_opens, address);
    return vt_index_put(&build->foreign_opens, address, opens == VT_INDEX_NONE ? 1 : opens + 1);
}

static int driver_alloc(struct vt_build *build, const struct vt_event *event)
{
    if (event->flags & VT_FLAG_CAPTURED)
        return 0; /* a graph node: no memory yet */
    uint32_t old = vt_index_get(&build->memory, event->address);
    if (vt_build_is_alive(build, old)) {
        if (event->flags & vt_build_allocation(build, old)->flags & VT_FLAG_FOREIGN)
            return open_again(build, event->address);
        build->replay->doubled_allocations++;
        vt_build_end(build, old);
    }
    enum vt_allocation_kind kind = event->flags & (VT_FLAG_HOST | VT_FLAG_REGISTERED) ? VT_ALLOCATION_HOST
                                   : event->flags & VT_FLAG_ASYNC                     ? VT_ALLOCATION_POOLED
                                                                                      : VT_ALLOCATION_DRIVER;
    uint32_t made;
    int error = vt_build_add(build, kind, event->bytes, event->device_index, &made);
    if (error)
        return error;
    vt_build_allocation(build, made)->address = event->address;
    error = vt_build_enter(build, made);
    if (!error)
        error = vt_index_put(&build->memory, event->address, made);
    if (!error && kind == VT_ALLOCATION_POOLED)
        return vt_build_settle_pools(build, event->device_index);
    if (error || kind == VT_ALLOCATION_POOLED)
        return error;
    struct vt_build_device *device = vt_build_device(build, event->device_index);
    return VT_APPEND(device->owned, device->owned_count, device->owned_capacity, made);
}

static int driver_free(struct vt_build *build, const struct vt_event *event)
{
    if ((event->flags & VT_FLAG_CAPTURED) || event->address == 0)
        return 0;
    uint32_t index = vt_index_get(&build->memory, event->address);
    if (!vt_build_is_alive(build, index))
        return vt_build_unknown_free(build, event->address);
    struct vt_allocation *allocation = vt_build_allocation(build, index);
    if (allocation->flags & VT_FLAG_FOREIGN) {
        uint32_t opens = vt_index_get(&build->foreign_opens, event->address);
        if (opens != VT_INDEX_NONE && opens > 0)
            return vt_index_put(&build->foreign_opens, event->address, opens - 1);
    }
    vt_build_end(build, index);
    return allocation->kind == VT_ALLOCATION_POOLED ? vt_build_settle_pools(build, allocation->device_index)
                                                    : 0;
}

/* The framework's own counter, where it has one: then `detail` is told too. */
static void compare_total(struct vt_build *build, const struct vt_event *event)
{
    if (!event->head_start && event->detail && event->device_index >= 0 &&
        vt_build_device(build, event->device_index)->block_bytes != event->total_bytes)
        build->replay->total_mismatches++;
}

static int block_free(struct vt_build *build, const struct vt_event *event)
{
    uint32_t index = vt_index_get(&build->blocks, event->address);
    if (!vt_build_is_alive(build, index))
        return vt_build_unknown_free(build, event->address);
    vt_build_end(build, index);
    return 0;
}

/* Undoes the latest of what could have been meant by a free of that address. */
static int free_failed(struct vt_build *build, const struct vt_event *event)
{
    uint32_t block =
        vt_index_get(event->layer == VT_LAYER_FRAMEWORK ? &build->blocks : &build->memory, event->address);
    uint32_t mapping = vt_index_get(&build->mapping_index, event->address);
    const struct vt_build_handle *handle = vt_build_handle_of(build, event->address);
    /* event numbers plus one; 0 = not freed */
    uint32_t freed[3] = {0}, unknown = vt_index_get(&build->unknown_free, event->address) + 1;
    if (block != VT_INDEX_NONE)
        freed[0] = vt_build_allocation(build, block)->free_event + 1;
    if (event->layer != VT_LAYER_FRAMEWORK) {
        freed[1] = mapping == VT_INDEX_NONE ? 0 : build->mappings[mapping].unmap_event + 1;
        freed[2] = handle ? handle->release_event + 1 : 0;
    }
    int latest = freed[1] > freed[0] ? 1 : 0;
    latest = freed[2] > freed[latest] ? 2 : latest;
    if (freed[latest] == 0 || unknown > freed[latest]) {
        build->replay->unknown_frees -= unknown > 0 && build->replay->unknown_frees > 0;
        return 0;
    }
    if (latest == 0) {
        uint8_t kind = vt_build_allocation(build, block)->kind;
        bool lies_in_other = kind == VT_ALLOCATION_BLOCK || kind == VT_ALLOCATION_POOLED;
        return lies_in_other ? vt_build_begin_again(build, block) : vt_build_revive(build, block);
    }
    return latest == 1 ? vt_build_map_again(build, event->address)
                       : vt_build_keep_reference(build, event->address);
}

static int pool(struct vt_build *build, const struct vt_event *event)
{
    uint32_t index = vt_index_get(&build->pool_index, event->address);
    uint64_t reserved = event->kind == VT_EVENT_POOL_DESTROY ? 0 : event->total_bytes;
    if (index == VT_INDEX_NONE) {
        index = (uint32_t)build->pool_count;
        if (vt_index_put(&build->pool_index, event->address, index) ||
            VT_APPEND(build->pools, build->pool_count, build->pool_capacity,
                      (struct vt_build_pool){.device_index = event->device_index}))
            return -ENOMEM;
    }
    struct vt_build_pool *known = &build->pools[index];
    if ((event->flags & VT_FLAG_HOST) || known->device_index < 0)
        return 0;
    vt_build_device(build, known->device_index)->pool_reserved_bytes += reserved - known->reserved_bytes;
    known->reserved_bytes = reserved;
    return vt_build_settle_pools(build, known->device_index);
}

/* The first reading of a device's free memory shows what contexts, libraries and other processes hold: used
 * bytes that no event accounts for. */
static int memory_info(struct vt_build *build, const struct vt_event *event)
{
    struct vt_build_device *device = vt_build_device(build, event->device_index);
    if (event->device_index < 0 || device->info_seen || event->total_bytes < event->bytes)
        return 0;
    device->info_seen = true;
    uint64_t used = event->total_bytes - event->bytes;
    if (used <= device->driver_bytes)
        return 0;
    return vt_build_set_growth(build, VT_ALLOCATION_CONTEXT, event->device_index,
                               device->context.bytes + (used - device->driver_bytes));
}

static int delta(struct vt_build *build, const struct vt_event *event)
{
    if (event->device_index < 0)
        return 0;
    uint64_t now = vt_build_device(build, event->device_index)->context.bytes;
    if ((int64_t)event->bytes < 0) {
        uint64_t less = 0 - event->bytes;
        now = less < now ? now - less : 0;
    } else {
        now += event->bytes;
    }
    return vt_build_set_growth(build, VT_ALLOCATION_CONTEXT, event->device_index, now);
}

static int context_create(struct vt_build *build, const struct vt_event *event)
{
    uint32_t index = vt_index_get(&build->context_index, event->address);
    if (index != VT_INDEX_NONE && build->contexts[index].references > 0) {
        build->contexts[index].references++;
        return 0;
    }
    if (vt_index_put(&build->context_index, event->address, (uint32_t)build->context_count) ||
        VT_APPEND(build->contexts, build->context_count, build->context_capacity,
                  (struct vt_build_context){.references = 1, .device_index = event->device_index}))
        return -ENOMEM;
    vt_build_device(build, event->device_index)->contexts++;
    build->context_total++;
    return 0;
}

static void end_owned(struct vt_build *build, int device_index)
{
    struct vt_build_device *device = vt_build_device(build, device_index);
    for (size_t i = 0; i < device->owned_count; i++)
        if (vt_build_is_alive(build, device->owned[i]))
            vt_build_end(build, device->owned[i]);
    device->owned_count = 0;
}

/* Which context an allocation belongs to is not in the trace: what a device's contexts own ends with the last
 * of them. Memory of pools and of the virtual memory calls outlives them. */
static int context_destroy(struct vt_build *build, const struct vt_event *event)
{
    uint32_t index = vt_index_get(&build->context_index, event->address);
    int device_index = event->device_index;
    if (index != VT_INDEX_NONE && build->contexts[index].references > 0) {
        struct vt_build_context *context = &build->contexts[index];
        device_index = context->device_index;
        if (--context->references > 0)
            return 0;
        vt_build_device(build, device_index)->contexts--;
        build->context_total--;
    } else if (device_index < 0) {
        return 0; /* its creation was not recorded, and its device is unknown */
    }
    if (vt_build_device(build, device_index)->contexts > 0)
        return 0;
    end_owned(build, device_index);
    if (build->context_total == 0)
        end_owned(build, -1); /* page-locked memory of an unknown device */
    vt_build_device(build, device_index)->info_seen = false;
    return vt_build_set_growth(build, VT_ALLOCATION_CONTEXT, device_index, 0);
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

static int framework_event(struct vt_build *build, const struct vt_event *event)
{
    int error = 0;
    if (event->kind == VT_EVENT_ALLOC) {
        uint32_t old = vt_index_get(&build->blocks, event->address);
        if (vt_build_is_alive(build, old)) {
            build->replay->doubled_allocations++;
            vt_build_end(build, old);
        }
        error = vt_build_add_block(build, event);
    } else {
        error = block_free(build, event);
    }
    compare_total(build, event);
    return error;
}

static int replay_event(struct vt_build *build, const struct vt_event *event)
{
    if (!is_plausible(event)) {
        build->replay->implausible_events++;
        return 0;
    }
    bool framework = event->layer == VT_LAYER_FRAMEWORK;
    switch (event->kind) {
    case VT_EVENT_ALLOC:
        return framework ? framework_event(build, event) : driver_alloc(build, event);
    case VT_EVENT_FREE:
        return framework ? framework_event(build, event) : driver_free(build, event);
    case VT_EVENT_FREE_FAILED:
        return free_failed(build, event);
    case VT_EVENT_POOL:
    case VT_EVENT_POOL_DESTROY:
        return pool(build, event);
    case VT_EVENT_MEMORY_INFO:
        return memory_info(build, event);
    case VT_EVENT_DELTA:
        return delta(build, event);
    case VT_EVENT_CONTEXT_CREATE:
        return context_create(build, event);
    case VT_EVENT_CONTEXT_DESTROY:
        return context_destroy(build, event);
    default:
        return vt_build_virtual_event(build, event);
    }
}

static int link_frees(struct vt_replay *replay)
{
    size_t events = replay->trace->event_count;
    replay->first_freed = malloc((events + 1) * sizeof *replay->first_freed);
    replay->next_freed = malloc((replay->allocation_count + 1) * sizeof *replay->next_freed);
    if (!replay->first_freed || !replay->next_freed)
        return -ENOMEM;
    memset(replay->first_freed, 0xff, (events + 1) * sizeof *replay->first_freed); /* VT_NEVER */
    for (size_t i = replay->allocation_count; i-- > 0;) {
        const struct vt_allocation *allocation = &replay->allocations[i];
        replay->next_freed[i] = VT_NEVER;
        if (allocation->free_event == VT_NEVER)
            continue;
        replay->next_freed[i] = replay->first_freed[allocation->free_event];
        replay->first_freed[allocation->free_event] = (uint32_t)i;
    }
    return 0;
}

static void free_build(struct vt_build *build)
{
    struct vt_index *indices[] = {&build->memory,        &build->blocks,       &build->handle_index,
                                  &build->mapping_index, &build->pool_index,   &build->context_index,
                                  &build->unknown_free,  &build->foreign_opens};
    for (size_t i = 0; i < sizeof indices / sizeof *indices; i++)
        vt_index_free(indices[i]);
    for (size_t i = 0; i < VT_DEVICE_SLOTS; i++) {
        free(build->devices[i].pool.items);
        free(build->devices[i].context.items);
        free(build->devices[i].owned);
        vt_intervals_free(&build->devices[i].blocks);
    }
    free(build->handles);
    free(build->mappings);
    free(build->pools);
    free(build->contexts);
    vt_ranges_free(&build->ranges);
    free(build);
}

#define PREFETCHED_EVENTS 8u /* nearly all are of blocks, whose addresses lie anywhere in their index */

int vt_replay_make(const struct vt_trace *trace, struct vt_replay **made)
{
    struct vt_replay *replay = calloc(1, sizeof *replay);
    struct vt_build *build = calloc(1, sizeof *build);
    *made = NULL;
    int error = replay && build ? vt_ranges_init(&build->ranges) : -ENOMEM;
    if (!error) {
        replay->trace = trace;
        replay->device_count = 1;
        replay->devices = malloc(trace->event_count + 1);
        build->replay = replay;
        error = !replay->devices ? -ENOMEM
                                 : vt_reserve(&replay->allocations, &build->allocation_capacity,
                                              trace->event_count / 2 + 1, sizeof *replay->allocations);
    }
    for (size_t i = 0; i < trace->event_count && !error; i++) {
        build->event_index = (uint32_t)i;
        replay->devices[i] = trace->events[i].device_index;
        if (replay->device_count <= replay->devices[i])
            replay->device_count = replay->devices[i] + 1;
        vt_progress_at(VT_WORK_REPLAY, i, trace->event_count);
        if (i + PREFETCHED_EVENTS < trace->event_count)
            vt_index_prefetch(&build->blocks, trace->events[i + PREFETCHED_EVENTS].address);
        error = replay_event(build, &trace->events[i]);
    }
    if (!error)
        error = link_frees(replay);
    if (build)
        free_build(build);
    if (error) {
        vt_replay_free(replay);
        return error;
    }
    *made = replay;
    return 0;
}

void vt_replay_free(struct vt_replay *replay)
{
    if (!replay)
        return;
    free(replay->allocations);
    free(replay->first_freed);
    free(replay->next_freed);
    free(replay->devices);
    free(replay);
}
