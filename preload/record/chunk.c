#include "record/chunk.h"

#include <errno.h>
#include <string.h>
#define ZSTD_STATIC_LINKING_ONLY /* for a compressor that uses our allocator */
#include <zstd.h>

#define XXH_INLINE_ALL
#include "format/checksum.h"
#include "format/events.h"
#include "memory.h"

enum { ZSTD_LEVEL = 3, ZSTD_TABLE_LOG = 15 };

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

/* ---- definitions ---- */

/* zstd's allocator: each piece of memory begins with its size. */
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

/* Compresses the chunk's definitions as the next part of the chain's stream. */
static bool pack_definitions(struct vt_chunk *chunk)
{
    ZSTD_inBuffer from = {chunk->definitions.data, chunk->definitions.bytes, 0};
    size_t left = from.size;
    if (chunk->level) {
        uint8_t *out = chunk->place ? NULL : vt_buffer_add(&chunk->stored, left);
        if (out)
            memcpy(out, from.src, left);
        return out || chunk->place;
    }
    while (left) {
        const size_t bound = ZSTD_compressBound(from.size - from.pos) + 64;
        uint8_t *data = vt_buffer_add(&chunk->stored, bound);
        if (!data)
            return false;
        ZSTD_outBuffer to = {data, bound, 0};
        left = ZSTD_compressStream2(chunk->compressor, &to, &from, ZSTD_e_flush);
        chunk->stored.bytes -= bound - to.pos;
        if (ZSTD_isError(left))
            return false;
    }
    return true;
}

/* ---- events ---- */

/* Makes room for `bytes` between the two streams, which grow towards each other. */
static bool make_room(struct vt_buffer *stored, struct vt_coder *coder, size_t bytes)
{
    uint8_t *old = stored->data, *old_end = old + stored->bytes;
    if ((size_t)(coder->plain_out - coder->out) >= bytes)
        return true;
    const size_t front = (size_t)(coder->out - old), back = (size_t)(old_end - coder->plain_out),
                 more = stored->bytes + bytes;
    if (!vt_buffer_add(stored, more))
        return false;
    uint8_t *end = stored->data + stored->bytes;
    memmove(end - back, end - more - back, back);
    coder->out = stored->data + front;
    coder->plain_out = end - back;
    return true;
}

static bool pack_events(struct vt_chunk *chunk, bool first)
{
    enum { ROOM_BYTES = 16 << 10 };
    struct vt_buffer *stored = &chunk->stored;
    struct vt_event_codec *codec = chunk->codec;
    const size_t start = stored->bytes, room = ROOM_BYTES + (first ? vt_events_start_bytes(codec) : 0);
    if (!chunk->event_count)
        return true;
    uint8_t *out = vt_buffer_add(stored, room);
    if (!out)
        return false;
    vt_events_write_chunk(codec, out, out + room, first);
    const uint32_t number = codec->past.number + 1;
    for (size_t i = 0; i < chunk->event_count; i++) {
        if (!make_room(stored, &codec->coder, VT_EVENT_BYTES_MAXIMUM))
            return false;
        const uint32_t other = vt_events_write(codec, chunk->events[i]);
        chunk->pairs[i] = other && chunk->events[i]->kind == VT_EVENT_ALLOC ? VT_NO_PAIR : 0;
        if (chunk->pairs[i] == 0 && other >= number && chunk->pairs[other - number] != VT_NO_PAIR) {
            chunk->pairs[i] = other - number + 1;
            chunk->pairs[other - number] = (uint32_t)i + 1;
        }
    }
    const size_t least = (chunk->event_count + VT_EVENTS_PER_BYTE - 1) / VT_EVENTS_PER_BYTE;
    if (!make_room(stored, &codec->coder, least + 2 * sizeof(uint64_t)))
        return false;
    stored->bytes =
        (size_t)(vt_events_end(codec, stored->data + stored->bytes, stored->data + start + least) -
                 stored->data);
    return true;
}

/* ---- chunks ---- */

bool vt_chunk_start(struct vt_chunk *chunk)
{
    ZSTD_CCtx *compressor = ZSTD_createCCtx_advanced((ZSTD_customMem){take_memory, return_memory, NULL});
    chunk->compressor = compressor;
    chunk->events = vt_memory_grow(NULL, 0, VT_CHUNK_EVENTS * sizeof *chunk->events);
    chunk->pairs = vt_memory_grow(NULL, 0, VT_CHUNK_EVENTS * sizeof *chunk->pairs);
    chunk->codec = vt_memory_grow(NULL, 0, sizeof *chunk->codec);
    if (!compressor || !chunk->events || !chunk->pairs || !chunk->codec)
        return false;
    ZSTD_CCtx_setParameter(compressor, ZSTD_c_compressionLevel, ZSTD_LEVEL);
    ZSTD_CCtx_setParameter(compressor, ZSTD_c_windowLog, VT_DEFINITIONS_WINDOW);
    ZSTD_CCtx_setParameter(compressor, ZSTD_c_hashLog, ZSTD_TABLE_LOG);
    ZSTD_CCtx_setParameter(compressor, ZSTD_c_chainLog, ZSTD_TABLE_LOG);
    return true;
}

void vt_chunk_stop(struct vt_chunk *chunk)
{
    ZSTD_freeCCtx(chunk->compressor);
    vt_memory_free(chunk->events, VT_CHUNK_EVENTS * sizeof *chunk->events);
    vt_memory_free(chunk->pairs, VT_CHUNK_EVENTS * sizeof *chunk->pairs);
    vt_memory_free(chunk->codec, sizeof *chunk->codec);
    vt_memory_free(chunk->definitions.data, chunk->definitions.capacity);
    vt_memory_free(chunk->stored.data, chunk->stored.capacity);
}

static void begin_chain(struct vt_chunk *chunk, uint64_t chain)
{
    chunk->chain = chain;
    chunk->place = chunk->chain_events = 0;
    ZSTD_CCtx_reset(chunk->compressor, ZSTD_reset_session_only);
    vt_events_begin_chain(chunk->codec);
    if (chunk->level) /* it does not go on where another ended */
        chunk->codec->past.holes = (struct vt_holes){0};
}

void vt_chunk_end_chain(struct vt_chunk *chunk)
{
    chunk->place = 0;
}

int vt_chunk_pack(struct vt_chunk *chunk, uint64_t ring_position, uint64_t chain)
{
    struct vt_chunk_header head = {0};
    struct vt_buffer *stored = &chunk->stored;
    stored->bytes = 0;
    if (!chunk->place)
        begin_chain(chunk, chain);
    if (chunk->definitions.failed || !vt_buffer_add(stored, sizeof head) || !pack_definitions(chunk))
        return -ENOMEM;
    const size_t packed_definitions_bytes = stored->bytes - sizeof head;
    if (!pack_events(chunk, chunk->chain_events == 0))
        return -ENOMEM;
    head = (struct vt_chunk_header){
        .magic = VT_CHUNK_MAGIC,
        .header_bytes = sizeof head,
        .stored_bytes = (uint32_t)(stored->bytes - sizeof head),
        .packed_definitions_bytes = (uint32_t)packed_definitions_bytes,
        .definitions_bytes = chunk->level ? 0 : (uint32_t)chunk->definitions.bytes,
        .events = (uint32_t)chunk->event_count,
        .ring_position = ring_position,
        .chain = chunk->chain,
        .place = chunk->place++,
        .level = chunk->level,
    };
    head.checksum = vt_chunk_checksum(&head, stored->data + sizeof head);
    memcpy(stored->data, &head, sizeof head);
    chunk->chain_events += (uint32_t)chunk->event_count;
    return 0;
}
