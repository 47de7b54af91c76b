/* Replay of virtual memory management: handles of physical memory, their mappings, and multicast objects to
 * which such memory is bound.
 *
 * The bindings of an object are a set of ranges, by device and offset in the object. Their values are the
 * bound handles, VT_INDEX_NONE for memory of a pool. The set outlives its object, since a failed release can
 * undo the end; bindings of an ended object keep no memory alive. */
#include "replay/virtual_memory.h"

#include "replay/build.h"

#define NO_HANDLE VT_INDEX_NONE

static uint32_t handle_index_of(const struct vt_build *build, uint64_t address)
{
    return vt_index_get(&build->handle_index, address);
}

uint32_t vt_build_memory_of(const struct vt_build *build, uint64_t handle)
{
    uint32_t index = handle_index_of(build, handle);
    return index != NO_HANDLE && build->handles[index].in_use ? build->handles[index].allocation
                                                              : VT_INDEX_NONE;
}

static void drop_bound(struct vt_build *build, uint32_t memory);

/* Ends a handle that nothing holds any more, then handles bound to it that nothing else holds. It goes no
 * deeper: an object is never bound itself. */
static void end_if_unused(struct vt_build *build, uint32_t index)
{
    struct vt_build_handle *handle = &build->handles[index];
    const struct vt_range_node *node;
    if (!handle->in_use || handle->references > 0 || handle->mappings > 0 || handle->bindings > 0)
        return;
    handle->in_use = false;
    if (vt_build_is_alive(build, handle->allocation))
        vt_build_end(build, handle->allocation);
    for (uint64_t at = 0; (node = vt_ranges_overlap(&build->ranges, handle->bound_root, at, UINT64_MAX));) {
        at = node->end;
        drop_bound(build, node->value);
    }
}

/* False for what turned out to be an object after it was bound: a binding does not hold it. */
static bool is_bindable(const struct vt_build *build, uint32_t memory)
{
    return memory != NO_HANDLE && !build->handles[memory].is_object;
}

static void drop_bound(struct vt_build *build, uint32_t memory)
{
    if (!is_bindable(build, memory))
        return;
    build->handles[memory].bindings--;
    end_if_unused(build, memory);
}

/* Marks a handle as in use, and undoes its end if it had ended. */
static void mark_in_use(struct vt_build *build, uint32_t index)
{
    struct vt_build_handle *handle = &build->handles[index];
    const struct vt_range_node *node;
    if (handle->in_use)
        return;
    handle->in_use = true;
    if (handle->allocation != VT_INDEX_NONE && !vt_build_is_alive(build, handle->allocation))
        vt_build_revive(build, handle->allocation);
    for (uint64_t at = 0; (node = vt_ranges_overlap(&build->ranges, handle->bound_root, at, UINT64_MAX));) {
        uint32_t memory = node->value;
        at = node->end;
        if (!is_bindable(build, memory))
            continue;
        build->handles[memory].bindings++;
        mark_in_use(build, memory);
    }
}

/* ---- Handles. */

static void new_handle(struct vt_build *build, const struct vt_event *event, int32_t references)
{
    bool is_object = event->kind == VT_EVENT_MULTICAST_CREATE;
    uint32_t made = VT_INDEX_NONE;
    if (!is_object)
        made = vt_build_add(build, event->flags & VT_FLAG_HOST ? VT_ALLOCATION_HOST : VT_ALLOCATION_DRIVER,
                            event->bytes, event->device_index);
    VT_APPEND(build->handles, build->handle_count, build->handle_capacity,
              (struct vt_build_handle){
                  .allocation = made, .references = references, .is_object = is_object, .in_use = true});
}

static void handle_create(struct vt_build *build, const struct vt_event *event)
{
    uint32_t old = handle_index_of(build, event->address);
    if (old != NO_HANDLE && build->handles[old].references > 0 && build->handles[old].in_use) {
        /* importing memory that this process already has may give the same handle */
        if (event->flags & VT_FLAG_FOREIGN) {
            build->handles[old].references++;
            return;
        }
        build->replay->doubled_allocations++;
        build->handles[old].references = 0;
        end_if_unused(build, old);
    }
    new_handle(build, event, 1);
    vt_index_put(&build->handle_index, event->address, (uint32_t)build->handle_count - 1);
    if (event->flags & VT_FLAG_FOREIGN)
        vt_build_share(build, event->total_bytes, build->handles[build->handle_count - 1].allocation);
}

static void handle_reference(struct vt_build *build, const struct vt_event *event)
{
    const bool retain = event->kind == VT_EVENT_HANDLE_RETAIN;
    uint32_t index = handle_index_of(build, event->address);
    struct vt_build_handle *handle = index == NO_HANDLE ? NULL : &build->handles[index];
    if (!retain) {
        vt_build_note_free(build, event, index);
        build->replay->unknown_frees += !handle || handle->references <= 0;
    }
    if (!handle)
        return;
    handle->references += retain ? 1 : -1;
    if (!retain)
        end_if_unused(build, index);
    else if (handle->references > 0) /* recorded after the call: another thread may have released it since */
        mark_in_use(build, index);
}

