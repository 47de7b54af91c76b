/* Chunks in chains: what the recorder packs, the analyzer reads, whatever the events are. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "format/events.h"
#include "record/chunk.h"
#include "trace/chain.h"

enum { CHUNKS = 60, CHUNK_EVENTS = 3000, THREADS = 20, BLOCKS = 200, STACKS = 64, DEFINITIONS_BYTES = 4096 };

static uint64_t state;

static uint64_t draw(void)
{
    state += UINT64_C(0x9e3779b97f4a7c15);
    uint64_t value = (state ^ state >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    value = (value ^ value >> 27) * UINT64_C(0x94d049bb133111eb);
    return value ^ value >> 31;
}

static uint64_t below(uint64_t count)
{
    return draw() % count;
}

/* ---- events of many kinds ---- */

/* A program that makes and frees blocks in much the same order again and again. */
struct program {
    uint64_t t_ns, allocated, sequence, address[BLOCKS], bytes[BLOCKS];
    unsigned turn, chaos; /* one event in `chaos` is not in order, 0 = none */
};

static uint64_t extreme(void)
{
    static const uint64_t values[] = {0,
                                      1,
                                      2,
                                      255,
                                      256,
                                      511,
                                      512,
                                      UINT32_MAX,
                                      UINT64_MAX,
                                      INT64_MAX,
                                      1u << 20,
                                      2u << 20,
                                      (1u << 20) + 512,
                                      UINT64_C(1) << 56,
                                      UINT64_C(1) << 63,
                                      UINT64_MAX - 511};
    return below(4) ? values[below(sizeof values / sizeof *values)] : draw() >> below(64);
}

static struct vt_event any_event(void)
{
    struct vt_event event;
    uint8_t *bytes = (uint8_t *)&event;
    for (size_t i = 0; i < sizeof event; i++)
        bytes[i] = (uint8_t)draw();
    event.head_start = 0;
    if (below(2))
        return event;
    event.address = extreme();
    event.bytes = extreme();
    event.detail = extreme();
    event.total_bytes = extreme();
    event.sequence = extreme();
    event.t_ns = extreme();
    event.stack_id = (uint32_t)extreme();
    event.thread_id = (uint32_t)below(THREADS);
    event.kind = below(2) ? VT_EVENT_ALLOC : VT_EVENT_FREE;
    event.layer = below(4) ? VT_LAYER_FRAMEWORK : VT_LAYER_DRIVER;
    event.device_index = (int8_t)(below(4) - 1);
    event.flags = 0;
    return event;
}

/* Steps of two times as many turns as there are blocks; the segments come first. */
static struct vt_event next_event(struct program *program)
{
    enum { SEGMENTS = 8 };
    const uint64_t segment_bytes = UINT64_C(20) << 20, base = UINT64_C(0x7f0000000000);
    unsigned turn = program->turn++;
    struct vt_event event = {.thread_id = 100, .device_index = 0, .t_ns = program->t_ns += 300 + below(3000)};
    if (program->chaos && !below(program->chaos))
        return any_event();
    if (turn < SEGMENTS) {
        event.kind = VT_EVENT_ALLOC;
        event.layer = VT_LAYER_DRIVER;
        event.address = base + turn * segment_bytes;
        event.bytes = segment_bytes;
        return event;
    }
    turn = (turn - SEGMENTS) % (2 * BLOCKS);
    unsigned block = turn < BLOCKS ? turn : 2 * BLOCKS - 1 - turn;
    bool made = turn < BLOCKS;
    if (program->chaos && !below(program->chaos))
        block = (unsigned)below(BLOCKS);
    if (made) {
        program->bytes[block] = 512 * (1 + block * 7919 % 5000);
        program->address[block] = base + 512 * below(SEGMENTS * segment_bytes / 512);
        program->sequence += 2;
    }
    event.kind = made ? VT_EVENT_ALLOC : VT_EVENT_FREE;
    event.layer = VT_LAYER_FRAMEWORK;
    event.address = program->address[block];
    event.bytes = program->bytes[block];
    program->allocated += made ? event.bytes : 0 - event.bytes;
    event.total_bytes = program->allocated;
    event.detail = SEGMENTS * segment_bytes;
    event.sequence = made ? program->sequence : 0;
    event.stack_id = 1 + (made ? block % STACKS : STACKS);
    event.thread_id = 100 + (turn > BLOCKS);
    return event;
}

