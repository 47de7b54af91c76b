#include "record/gap.h"

#include <string.h>

#include "hash.h"
#include "memory.h"

enum { FIRST_EVENTS = 1 << 12, LEAST_LEFT_OUT = 1 << 14 };

static bool is_block(const struct vt_event *event)
{
    return event->layer == VT_LAYER_FRAMEWORK;
}

/* ---- places: by what an event is of ---- */

/* What a later event is compared by: of the same class and address. 0: nothing undoes it. */
static uint64_t class_of(const struct vt_event *event)
{
    enum { BLOCK = 1, MEMORY, POOL, INFORMATION, RANGE, EXPORT };
    switch (event->kind) {
    case VT_EVENT_ALLOC:
    case VT_EVENT_FREE:
    case VT_EVENT_FREE_FAILED:
        return is_block(event) ? BLOCK : MEMORY + ((uint64_t)event->layer << 8);
    case VT_EVENT_POOL:
        return POOL;
    case VT_EVENT_EXPORT:
        return EXPORT;
    case VT_EVENT_MEMORY_INFO:
        return INFORMATION + ((uint64_t)(uint8_t)event->device_index << 8);
    case VT_EVENT_RANGE_PUSH:
    case VT_EVENT_RANGE_POP:
        return RANGE + ((uint64_t)event->thread_id << 8);
    default:
        return 0;
    }
}

/* Of a range `address` is where the one around it is, while it is here. */
static uint64_t address_of(const struct vt_event *event)
{
    return event->kind == VT_EVENT_RANGE_PUSH || event->kind == VT_EVENT_RANGE_POP ? 0 : event->address;
}

static size_t home_of(const struct vt_flight_gap *gap, const struct vt_event *event)
{
    return vt_hash(address_of(event) ^ class_of(event) << 48) >> 32 & (gap->place_count - 1);
}

/* Where the event that this one may undo is, or an empty place. */
static size_t find(const struct vt_flight_gap *gap, const struct vt_event *event)
{
    size_t at = home_of(gap, event);
    for (; gap->places[at]; at = (at + 1) & (gap->place_count - 1)) {
        const struct vt_event *there = &gap->events[gap->places[at] - 1];
        if (address_of(there) == address_of(event) && class_of(there) == class_of(event))
            break;
    }
    return at;
}

static void remove_place(struct vt_flight_gap *gap, size_t at)
{
    const size_t mask = gap->place_count - 1;
    gap->used--;
    for (size_t next = (at + 1) & mask; gap->places[next]; next = (next + 1) & mask) {
        const size_t home = home_of(gap, &gap->events[gap->places[next] - 1]);
        if (((next - home) & mask) >= ((next - at) & mask)) { /* it may lie further to the front */
            gap->places[at] = gap->places[next];
            at = next;
        }
    }
    gap->places[at] = 0;
}

static void put_place(struct vt_flight_gap *gap, size_t at, size_t position)
{
    gap->used += gap->places[at] == 0;
    gap->places[at] = (uint32_t)position + 1;
}

static bool make_places(struct vt_flight_gap *gap, size_t count)
{
    uint32_t *before = gap->places;
    const size_t before_count = gap->place_count;
    uint32_t *places = vt_memory_make(count * sizeof *places);
    if (!places)
        return false;
    gap->places = places;
    gap->place_count = count;
    gap->used = 0;
    for (size_t i = 0; i < before_count; i++)
        if (before[i])
            put_place(gap, find(gap, &gap->events[before[i] - 1]), before[i] - 1);
    vt_memory_free(before, before_count * sizeof *before);
    return true;
}

/* ---- events ---- */

static bool make_room(struct vt_flight_gap *gap)
{
    const size_t capacity = gap->capacity ? gap->capacity * 2 : FIRST_EVENTS, bytes = sizeof *gap->events;
    struct vt_event *events = capacity <= VT_GAP_EVENTS_MAXIMUM
                                  ? vt_memory_grow(gap->events, gap->capacity * bytes, capacity * bytes)
                                  : NULL;
    if (!events)
        return false;
    gap->events = events;
    gap->capacity = capacity;
    return true;
}

