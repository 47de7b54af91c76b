/* Chunks: find them, check them, and decode them several at a time, on as many threads. */
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>
#include <zstd.h>

#include "base/progress.h"
#include "base/task.h"
#include "trace/chain.h"
#include "trace/tables.h"

/* A chunk is a few hundred KiB in practice. */
#define CHUNK_BYTES_LIMIT (64u << 20)
/* What all chunks together may unpack to, so that a small file cannot ask for absurd memory: real ones pack
 * by 5 to 40. */
#define UNPACKED_ALWAYS (4u << 20)
#define UNPACKED_RATIO 256u
/* An event of a chunk without a chain takes at least as many bytes here as it has columns there, but several
 * times that in memory: of events there may be so many for each stored byte, and the first chunk's. */
#define EVENTS_RATIO VT_EVENTS_PER_BYTE
/* Places tried when the next chunk has to be searched for past a damaged one. */
#define SEARCH_TRIES 256

#define COLUMN_COUNT_ONE(field) +1
#define COLUMN_COUNT (0 VT_EVENT_COLUMNS(COLUMN_COUNT_ONE))

/* A chunk whose header is plausible, if those before it in its batch are whole. */
struct found {
    struct vt_chained_chunk_header head; /* of a chunk without a chain, what it does not have is 0 */
    uint64_t offset, end_offset;         /* in the file */
    struct vt_event *events;             /* where its events go; of head.chunk.events */
    uint8_t *payload;                    /* begins with its definitions */
    bool stored_whole; /* the stored bytes are as they were written, so the next chunk follows them */
    int error;
};

/* Chunks that follow each other. A unit of them, what one thread decodes by itself, is a chunk without a
 * chain, or those of one chain. */
#define BATCH_CHUNKS 2048u
#define BATCH_EVENTS (8u * VT_CHUNK_EVENTS)
struct batch {
    struct found *items; /* BATCH_CHUNKS */
    size_t count;
    size_t *units; /* the first item of each */
    size_t unit_count;
    uint64_t events, stored_bytes, payload_bytes; /* of all */
    atomic_size_t next;                           /* unit to decode */
};

struct vt_chunk_reader {
    struct vt_trace *trace;
    int file;
    bool threads; /* events have their threads */
    uint64_t end; /* of what may hold chunks */
    struct batch batch;
    size_t limit; /* of the next batch: one chunk after a damaged one */
    int tries;
    /* What the chunk before the batch was in, and what the batch's last one is in if that is another. */
    struct vt_chain *before, *last;
};

int vt_read_at(int file, void *buffer, size_t bytes, uint64_t offset)
{
    char *out = buffer;
    while (bytes > 0) {
        ssize_t got = pread(file, out, bytes, (off_t)offset);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return -errno;
        if (got == 0)
            return -EBADMSG;
        out += got;
        bytes -= (size_t)got;
        offset += (size_t)got;
    }
    return 0;
}

int vt_events_reserve(struct vt_trace *trace, size_t more)
{
    size_t needed = trace->event_count + more;
    if (needed > UINT32_MAX - 1) /* events are numbered with 32 bits */
        return -E2BIG;
    return vt_reserve(&trace->events, &trace->tables->event_capacity, needed, sizeof *trace->events);
}

int vt_events_hand_over(struct vt_trace *trace)
{
    struct vt_trace_tables *tables = trace->tables;
    if (!tables->take_events)
        return 0;
    int error = tables->take_events(tables->take_context, trace->events, trace->event_count);
    tables->taken_events += trace->event_count;
    trace->event_count = 0;
    return error;
}

/* One LEB128 value. Returns NULL if it runs over the end or is too long. */
static inline const uint8_t *take_leb128(const uint8_t *at, const uint8_t *end, uint64_t *value)
{
    if (at < end && *at < 0x80) {
        *value = *at;
        return at + 1;
    }
    uint64_t result = 0;
    for (unsigned shift = 0; at < end && shift < 64; shift += 7) {
        uint8_t byte = *at++;
        result |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80) {
            *value = result;
            return at;
        }
    }
    return NULL;
}

/* The columns of `count` events, into `events`. False if they are not whole. */
static bool decode_columns(const uint8_t *at, const uint8_t *end, struct vt_event *events, size_t count,
                           bool threads)
{
#define DECODE_COLUMN(field)                                                                                 \
    {                                                                                                        \
        uint64_t value = 0, coded = 0;                                                                       \
        for (size_t i = 0; i < count; i++) {                                                                 \
            at = take_leb128(at, end, &coded);                                                               \
            if (!at)                                                                                         \
                return false;                                                                                \
            value += (coded >> 1) ^ (0 - (coded & 1));                                                       \
            events[i].field = (__typeof__(events[i].field))value;                                            \
        }                                                                                                    \
    }
    VT_EVENT_COLUMNS(DECODE_COLUMN)
    if (threads)
        VT_EVENT_THREAD_COLUMN(DECODE_COLUMN)
    return true;
}