/* ---- a file of chunks ---- */

struct file {
    struct vt_event *events;
    size_t event_count, chunk_count, first_events[CHUNKS + 1];
    uint8_t *chunks[CHUNKS]; /* header and stored bytes */
    uint8_t definitions[CHUNKS][DEFINITIONS_BYTES];
};

static const struct vt_chunk_header *head_of(const struct file *file, size_t chunk)
{
    return (const struct vt_chunk_header *)(const void *)file->chunks[chunk];
}

static void fill_definitions(struct vt_buffer *definitions, uint8_t *kept)
{
    size_t bytes = below(3) ? 0 : 8 * below(DEFINITIONS_BYTES / 8);
    definitions->bytes = 0;
    for (size_t i = 0; i < bytes; i++)
        kept[i] = (uint8_t)(below(8) ? i / 7 : draw());
    if (bytes)
        memcpy(vt_buffer_add(definitions, bytes), kept, bytes);
}

/* Chunks of random sizes, in chains of random lengths. */
static struct file *record(uint64_t seed, unsigned chaos)
{
    struct file *file = calloc(1, sizeof *file);
    struct program program = {.t_ns = UINT64_C(1) << 50, .chaos = chaos};
    struct vt_chunk chunk = {0};
    state = seed;
    file->events = calloc((size_t)CHUNKS * CHUNK_EVENTS, sizeof *file->events);
    cr_assert(vt_chunk_start(&chunk));
    for (; file->chunk_count < CHUNKS; file->chunk_count++) {
        size_t count = below(8) ? below(CHUNK_EVENTS) : below(3);
        chunk.event_count = count;
        for (size_t i = 0; i < count; i++) {
            struct vt_event *event = &file->events[file->event_count + i];
            *event = chaos == 1 ? any_event() : next_event(&program);
            chunk.events[i] = event;
        }
        fill_definitions(&chunk.definitions, file->definitions[file->chunk_count]);
        if (!below(10))
            vt_chunk_end_chain(&chunk);
        cr_assert_eq(vt_chunk_pack(&chunk, 1 + file->event_count, 1 + file->event_count), 0);
        file->chunks[file->chunk_count] = malloc(chunk.stored.bytes);
        memcpy(file->chunks[file->chunk_count], chunk.stored.data, chunk.stored.bytes);
        file->first_events[file->chunk_count] = file->event_count;
        file->event_count += count;
    }
    return file;
}

static void release(struct file *file)
{
    for (size_t i = 0; i < file->chunk_count; i++)
        free(file->chunks[i]);
    free(file->events);
    free(file);
}

/* Reads a chunk that must be readable, and compares all of it. */
static void check_chunk(const struct file *file, struct vt_chain *chain, size_t number)
{
    static struct vt_event events[CHUNK_EVENTS];
    static uint8_t definitions[DEFINITIONS_BYTES];
    const struct vt_chunk_header *head = head_of(file, number);
    const uint8_t *stored = file->chunks[number] + sizeof *head;
    memset(events, 0xaa, sizeof events);
    cr_assert(vt_chain_is_plausible(head));
    cr_assert(vt_chain_is_whole(head, stored));
    cr_assert_eq(vt_chain_read(chain, head, stored, definitions, events), 0, "chunk %zu", number);
    cr_assert_eq(memcmp(definitions, file->definitions[number], head->definitions_bytes), 0);
    for (size_t i = 0; i < head->events; i++) {
        struct vt_event event = file->events[file->first_events[number] + i];
        event.t_ns &= ~UINT64_C(255);
        cr_assert_eq(memcmp(&event, &events[i], sizeof event), 0, "chunk %zu, event %zu of %u", number, i,
                     head->events);
    }
}