static uint32_t moved(const uint32_t *positions, uint64_t place)
{
    return place ? positions[place - 1] : 0;
}

/* Takes what was left out away. */
static bool close_up(struct vt_flight_gap *gap)
{
    const size_t bytes = gap->count * sizeof(uint32_t) + 1;
    uint32_t *positions = vt_memory_make(bytes); /* 1 + where each goes */
    size_t kept = 0;
    if (!positions)
        return false;
    for (size_t i = 0; i < gap->count; i++)
        positions[i] = gap->events[i].kind == VT_EVENT_NONE ? 0 : (uint32_t)++kept;
    for (size_t i = 0; i < gap->count; i++) {
        if (!positions[i])
            continue;
        struct vt_event *event = &gap->events[positions[i] - 1];
        *event = gap->events[i];
        event->head_start = moved(positions, event->head_start);
        if (event->kind == VT_EVENT_RANGE_PUSH)
            event->address = moved(positions, event->address);
    }
    for (size_t i = 0; i < gap->place_count; i++)
        gap->places[i] = moved(positions, gap->places[i]);
    gap->driver_position = moved(positions, gap->driver_position);
    for (size_t i = 0; i < VT_GAP_FREES; i++) {
        gap->frees[i].made = moved(positions, gap->frees[i].made);
        gap->frees[i].freed = moved(positions, gap->frees[i].freed);
    }
    gap->count = kept;
    gap->left_out = 0;
    vt_memory_free(positions, bytes);
    return true;
}

static struct vt_event *keep(struct vt_flight_gap *gap, const struct vt_event *event)
{
    if (gap->count == gap->capacity && !make_room(gap))
        gap->failed = true;
    if (gap->failed)
        return NULL;
    gap->events[gap->count] = *event;
    gap->events[gap->count].head_start = 0;
    return &gap->events[gap->count++];
}

static void leave_out(struct vt_flight_gap *gap, size_t position)
{
    struct vt_event *event = &gap->events[position];
    if (event->kind == VT_EVENT_NONE)
        return;
    if (event->kind == VT_EVENT_ALLOC) {
        gap->omitted_blocks++;
        gap->omitted_bytes += event->bytes;
    }
    gap->omitted_events += event->kind != VT_EVENT_RAN; /* its block is counted already */
    event->kind = VT_EVENT_NONE;
    gap->left_out++;
}

static void omit(struct vt_flight_gap *gap)
{
    gap->omitted_events++;
}

/* ---- passes: so that steps remain recognisable ---- */

static bool show(struct vt_flight_gap *gap, const struct vt_event *event, uint64_t t_ns)
{
    struct vt_event ran = *event;
    ran.kind = VT_EVENT_RAN;
    ran.t_ns = t_ns;
    ran.address = 0;
    ran.bytes = gap->passes;
    return keep(gap, &ran) != NULL;
}

/* Of those shown so far every second stays. */
static void show_fewer(struct vt_flight_gap *gap)
{
    gap->pass_stride *= 2;
    gap->shown_passes /= 2;
    for (size_t i = 0; i < gap->count; i++)
        if (gap->events[i].kind == VT_EVENT_RAN && gap->events[i].bytes % gap->pass_stride)
            leave_out(gap, i);
}

/* A framework's block is made, or was (VT_EVENT_RAN). The first of a gap may come after a pass that is not in
 * it. */
static void watch_passes(struct vt_flight_gap *gap, const struct vt_event *event)
{
    const bool backward = event->sequence & 1, begins = !gap->has_blocks, before = gap->backward;
    const bool shown = gap->passes % gap->pass_stride == 0;
    /* Of frameworks without autograd no block belongs to a pass, or stands between two. */
    if (!event->stack_id || (event->flags & VT_FLAG_UNCOUNTED && !event->sequence))
        return;
    gap->has_blocks = true;
    gap->backward = backward;
    if (!backward && (begins || before) && shown)
        show(gap, event, event->t_ns);
    if (!backward && (event->sequence > event->detail || event->total_bytes)) /* it made a node: forward */
        gap->last_forward = *event;
    if (!backward || before)
        return;
    gap->passes++;
    if (gap->passes % gap->pass_stride == 0 && ++gap->shown_passes > gap->passes_maximum)
        show_fewer(gap);
    if (gap->passes % gap->pass_stride == 0) {
        if (gap->last_forward.stack_id)
            show(gap, &gap->last_forward, event->t_ns);
        show(gap, event, event->t_ns);
    }
    gap->last_forward.stack_id = 0;
}