static bool is_chained(const struct vt_chained_chunk_header *head)
{
    return head->chunk.magic == VT_CHAINED_MAGIC;
}

/* What is kept of it besides events, or with them, once it is unpacked. */
static uint64_t unpacked_bytes(const struct vt_chained_chunk_header *head)
{
    return is_chained(head) ? head->chunk.definitions_bytes : head->chunk.payload_bytes;
}

static bool columns_are_plausible(const struct vt_chunk_header *chunk, uint64_t events, uint64_t stored)
{
    return chunk->magic == VT_CHUNK_MAGIC && chunk->definitions_bytes <= chunk->payload_bytes &&
           chunk->events <= VT_CHUNK_EVENTS &&
           (uint64_t)chunk->events * COLUMN_COUNT <= chunk->payload_bytes - chunk->definitions_bytes &&
           events <= VT_CHUNK_EVENTS + EVENTS_RATIO * stored;
}

static bool chunk_is_plausible(const struct vt_chunk_reader *reader,
                               const struct vt_chained_chunk_header *head, uint64_t bytes_left)
{
    const struct vt_trace_tables *tables = reader->trace->tables;
    const struct vt_chunk_header *chunk = &head->chunk;
    const struct batch *batch = &reader->batch;
    const uint64_t stored = tables->stored_bytes + batch->stored_bytes + chunk->stored_bytes;
    const uint64_t payload = tables->payload_bytes + batch->payload_bytes + unpacked_bytes(head);
    const uint64_t events = tables->taken_events + reader->trace->event_count + batch->events + chunk->events;
    if (chunk->header_bytes < sizeof *chunk || chunk->header_bytes > 4096)
        return false;
    if (chunk->stored_bytes > CHUNK_BYTES_LIMIT ||
        chunk->header_bytes + (uint64_t)chunk->stored_bytes > bytes_left)
        return false;
    if (chunk->payload_bytes > CHUNK_BYTES_LIMIT || chunk->definitions_bytes > CHUNK_BYTES_LIMIT)
        return false;
    return (vt_chain_is_plausible(head) || columns_are_plausible(chunk, events, stored)) &&
           payload <= UNPACKED_ALWAYS + UNPACKED_RATIO * stored;
}

static int read_head(const struct vt_chunk_reader *reader, uint64_t offset,
                     struct vt_chained_chunk_header *head)
{
    *head = (struct vt_chained_chunk_header){0};
    if (reader->end - offset < sizeof head->chunk)
        return -EBADMSG;
    int error = vt_read_at(reader->file, head, sizeof head->chunk, offset);
    if (error || !is_chained(head))
        return error;
    if (reader->end - offset < sizeof *head)
        return -EBADMSG;
    return vt_read_at(reader->file, head, sizeof *head, offset);
}

/* Adds the chunk at `offset` to the batch. -EBADMSG if there is none. */
static int find_chunk(struct vt_chunk_reader *reader, uint64_t offset)
{
    struct batch *batch = &reader->batch;
    struct found *found = &batch->items[batch->count];
    *found = (struct found){.offset = offset};
    int error = read_head(reader, offset, &found->head);
    if (error)
        return error;
    if (!chunk_is_plausible(reader, &found->head, reader->end - offset))
        return -EBADMSG;
    if (!batch->count || !is_chained(&found->head) || found->head.place == 0)
        batch->units[batch->unit_count++] = batch->count;
    found->end_offset = offset + found->head.chunk.header_bytes + found->head.chunk.stored_bytes;
    batch->count++;
    batch->events += found->head.chunk.events;
    batch->stored_bytes += found->head.chunk.stored_bytes;
    batch->payload_bytes += unpacked_bytes(&found->head);
    return 0;
}

/* Finds chunks from `offset` on. Returns what is wrong with the first. */
static int find_batch(struct vt_chunk_reader *reader, uint64_t offset)
{
    struct batch *batch = &reader->batch;
    batch->count = batch->unit_count = batch->events = batch->stored_bytes = batch->payload_bytes = 0;
    int error = find_chunk(reader, offset);
    while (!error && batch->count < reader->limit && batch->events < BATCH_EVENTS &&
           batch->payload_bytes < CHUNK_BYTES_LIMIT &&
           batch->items[batch->count - 1].end_offset < reader->end)
        if (find_chunk(reader, batch->items[batch->count - 1].end_offset))
            break;
    return error;
}