static void check_file(const struct file *file)
{
    struct vt_chain *chain = vt_chain_make();
    size_t chains = 0;
    for (size_t i = 0; i < file->chunk_count; i++) {
        if (head_of(file, i)->place == 0 && chains++) { /* it needs nothing of those before it */
            vt_chain_free(chain);
            chain = vt_chain_make();
        }
        check_chunk(file, chain, i);
    }
    cr_assert_gt(chains, 1);
    vt_chain_free(chain);
}

Test(chain, is_exact_for_a_regular_program)
{
    struct file *file = record(1, 0);
    check_file(file);
    release(file);
}

Test(chain, is_exact_where_little_is_as_expected)
{
    static const unsigned chaos[] = {2, 3, 10, 100, 1000};
    for (unsigned seed = 0; seed < 10; seed++) {
        struct file *file = record(100 + seed, chaos[seed % 5]);
        check_file(file);
        release(file);
    }
}

Test(chain, is_exact_for_any_events)
{
    for (unsigned seed = 0; seed < 5; seed++) {
        struct file *file = record(200 + seed, 1);
        check_file(file);
        release(file);
    }
}

/* What is lost with a chunk: the rest of its chain, and nothing else. */
Test(chain, loses_the_rest_of_a_chain_with_a_chunk)
{
    struct file *file = record(300, 100);
    struct vt_chain *chain = vt_chain_make();
    struct vt_event *events = calloc(CHUNK_EVENTS, sizeof *events);
    static uint8_t definitions[DEFINITIONS_BYTES];
    bool broken = false;
    size_t lost = 0;
    for (size_t i = 0; i < file->chunk_count; i++) {
        const struct vt_chunk_header *head = head_of(file, i);
        if (head->place == 0)
            broken = false;
        if (i % 7 == 3) {
            broken = true;
            continue;
        }
        if (!broken) {
            check_chunk(file, chain, i);
            continue;
        }
        lost++;
        cr_assert_eq(vt_chain_read(chain, head, file->chunks[i] + sizeof *head, definitions, events),
                     -EBADMSG);
    }
    cr_assert_gt(lost, 0);
    cr_assert_lt(lost, CHUNKS / 2 + CHUNKS / 4);
    vt_chain_free(chain);
    free(events);
    release(file);
}

Test(chain, notices_every_changed_byte)
{
    struct file *file = record(400, 10);
    for (size_t i = 0; i < file->chunk_count; i++) {
        struct vt_chunk_header *head = (void *)file->chunks[i];
        size_t at = below(sizeof *head + head->stored_bytes);
        if (at / 4 == offsetof(struct vt_chunk_header, stored_bytes) / 4) /* its reader asks for so many */
            continue;
        file->chunks[i][at] ^= (uint8_t)(1u << below(8));
        cr_assert_not(vt_chain_is_plausible(head) && vt_chain_is_whole(head, file->chunks[i] + sizeof *head));
    }
    release(file);
}

/* Bytes that no recorder wrote, with the right checksum: some events, or damaged; never more than the stored
 * bytes stand for. */
Test(chain, survives_what_no_recorder_wrote)
{
    struct file *file = record(500, 100);
    struct vt_event *events = calloc(VT_CHUNK_EVENTS, sizeof *events);
    static uint8_t definitions[DEFINITIONS_BYTES];
    for (unsigned round = 0; round < 20; round++) {
        struct vt_chain *chain = vt_chain_make();
        for (size_t i = 0; i < file->chunk_count; i++) {
            struct vt_chunk_header head = *head_of(file, i);
            size_t bytes = head.stored_bytes;
            uint8_t *stored = malloc(bytes + 1);
            memcpy(stored, file->chunks[i] + sizeof head, bytes);
            for (uint64_t flips = below(3); flips-- && bytes;)
                stored[round % 2 ? below(bytes)
                                 : head.packed_definitions_bytes +
                                       below(bytes - head.packed_definitions_bytes + 1)] = (uint8_t)draw();
            if (round % 5 == 4)
                head.events = (uint32_t)below(VT_CHUNK_EVENTS + 2);
            if (vt_chain_is_plausible(&head))
                vt_chain_read(chain, &head, stored, definitions, events);
            else
                cr_assert(head.events > VT_CHUNK_EVENTS ||
                          head.events > VT_EVENTS_PER_BYTE * (bytes - head.packed_definitions_bytes));
            free(stored);
        }
        vt_chain_free(chain);
    }
    free(events);
    release(file);
}