void vt_build_keep_reference(struct vt_build *build, uint64_t address, uint32_t index)
{
    if (index == NO_HANDLE) {
        build->replay->unknown_frees--;
        return;
    }
    int32_t references = ++build->handles[index].references;
    build->replay->unknown_frees -= references <= 0;
    if (references == 1 && handle_index_of(build, address) == index)
        mark_in_use(build, index);
}

/* ---- Mappings. */

static void unmap_one(struct vt_build *build, struct vt_build_mapping *mapping)
{
    struct vt_build_handle *handle = &build->handles[mapping->handle];
    mapping->unmap_event = build->event_index;
    handle->mappings--;
    if (mapping->in_mapped)
        vt_ranges_remove(&build->ranges, &build->mapped_root, mapping->address);
    if (mapping->in_ranges) {
        int device_index = vt_build_allocation(build, handle->allocation)->device_index;
        handle->mapped_bytes -= mapping->bytes;
        vt_build_remove_memory(build, vt_build_device(build, device_index), mapping->address);
        vt_build_end_blocks(build, device_index, mapping->address, mapping->bytes);
    }
    end_if_unused(build, mapping->handle);
}

/* Adds the range to its device's memory, unless the whole handle is mapped elsewhere already: bytes count
 * once. */
static void enter_memory(struct vt_build *build, struct vt_build_mapping *mapping)
{
    struct vt_build_handle *handle = &build->handles[mapping->handle];
    const struct vt_allocation *memory = vt_build_allocation(build, handle->allocation);
    struct vt_build_device *device = vt_build_device(build, memory->device_index);
    uint64_t end = mapping->address + mapping->bytes;
    if (memory->kind == VT_ALLOCATION_HOST || (memory->flags & VT_FLAG_FOREIGN) ||
        handle->mapped_bytes + mapping->bytes > memory->bytes ||
        vt_ranges_overlap(&build->ranges, device->memory_root, mapping->address, end))
        return;
    mapping->in_ranges = true;
    handle->mapped_bytes += mapping->bytes;
    vt_build_add_memory(build, device, mapping->address, end, handle->allocation);
}

static void enter_mapping(struct vt_build *build, struct vt_build_mapping *mapping)
{
    uint64_t end = mapping->address + mapping->bytes;
    mapping->in_ranges = false;
    mapping->in_mapped = false;
    if (end <= mapping->address)
        return;
    if (!vt_ranges_overlap(&build->ranges, build->mapped_root, mapping->address, end)) {
        mapping->in_mapped = true;
        vt_ranges_insert(&build->ranges, &build->mapped_root, mapping->address, end,
                         (uint32_t)(mapping - build->mappings));
    }
    if (build->handles[mapping->handle].allocation != VT_INDEX_NONE)
        enter_memory(build, mapping);
}

static void map_memory(struct vt_build *build, const struct vt_event *event)
{
    uint32_t old = vt_index_get(&build->mapping_index, event->address);
    if (old != VT_INDEX_NONE && build->mappings[old].unmap_event == VT_NEVER) {
        build->replay->doubled_allocations++;
        unmap_one(build, &build->mappings[old]);
    }
    uint32_t handle = handle_index_of(build, event->detail);
    if (handle == NO_HANDLE || !build->handles[handle].in_use) {
        /* its creation was not recorded: the mapping is all we know about it */
        new_handle(build, event, 0);
        handle = (uint32_t)build->handle_count - 1;
    }
    build->handles[handle].mappings++;
    uint32_t allocation = build->handles[handle].allocation, made = (uint32_t)build->mapping_count;
    if (allocation != VT_INDEX_NONE && vt_build_allocation(build, allocation)->address == 0 &&
        event->bytes > 0)
        vt_build_allocation(build, allocation)->address = event->address;
    VT_APPEND(
        build->mappings, build->mapping_count, build->mapping_capacity,
        (struct vt_build_mapping){
            .address = event->address, .bytes = event->bytes, .handle = handle, .unmap_event = VT_NEVER});
    enter_mapping(build, &build->mappings[made]);
    vt_index_put(&build->mapping_index, event->address, made);
}

/* One call may unmap several adjacent mappings: the one after `previous`, the first for NULL; NULL after the
 * last. */
static struct vt_build_mapping *next_mapping(struct vt_build *build, const struct vt_event *unmap,
                                             const struct vt_build_mapping *previous)
{
    const uint64_t at = previous ? previous->address + previous->bytes : unmap->address;
    const bool ended = previous && (previous->bytes == 0 || at >= unmap->address + unmap->bytes);
    const uint32_t index = ended ? VT_INDEX_NONE : vt_index_get(&build->mapping_index, at);
    return index == VT_INDEX_NONE ? NULL : &build->mappings[index];
}

