#include "record/digest_store.h"

#include <string.h>

#include "hash.h"
#include "memory.h"

enum { FIRST_EVENTS = VT_DIGEST_FIRST_PLACES, LEAST_LEFT_OUT = 1 << 14 };

/* ---- places: by what an event is of ---- */

uint64_t vt_digest_class_of(const struct vt_event *event)
{
    enum { BLOCK = 1, MEMORY, POOL, INFORMATION, RANGE, EXPORT };
    switch (event->kind) {
    case VT_EVENT_ALLOC:
    case VT_EVENT_FREE:
    case VT_EVENT_FREE_FAILED:
        return vt_digest_is_block(event) ? BLOCK : MEMORY + ((uint64_t)event->layer << 8);
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

static size_t home_of(const struct vt_digest *digest, const struct vt_event *event)
{
    return vt_hash(address_of(event) ^ vt_digest_class_of(event) << 48) >> 32 & (digest->place_count - 1);
}

/* Where the event that this one may undo is, or an empty place. */
size_t vt_digest_find(const struct vt_digest *digest, const struct vt_event *event)
{
    size_t at = home_of(digest, event);
    for (; digest->places[at]; at = (at + 1) & (digest->place_count - 1)) {
        const struct vt_event *there = &digest->events[digest->places[at] - 1];
        if (address_of(there) == address_of(event) && vt_digest_class_of(there) == vt_digest_class_of(event))
            break;
    }
    return at;
}

void vt_digest_remove_place(struct vt_digest *digest, size_t at)
{
    const size_t mask = digest->place_count - 1;
    digest->used--;
    for (size_t next = (at + 1) & mask; digest->places[next]; next = (next + 1) & mask) {
        const size_t home = home_of(digest, &digest->events[digest->places[next] - 1]);
        if (((next - home) & mask) >= ((next - at) & mask)) { /* it may lie further to the front */
            digest->places[at] = digest->places[next];
            at = next;
        }
    }
    digest->places[at] = 0;
}

void vt_digest_put_place(struct vt_digest *digest, size_t at, size_t position)
{
    digest->used += digest->places[at] == 0;
    digest->places[at] = (uint32_t)position + 1;
}

bool vt_digest_make_places(struct vt_digest *digest, size_t count)
{
    uint32_t *before = digest->places;
    const size_t before_count = digest->place_count;
    uint32_t *places = vt_memory_make(count * sizeof *places);
    if (!places)
        return false;
    digest->places = places;
    digest->place_count = count;
    digest->used = 0;
    for (size_t i = 0; i < before_count; i++)
        if (before[i])
            vt_digest_put_place(digest, vt_digest_find(digest, &digest->events[before[i] - 1]),
                                before[i] - 1);
    vt_memory_free(before, before_count * sizeof *before);
    return true;
}

/* ---- events ---- */

static bool make_room(struct vt_digest *digest)
{
    const size_t capacity = digest->capacity ? digest->capacity * 2 : FIRST_EVENTS,
                 bytes = sizeof *digest->events;
    struct vt_event *events = capacity <= VT_DIGEST_EVENTS_MAXIMUM
                                  ? vt_memory_grow(digest->events, digest->capacity * bytes, capacity * bytes)
                                  : NULL;
    if (!events)
        return false;
    digest->events = events;
    digest->capacity = capacity;
    return true;
}

static uint32_t moved(const uint32_t *positions, uint64_t place)
{
    return place ? positions[place - 1] : 0;
}

/* Takes what was left out away. */
bool vt_digest_close_up(struct vt_digest *digest)
{
    const size_t bytes = digest->count * sizeof(uint32_t) + 1;
    uint32_t *positions = vt_memory_make(bytes); /* 1 + where each goes */
    size_t kept = 0;
    if (!positions)
        return false;
    for (size_t i = 0; i < digest->count; i++)
        positions[i] = digest->events[i].kind == VT_EVENT_NONE ? 0 : (uint32_t)++kept;
    for (size_t i = 0; i < digest->count; i++) {
        if (!positions[i])
            continue;
        struct vt_event *event = &digest->events[positions[i] - 1];
        *event = digest->events[i];
        if (!vt_is_landmark(event))
            event->head_start = moved(positions, event->head_start);
        if (event->kind == VT_EVENT_RANGE_PUSH)
            event->address = moved(positions, event->address);
    }
    for (size_t i = 0; i < digest->place_count; i++)
        digest->places[i] = moved(positions, digest->places[i]);
    digest->driver_position = moved(positions, digest->driver_position);
    for (size_t i = 0; i < VT_DIGEST_FREES; i++) {
        digest->frees[i].made = moved(positions, digest->frees[i].made);
        digest->frees[i].freed = moved(positions, digest->frees[i].freed);
    }
    digest->count = kept;
    digest->left_out = 0;
    vt_memory_free(positions, bytes);
    return true;
}

struct vt_event *vt_digest_keep(struct vt_digest *digest, const struct vt_event *event)
{
    if (digest->count == digest->capacity && !make_room(digest))
        digest->failed = true;
    if (digest->failed)
        return NULL;
    digest->events[digest->count] = *event;
    digest->events[digest->count].head_start = 0;
    return &digest->events[digest->count++];
}

void vt_digest_leave_out(struct vt_digest *digest, size_t position)
{
    struct vt_event *event = &digest->events[position];
    if (event->kind == VT_EVENT_NONE)
        return;
    if (event->kind == VT_EVENT_ALLOC) {
        digest->omitted_blocks++;
        digest->omitted_bytes += event->bytes;
    }
    /* A landmark's block is counted already. */
    digest->omitted_events += !vt_is_landmark(event);
    event->kind = VT_EVENT_NONE;
    digest->left_out++;
}

/* Makes room for one more. */
bool vt_digest_prepare(struct vt_digest *digest)
{
    digest->failed |=
        digest->used * 2 >= digest->place_count && !vt_digest_make_places(digest, digest->place_count * 2);
    digest->failed |= digest->left_out >= LEAST_LEFT_OUT && digest->left_out * 2 >= digest->count &&
                      !vt_digest_close_up(digest);
    return !digest->failed;
}
