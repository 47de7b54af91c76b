/* Chunks: buffers that grow, events as columns, and their compression. */
#include "record/writer.h"

#include <errno.h>
#include <string.h>
#define ZSTD_STATIC_LINKING_ONLY /* a compressor that uses our memory */
#include <zstd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "memory.h"

enum { ZSTD_LEVEL = 3 };

/* ---- buffers ---- */

void *vt_buffer_add(struct vt_buffer *buffer, size_t bytes)
{
    if (buffer->failed)
        return NULL;
    if (buffer->capacity - buffer->bytes < bytes) {
        size_t capacity = (buffer->bytes + bytes) * 3 / 2 + 4096;
        uint8_t *data = vt_memory_grow(buffer->data, buffer->capacity, capacity);
        if (!data) {
            buffer->failed = true;
            return NULL;
        }
        buffer->data = data;
        buffer->capacity = capacity;
    }
    buffer->bytes += bytes;
    return buffer->data + buffer->bytes - bytes;
}

void *vt_buffer_definition(struct vt_buffer *buffer, enum vt_record_kind kind, size_t struct_bytes,
                           size_t body_bytes)
{
    size_t bytes = struct_bytes + body_bytes, padded = (bytes + 7) & ~(size_t)7;
    struct vt_record_head *head = vt_buffer_add(buffer, padded);
    if (!head)
        return NULL;
    memset(head, 0, padded);
    head->kind = (uint8_t)kind;
    head->bytes = (uint32_t)bytes;
    return head;
}

/* ---- columns ---- */

/* LEB128 of zigzag(value - previous). At most 10 bytes. */
static uint8_t *put(uint8_t *out, uint64_t difference)
{
    uint64_t value = difference << 1 ^ (uint64_t)((int64_t)difference >> 63);
    while (value >= 0x80) {
        *out++ = (uint8_t)(value | 0x80);
        value >>= 7;
    }
    *out++ = (uint8_t)value;
    return out;
}

#define PACK_COLUMN(field)                                                                                   \
    static uint8_t *pack_##field(const struct vt_event *const *events, size_t count, uint8_t *out)           \
    {                                                                                                        \
        uint64_t previous = 0;                                                                               \
        for (size_t i = 0; i < count; i++) {                                                                 \
            uint64_t value = (uint64_t)events[i]->field;                                                     \
            out = put(out, value - previous);                                                                \
            previous = value;                                                                                \
        }                                                                                                    \
        return out;                                                                                          \
    }
VT_EVENT_COLUMNS(PACK_COLUMN)
VT_EVENT_THREAD_COLUMN(PACK_COLUMN)

/* Columns, as format.h describes them. */
static void pack_events(const struct vt_event *const *events, size_t count, struct vt_buffer *out)
{
    enum { VARINT_MAXIMUM_BYTES = 10 };
#define X(field)                                                                                             \
    {                                                                                                        \
        size_t before = out->bytes;                                                                          \
        uint8_t *start = vt_buffer_add(out, count * VARINT_MAXIMUM_BYTES);                                   \
        if (!start)                                                                                          \
            return;                                                                                          \
        out->bytes = before + (size_t)(pack_##field(events, count, start) - start);                          \
    }
    VT_EVENT_COLUMNS(X)
    VT_EVENT_THREAD_COLUMN(X)
#undef X
}

/* ---- compression ---- */

/* zstd's memory: each piece begins with its size. */
enum { PIECE_HEAD_BYTES = 64 };

static void *take_memory(void *context, size_t bytes)
{
    (void)context;
    size_t *piece = vt_memory_grow(NULL, 0, bytes + PIECE_HEAD_BYTES);
    if (!piece)
        return NULL;
    *piece = bytes + PIECE_HEAD_BYTES;
    return (char *)piece + PIECE_HEAD_BYTES;
}

static void return_memory(void *context, void *address)
{
    (void)context;
    size_t *piece = (size_t *)(void *)((char *)address - PIECE_HEAD_BYTES);
    if (address)
        vt_memory_free(piece, *piece);
}

bool vt_chunk_start(struct vt_chunk *chunk)
{
    chunk->compressor = ZSTD_createCCtx_advanced((ZSTD_customMem){take_memory, return_memory, NULL});
    chunk->events = vt_memory_grow(NULL, 0, VT_CHUNK_EVENTS * sizeof *chunk->events);
    return chunk->compressor && chunk->events;
}

int vt_chunk_pack(struct vt_chunk *chunk, uint64_t ring_position)
{
    struct vt_chunk_header *head;
    struct vt_buffer *payload = &chunk->payload, *stored = &chunk->stored;
    payload->bytes = stored->bytes = 0;
    uint8_t *definitions = vt_buffer_add(payload, chunk->definitions.bytes);
    if (definitions)
        memcpy(definitions, chunk->definitions.data, chunk->definitions.bytes);
    pack_events(chunk->events, chunk->event_count, payload);
    size_t bound = ZSTD_compressBound(payload->bytes);
    uint8_t *data = vt_buffer_add(stored, sizeof *head + bound);
    if (!data || payload->failed || chunk->definitions.failed)
        return -ENOMEM;
    size_t bytes = ZSTD_compressCCtx(chunk->compressor, data + sizeof *head, bound, payload->data,
                                     payload->bytes, ZSTD_LEVEL);
    if (ZSTD_isError(bytes))
        return -ENOMEM;
    stored->bytes = sizeof *head + bytes;
    head = (struct vt_chunk_header *)(void *)data;
    *head = (struct vt_chunk_header){.magic = VT_CHUNK_MAGIC,
                                     .header_bytes = sizeof *head,
                                     .stored_bytes = (uint32_t)bytes,
                                     .payload_bytes = (uint32_t)payload->bytes,
                                     .definitions_bytes = (uint32_t)chunk->definitions.bytes,
                                     .events = (uint32_t)chunk->event_count,
                                     .ring_position = ring_position,
                                     .checksum = XXH3_64bits(data + sizeof *head, bytes)};
    return 0;
}
