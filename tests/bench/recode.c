/* Writes a trace again with chunks of another kind: recode chains|columns IN OUT [MILLISECONDS].
 *
 * `chains` packs as the recorder does, with a chunk for each 100 ms of the events' times; `columns` as it did
 * before there were chains. Then prints how many bytes there are for each event, and of them how many are not
 * there if a column is always 0. Nothing in the ring is written again. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <xxhash.h>
#include <zstd.h>

#include "format/events.h"
#include "record/writer.h"
#include "trace/chain.h"

#define REQUIRE(condition)                                                                                   \
    do {                                                                                                     \
        if (!(condition)) {                                                                                  \
            fprintf(stderr, "recode.c:%d: %s\n", __LINE__, #condition);                                      \
            exit(1);                                                                                         \
        }                                                                                                    \
    } while (0)

struct recoded {
    struct vt_file_header header;
    uint64_t event_count, capacity, definitions_stored, events_stored, head_bytes, bytes;
    struct vt_event *events;
    struct piece {
        uint64_t first_event, ring_position;
        uint8_t *definitions;
        size_t definitions_bytes;
    } * pieces; /* what chunks of IN held */
    size_t piece_count;
    FILE *out;
};

/* ---- IN ---- */

static const uint8_t *take(const uint8_t *at, uint64_t *value)
{
    unsigned shift = 0;
    for (*value = 0;; shift += 7) {
        *value |= (uint64_t)(*at & 0x7f) << shift;
        if (*at++ < 0x80)
            return at;
    }
}

static void read_columns(const uint8_t *at, struct vt_event *events, size_t count, bool threads)
{
#define READ_COLUMN(field)                                                                                   \
    for (uint64_t i = 0, value = 0, coded; i < count; i++) {                                                 \
        at = take(at, &coded);                                                                               \
        value += coded >> 1 ^ (0 - (coded & 1));                                                             \
        events[i].field = (__typeof__(events[i].field))value;                                                \
    }
    VT_EVENT_COLUMNS(READ_COLUMN)
    if (threads)
        VT_EVENT_THREAD_COLUMN(READ_COLUMN)
}

static void read_chunk(struct recoded *recoded, const struct vt_chained_chunk_header *head,
                       const uint8_t *stored, struct vt_chain *chain)
{
    const struct vt_chunk_header *chunk = &head->chunk;
    struct piece *piece = &recoded->pieces[recoded->piece_count++];
    struct vt_event *events = recoded->events + recoded->event_count;
    bool chained = chunk->magic == VT_CHAINED_MAGIC;
    size_t bytes = chained ? chunk->definitions_bytes : chunk->payload_bytes;
    *piece = (struct piece){recoded->event_count, chunk->ring_position, malloc(bytes + 1),
                            chunk->definitions_bytes};
    REQUIRE(piece->definitions);
    memset(events, 0, chunk->events * sizeof *events);
    if (chained) {
        REQUIRE(vt_chain_read(chain, head, stored, piece->definitions, events) == 0);
    } else {
        REQUIRE(ZSTD_decompress(piece->definitions, bytes, stored, chunk->stored_bytes) == bytes);
        read_columns(piece->definitions + chunk->definitions_bytes, events, chunk->events,
                     recoded->header.feature_bits & VT_FEATURE_EVENT_THREADS);
    }
    recoded->event_count += chunk->events;
}

static void read_all(struct recoded *recoded, const char *path)
{
    FILE *file = fopen(path, "rb");
    struct vt_chain *chain = vt_chain_make();
    REQUIRE(file && chain && fread(&recoded->header, sizeof recoded->header, 1, file) == 1);
    for (uint64_t at = recoded->header.chunks_offset; at < recoded->header.chunks_end;) {
        struct vt_chained_chunk_header head = {0};
        REQUIRE(!fseek(file, (long)at, SEEK_SET) && fread(&head.chunk, sizeof head.chunk, 1, file) == 1);
        REQUIRE(!fseek(file, (long)at, SEEK_SET) && head.chunk.header_bytes <= sizeof head &&
                fread(&head, head.chunk.header_bytes, 1, file) == 1);
        uint8_t *stored = malloc(head.chunk.stored_bytes + 1);
        REQUIRE(stored && fread(stored, 1, head.chunk.stored_bytes, file) == head.chunk.stored_bytes);
        if (recoded->event_count + VT_CHUNK_EVENTS > recoded->capacity)
            recoded->capacity = 2 * recoded->capacity + VT_CHUNK_EVENTS;
        recoded->events = realloc(recoded->events, recoded->capacity * sizeof *recoded->events);
        recoded->pieces = realloc(recoded->pieces, (recoded->piece_count + 1) * sizeof *recoded->pieces);
        REQUIRE(recoded->events && recoded->pieces);
        read_chunk(recoded, &head, stored, chain);
        at += head.chunk.header_bytes + head.chunk.stored_bytes;
        free(stored);
    }
    vt_chain_free(chain);
    fclose(file);
}

/* ---- OUT ---- */

static void put(struct recoded *recoded, const void *data, size_t bytes)
{
    REQUIRE(fwrite(data, 1, bytes, recoded->out) == bytes);
    recoded->bytes += bytes;
}

static uint8_t *put_number(uint8_t *out, uint64_t difference)
{
    uint64_t value = difference << 1 ^ (0 - (difference >> 63));
    for (; value >= 0x80; value >>= 7)
        *out++ = (uint8_t)(value | 0x80);
    *out++ = (uint8_t)value;
    return out;
}