static void unmap_memory(struct vt_build *build, const struct vt_event *event)
{
    uint32_t found = VT_INDEX_NONE;
    for (struct vt_build_mapping *mapping = NULL; (mapping = next_mapping(build, event, mapping));) {
        if (mapping->unmap_event != VT_NEVER) {
            mapping->surplus++;
        } else {
            unmap_one(build, mapping);
            found = (uint32_t)(mapping - build->mappings);
        }
    }
    build->replay->unknown_frees += found == VT_INDEX_NONE;
    vt_build_note_free(build, event, found);
}

void vt_build_map_again(struct vt_build *build, const struct vt_event *freed, struct vt_build_free latest)
{
    bool another = false; /* another unmapping counted as unknown, and is not */
    for (struct vt_build_mapping *mapping = NULL; (mapping = next_mapping(build, freed, mapping));) {
        if (mapping->surplus > 0) { /* another unmapping ended it in any case */
            mapping->surplus--;
            another = true;
        } else if (mapping->unmap_event == latest.event_index) {
            mark_in_use(build, mapping->handle);
            build->handles[mapping->handle].mappings++;
            mapping->unmap_event = VT_NEVER;
            enter_mapping(build, mapping);
        }
    }
    if ((latest.what == VT_INDEX_NONE || another) && build->replay->unknown_frees > 0)
        build->replay->unknown_frees--;
}

/* ---- Bindings to multicast objects. */

/* Where a binding lies in an object's set. Offsets are below VT_PLAUSIBLE_BYTES. */
static uint64_t bound_place(int device_index, uint64_t offset)
{
    return (uint64_t)(device_index + 1) << 56 | offset;
}

/* Ends the bindings that overlap [start, end) of an object's set; returns whether there was one. */
static bool unbind_range(struct vt_build *build, uint32_t object, uint64_t start, uint64_t end)
{
    const struct vt_range_node *node;
    bool found = false;
    while ((node = vt_ranges_overlap(&build->ranges, build->handles[object].bound_root, start, end))) {
        uint64_t first = node->start;
        uint32_t memory = node->value;
        start = node->end;
        vt_ranges_remove(&build->ranges, &build->handles[object].bound_root, first);
        drop_bound(build, memory);
        found = true;
        if (start >= end)
            break;
    }
    return found;
}

static uint32_t memory_to_bind(const struct vt_build *build, const struct vt_event *event)
{
    uint32_t memory = NO_HANDLE;
    if (event->kind == VT_EVENT_BIND) {
        memory = handle_index_of(build, event->detail);
    } else {
        const struct vt_range_node *node =
            vt_ranges_overlap(&build->ranges, build->mapped_root, event->detail, event->detail + 1);
        if (node)
            memory = build->mappings[node->value].handle;
    }
    return is_bindable(build, memory) && build->handles[memory].in_use ? memory : NO_HANDLE;
}

static void bind_memory(struct vt_build *build, const struct vt_event *event)
{
    uint32_t object = handle_index_of(build, event->address);
    if (object == NO_HANDLE || !build->handles[object].in_use || event->bytes == 0 ||
        build->handles[object].bindings > 0)
        return;
    build->handles[object].is_object = true; /* for an imported handle, only a binding shows this */
    uint32_t memory = memory_to_bind(build, event);
    int device_index = event->device_index;
    if (device_index < 0 && memory != NO_HANDLE)
        device_index = vt_build_allocation(build, build->handles[memory].allocation)->device_index;
    uint64_t start = bound_place(device_index, event->total_bytes), end = start + event->bytes;
    if (memory != NO_HANDLE)
        build->handles[memory].bindings++; /* before the old binding ends, which may be of the same memory */
    if (unbind_range(build, object, start, end))
        build->replay->doubled_allocations++;
    vt_ranges_insert(&build->ranges, &build->handles[object].bound_root, start, end, memory);
}

/* If the binding had no device, it lies where device -1 does. */
static void unbind_memory(struct vt_build *build, const struct vt_event *event)
{
    uint32_t object = handle_index_of(build, event->address);
    bool found = false;
    if (object != NO_HANDLE && build->handles[object].in_use && event->bytes > 0) {
        uint64_t start = bound_place(event->device_index, event->total_bytes),
                 unknown = bound_place(-1, event->total_bytes);
        found = unbind_range(build, object, start, start + event->bytes) ||
                unbind_range(build, object, unknown, unknown + event->bytes);
    }
    build->replay->unknown_frees += !found;
}

void vt_build_virtual_event(struct vt_build *build, const struct vt_event *event)
{
    static void (*const take[])(struct vt_build * build, const struct vt_event *event) = {
        [VT_EVENT_HANDLE_CREATE] = handle_create,
        [VT_EVENT_MULTICAST_CREATE] = handle_create,
        [VT_EVENT_HANDLE_RETAIN] = handle_reference,
        [VT_EVENT_HANDLE_RELEASE] = handle_reference,
        [VT_EVENT_MAP] = map_memory,
        [VT_EVENT_UNMAP] = unmap_memory,
        [VT_EVENT_BIND] = bind_memory,
        [VT_EVENT_BIND_ADDRESS] = bind_memory,
        [VT_EVENT_UNBIND] = unbind_memory,
    };
    if (event->kind < sizeof take / sizeof *take && take[event->kind])
        take[event->kind](build, event);
}
