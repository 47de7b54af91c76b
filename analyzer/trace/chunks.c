/* Compressed chunks: find them, check them, decode their columns. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>
#include <zstd.h>

#include "base/progress.h"
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

struct chunk_reader {
    struct vt_trace *trace;
    int file;
    uint64_t end; /* of what may hold chunks */
    ZSTD_DCtx *unpacker;
    struct vt_chain *chain; /* the present one */
    uint8_t *stored, *payload;
    size_t stored_capacity, payload_capacity;
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

/* What it holds besides events, or with them, once it is unpacked. */
static uint64_t unpacked_bytes(const struct vt_chained_chunk_header *head)
{
    return is_chained(head) ? head->chunk.definitions_bytes : head->chunk.payload_bytes;
}

static bool columns_are_plausible(const struct chunk_reader *reader, const struct vt_chunk_header *chunk)
{
    return chunk->magic == VT_CHUNK_MAGIC && chunk->definitions_bytes <= chunk->payload_bytes &&
           chunk->events <= VT_CHUNK_EVENTS &&
           (uint64_t)chunk->events * COLUMN_COUNT <= chunk->payload_bytes - chunk->definitions_bytes &&
           reader->trace->event_count + chunk->events <=
               VT_CHUNK_EVENTS + EVENTS_RATIO * (reader->trace->tables->stored_bytes + chunk->stored_bytes);
}

static bool chunk_is_plausible(const struct chunk_reader *reader, const struct vt_chained_chunk_header *head,
                               uint64_t bytes_left)
{
    const struct vt_trace_tables *tables = reader->trace->tables;
    const struct vt_chunk_header *chunk = &head->chunk;
    if (chunk->header_bytes < sizeof *chunk || chunk->header_bytes > 4096)
        return false;
    if (chunk->stored_bytes > CHUNK_BYTES_LIMIT ||
        chunk->header_bytes + (uint64_t)chunk->stored_bytes > bytes_left)
        return false;
    if (chunk->payload_bytes > CHUNK_BYTES_LIMIT || chunk->definitions_bytes > CHUNK_BYTES_LIMIT)
        return false;
    return (vt_chain_is_plausible(head) || columns_are_plausible(reader, chunk)) &&
           tables->payload_bytes + unpacked_bytes(head) <=
               UNPACKED_ALWAYS + UNPACKED_RATIO * (tables->stored_bytes + chunk->stored_bytes);
}

/* Unpacks the stored bytes of a chunk without a chain. -EBADMSG if they are damaged. */
static int unpack_columns(struct chunk_reader *reader, const struct vt_chunk_header *chunk,
                          uint8_t *definitions, struct vt_event *events)
{
    int error = vt_reserve(&reader->payload, &reader->payload_capacity, chunk->payload_bytes, 1);
    if (error)
        return error;
    uint8_t *payload = reader->payload;
    size_t got = ZSTD_decompressDCtx(reader->unpacker, payload, chunk->payload_bytes, reader->stored,
                                     chunk->stored_bytes);
    if (ZSTD_isError(got) || got != chunk->payload_bytes)
        return -EBADMSG;
    if (chunk->events > 0)
        memset(events, 0, chunk->events * sizeof *events);
    if (chunk->definitions_bytes > 0)
        memcpy(definitions, payload, chunk->definitions_bytes);
    return decode_columns(payload + chunk->definitions_bytes, payload + chunk->payload_bytes, events,
                          chunk->events, reader->trace->header.feature_bits & VT_FEATURE_EVENT_THREADS)
               ? 0
               : -EBADMSG;
}

