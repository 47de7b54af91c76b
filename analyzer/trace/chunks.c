/* Chunks: find them, check them, and decode them several at a time, on as many threads. */
#include "trace/chunks.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/allocate.h"
#include "base/progress.h"
#include "base/read_at.h"
#include "base/task.h"
#include "trace/chain.h"
#include "trace/definitions.h"
#include "trace/tables.h"

/* Limits what all chunks together unpack to, so that a small file cannot ask for absurd amounts of memory.
 * Real ones unpack to 5 to 40 times their size. */
#define UNPACKED_ALWAYS (4u << 20)
#define UNPACKED_RATIO 256u

/* A chunk with a plausible header. It is one only if those before it in its batch are whole. */
struct found {
    struct vt_chunk_header head;
    uint64_t offset, end_offset; /* in the file */
    enum vt_plan_part part;
    uint32_t events_read;    /* of VT_PLAN_EVENTS */
    struct vt_event *events; /* where its events go; NULL = nowhere */
    uint8_t *definitions;
    bool stored_whole; /* the checksum is right, so the next chunk follows */
    int error;
};

/* Chunks that follow each other. A unit is what one thread decodes: those of one chain. */
#define BATCH_CHUNKS 2048u
#define BATCH_EVENTS (8u * VT_CHUNK_EVENTS)
struct batch {
    struct found *items; /* BATCH_CHUNKS */
    size_t count;
    size_t *units; /* the first item of each */
    size_t unit_count;
    uint64_t events, stored_bytes, definitions_bytes; /* of all */
    atomic_size_t next;                               /* unit to decode */
};

struct vt_chunk_reader {
    struct vt_trace *trace;
    int file;
    uint64_t end; /* of what may hold chunks */
    struct batch batch;
    size_t limit; /* of the next batch: one chunk after a damaged one */
    int tries;
    /* The chain of the chunk before the batch, and that of the batch's last chunk if it is another. */
    struct vt_chain *before, *last;
};

struct vt_event *vt_raw_events_add(struct vt_trace *trace, size_t more)
{
    struct vt_raw_events *raw = &trace->tables->raw;
    vt_reserve(&raw->items, &raw->capacity, raw->count + more, sizeof *raw->items);
    return raw->items + raw->count;
}

int vt_raw_events_take(struct vt_trace *trace, size_t count)
{
    struct vt_raw_events *raw = &trace->tables->raw;
    int error = vt_digest_events_take(&raw->reader, raw->items, count);
    raw->count -= count;
    if (raw->count)
        memmove(raw->items, raw->items + count, raw->count * sizeof *raw->items);
    raw->chain = 0;
    return error;
}

static bool chunk_is_plausible(const struct vt_chunk_reader *reader, const struct vt_chunk_header *head,
                               uint64_t bytes_left)
{
    const struct vt_trace_tables *tables = reader->trace->tables;
    const struct batch *batch = &reader->batch;
    const uint64_t stored = tables->stored_bytes + batch->stored_bytes + head->stored_bytes;
    const uint64_t unpacked = tables->unpacked_bytes + batch->definitions_bytes + head->definitions_bytes;
    return vt_chain_is_plausible(head) && head->header_bytes + (uint64_t)head->stored_bytes <= bytes_left &&
           unpacked <= UNPACKED_ALWAYS + UNPACKED_RATIO * stored;
}

/* Adds the chunk at `offset` to the batch. -EBADMSG if there is none. */
static int find_chunk(struct vt_chunk_reader *reader, uint64_t offset)
{
    struct batch *batch = &reader->batch;
    struct found *found = &batch->items[batch->count];
    struct vt_chunk_header *head = &found->head;
    *found = (struct found){.offset = offset};
    if (reader->end - offset < sizeof *head)
        return -EBADMSG;
    int error = vt_read_at(reader->file, head, sizeof *head, offset);
    if (error)
        return error;
    if (!chunk_is_plausible(reader, head, reader->end - offset))
        return -EBADMSG;
    if (!batch->count || head->place == 0)
        batch->units[batch->unit_count++] = batch->count;
    found->end_offset = offset + head->header_bytes + head->stored_bytes;
    found->part = vt_plan_part(reader->trace->tables->plan, head);
    found->events_read = found->part == VT_PLAN_EVENTS ? head->events : 0;
    batch->count++;
    batch->events += found->events_read;
    batch->stored_bytes += head->stored_bytes;
    batch->definitions_bytes += head->definitions_bytes;
    return 0;
}

