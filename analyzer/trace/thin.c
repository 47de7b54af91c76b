#include "trace/thin.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/allocate.h"
#include "format/allocator.h"

/* Empty events are taken out of the result when a gap has so many. */
#define DROPPED_MAXIMUM (1u << 18)

/* Driver memory is looked at in pages, the first of each allocation: that is where a framework begins to cut
 * it up. */
#define PAGE_BYTES (UINT64_C(2) << 20)
#define PAGES_MAXIMUM 16u

struct vt_thin_sizes {
    uint64_t least, most; /* 0 = none */
};

/* The block that an address has, or had last. */
struct vt_thin_block {
    size_t event; /* in the result: the one that made it */
    uint64_t bytes;
    uint32_t run;
    uint32_t gap; /* number of the gap that made it; 0 = it stays */
    int8_t device_index;
    bool alive;
};

static struct vt_thin_device *device_of(struct vt_thinner *thinner, int device_index)
{
    bool known = device_index >= 0 && device_index < (int)VT_MAX_DEVICES;
    return &thinner->devices[known ? (size_t)device_index : VT_MAX_DEVICES];
}

/* NULL = no device's. */
static struct vt_event_bytes *bytes_of(struct vt_thinner *thinner, int device_index)
{
    struct vt_thin_device *device = device_of(thinner, device_index);
    return device == &thinner->devices[VT_MAX_DEVICES] ? NULL : &device->bytes;
}

/* A device's, if the event makes or frees a block on it. */
static struct vt_event_bytes *bytes_at(struct vt_thinner *thinner, const struct vt_event *event)
{
    return vt_has_event_bytes(event) ? bytes_of(thinner, event->device_index) : NULL;
}

static void note_between(struct vt_event_bytes *device, uint64_t bytes)
{
    if (device && bytes > device->between)
        device->between = bytes;
}

void vt_thin_free(struct vt_thinner *thinner)
{
    vt_index_free(&thinner->live);
    vt_index_free(&thinner->pages);
    free(thinner->sizes);
    free(thinner->blocks);
}

/* The last autograd node of a thread, and the event that shows it first. */
struct maker {
    uint32_t thread_id;
    uint64_t sequence;
    size_t event;
    bool left_out;
};
#define MAKERS 32u /* threads that make nodes; with more, the first lose theirs */

/* In head_start of a node's event, beside the mark of the recorder's gaps, until it is closed up. */
#define STAYS 2u

static bool is_left_out(const struct vt_event *event)
{
    return event->kind == VT_EVENT_NONE || (event->kind == VT_EVENT_NODE && event->head_start == 0);
}

/* It stays as the event of a node. A block's says so by its bytes. */
static void keep_maker(struct vt_thinner *thinner, struct maker *maker)
{
    struct vt_event *event = &thinner->events[maker->event];
    if (!maker->left_out)
        return;
    if (event->kind == VT_EVENT_NONE) {
        event->kind = VT_EVENT_NODE;
        event->bytes = VT_NODE_OF_BLOCK;
        event->detail = 0;
        thinner->gaps[thinner->gap_count - 1].omitted_events--;
    }
    event->head_start |= STAYS;
    maker->left_out = false;
}

/* An event that stays may have a node that one before it made: without that, it would pass for its maker. */
static void keep_makers(struct vt_thinner *thinner, size_t first)
{
    struct maker makers[MAKERS] = {{0}}, *maker = makers;
    size_t count = 0;
    for (size_t i = first; i < thinner->count; i++) {
        const struct vt_event *event = &thinner->events[i];
        const bool is_block = event->kind == VT_EVENT_ALLOC && event->layer == VT_LAYER_FRAMEWORK;
        if (event->sequence == 0 || event->sequence % 2 ||
            !(is_block || event->kind == VT_EVENT_NODE || event->kind == VT_EVENT_NONE))
            continue;
        if (maker->thread_id != event->thread_id || count == 0) {
            for (maker = makers; maker < makers + count && maker->thread_id != event->thread_id;)
                maker++;
            if (maker == makers + MAKERS)
                maker = makers;
            else
                count += maker == makers + count;
            if (maker->thread_id != event->thread_id)
                *maker = (struct maker){.thread_id = event->thread_id};
        }
        if (event->sequence > maker->sequence) {
            maker->sequence = event->sequence;
            maker->event = i;
            maker->left_out = is_left_out(event);
        } else if (event->sequence == maker->sequence && !is_left_out(event)) {
            keep_maker(thinner, maker);
        }
    }
    for (size_t i = 0; i < count; i++)
        keep_maker(thinner, &makers[i]);
}