/* ---- one event ---- */

static struct vt_gap_thread *thread_of(struct vt_flight_gap *gap, uint32_t thread_id)
{
    struct vt_gap_thread *thread = gap->threads;
    while (thread < gap->threads + VT_GAP_THREADS - 1 && thread->thread_id && thread->thread_id != thread_id)
        thread++;
    if (thread->thread_id != thread_id) /* the last place is shared by those that are left over */
        *thread = (struct vt_gap_thread){.thread_id = thread_id};
    return thread;
}

/* Numbers of nodes are even outside of backward. True if this is a new one. */
static bool advance(struct vt_gap_thread *thread, uint64_t sequence)
{
    const bool counts = sequence && sequence % 2 == 0, advances = counts && sequence > thread->sequence;
    if (counts)
        thread->sequence = sequence;
    return advances;
}

static void make_node(struct vt_flight_gap *gap, const struct vt_event *event)
{
    struct vt_gap_thread *thread = thread_of(gap, event->thread_id);
    if (advance(thread, event->sequence))
        thread->node_stack = event->stack_id;
    omit(gap);
}

/* A framework's block: instead of the framework's own counts, which are of all blocks, it tells what ran
 * before. */
static struct vt_event with_node(struct vt_flight_gap *gap, const struct vt_event *event)
{
    struct vt_gap_thread *thread = thread_of(gap, event->thread_id);
    struct vt_event told = *event;
    if (!gap->in_earlier || !event->detail) {
        told.detail = thread->sequence;
        told.total_bytes = event->sequence == thread->sequence ? thread->node_stack : 0;
    }
    advance(thread, event->sequence);
    thread->node_stack = 0;
    return told;
}

static void make(struct vt_flight_gap *gap, const struct vt_event *event)
{
    struct vt_event told;
    if (is_block(event)) {
        told = with_node(gap, event);
        event = &told;
        watch_passes(gap, event);
    }
    struct vt_event *kept = keep(gap, event);
    if (!kept)
        return;
    const size_t position = gap->count - 1;
    /* The free of one that is still here was lost: both stay, the replay is to see that. */
    put_place(gap, find(gap, event), position);
    if (!is_block(event)) {
        gap->driver_position = gap->count;
        return;
    }
    /* That driver memory holds blocks must show, though it has none of those that stay. */
    if (gap->driver_position) {
        gap->events[gap->driver_position - 1].head_start = kept->head_start = (uint32_t)gap->count;
        gap->driver_position = 0;
    }
}

/* What shows what driver memory is for goes with it. */
static void forget_partner(struct vt_flight_gap *gap, size_t position)
{
    const uint32_t block = gap->events[position].head_start;
    const uint32_t freed = block ? gap->events[block - 1].head_start : 0;
    if (!freed)
        return;
    gap->events[block - 1].head_start = 0;
    if (freed != block) {
        leave_out(gap, freed - 1);
        leave_out(gap, block - 1);
    }
}

/* Driver memory, made here. The oldest of the latest frees did not fail. */
static void unmake_memory(struct vt_flight_gap *gap, size_t position, const struct vt_event *event)
{
    const size_t oldest = gap->free_count++ % VT_GAP_FREES;
    if (gap->frees[oldest].made) {
        forget_partner(gap, gap->frees[oldest].made - 1);
        leave_out(gap, gap->frees[oldest].made - 1);
        leave_out(gap, gap->frees[oldest].freed - 1);
    }
    if (gap->driver_position == position + 1)
        gap->driver_position = 0;
    keep(gap, event);
    gap->frees[oldest].made = (uint32_t)position + 1;
    gap->frees[oldest].freed = (uint32_t)gap->count;
}

