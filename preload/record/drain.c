#include "record/drain.h"

#include <errno.h>
#include <string.h>

#include "guard.h"
#include "record/definitions.h"
#include "record/flight.h"
#include "stacks/python_layout.h"
#include "stacks/unwind_tables.h"

enum {
    CHUNK_DEFINITIONS_BYTES = 3 << 20, /* then the chunk is full: readers accept only so much unpacked (4 MiB,
                                          or a multiple of its size) */
    OUT_OF_MEMORY = 2,                 /* of the driver and of the runtime */
    LAST_TURNS = 100,
    LAST_TURN_NS = 1000000,
};

/* Names are added now, while they can still be found. */
static void take_definition(struct vt_drain *drain, const struct vt_record_head *head)
{
    struct vt_buffer *definitions = &drain->chunk.definitions;
    if (drain->seen && head->kind == VT_RECORD_THREAD) {
        vt_define_thread(drain->session, ((const struct vt_string *)(const void *)head)->id, definitions);
        return;
    }
    size_t padded = (head->bytes + 7u) & ~(size_t)7;
    void *copy = vt_buffer_add(definitions, padded);
    if (!copy)
        return;
    memset((char *)copy + padded - 8, 0, 8);
    memcpy(copy, head, head->bytes);
    if (drain->flight)
        vt_flight_define(drain->flight, head);
    if (drain->digests)
        vt_digest_levels_define(drain->digests, head);
    if (drain->seen && head->kind == VT_RECORD_STACK)
        vt_define_for_stack(drain->seen, (const struct vt_stack *)(const void *)head, definitions);
    if (drain->ranges)
        vt_top_definition(&drain->ring->header->top, head);
}

static void take_event(struct vt_drain *drain, const struct vt_event *event)
{
    struct vt_chunk *chunk = &drain->chunk;
    const uint32_t before = chunk->place ? chunk->chain_events : 0;
    drain->ends_chain =
        vt_chain_may_end(&drain->chain_end, event, before + (uint32_t)chunk->event_count, VT_CHAIN_EVENTS);
    chunk->events[chunk->event_count++] = event;
    drain->failed_requests += event->kind == VT_EVENT_ALLOC_FAILED || event->kind == VT_EVENT_OOM;
    drain->ran_out |= event->kind == VT_EVENT_OOM;
    drain->driver_ran_out |= event->kind == VT_EVENT_ALLOC_FAILED && event->detail == OUT_OF_MEMORY;
    if (drain->ranges)
        vt_top_event(&drain->ring->header->top, drain->ranges, event);
}

/* Takes committed records, at most a chunk's worth, and at most a quarter of the ring: slots are free again
 * only when the chunk is written, and producers that find none wait only a few milliseconds. */
static void take_records(struct vt_drain *drain)
{
    const struct vt_ring *ring = drain->ring;
    struct vt_chunk *chunk = &drain->chunk;
    const struct vt_record_head *head;
    const size_t most = drain->flight ? vt_flight_chunk_events(drain->flight) : VT_CHUNK_EVENTS;
    while (chunk->event_count < most && !drain->ends_chain &&
           chunk->definitions.bytes < CHUNK_DEFINITIONS_BYTES && !chunk->definitions.failed &&
           drain->position - vt_ring_consumed(ring) < ring->slot_count / 4 &&
           (head = vt_ring_at(ring, &drain->position))) {
        drain->position += head->slots;
        if (head->kind == VT_RECORD_EVENT)
            take_event(drain, (const struct vt_event *)(const void *)head);
        else
            take_definition(drain, head);
    }
}

/* Appends a packed chunk; in flight mode, waits for room. */
static int append_packed(struct vt_drain *drain, const struct vt_chunk *chunk, uint64_t ring_position)
{
    const uint64_t offset = drain->file->header.chunks_end;
    int error = vt_trace_file_append(drain->file, chunk->stored.data, chunk->stored.bytes, ring_position);
    if (!error && drain->flight)
        drain->ends_chain |= vt_flight_note(drain->flight, chunk, offset);
    return error;
}

static int append_digest(void *context, const struct vt_digest_level *level, const struct vt_chunk *chunk,
                         uint64_t ring_position)
{
    struct vt_drain *drain = context;
    if (drain->flight)
        vt_flight_note_digest(drain->flight, &level->digest);
    int error = append_packed(drain, chunk, ring_position);
    if (error == -EOVERFLOW && drain->flight && vt_flight_wait(drain->flight))
        error = append_packed(drain, chunk, ring_position);
    return error;
}