/* Events that cost nothing still take their byte for each few of them. */
Test(chain, bounds_the_events_of_a_byte)
{
    struct vt_chunk chunk = {0};
    static struct vt_event event = {.kind = VT_EVENT_RANGE_POP, .device_index = -1, .stack_id = 1};
    struct vt_chain *chain = vt_chain_make();
    struct vt_event *events = calloc(VT_CHUNK_EVENTS, sizeof *events);
    cr_assert(vt_chunk_start(&chunk));
    for (unsigned i = 0; i < 3; i++) {
        for (chunk.event_count = 0; chunk.event_count < VT_CHUNK_EVENTS; chunk.event_count++)
            chunk.events[chunk.event_count] = &event;
        cr_assert_eq(vt_chunk_pack(&chunk, i + 1, i + 1), 0);
        const struct vt_chunk_header *head = (const void *)chunk.stored.data;
        cr_assert(vt_chain_is_plausible(head));
        cr_assert_leq(head->stored_bytes, VT_CHUNK_EVENTS / VT_EVENTS_PER_BYTE + 100);
        cr_assert_eq(vt_chain_read(chain, head, chunk.stored.data + sizeof *head, NULL, events), 0);
        cr_assert_eq(memcmp(&events[VT_CHUNK_EVENTS - 1], &event, sizeof event), 0);
    }
    vt_chain_free(chain);
    free(events);
}

/* ---- the coder by itself ---- */

/* Decisions and plain bits, the same when they are read; `unlikely`: nearly all are what their chance says
 * they are not. */
static void check_bits(uint8_t *bytes, size_t room, uint64_t seed, size_t count, bool unlikely)
{
    struct vt_coder coder;
    uint8_t *end = bytes;
    for (int reading = 0; reading < 2; reading++) {
        state = seed;
        if (reading)
            vt_coder_read(&coder, bytes, end);
        else
            vt_coder_write(&coder, bytes, bytes + room);
        for (size_t i = 0; i < count; i++) {
            const uint64_t word = draw();
            const bool bit = word & 1;
            const vt_chance least = UINT32_C(1) << 20, most = UINT32_C(4095) << 20;
            vt_chance chance =
                unlikely ? (bit ? least : most) : ((uint32_t)(word >> 32) | least) & ~UINT32_C(1023);
            const unsigned plain = unlikely ? 0 : word >> 1 & 31;
            const bool got = vt_code_bit(&coder, &chance, bit, reading);
            const uint64_t rest = plain ? vt_code_plain(&coder, plain, word >> 8, reading) : 0;
            if (got != bit || rest != (plain ? word >> 8 & ((UINT64_C(1) << plain) - 1) : 0))
                cr_assert_fail("seed %lu, %zu of %zu", (unsigned long)seed, i, count);
        }
        if (!reading)
            end = vt_coder_end(&coder, bytes + room, bytes);
    }
}

Test(coder, is_exact_for_few_bits)
{
    static uint8_t bytes[4096];
    for (uint64_t seed = 0; seed < 200000; seed++)
        check_bits(bytes, sizeof bytes, seed, seed % 40, seed % 3 == 0);
}

Test(coder, is_exact_for_many_bits)
{
    enum { COUNT = 5000000 };
    uint8_t *bytes = malloc((size_t)COUNT * 2);
    cr_assert(bytes);
    check_bits(bytes, (size_t)COUNT * 2, 1, COUNT, true);
    free(bytes);
}