/* Takes what the stored bytes hold. */
static int take_chunk(struct chunk_reader *reader, const struct vt_chained_chunk_header *head)
{
    struct vt_trace *trace = reader->trace;
    const struct vt_chunk_header *chunk = &head->chunk;
    int error = vt_events_reserve(trace, chunk->events);
    if (error)
        return error;
    /* Stacks and line tables point into the definitions: those are kept. */
    uint8_t *definitions = vt_arena_take(&trace->tables->arena, chunk->definitions_bytes);
    if (!definitions)
        return -ENOMEM;
    struct vt_event *events = trace->events + trace->event_count;
    error = is_chained(head) ? vt_chain_read(reader->chain, head, reader->stored, definitions, events)
                             : unpack_columns(reader, chunk, definitions, events);
    if (error)
        return error;
    error = vt_definitions_add(trace, definitions, chunk->definitions_bytes);
    if (error == -ENOMEM)
        return error;
    if (error)
        trace->truncated = true;
    trace->event_count += chunk->events;
    trace->tables->payload_bytes += unpacked_bytes(head);
    trace->tables->stored_bytes += chunk->stored_bytes;
    return 0;
}

/* The header at `offset`; what a chunk without a chain does not have of it is 0. */
static int read_head(const struct chunk_reader *reader, uint64_t offset, struct vt_chained_chunk_header *head)
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

static bool is_whole(const struct vt_chained_chunk_header *head, const uint8_t *stored)
{
    return is_chained(head) ? vt_chain_is_whole(head, stored)
                            : XXH3_64bits(stored, head->chunk.stored_bytes) == head->chunk.checksum;
}

/* Reads the chunk at `offset`. *next is where the one after it should be, 0 if that is not known. */
static int read_chunk(struct chunk_reader *reader, uint64_t offset, uint64_t *next, uint64_t *ring_position)
{
    struct vt_chained_chunk_header head;
    const struct vt_chunk_header *chunk = &head.chunk;
    *next = 0;
    int error = read_head(reader, offset, &head);
    if (error)
        return error;
    if (!chunk_is_plausible(reader, &head, reader->end - offset))
        return -EBADMSG;
    error = vt_reserve(&reader->stored, &reader->stored_capacity, chunk->stored_bytes, 1);
    if (!error)
        error = vt_read_at(reader->file, reader->stored, chunk->stored_bytes, offset + chunk->header_bytes);
    if (error)
        return error;
    if (!is_whole(&head, reader->stored))
        return -EBADMSG;
    if (offset >= reader->trace->header.chunks_end && chunk->ring_position < *ring_position)
        return -EBADMSG;
    *next = offset + chunk->header_bytes + chunk->stored_bytes;
    error = take_chunk(reader, &head);
    if (!error && chunk->ring_position > *ring_position &&
        (chunk->ring_position <= reader->trace->header.ring_reserved ||
         reader->trace->header.format_version > 1))
        *ring_position = chunk->ring_position;
    return error;
}

/* The next place after `offset` that may start a chunk, or the end. */
static uint64_t search_chunk(struct chunk_reader *reader, uint64_t offset)
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

static int read_all(struct chunk_reader *reader, uint64_t *offset, uint64_t *ring_position)
{
    struct vt_trace *trace = reader->trace;
    while (*offset < reader->end) {
        uint64_t next;
        vt_progress_tell(VT_WORK_READ, *offset - trace->header.chunks_offset,
                         reader->end - trace->header.chunks_offset);
        int error = read_chunk(reader, *offset, &next, ring_position);
        if (error && error != -EBADMSG)
            return error;
        if (error && *offset >= trace->header.chunks_end)
            return 0; /* not whole yet, or never: its records are still in the ring */
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

int vt_chunks_read(struct vt_trace *trace, int file, uint64_t end, uint64_t *offset, uint64_t *ring_position)
{
    struct chunk_reader reader = {.trace = trace, .file = file, .end = end, .tries = SEARCH_TRIES};
    reader.unpacker = ZSTD_createDCtx();
    reader.chain = vt_chain_make();
    int error = reader.unpacker && reader.chain ? read_all(&reader, offset, ring_position) : -ENOMEM;
    ZSTD_freeDCtx(reader.unpacker);
    vt_chain_free(reader.chain);
    free(reader.stored);
    free(reader.payload);
    return error;
}