int vt_drain_end_chain(struct vt_drain *drain)
{
    drain->ends_chain = false;
    vt_chunk_end_chain(&drain->chunk);
    return drain->digests ? vt_digest_levels_end_chain(drain->digests, vt_ring_consumed(drain->ring),
                                                       append_digest, drain)
                          : 0;
}

static int pack_and_append(struct vt_drain *drain)
{
    int error = vt_chunk_pack(&drain->chunk, drain->position, vt_ring_consumed(drain->ring));
    return error ? error : append_packed(drain, &drain->chunk, drain->position);
}

static int append_chunk(struct vt_drain *drain)
{
    struct vt_counters *counters = &drain->ring->header->counters;
    struct vt_chunk *chunk = &drain->chunk;
    int error = 0;
    if (!chunk->event_count && !chunk->definitions.bytes && drain->position == vt_ring_consumed(drain->ring))
        return 0;
    if (vt_trace_file_was_cut(drain->file))
        error = vt_drain_end_chain(drain); /* the start of the chain may be gone */
    counters->events += chunk->event_count;
    if (drain->seen) {
        counters->python_unsupported_minor = (uint64_t)vt_python_unsupported_minor();
        counters->python_free_threaded = vt_python_is_free_threaded();
        drain->file->header.native_walks_cut = vt_unwind_unanswered();
    }
    drain->file->header.counters = vt_counters_now(drain->ring);
    if (!error)
        error = pack_and_append(drain);
    if (error == -EOVERFLOW && drain->flight && vt_flight_wait(drain->flight)) {
        error = vt_drain_end_chain(drain);
        if (!error)
            error = pack_and_append(drain);
    }
    if (error) {
        counters->events -= chunk->event_count;
        return error;
    }
    if (drain->digests)
        vt_digest_levels_take(drain->digests, chunk, counters->events - chunk->event_count);
    vt_ring_consume(drain->ring, drain->position);
    chunk->event_count = 0;
    chunk->definitions.bytes = 0;
    return drain->ends_chain ? vt_drain_end_chain(drain) : 0;
}

int vt_drain(struct vt_drain *drain)
{
    do {
        take_records(drain);
        int error = append_chunk(drain);
        if (error)
            return error;
    } while (vt_ring_at(drain->ring, &drain->position));
    return 0;
}

void vt_drain_abandon(struct vt_drain *drain, uint64_t end)
{
    struct vt_counters *counters = &drain->ring->header->counters;
    const uint8_t kind = vt_ring_abandon(drain->ring, &drain->position, end);
    uint64_t *lost = !drain->seen             ? &drain->file->header.unfinished_records
                     : kind > VT_RECORD_EVENT ? &counters->dropped_definitions
                                              : &counters->dropped;
    __atomic_fetch_add(lost, 1, __ATOMIC_RELAXED);
}

int vt_drain_to_the_end(struct vt_drain *drain)
{
    struct vt_ring *ring = drain->ring;
    int error = vt_drain(drain);
    for (int turn = 0; drain->seen && !error && vt_ring_pending(ring) && turn < LAST_TURNS; turn++) {
        vt_nap(LAST_TURN_NS);
        error = vt_drain(drain);
    }
    uint64_t end = __atomic_load_n(&ring->header->ring_reserved, __ATOMIC_RELAXED);
    while (!error && (int64_t)(end - drain->position) > 0) {
        if (!vt_ring_at(ring, &drain->position) && (int64_t)(end - drain->position) > 0)
            vt_drain_abandon(drain, end);
        error = vt_drain(drain);
    }
    return error;
}

uint64_t vt_drain_count_events(const struct vt_drain *drain)
{
    const struct vt_ring *ring = drain->ring;
    const uint64_t end = __atomic_load_n(&ring->header->ring_reserved, __ATOMIC_ACQUIRE);
    uint64_t count = 0;
    for (uint64_t position = vt_ring_consumed(ring); (int64_t)(end - position) > 0;) {
        const struct vt_record_head *head = vt_ring_at(ring, &position);
        count += head && head->kind == VT_RECORD_EVENT;
        position += head ? head->slots : 1;
    }
    return count;
}