/* Finds chunks from `offset` on. Returns the error of the first. */
static int find_batch(struct vt_chunk_reader *reader, uint64_t offset)
{
    struct batch *batch = &reader->batch;
    batch->count = batch->unit_count = batch->events = batch->stored_bytes = batch->definitions_bytes = 0;
    int error = find_chunk(reader, offset);
    while (!error && batch->count < reader->limit && batch->events < BATCH_EVENTS &&
           batch->definitions_bytes < VT_CHUNK_BYTES_LIMIT &&
           batch->items[batch->count - 1].end_offset < reader->end)
        if (find_chunk(reader, batch->items[batch->count - 1].end_offset))
            break;
    return error;
}

/* Reads the chunk and decodes it. -EBADMSG if it is damaged. */
static int decode_chunk(const struct vt_chunk_reader *reader, struct found *found, struct vt_chain *chain)
{
    const struct vt_chunk_header *head = &found->head;
    uint8_t *stored = vt_allocate(head->stored_bytes + 1);
    found->definitions = vt_allocate(head->definitions_bytes + 1);
    int error = vt_read_at(reader->file, stored, head->stored_bytes, found->offset + head->header_bytes);
    if (!error) {
        found->stored_whole = vt_chain_is_whole(head, stored);
        error = found->stored_whole ? vt_chain_read(chain, head, stored, found->definitions, found->events)
                                    : -EBADMSG;
    }
    free(stored);
    return error;
}

static void decode_unit(struct vt_chunk_reader *reader, size_t unit, struct vt_chain *chain)
{
    struct batch *batch = &reader->batch;
    const size_t end = unit + 1 < batch->unit_count ? batch->units[unit + 1] : batch->count;
    for (size_t i = batch->units[unit]; i < end; i++)
        batch->items[i].error = decode_chunk(reader, &batch->items[i], chain);
}

static int decode_some(void *context)
{
    struct vt_chunk_reader *reader = context;
    struct batch *batch = &reader->batch;
    struct vt_chain *own = NULL;
    for (size_t i; (i = atomic_fetch_add(&batch->next, 1)) < batch->unit_count;) {
        struct vt_chain *chain = i == 0 ? reader->before : i + 1 == batch->unit_count ? reader->last : NULL;
        if (!chain && !own)
            own = vt_chain_make();
        decode_unit(reader, i, chain ? chain : own);
    }
    vt_chain_free(own);
    return 0;
}

/* Decodes the batch's chunks, on as many threads as there are processors. */
static void decode_batch(struct vt_chunk_reader *reader)
{
    struct batch *batch = &reader->batch;
    struct vt_trace *trace = reader->trace;
    struct vt_task tasks[VT_PROCESSORS_MAXIMUM] = {0};
    const unsigned others = vt_processors() - 1;
    struct vt_event *events = vt_raw_events_add(trace, batch->events);
    for (size_t i = 0; i < batch->count; i++) {
        struct found *found = &batch->items[i];
        found->events = found->part == VT_PLAN_EVENTS ? events
                        : found->part == VT_PLAN_NODES
                            ? vt_allocate((found->head.events + 1u) * sizeof *events)
                            : NULL;
        events += found->events_read;
    }
    atomic_store(&batch->next, 0);
    for (unsigned i = 0; i < others && i + 1 < batch->unit_count; i++)
        vt_task_begin(&tasks[i], decode_some, reader);
    decode_some(reader);
    for (unsigned i = 0; i < others; i++)
        vt_task_end(&tasks[i]);
    if (batch->unit_count > 1) { /* the next batch may go on with the last chain */
        struct vt_chain *before = reader->before;
        reader->before = reader->last;
        reader->last = before;
    }
}