static void unmake(struct vt_flight_gap *gap, const struct vt_event *event)
{
    const size_t at = find(gap, event), position = gap->places[at] - 1;
    const bool made_here = gap->places[at] != 0;
    if (made_here)
        remove_place(gap, at);
    if (made_here && !is_block(event)) {
        unmake_memory(gap, position, event);
        return;
    }
    if (made_here && !gap->events[position].head_start) {
        leave_out(gap, position);
        omit(gap);
        return;
    }
    struct vt_event *kept = keep(gap, event);
    if (!kept || !is_block(event))
        return;
    kept->detail = kept->total_bytes = 0;
    if (made_here)
        gap->events[position].head_start = (uint32_t)gap->count;
}

/* The free logged before for this address did not happen. */
static void make_again(struct vt_flight_gap *gap, const struct vt_event *event)
{
    for (uint64_t i = gap->free_count; i > 0 && gap->free_count - i < VT_GAP_FREES; i--) {
        const size_t at = (i - 1) % VT_GAP_FREES;
        const uint32_t made = gap->frees[at].made;
        if (!made || gap->events[made - 1].address != event->address ||
            class_of(&gap->events[made - 1]) != class_of(event))
            continue;
        leave_out(gap, gap->frees[at].freed - 1);
        omit(gap);
        put_place(gap, find(gap, event), made - 1);
        gap->frees[at].made = gap->frees[at].freed = 0;
        return;
    }
    keep(gap, event);
}

/* Only the latest of its kind tells anything. */
static void replace(struct vt_flight_gap *gap, const struct vt_event *event)
{
    size_t at = find(gap, event);
    if (gap->places[at]) {
        const size_t position = gap->places[at] - 1;
        remove_place(gap, at);
        leave_out(gap, position);
    }
    if (keep(gap, event))
        put_place(gap, find(gap, event), gap->count - 1);
}

static void push(struct vt_flight_gap *gap, const struct vt_event *event)
{
    const size_t at = find(gap, event);
    const uint32_t around = gap->places[at];
    struct vt_event *kept = keep(gap, event);
    if (!kept)
        return;
    kept->address = around;
    put_place(gap, find(gap, event), gap->count - 1);
}

static void pop(struct vt_flight_gap *gap, const struct vt_event *event)
{
    const size_t at = find(gap, event);
    if (!gap->places[at]) { /* pushed before */
        keep(gap, event);
        return;
    }
    const size_t position = gap->places[at] - 1;
    const uint64_t around = gap->events[position].address;
    if (around)
        gap->places[at] = (uint32_t)around;
    else
        remove_place(gap, at);
    leave_out(gap, position);
    omit(gap);
}

/* Until the end `bytes` of a mark is its number. */
static void mark(struct vt_flight_gap *gap, const struct vt_event *event)
{
    struct vt_event *kept = ++gap->marks % gap->mark_stride ? NULL : keep(gap, event);
    if (!kept) {
        omit(gap);
        return;
    }
    kept->bytes = gap->marks;
    if (++gap->shown_marks <= VT_GAP_NOTES)
        return;
    gap->mark_stride *= 2;
    gap->shown_marks /= 2;
    for (size_t i = 0; i < gap->count; i++)
        if (gap->events[i].kind == VT_EVENT_MARK && gap->events[i].bytes % gap->mark_stride)
            leave_out(gap, i);
}

static void refuse(struct vt_flight_gap *gap, const struct vt_event *event)
{
    if (gap->refusals++ < VT_GAP_NOTES)
        keep(gap, event);
    else
        omit(gap);
}

/* An earlier gap, which tells of more than it shows. */
static void end_earlier(struct vt_flight_gap *gap, const struct vt_event *event)
{
    const uint64_t shown = gap->passes - gap->earlier_passes;
    gap->in_earlier = false;
    gap->omitted_events += event->detail;
    gap->omitted_blocks += event->bytes;
    gap->omitted_bytes += event->total_bytes;
    gap->hidden_passes += event->sequence > shown ? event->sequence - shown : 0;
}