/* Unpacks the stored bytes of a chunk without a chain. -EBADMSG if they are damaged. */
static int unpack_columns(struct found *found, const uint8_t *stored, ZSTD_DCtx *unpacker, bool threads)
{
    const struct vt_chunk_header *chunk = &found->head.chunk;
    const size_t got =
        ZSTD_decompressDCtx(unpacker, found->payload, chunk->payload_bytes, stored, chunk->stored_bytes);
    if (ZSTD_isError(got) || got != chunk->payload_bytes)
        return -EBADMSG;
    if (chunk->events > 0)
        memset(found->events, 0, chunk->events * sizeof *found->events);
    return decode_columns(found->payload + chunk->definitions_bytes, found->payload + chunk->payload_bytes,
                          found->events, chunk->events, threads)
               ? 0
               : -EBADMSG;
}

/* Reads the chunk, unpacks it and decodes its events. -EBADMSG if it is damaged. */
static int decode_chunk(const struct vt_chunk_reader *reader, struct found *found, struct vt_chain *chain,
                        ZSTD_DCtx *unpacker)
{
    const struct vt_chunk_header *chunk = &found->head.chunk;
    uint8_t *stored = malloc(chunk->stored_bytes + 1);
    found->payload = malloc(unpacked_bytes(&found->head) + 1);
    int error = stored && found->payload ? vt_read_at(reader->file, stored, chunk->stored_bytes,
                                                      found->offset + chunk->header_bytes)
                                         : -ENOMEM;
    if (!error)
        found->stored_whole = is_chained(&found->head)
                                  ? vt_chain_is_whole(&found->head, stored)
                                  : XXH3_64bits(stored, chunk->stored_bytes) == chunk->checksum;
    if (!error && !found->stored_whole)
        error = -EBADMSG;
    if (!error)
        error = is_chained(&found->head)
                    ? vt_chain_read(chain, &found->head, stored, found->payload, found->events)
                    : unpack_columns(found, stored, unpacker, reader->threads);
    free(stored);
    return error;
}

static void decode_unit(struct vt_chunk_reader *reader, size_t unit, struct vt_chain *chain,
                        ZSTD_DCtx *unpacker)
{
    struct batch *batch = &reader->batch;
    const size_t end = unit + 1 < batch->unit_count ? batch->units[unit + 1] : batch->count;
    for (size_t i = batch->units[unit]; i < end; i++)
        batch->items[i].error =
            chain && unpacker ? decode_chunk(reader, &batch->items[i], chain, unpacker) : -ENOMEM;
}

static int decode_some(void *context)
{
    struct vt_chunk_reader *reader = context;
    struct batch *batch = &reader->batch;
    struct vt_chain *own = NULL;
    ZSTD_DCtx *unpacker = ZSTD_createDCtx();
    for (size_t i; (i = atomic_fetch_add(&batch->next, 1)) < batch->unit_count;) {
        struct vt_chain *chain = i == 0 ? reader->before : i + 1 == batch->unit_count ? reader->last : NULL;
        if (!chain && !own)
            own = vt_chain_make();
        decode_unit(reader, i, chain ? chain : own, unpacker);
    }
    vt_chain_free(own);
    ZSTD_freeDCtx(unpacker);
    return 0;
}