/* Takes the definitions and events of a decoded chunk. */
static void take_chunk(struct vt_trace *trace, const struct found *found, uint64_t *ring_position)
{
    const struct vt_chunk_header *head = &found->head;
    if (head->definitions_bytes > 0) {
        /* Stacks and line tables point into the definitions: those are kept. */
        uint8_t *definitions = vt_arena_take(&trace->tables->arena, head->definitions_bytes);
        memcpy(definitions, found->definitions, head->definitions_bytes);
        if (vt_definitions_add(trace, definitions, head->definitions_bytes))
            trace->truncated = true;
    }
    struct vt_raw_events *raw = &trace->tables->raw;
    if (head->place == 0) {
        raw->chain = raw->count;
        raw->id = head->chain;
    }
    for (uint32_t i = 0; i < found->events_read && head->level; i++)
        raw->items[raw->count + i].head_start = VT_DIGEST_LATER;
    if (found->events_read && head->level && head->place == 0)
        raw->items[raw->count].head_start =
            vt_plan_is_alone(trace->tables->plan, head) ? VT_DIGEST_ALONE : VT_DIGEST_KEPT;
    raw->count += found->events_read;
    if (found->part == VT_PLAN_NODES)
        vt_digest_nodes_take(trace, found->events, head->events);
    trace->tables->unpacked_bytes += head->definitions_bytes;
    trace->tables->stored_bytes += head->stored_bytes;
    if (head->ring_position > *ring_position)
        *ring_position = head->ring_position;
}

/* A chain that cannot be read to its end is left out if its digest, which follows, can take its place. */
static void replace_chain(struct vt_trace *trace, const struct vt_chunk_header *damaged)
{
    struct vt_raw_events *raw = &trace->tables->raw;
    if (damaged->level == 0 && vt_plan_replace(trace->tables->plan, damaged->chain) &&
        raw->id == damaged->chain)
        raw->count = raw->chain;
}

/* Reads chunks from *offset on, in their order up to the first that is damaged, whose offset *offset then is.
 * *next is where the one after it should be, 0 if that is not known. */
static int read_batch(struct vt_chunk_reader *reader, uint64_t *offset, uint64_t *next,
                      uint64_t *ring_position)
{
    struct batch *batch = &reader->batch;
    struct vt_trace *trace = reader->trace;
    *next = 0;
    int error = find_batch(reader, *offset);
    if (!error)
        decode_batch(reader);
    for (size_t i = 0; i < batch->count && !error; i++) {
        const struct found *found = &batch->items[i];
        *offset = found->offset;
        *next = found->stored_whole ? found->end_offset : 0;
        error = found->error;
        /* Past the end there may be old chunks, from before the file was cut. */
        if (!error && found->offset >= trace->header.chunks_end && found->head.ring_position < *ring_position)
            error = -EBADMSG;
        if (!error)
            take_chunk(trace, found, ring_position);
        else if (error == -EBADMSG)
            replace_chain(trace, &found->head);
    }
    for (size_t i = 0; i < batch->count; i++) {
        free(batch->items[i].definitions);
        if (batch->items[i].part == VT_PLAN_NODES)
            free(batch->items[i].events);
    }
    int taken = vt_raw_events_take(trace, trace->tables->raw.chain);
    return taken ? taken : error;
}

int vt_chunks_read(struct vt_chunk_reader *reader, uint64_t end, uint64_t *offset, uint64_t *ring_position)
{
    struct vt_trace *trace = reader->trace;
    const uint64_t start = trace->header.chunks_offset, whole = end - start;
    reader->end = end;
    while (*offset < end) {
        uint64_t next;
        vt_progress_tell(VT_WORK_READ, *offset - start, whole);
        int error = read_batch(reader, offset, &next, ring_position);
        if (error && error != -EBADMSG)
            return error;
        if (error && *offset >= trace->header.chunks_end)
            return 0; /* not whole, or not yet: its records are still in the ring */
        reader->limit = error ? 1 : BATCH_CHUNKS;
        if (error) {
            if (!next)
                next = reader->tries-- > 0 ? vt_search_chunk(reader->file, *offset + 1, reader->end)
                                           : reader->end;
            trace->truncated = true;
            trace->damaged_bytes += next - *offset;
        }
        *offset = next;
    }
    return 0;
}

struct vt_chunk_reader *vt_chunks_begin(struct vt_trace *trace, int file)
{
    struct vt_chunk_reader *reader = vt_allocate_zeros(1, sizeof *reader);
    *reader = (struct vt_chunk_reader){
        .trace = trace, .file = file, .limit = BATCH_CHUNKS, .tries = VT_SEARCH_TRIES};
    reader->batch.items = vt_allocate(BATCH_CHUNKS * sizeof *reader->batch.items);
    reader->batch.units = vt_allocate(BATCH_CHUNKS * sizeof *reader->batch.units);
    reader->before = vt_chain_make();
    reader->last = vt_chain_make();
    return reader;
}

void vt_chunks_end(struct vt_chunk_reader *reader)
{
    vt_chain_free(reader->before);
    vt_chain_free(reader->last);
    free(reader->batch.items);
    free(reader->batch.units);
    free(reader);
}
