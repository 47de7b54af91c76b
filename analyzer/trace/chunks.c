/* Compressed chunks: find them, check them, decode their columns. */
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>
#include <zstd.h>

#include "base/progress.h"
#include "base/task.h"
#include "trace/tables.h"

/* A chunk is a few hundred KiB in practice. */
#define CHUNK_BYTES_LIMIT (64u << 20)
/* What all chunks together may unpack to, so that a small file cannot ask for absurd memory: real ones pack
 * by 5 to 40. */
#define UNPACKED_ALWAYS (4u << 20)
#define UNPACKED_RATIO 256u
/* An event takes at least as many bytes here as it has columns there, but several times that in memory: of
 * events there may be so many for each stored byte, and the first chunk's. The most regular traces have one
 * for three bytes, since the clock's last bits cannot be packed. */
#define EVENTS_RATIO 8u
/* Places tried when the next chunk has to be searched for past a damaged one. */
#define SEARCH_TRIES 256

#define COLUMN_COUNT_ONE(field) +1
#define COLUMN_COUNT (0 VT_EVENT_COLUMNS(COLUMN_COUNT_ONE))

/* A chunk whose header is plausible, if those before it in its batch are whole. */
struct found {
    struct vt_chunk_header header;
    uint64_t offset, end_offset; /* in the file */
    struct vt_event *events;     /* where its events go; of header.events */
    uint8_t *payload;
    bool stored_whole; /* the stored bytes are as they were written, so the next chunk follows them */
    int error;
};

/* Chunks that follow each other, decoded in parallel. */
#define BATCH 16u
#define BATCH_EVENTS (8u * VT_CHUNK_EVENTS)
struct batch {
    struct found items[BATCH];
    size_t count;
    uint64_t events, stored_bytes, payload_bytes; /* of all */
    int file;
    bool threads;     /* events have their threads */
    atomic_uint next; /* item to decode */
};