/* Takes the empty events out of the gap at hand. */
static void close_up(struct vt_thinner *thinner)
{
    size_t first = thinner->gaps[thinner->gap_count - 1].first, kept = first;
    if (thinner->dropped > 0)
        keep_makers(thinner, first);
    uint64_t between[VT_MAX_DEVICES] = {0}; /* events that stay, by device */
    for (size_t i = first; i < thinner->count && thinner->dropped > 0; i++) {
        struct vt_event *event = &thinner->events[i];
        struct vt_event_bytes bytes = thinner->bytes[i];
        const bool is_node = event->kind == VT_EVENT_NODE;
        const bool is_empty = event->kind == VT_EVENT_NONE || (is_node && event->bytes == VT_NODE_OF_BLOCK);
        if (bytes_of(thinner, event->device_index) && (is_empty || vt_has_event_bytes(event))) {
            uint64_t *most = &between[event->device_index];
            *most = bytes.between > *most ? bytes.between : *most;
            if (is_empty)
                *most = bytes.after > *most ? bytes.after : *most;
            else
                bytes.between = *most, *most = 0;
        }
        if (is_left_out(event)) {
            thinner->gaps[thinner->gap_count - 1].omitted_events += is_node;
            continue;
        }
        event->head_start &= ~STAYS;
        thinner->bytes[kept] = bytes;
        if (event->layer == VT_LAYER_FRAMEWORK && event->kind == VT_EVENT_ALLOC) {
            uint32_t at = vt_index_get(&thinner->live, event->address);
            if (at != VT_INDEX_NONE && thinner->blocks[at].event == i)
                thinner->blocks[at].event = kept;
        }
        thinner->numbers[kept] = thinner->numbers[i];
        thinner->events[kept++] = *event;
    }
    if (thinner->dropped > 0)
        thinner->count = kept;
    for (int i = 0; i < (int)VT_MAX_DEVICES; i++)
        note_between(&thinner->devices[i].bytes, between[i]);
    thinner->dropped = 0;
}

static int keep_event(struct vt_thinner *thinner, const struct vt_event *event)
{
    if (thinner->count >= UINT32_MAX - 1)
        return -E2BIG;
    vt_reserve(&thinner->numbers, &thinner->number_capacity, thinner->count + 1, sizeof *thinner->numbers);
    vt_reserve(&thinner->bytes, &thinner->bytes_capacity, thinner->count + 1, sizeof *thinner->bytes);
    struct vt_event_bytes *device = bytes_at(thinner, event);
    thinner->bytes[thinner->count] = device ? *device : (struct vt_event_bytes){0};
    if (device)
        device->between = 0;
    thinner->numbers[thinner->count] = thinner->next + thinner->unkept_events - thinner->added_events;
    VT_APPEND(thinner->events, thinner->count, thinner->capacity, *event);
    return 0;
}

/* Says in the result what the gap left out. */
static void end_gap(struct vt_thinner *thinner)
{
    close_up(thinner);
    struct vt_gap *gap = &thinner->gaps[thinner->gap_count - 1];
    gap->end = (uint32_t)thinner->count;
    thinner->omitted_events += gap->omitted_events;
    thinner->in_gap = false;
}

static void begin_gap(struct vt_thinner *thinner)
{
    thinner->in_gap = true;
    VT_APPEND(thinner->gaps, thinner->gap_count, thinner->gap_capacity,
              (struct vt_gap){.first = (uint32_t)thinner->count});
}