static void put_columns(struct recoded *recoded, const struct vt_chunk *chunk, uint64_t ring_position)
{
    enum { COLUMNS = 12, NUMBER_BYTES = 10 };
    uint8_t *payload = malloc(chunk->definitions.bytes + chunk->event_count * COLUMNS * NUMBER_BYTES + 1),
            *out = payload + chunk->definitions.bytes;
    REQUIRE(payload);
    if (chunk->definitions.bytes)
        memcpy(payload, chunk->definitions.data, chunk->definitions.bytes);
#define PUT_COLUMN(field)                                                                                    \
    for (uint64_t i = 0, before = 0; i < chunk->event_count; before = (uint64_t)chunk->events[i++]->field)   \
        out = put_number(out, (uint64_t)chunk->events[i]->field - before);
    VT_EVENT_COLUMNS(PUT_COLUMN)
    if (recoded->header.feature_bits & VT_FEATURE_EVENT_THREADS)
        VT_EVENT_THREAD_COLUMN(PUT_COLUMN)
    size_t bytes = (size_t)(out - payload), bound = ZSTD_compressBound(bytes);
    uint8_t *stored = malloc(bound);
    REQUIRE(stored);
    size_t stored_bytes = ZSTD_compress(stored, bound, payload, bytes, 3);
    REQUIRE(!ZSTD_isError(stored_bytes));
    struct vt_chunk_header header = {.magic = VT_CHUNK_MAGIC,
                                     .header_bytes = sizeof header,
                                     .stored_bytes = (uint32_t)stored_bytes,
                                     .payload_bytes = (uint32_t)bytes,
                                     .definitions_bytes = (uint32_t)chunk->definitions.bytes,
                                     .events = (uint32_t)chunk->event_count,
                                     .ring_position = ring_position,
                                     .checksum = XXH3_64bits(stored, stored_bytes)};
    put(recoded, &header, sizeof header);
    put(recoded, stored, stored_bytes);
    recoded->events_stored += stored_bytes;
    recoded->head_bytes += sizeof header;
    free(stored);
    free(payload);
}

static void put_chain(struct recoded *recoded, struct vt_chunk *chunk, uint64_t ring_position)
{
    REQUIRE(vt_chunk_pack(chunk, ring_position) == 0);
    const struct vt_chunk_header *header = (const void *)chunk->stored.data;
    put(recoded, chunk->stored.data, chunk->stored.bytes);
    recoded->definitions_stored += header->payload_bytes;
    recoded->events_stored += header->stored_bytes - header->payload_bytes;
    recoded->head_bytes += header->header_bytes;
}

/* A chunk ends where one of IN ends, or after `chunk_ns`. */
static void write_chunks(struct recoded *recoded, bool chains, uint64_t chunk_ns)
{
    struct vt_chunk chunk = {0};
    REQUIRE(vt_chunk_start(&chunk));
    recoded->bytes = recoded->definitions_stored = recoded->events_stored = recoded->head_bytes = 0;
    for (size_t i = 0; i < recoded->piece_count; i++) {
        const struct piece *piece = &recoded->pieces[i];
        uint64_t end = i + 1 < recoded->piece_count ? piece[1].first_event : recoded->event_count,
                 ring_position = i ? piece[-1].ring_position : 0;
        chunk.definitions.bytes = 0;
        if (piece->definitions_bytes)
            memcpy(vt_buffer_add(&chunk.definitions, piece->definitions_bytes), piece->definitions,
                   piece->definitions_bytes);
        for (uint64_t at = piece->first_event; at < end || chunk.definitions.bytes;) {
            const struct vt_event *first = &recoded->events[at];
            for (chunk.event_count = 0; at < end && chunk.event_count < VT_CHUNK_EVENTS &&
                                        recoded->events[at].t_ns - first->t_ns < chunk_ns;)
                chunk.events[chunk.event_count++] = &recoded->events[at++];
            if (at == end)
                ring_position = piece->ring_position;
            if (chains)
                put_chain(recoded, &chunk, ring_position);
            else
                put_columns(recoded, &chunk, ring_position);
            chunk.definitions.bytes = 0;
        }
    }
}

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

int main(int count, char **words)
{
    struct recoded recoded = {0};
    REQUIRE(count >= 4 && (!strcmp(words[1], "chains") || !strcmp(words[1], "columns")));
    const bool chains = !strcmp(words[1], "chains");
    const uint64_t chunk_ns = (count > 4 ? strtoull(words[4], NULL, 10) : 100) * 1000000;
    read_all(&recoded, words[2]);
    recoded.out = fopen(words[3], "wb");
    REQUIRE(recoded.out && !fseek(recoded.out, (long)recoded.header.chunks_offset, SEEK_SET));
    const double start = seconds();
    write_chunks(&recoded, chains, chunk_ns);
    const double taken = seconds() - start, events = (double)recoded.event_count;
    recoded.header.chunks_end = recoded.header.chunks_offset + recoded.bytes;
    REQUIRE(!fseek(recoded.out, 0, SEEK_SET) &&
            fwrite(&recoded.header, sizeof recoded.header, 1, recoded.out) == 1 && !fclose(recoded.out));
    printf(
        "%s: %.0f events, %.3f bytes each: headers %.3f, definitions %.3f, events %.3f; packed in %.0f ns\n",
        words[2], events, (double)recoded.bytes / events, (double)recoded.head_bytes / events,
        (double)recoded.definitions_stored / events, (double)recoded.events_stored / events,
        taken / events * 1e9);
    return 0;
}