struct chunk_reader {
    struct vt_trace *trace;
    int file;
    uint64_t end; /* of what may hold chunks */
    struct batch batch;
    size_t limit; /* of the next batch: one chunk after a damaged one */
    int tries;
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

static bool chunk_is_plausible(const struct chunk_reader *reader, const struct vt_chunk_header *chunk,
                               uint64_t bytes_left)
{
    const struct batch *batch = &reader->batch;
    uint64_t stored = reader->trace->tables->stored_bytes + batch->stored_bytes + chunk->stored_bytes;
    uint64_t payload = reader->trace->tables->payload_bytes + batch->payload_bytes + chunk->payload_bytes;
    uint64_t events =
        reader->trace->tables->taken_events + reader->trace->event_count + batch->events + chunk->events;
    if (chunk->magic != VT_CHUNK_MAGIC || chunk->header_bytes < sizeof *chunk || chunk->header_bytes > 4096)
        return false;
    if (chunk->stored_bytes > CHUNK_BYTES_LIMIT ||
        chunk->header_bytes + (uint64_t)chunk->stored_bytes > bytes_left)
        return false;
    if (chunk->payload_bytes > CHUNK_BYTES_LIMIT || chunk->definitions_bytes > chunk->payload_bytes)
        return false;
    if (chunk->events > VT_CHUNK_EVENTS ||
        (uint64_t)chunk->events * COLUMN_COUNT > chunk->payload_bytes - chunk->definitions_bytes)
        return false;
    return events <= VT_CHUNK_EVENTS + EVENTS_RATIO * stored &&
           payload <= UNPACKED_ALWAYS + UNPACKED_RATIO * stored;
}

/* Adds the chunk at `offset` to the batch. -EBADMSG if there is none. */
static int find_chunk(struct chunk_reader *reader, uint64_t offset)
{
    struct batch *batch = &reader->batch;
    struct found *found = &batch->items[batch->count];
    *found = (struct found){.offset = offset};
    if (reader->end - offset < sizeof found->header)
        return -EBADMSG;
    int error = vt_read_at(reader->file, &found->header, sizeof found->header, offset);
    if (error)
        return error;
    if (!chunk_is_plausible(reader, &found->header, reader->end - offset))
        return -EBADMSG;
    found->end_offset = offset + found->header.header_bytes + found->header.stored_bytes;
    batch->count++;
    batch->events += found->header.events;
    batch->stored_bytes += found->header.stored_bytes;
    batch->payload_bytes += found->header.payload_bytes;
    return 0;
}

/* Finds chunks from `offset` on. Returns what is wrong with the first. */
static int find_batch(struct chunk_reader *reader, uint64_t offset)
{
    struct batch *batch = &reader->batch;
    batch->count = batch->events = batch->stored_bytes = batch->payload_bytes = 0;
    int error = find_chunk(reader, offset);
    while (!error && batch->count < reader->limit && batch->events < BATCH_EVENTS &&
           batch->payload_bytes < CHUNK_BYTES_LIMIT &&
           batch->items[batch->count - 1].end_offset < reader->end)
        if (find_chunk(reader, batch->items[batch->count - 1].end_offset))
            break;
    return error;
}

/* Reads the chunk, unpacks it and decodes its events. -EBADMSG if it is damaged. */
static int decode_chunk(const struct batch *batch, struct found *found, ZSTD_DCtx *unpacker)
{
    const struct vt_chunk_header *chunk = &found->header;
    uint8_t *stored = malloc(chunk->stored_bytes + 1);
    found->payload = malloc(chunk->payload_bytes + 1);
    int error = stored && found->payload ? vt_read_at(batch->file, stored, chunk->stored_bytes,
                                                      found->offset + chunk->header_bytes)
                                         : -ENOMEM;
    if (!error && XXH3_64bits(stored, chunk->stored_bytes) != chunk->checksum)
        error = -EBADMSG;
    found->stored_whole = !error;
    size_t got = error ? 0
                       : ZSTD_decompressDCtx(unpacker, found->payload, chunk->payload_bytes, stored,
                                             chunk->stored_bytes);
    free(stored);
    if (!error && (ZSTD_isError(got) || got != chunk->payload_bytes))
        error = -EBADMSG;
    if (error)
        return error;
    if (chunk->events > 0)
        memset(found->events, 0, chunk->events * sizeof *found->events);
    return decode_columns(found->payload + chunk->definitions_bytes, found->payload + chunk->payload_bytes,
                          found->events, chunk->events, batch->threads)
               ? 0
               : -EBADMSG;
}

static int decode_some(void *context)
{
    struct batch *batch = context;
    ZSTD_DCtx *unpacker = ZSTD_createDCtx();
    for (unsigned i; (i = atomic_fetch_add(&batch->next, 1)) < batch->count;)
        batch->items[i].error = unpacker ? decode_chunk(batch, &batch->items[i], unpacker) : -ENOMEM;
    ZSTD_freeDCtx(unpacker);
    return 0;
}

/* Decodes the batch's chunks, on as many threads as there are processors. */
static int decode_batch(struct chunk_reader *reader)
{
    struct batch *batch = &reader->batch;
    struct vt_trace *trace = reader->trace;
    struct vt_task tasks[VT_PROCESSORS_MAXIMUM] = {0};
    unsigned others = vt_processors() - 1;
    int error = vt_events_reserve(trace, batch->events);
    if (error)
        return error;
    for (size_t i = 0, events = trace->event_count; i < batch->count; i++) {
        batch->items[i].events = trace->events + events;
        events += batch->items[i].header.events;
    }
    atomic_store(&batch->next, 0);
    for (unsigned i = 0; i < others && i + 1 < batch->count; i++)
        vt_task_begin(&tasks[i], decode_some, batch);
    decode_some(batch);
    for (unsigned i = 0; i < others; i++)
        vt_task_end(&tasks[i]);
    return 0;
}

static int take_definitions(struct vt_trace *trace, const struct found *found)
{
    const struct vt_chunk_header *chunk = &found->header;
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
    const struct vt_chunk_header *chunk = &found->header;
    int error = trace->tables->definitions_known ? 0 : take_definitions(trace, found);
    if (error)
        return error;
    trace->event_count += chunk->events;
    trace->tables->payload_bytes += chunk->payload_bytes;
    trace->tables->stored_bytes += chunk->stored_bytes;
    if (chunk->ring_position > *ring_position && chunk->ring_position <= trace->header.ring_reserved)
        *ring_position = chunk->ring_position;
    return 0;
}

/* Reads chunks from *offset on, in their order up to the first that is damaged, whose offset *offset then is.
 * *next is where the one after it should be, 0 if that is not known. */
static int read_batch(struct chunk_reader *reader, uint64_t *offset, uint64_t *next, uint64_t *ring_position)
{
    struct batch *batch = &reader->batch;
    *next = 0;
    int error = find_batch(reader, *offset);
    if (!error)
        error = decode_batch(reader);
    for (size_t i = 0; i < batch->count && !error; i++) {
        *offset = batch->items[i].offset;
        *next = batch->items[i].stored_whole ? batch->items[i].end_offset : 0;
        error = batch->items[i].error;
        if (!error)
            error = take_chunk(reader->trace, &batch->items[i], ring_position);
    }
    for (size_t i = 0; i < batch->count; i++)
        free(batch->items[i].payload);
    int taken = vt_events_hand_over(reader->trace);
    return taken ? taken : error;
}

/* The next place after `offset` that may start a chunk, or the end. */
static uint64_t search_chunk(struct chunk_reader *reader, uint64_t offset)
{
    static const uint32_t magic = VT_CHUNK_MAGIC;
    uint8_t window[65536 + sizeof magic];
    if (reader->tries-- <= 0)
        return reader->end;
    while (offset < reader->end && reader->end - offset >= sizeof(struct vt_chunk_header)) {
        uint64_t left = reader->end - offset;
        size_t bytes = left < sizeof window ? (size_t)left : sizeof window;
        if (vt_read_at(reader->file, window, bytes, offset))
            return reader->end;
        const uint8_t *found = memmem(window, bytes, &magic, sizeof magic);
        if (found)
            return offset + (uint64_t)(found - window);
        offset += bytes - (sizeof magic - 1);
    }
    return reader->end;
}

static int read_all(struct chunk_reader *reader, uint64_t *ring_position)
{
    struct vt_trace *trace = reader->trace;
    const struct vt_trace_tables *tables = trace->tables;
    uint64_t offset = trace->header.chunks_offset;
    while (offset < reader->end) {
        uint64_t next;
        uint64_t whole = reader->end - trace->header.chunks_offset;
        vt_progress_tell(VT_WORK_READ,
                         offset - trace->header.chunks_offset + (tables->definitions_known ? whole : 0),
                         tables->take_events ? 2 * whole : whole);
        int error = read_batch(reader, &offset, &next, ring_position);
        if (error && error != -EBADMSG)
            return error;
        reader->limit = error ? 1 : BATCH;
        if (error) {
            if (!next)
                next = search_chunk(reader, offset + 1);
            trace->truncated = true;
            trace->damaged_bytes += next - offset;
        }
        offset = next;
    }
    return 0;
}

int vt_chunks_read(struct vt_trace *trace, int file, uint64_t file_bytes, uint64_t *ring_position)
{
    struct chunk_reader reader = {
        .trace = trace, .file = file, .limit = BATCH, .tries = SEARCH_TRIES, .batch.file = file};
    reader.batch.threads = trace->header.feature_bits & VT_FEATURE_EVENT_THREADS;
    reader.end = trace->header.chunks_end;
    if (reader.end > file_bytes) {
        reader.end = file_bytes;
        trace->truncated = true;
    }
    return read_all(&reader, ring_position);
}