/* Decodes the batch's chunks, on as many threads as there are processors. */
static int decode_batch(struct vt_chunk_reader *reader)
{
    struct batch *batch = &reader->batch;
    struct vt_trace *trace = reader->trace;
    struct vt_task tasks[VT_PROCESSORS_MAXIMUM] = {0};
    const unsigned others = vt_processors() - 1;
    int error = vt_events_reserve(trace, batch->events);
    if (error)
        return error;
    for (size_t i = 0, events = trace->event_count; i < batch->count; i++) {
        batch->items[i].events = trace->events + events;
        events += batch->items[i].head.chunk.events;
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
    return 0;
}

static int take_definitions(struct vt_trace *trace, const struct found *found)
{
    const struct vt_chunk_header *chunk = &found->head.chunk;
    /* Stacks and line tables point into the definitions: those are kept. */
    uint8_t *definitions = vt_arena_take(&trace->tables->arena, chunk->definitions_bytes);
    if (!definitions)
        return -ENOMEM;
    if (chunk->definitions_bytes > 0)
        memcpy(definitions, found->payload, chunk->definitions_bytes);
    int error = vt_definitions_add(trace, definitions, chunk->definitions_bytes);
    if (error && error != -ENOMEM)
        trace->truncated = true;
    return error == -ENOMEM ? error : 0;
}

/* Takes what a decoded chunk holds. */
static int take_chunk(struct vt_trace *trace, const struct found *found, uint64_t *ring_position)
{
    const struct vt_chunk_header *chunk = &found->head.chunk;
    int error = trace->tables->definitions_known ? 0 : take_definitions(trace, found);
    if (error)
        return error;
    trace->event_count += chunk->events;
    trace->tables->payload_bytes += unpacked_bytes(&found->head);
    trace->tables->stored_bytes += chunk->stored_bytes;
    if (chunk->ring_position > *ring_position &&
        (chunk->ring_position <= trace->header.ring_reserved || trace->header.format_version > 1))
        *ring_position = chunk->ring_position;
    return 0;
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
        error = decode_batch(reader);
    for (size_t i = 0; i < batch->count && !error; i++) {
        const struct found *found = &batch->items[i];
        *offset = found->offset;
        *next = found->stored_whole ? found->end_offset : 0;
        error = found->error;
        /* Past the end there may be chunks of before the file was cut. */
        if (!error && found->offset >= trace->header.chunks_end &&
            found->head.chunk.ring_position < *ring_position)
            error = -EBADMSG;
        if (!error)
            error = take_chunk(trace, found, ring_position);
    }
    for (size_t i = 0; i < batch->count; i++)
        free(batch->items[i].payload);
    int taken = vt_events_hand_over(trace);
    return taken ? taken : error;
}

/* The next place after `offset` that may start a chunk, or the end. */
static uint64_t search_chunk(struct vt_chunk_reader *reader, uint64_t offset)
{
    enum { MAGIC_BYTES = 3 }; /* that both have */
    static const uint32_t magic = VT_CHUNK_MAGIC;
    uint8_t window[65536 + MAGIC_BYTES];
    if (reader->tries-- <= 0)
        return reader->end;
    while (offset < reader->end && reader->end - offset >= sizeof(struct vt_chunk_header)) {
        uint64_t left = reader->end - offset;
        size_t bytes = left < sizeof window ? (size_t)left : sizeof window;
        if (vt_read_at(reader->file, window, bytes, offset))
            return reader->end;
        const uint8_t *found = memmem(window, bytes, &magic, MAGIC_BYTES);
        if (found)
            return offset + (uint64_t)(found - window);
        offset += bytes - (MAGIC_BYTES - 1);
    }
    return reader->end;
}

int vt_chunks_read(struct vt_chunk_reader *reader, uint64_t end, uint64_t *offset, uint64_t *ring_position)
{
    struct vt_trace *trace = reader->trace;
    const struct vt_trace_tables *tables = trace->tables;
    const uint64_t start = trace->header.chunks_offset, whole = end - start;
    reader->end = end;
    while (*offset < end) {
        uint64_t next;
        vt_progress_tell(VT_WORK_READ, *offset - start + (tables->definitions_known ? whole : 0),
                         tables->take_events ? 2 * whole : whole);
        int error = read_batch(reader, offset, &next, ring_position);
        if (error && error != -EBADMSG)
            return error;
        if (error && *offset >= trace->header.chunks_end)
            return 0; /* not whole yet, or never: its records are still in the ring */
        reader->limit = error ? 1 : BATCH_CHUNKS;
        if (error) {
            if (!next)
                next = search_chunk(reader, *offset + 1);
            trace->truncated = true;
            trace->damaged_bytes += next - *offset;
        }
        *offset = next;
    }
    return 0;
}

struct vt_chunk_reader *vt_chunks_begin(struct vt_trace *trace, int file)
{
    struct vt_chunk_reader *reader = calloc(1, sizeof *reader);
    if (!reader)
        return NULL;
    *reader =
        (struct vt_chunk_reader){.trace = trace, .file = file, .limit = BATCH_CHUNKS, .tries = SEARCH_TRIES};
    reader->threads = trace->header.feature_bits & VT_FEATURE_EVENT_THREADS;
    reader->batch.items = malloc(BATCH_CHUNKS * sizeof *reader->batch.items);
    reader->batch.units = malloc(BATCH_CHUNKS * sizeof *reader->batch.units);
    reader->before = vt_chain_make();
    reader->last = vt_chain_make();
    if (reader->batch.items && reader->batch.units && reader->before && reader->last)
        return reader;
    vt_chunks_end(reader);
    return NULL;
}

void vt_chunks_end(struct vt_chunk_reader *reader)
{
    if (!reader)
        return;
    vt_chain_free(reader->before);
    vt_chain_free(reader->last);
    free(reader->batch.items);
    free(reader->batch.units);
    free(reader);
}