static uint8_t kind_of(const struct vt_thinner *thinner, uint32_t stack_id)
{
    return stack_id < thinner->kind_count ? thinner->kinds[stack_id] : VT_STACK_OTHER;
}

/* Driver memory that no block has been kept of yet. */
static void note_memory(struct vt_thinner *thinner, const struct vt_event *event)
{
    uint64_t first = event->address / PAGE_BYTES, last = (event->address + event->bytes - 1) / PAGE_BYTES;
    if (event->bytes == 0 || event->address + event->bytes < event->address)
        return;
    for (uint64_t page = first; page <= last && page - first < PAGES_MAXIMUM; page++)
        vt_index_put(&thinner->pages, page, 1);
}

/* Whether the block is the first to be kept in its page of driver memory: that it holds blocks must show. */
static bool opens_page(struct vt_thinner *thinner, uint64_t address)
{
    if (vt_index_get(&thinner->pages, address / PAGE_BYTES) != 1)
        return false;
    vt_index_put(&thinner->pages, address / PAGE_BYTES, 0);
    return true;
}

/* Whether it is larger than all that its code made before, or smaller: what grows is made anew each time, and
 * which pieces of free memory are of use is told by the smallest request. */
static bool is_record(struct vt_thinner *thinner, const struct vt_event *event)
{
    if (event->stack_id >= thinner->kind_count)
        return false;
    struct vt_thin_sizes *sizes =
        &thinner->sizes[2 * (size_t)event->stack_id + (event->bytes > VT_TORCH_SMALL_BYTES)];
    bool least = !sizes->least || event->bytes<sizes->least, most = event->bytes> sizes->most;
    sizes->least = least ? event->bytes : sizes->least;
    sizes->most = most ? event->bytes : sizes->most;
    return least || most;
}

static void end_block(struct vt_thinner *thinner, struct vt_thin_block *block)
{
    struct vt_event_bytes *device = block->alive ? bytes_of(thinner, block->device_index) : NULL;
    if (device)
        device->after -= block->bytes;
    block->alive = false;
}

static int make_block(struct vt_thinner *thinner, const struct vt_event *event, bool begins_run)
{
    uint32_t at = vt_index_get(&thinner->live, event->address);
    if (at == VT_INDEX_NONE) {
        at = (uint32_t)thinner->block_count;
        VT_APPEND(thinner->blocks, thinner->block_count, thinner->block_capacity, (struct vt_thin_block){0});
        vt_index_put(&thinner->live, event->address, at);
    }
    struct vt_thin_block *block = &thinner->blocks[at];
    /* the free of one that is alive here was lost: the replay is to see that */
    bool stays = !thinner->in_gap || begins_run || block->alive;
    stays |= opens_page(thinner, event->address);
    stays |= is_record(thinner, event);
    end_block(thinner, block);
    struct vt_event_bytes *device = bytes_of(thinner, event->device_index);
    if (device)
        device->after += event->bytes;
    *block = (struct vt_thin_block){.event = thinner->count,
                                    .bytes = event->bytes,
                                    .device_index = event->device_index,
                                    .run = device_of(thinner, event->device_index)->run,
                                    .gap = stays ? 0 : (uint32_t)thinner->gap_count,
                                    .alive = true};
    return keep_event(thinner, event);
}

/* Leaves out the block that the event frees, with its own event, if nothing needs it. */
static bool drop_block(struct vt_thinner *thinner, const struct vt_event *event)
{
    uint32_t at = vt_index_get(&thinner->live, event->address);
    struct vt_thin_block *block = at == VT_INDEX_NONE ? NULL : &thinner->blocks[at];
    if (!block || !block->alive)
        return false;
    end_block(thinner, block);
    if (!thinner->in_gap || block->gap != thinner->gap_count || thinner->in_recorded)
        return false;
    struct vt_event *made = &thinner->events[block->event];
    struct vt_thin_device *of = device_of(thinner, block->device_index);
    bool outlives = block->run != of->run || made->thread_id != event->thread_id;
    if (kind_of(thinner, made->stack_id) == VT_STACK_BACKWARD && outlives && block->run > of->kept_run) {
        of->kept_run = block->run;
        return false;
    }
    struct vt_event_bytes *device = bytes_of(thinner, block->device_index);
    note_between(device, device ? device->after : 0);
    thinner->omitted_blocks++;
    thinner->omitted_bytes += made->bytes;
    thinner->gaps[thinner->gap_count - 1].omitted_events += 2;
    made->kind = VT_EVENT_NONE;
    thinner->dropped++;
    return true;
}

