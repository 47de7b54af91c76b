#include "trace/thin.h"

#include <stdlib.h>
#include <string.h>

/* Empty events are taken out of the result when a gap has so many. */
#define DROPPED_MAXIMUM (1u << 18)

/* Driver memory is looked at in pages, the first of each allocation: that is where a framework begins to cut
 * it up. */
#define PAGE_BYTES (UINT64_C(2) << 20)
#define PAGES_MAXIMUM 16u

/* The block that an address has, or had last. */
struct vt_thin_block {
    size_t event; /* in the result: the one that made it */
    uint32_t run;
    uint32_t gap; /* number of the gap that made it; 0 = it stays */
    bool alive;
};

void vt_thin_free(struct vt_thinner *thinner)
{
    vt_index_free(&thinner->live);
    vt_index_free(&thinner->pages);
    free(thinner->largest);
    free(thinner->blocks);
}

/* Takes the empty events out of the gap at hand. */
static void close_up(struct vt_thinner *thinner)
{
    size_t first = thinner->gaps[thinner->gap_count - 1].first, kept = first;
    for (size_t i = first; i < thinner->count && thinner->dropped > 0; i++) {
        const struct vt_event *event = &thinner->events[i];
        if (event->kind == VT_EVENT_NONE)
            continue;
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
    thinner->dropped = 0;
}

static int keep(struct vt_thinner *thinner, const struct vt_event *event)
{
    if (thinner->count >= UINT32_MAX - 1)
        return -E2BIG;
    int error = vt_reserve(&thinner->numbers, &thinner->number_capacity, thinner->count + 1,
                           sizeof *thinner->numbers);
    if (error)
        return error;
    thinner->numbers[thinner->count] = thinner->next + thinner->unkept_events - thinner->added_events;
    return VT_APPEND(thinner->events, thinner->count, thinner->capacity, *event);
}

/* Says in the result what the gap left out. */
static int end_gap(struct vt_thinner *thinner)
{
    close_up(thinner);
    struct vt_gap *gap = &thinner->gaps[thinner->gap_count - 1];
    gap->end = (uint32_t)thinner->count;
    thinner->omitted_events += gap->omitted_events;
    thinner->in_gap = false;
    return 0;
}

static int begin_gap(struct vt_thinner *thinner)
{
    thinner->in_gap = true;
    return VT_APPEND(thinner->gaps, thinner->gap_count, thinner->gap_capacity,
                     (struct vt_gap){.first = (uint32_t)thinner->count});
}

static uint8_t kind_of(const struct vt_thinner *thinner, uint32_t stack_id)
{
    return stack_id < thinner->kind_count ? thinner->kinds[stack_id] : VT_STACK_OTHER;
}

/* Driver memory that no block has been kept of yet. */
static int note_memory(struct vt_thinner *thinner, const struct vt_event *event)
{
    uint64_t first = event->address / PAGE_BYTES, last = (event->address + event->bytes - 1) / PAGE_BYTES;
    int error = 0;
    if (event->bytes == 0 || event->address + event->bytes < event->address)
        return 0;
    for (uint64_t page = first; page <= last && page - first < PAGES_MAXIMUM && !error; page++)
        error = vt_index_put(&thinner->pages, page, 1);
    return error;
}

/* Whether the block is the first to be kept in its page of driver memory: that it holds blocks must show. */
static bool opens_page(struct vt_thinner *thinner, uint64_t address)
{
    return vt_index_get(&thinner->pages, address / PAGE_BYTES) == 1 &&
           !vt_index_put(&thinner->pages, address / PAGE_BYTES, 0);
}

/* Whether it is larger than all that its code made before: what grows is made anew each time. */
static bool is_larger(struct vt_thinner *thinner, const struct vt_event *event)
{
    uint64_t *largest = event->stack_id < thinner->kind_count ? &thinner->largest[event->stack_id] : NULL;
    bool larger = largest && event->bytes > *largest;
    if (larger)
        *largest = event->bytes;
    return larger;
}

static int make_block(struct vt_thinner *thinner, const struct vt_event *event, bool begins_run)
{
    uint32_t at = vt_index_get(&thinner->live, event->address);
    if (at == VT_INDEX_NONE) {
        at = (uint32_t)thinner->block_count;
        if (VT_APPEND(thinner->blocks, thinner->block_count, thinner->block_capacity,
                      (struct vt_thin_block){0}) ||
            vt_index_put(&thinner->live, event->address, at))
            return -ENOMEM;
    }
    struct vt_thin_block *block = &thinner->blocks[at];
    /* the free of one that is alive here was lost: the replay is to see that */
    bool stays = !thinner->in_gap || begins_run || block->alive;
    stays |= opens_page(thinner, event->address);
    stays |= is_larger(thinner, event);
    *block = (struct vt_thin_block){.event = thinner->count,
                                    .run = thinner->run,
                                    .gap = stays ? 0 : (uint32_t)thinner->gap_count,
                                    .alive = true};
    return keep(thinner, event);
}

/* Leaves out the block that the event frees, with its own event, if nothing needs it. */
static bool drop_block(struct vt_thinner *thinner, const struct vt_event *event)
{
    uint32_t at = vt_index_get(&thinner->live, event->address);
    struct vt_thin_block *block = at == VT_INDEX_NONE ? NULL : &thinner->blocks[at];
    if (!block || !block->alive)
        return false;
    block->alive = false;
    if (!thinner->in_gap || block->gap != thinner->gap_count || thinner->in_recorded)
        return false;
    struct vt_event *made = &thinner->events[block->event];
    bool outlives = block->run != thinner->run || made->thread_id != event->thread_id;
    if (kind_of(thinner, made->stack_id) == VT_STACK_BACKWARD && outlives && block->run > thinner->kept_run) {
        thinner->kept_run = block->run;
        return false;
    }
    thinner->omitted_blocks++;
    thinner->omitted_bytes += made->bytes;
    thinner->gaps[thinner->gap_count - 1].omitted_events += 2;
    made->kind = VT_EVENT_NONE;
    thinner->dropped++;
    return true;
}

static int take_one(struct vt_thinner *thinner, const struct vt_event *event)
{
    bool is_block = event->layer == VT_LAYER_FRAMEWORK && event->kind == VT_EVENT_ALLOC;
    bool frees = event->layer == VT_LAYER_FRAMEWORK && event->kind == VT_EVENT_FREE;
    uint8_t kind = is_block ? kind_of(thinner, event->stack_id) : (uint8_t)VT_STACK_OTHER;
    bool begins_run = kind != VT_STACK_OTHER && kind != thinner->kind;
    if (begins_run) {
        thinner->kind = kind;
        thinner->run++;
    }
    if (frees && drop_block(thinner, event))
        return 0;
    if (thinner->in_gap && event->kind == VT_EVENT_NODE) {
        thinner->gaps[thinner->gap_count - 1].omitted_events++;
        return 0;
    }
    if (event->kind == VT_EVENT_MAP || (event->kind == VT_EVENT_ALLOC && !is_block))
        if (note_memory(thinner, event))
            return -ENOMEM;
    int error = is_block ? make_block(thinner, event, begins_run) : keep(thinner, event);
    /* the framework's own counts are of all blocks */
    if (!error && thinner->in_recorded)
        thinner->events[thinner->count - 1].head_start = 1;
    else if (!error && thinner->in_gap && (is_block || frees))
        thinner->events[thinner->count - 1].total_bytes = thinner->events[thinner->count - 1].detail = 0;
    return error;
}

/* Begins or ends a gap of the recorder. */
static int take_border(struct vt_thinner *thinner, const struct vt_event *event)
{
    const bool begins = event->kind == VT_EVENT_GAP_BEGIN;
    int error = thinner->in_gap ? 0 : begin_gap(thinner);
    if (!error && !begins && thinner->in_recorded) {
        thinner->gaps[thinner->gap_count - 1].omitted_events += event->detail;
        thinner->omitted_blocks += event->bytes;
        thinner->omitted_bytes += event->total_bytes;
        thinner->unkept_events += event->detail;
        thinner->unseen_passes += event->sequence;
    }
    thinner->in_recorded = begins;
    return error;
}

int vt_thin_take(struct vt_thinner *thinner, const struct vt_event *events, size_t count)
{
    int error = 0;
    if (!thinner->largest)
        thinner->largest = calloc(thinner->kind_count + 1, sizeof *thinner->largest);
    if (!thinner->largest)
        return -ENOMEM;
    for (size_t i = 0; i < count && !error; i++, thinner->next++) {
        while (thinner->window_count > 0 && thinner->windows->end <= thinner->next) {
            thinner->windows++;
            thinner->window_count--;
        }
        bool inside =
            thinner->window_count > 0 && thinner->windows->first <= thinner->next && !thinner->in_recorded;
        if (events[i].kind == VT_EVENT_GAP_BEGIN || events[i].kind == VT_EVENT_GAP_END) {
            error = take_border(thinner, &events[i]);
            thinner->added_events++;
            continue;
        }
        if (inside == thinner->in_gap)
            error = inside ? end_gap(thinner) : begin_gap(thinner);
        if (!error && thinner->dropped >= DROPPED_MAXIMUM)
            close_up(thinner);
        if (!error)
            error = take_one(thinner, &events[i]);
        if (events[i].kind == VT_EVENT_RAN) {
            thinner->added_events++;
            thinner->unseen_passes -= events[i].sequence % 2;
        }
    }
    return error;
}

int vt_thin_end(struct vt_thinner *thinner)
{
    return thinner->in_gap ? end_gap(thinner) : 0;
}