bool vt_gap_take(struct vt_flight_gap *gap, const struct vt_event *event)
{
    if (!gap->first_ns)
        gap->first_ns = event->t_ns;
    gap->last_ns = event->t_ns;
    gap->failed |= gap->used * 2 >= gap->place_count && !make_places(gap, gap->place_count * 2);
    gap->failed |= gap->left_out >= LEAST_LEFT_OUT && gap->left_out * 2 >= gap->count && !close_up(gap);
    if (gap->failed)
        return false;
    switch (event->kind) {
    case VT_EVENT_ALLOC:
        make(gap, event);
        break;
    case VT_EVENT_FREE:
        unmake(gap, event);
        break;
    case VT_EVENT_FREE_FAILED:
        make_again(gap, event);
        break;
    case VT_EVENT_RAN: {
        const struct vt_event told = with_node(gap, event);
        watch_passes(gap, &told);
        break;
    }
    case VT_EVENT_NODE:
        make_node(gap, event);
        break;
    case VT_EVENT_GRAPH_LAUNCH:
        omit(gap);
        break;
    case VT_EVENT_POOL:
    case VT_EVENT_MEMORY_INFO:
    case VT_EVENT_EXPORT:
        replace(gap, event);
        break;
    case VT_EVENT_RANGE_PUSH:
        push(gap, event);
        break;
    case VT_EVENT_RANGE_POP:
        pop(gap, event);
        break;
    case VT_EVENT_MARK:
        mark(gap, event);
        break;
    case VT_EVENT_OOM:
    case VT_EVENT_ALLOC_FAILED:
        refuse(gap, event);
        break;
    case VT_EVENT_GAP_BEGIN:
        gap->in_earlier = true;
        gap->earlier_passes = gap->passes;
        break;
    case VT_EVENT_GAP_END:
        end_earlier(gap, event);
        break;
    default:
        keep(gap, event);
    }
    return !gap->failed;
}

void vt_gap_begin(struct vt_flight_gap *gap, size_t passes_maximum)
{
    struct vt_flight_gap fresh = {.events = gap->events,
                                  .capacity = gap->capacity,
                                  .places = gap->places,
                                  .place_count = gap->place_count,
                                  .passes_maximum = passes_maximum,
                                  .pass_stride = 1,
                                  .mark_stride = 1};
    if (fresh.places)
        memset(fresh.places, 0, fresh.place_count * sizeof *fresh.places);
    *gap = fresh;
    gap->failed = !gap->places && !make_places(gap, FIRST_EVENTS);
    keep(gap, &(struct vt_event){.kind = VT_EVENT_GAP_BEGIN, .device_index = -1});
}

bool vt_gap_end(struct vt_flight_gap *gap)
{
    if (gap->last_forward.stack_id) /* its pass comes after the gap */
        show(gap, &gap->last_forward, gap->last_ns);
    keep(gap, &(struct vt_event){.kind = VT_EVENT_GAP_END,
                                 .device_index = -1,
                                 .t_ns = gap->last_ns,
                                 .detail = gap->omitted_events,
                                 .bytes = gap->omitted_blocks,
                                 .total_bytes = gap->omitted_bytes,
                                 .sequence = gap->passes + gap->hidden_passes});
    if (gap->failed || !close_up(gap))
        return false;
    gap->events[0].t_ns = gap->first_ns;
    for (size_t i = 0; i < gap->count; i++) {
        struct vt_event *event = &gap->events[i];
        event->head_start = 0;
        if (event->kind == VT_EVENT_RANGE_PUSH)
            event->address = 0;
        if (event->kind == VT_EVENT_MARK)
            event->bytes = 0;
    }
    return true;
}

void vt_gap_free(struct vt_flight_gap *gap)
{
    vt_memory_free(gap->events, gap->capacity * sizeof *gap->events);
    vt_memory_free(gap->places, gap->place_count * sizeof *gap->places);
    *gap = (struct vt_flight_gap){0};
}