static int take_event(struct vt_thinner *thinner, const struct vt_event *event)
{
    bool is_block = event->layer == VT_LAYER_FRAMEWORK && event->kind == VT_EVENT_ALLOC;
    bool frees = event->layer == VT_LAYER_FRAMEWORK && event->kind == VT_EVENT_FREE;
    uint8_t kind = is_block ? kind_of(thinner, event->stack_id) : (uint8_t)VT_STACK_OTHER;
    struct vt_thin_device *device = device_of(thinner, event->device_index);
    bool begins_run = kind != VT_STACK_OTHER && kind != device->kind;
    if (begins_run) {
        device->kind = kind;
        device->run++;
    }
    if (frees && drop_block(thinner, event))
        return 0;
    if (thinner->in_recorded && event->kind == VT_EVENT_NODE) {
        thinner->gaps[thinner->gap_count - 1].omitted_events++;
        return 0;
    }
    thinner->dropped += thinner->in_gap && event->kind == VT_EVENT_NODE;
    if (event->kind == VT_EVENT_MAP || (event->kind == VT_EVENT_ALLOC && !is_block))
        note_memory(thinner, event);
    int error = is_block ? make_block(thinner, event, begins_run) : keep_event(thinner, event);
    /* the framework's own counts are of all blocks */
    if (!error && thinner->in_recorded)
        thinner->events[thinner->count - 1].head_start = 1;
    else if (!error && thinner->in_gap && (is_block || frees))
        thinner->events[thinner->count - 1].total_bytes = thinner->events[thinner->count - 1].detail = 0;
    return error;
}

/* Begins or ends a gap of the recorder. */
static void take_border(struct vt_thinner *thinner, const struct vt_event *event)
{
    const bool begins = event->kind == VT_EVENT_GAP_BEGIN;
    if (!thinner->in_gap)
        begin_gap(thinner);
    if (!begins && thinner->in_recorded) {
        thinner->gaps[thinner->gap_count - 1].omitted_events += event->detail;
        thinner->omitted_blocks += event->bytes;
        thinner->omitted_bytes += event->total_bytes;
        thinner->unkept_events += event->detail;
        thinner->unseen_passes += event->sequence;
    }
    thinner->in_recorded = begins;
}

int vt_thin_take(struct vt_thinner *thinner, const struct vt_event *events, size_t count)
{
    int error = 0;
    if (!thinner->sizes)
        thinner->sizes = vt_allocate_zeros(2 * thinner->kind_count + 1, sizeof *thinner->sizes);
    for (size_t i = 0; i < count && !error; i++, thinner->next++) {
        while (thinner->window_count > 0 && thinner->windows->end <= thinner->next) {
            thinner->windows++;
            thinner->window_count--;
        }
        bool inside =
            thinner->window_count > 0 && thinner->windows->first <= thinner->next && !thinner->in_recorded;
        if (events[i].kind == VT_EVENT_GAP_BEGIN || events[i].kind == VT_EVENT_GAP_END) {
            take_border(thinner, &events[i]);
            thinner->added_events++;
            continue;
        }
        if (inside == thinner->in_gap) {
            if (inside)
                end_gap(thinner);
            else
                begin_gap(thinner);
        }
        if (thinner->dropped >= DROPPED_MAXIMUM)
            close_up(thinner);
        error = take_event(thinner, &events[i]);
        if (events[i].kind == VT_EVENT_RAN) {
            thinner->added_events++;
            thinner->unseen_passes -= events[i].sequence % 2;
        }
    }
    return error;
}

void vt_thin_end(struct vt_thinner *thinner)
{
    if (thinner->in_gap)
        end_gap(thinner);
}
