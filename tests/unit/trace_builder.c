#include "trace_builder.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "memory.h"
#include "record/chain_end.h"
#include "record/digest_levels.h"

#define REQUIRE(condition)                                                                                   \
    do {                                                                                                     \
        if (!(condition)) {                                                                                  \
            fprintf(stderr, "trace_builder.c:%d: %s\n", __LINE__, #condition);                               \
            abort();                                                                                         \
        }                                                                                                    \
    } while (0)

struct builder {
    struct vt_file_header header;
    struct vt_chunk chunk; /* its events are set when it ends */
    struct vt_digest_levels digests;
    struct vt_chain_end chain_end;
    uint32_t chain_events;
    uint64_t written; /* events in chunks */
    struct vt_buffer chunks, image, ring_image;
    struct vt_event *events; /* VT_CHUNK_EVENTS: of the chunk */
    size_t event_count;
    uint8_t *ring;
    bool in_ring, other_ring; /* builder_write_ring */
    uint64_t position;        /* in the ring */
    uint64_t t_ns, strings;
    uint32_t codes, stacks;
    uint32_t *threads; /* by stack */
    char path[64];
};

static void put(struct vt_buffer *buffer, const void *data, size_t bytes)
{
    void *to = vt_buffer_add(buffer, bytes);
    REQUIRE(to || !bytes);
    if (bytes > 0)
        memcpy(to, data, bytes);
}

static void free_buffer(struct vt_buffer *buffer)
{
    vt_memory_free(buffer->data, buffer->capacity);
}

struct builder *builder_new(uint64_t ring_slots)
{
    struct builder *builder = calloc(1, sizeof *builder);
    REQUIRE(builder);
    builder->ring = calloc(ring_slots, VT_SLOT_BYTES);
    builder->events = malloc(VT_CHUNK_EVENTS * sizeof *builder->events);
    REQUIRE(builder->ring && builder->events && vt_chunk_start(&builder->chunk));
    builder->digests.level_count = VT_DIGEST_LEVELS;
    builder->chain_events = VT_CHAIN_EVENTS;
    builder->header = (struct vt_file_header){
        .format_version = VT_FORMAT_VERSION,
        .minimum_readable = VT_FORMAT_MINIMUM_READABLE,
        .header_bytes = VT_HEADER_BYTES,
        .slot_bytes = VT_SLOT_BYTES,
        .ring_slots = ring_slots,
        .chunks_offset = VT_HEADER_BYTES,
        .feature_bits = VT_FEATURE_EVENT_THREADS,
        .pid = 4711,
        .start_monotonic_ns = 1 << 20,
        .host = "testhost",
        .program_version = "test",
        .state = VT_STATE_COMPLETE,
    };
    memcpy(builder->header.magic, VT_MAGIC, sizeof builder->header.magic);
    builder->t_ns = builder->header.start_monotonic_ns;
    return builder;
}

void builder_free(struct builder *builder)
{
    if (builder->path[0])
        unlink(builder->path);
    if (builder->in_ring)
        unlink(builder->header.ring_path);
    vt_chunk_stop(&builder->chunk);
    vt_digest_levels_free(&builder->digests);
    free_buffer(&builder->chunks);
    free_buffer(&builder->image);
    free_buffer(&builder->ring_image);
    free(builder->events);
    free(builder->threads);
    free(builder->ring);
    free(builder);
}

struct vt_file_header *builder_header(struct builder *builder)
{
    return &builder->header;
}

/* A committed record, to wherever records go now. `record` includes its head, which is filled here. */
static void put_record(struct builder *builder, uint8_t kind, void *record, uint32_t bytes)
{
    struct vt_record_head *head = record;
    uint16_t slots = (uint16_t)((bytes + VT_SLOT_BYTES - 1) / VT_SLOT_BYTES);
    *head = (struct vt_record_head){
        .slots = slots, .kind = kind, .committed = 1, .bytes = kind == VT_RECORD_EVENT ? head->bytes : bytes};
    if (!builder->in_ring) {
        static const uint8_t padding[8];
        vt_digest_levels_define(&builder->digests, head);
        put(&builder->chunk.definitions, record, bytes);
        put(&builder->chunk.definitions, padding, (8 - bytes % 8) % 8);
        builder->position += slots;
        return;
    }
    uint64_t at = builder->position & (builder->header.ring_slots - 1);
    if (at + slots > builder->header.ring_slots) {
        struct vt_record_head pad = {.slots = (uint16_t)(builder->header.ring_slots - at),
                                     .kind = VT_RECORD_PAD,
                                     .committed = 1,
                                     .bytes = 8};
        memcpy(builder->ring + at * VT_SLOT_BYTES, &pad, sizeof pad);
        builder->position += pad.slots;
        at = 0;
    }
    memcpy(builder->ring + at * VT_SLOT_BYTES, record, bytes);
    builder->position += slots;
}

void builder_raw(struct builder *builder, uint8_t kind, const void *body, uint32_t bytes)
{
    uint8_t *record = calloc(1, sizeof(struct vt_record_head) + bytes + 1);
    REQUIRE(record);
    if (bytes > 0)
        memcpy(record + sizeof(struct vt_record_head), body, bytes);
    put_record(builder, kind, record, (uint32_t)sizeof(struct vt_record_head) + bytes);
    free(record);
}

/* A fixed part and what follows it. */
static void put_parts(struct builder *builder, uint8_t kind, void *fixed, size_t fixed_bytes,
                      const void *rest, size_t rest_bytes)
{
    uint8_t *record = malloc(fixed_bytes + rest_bytes + 1);
    REQUIRE(record);
    memcpy(record, fixed, fixed_bytes);
    if (rest_bytes > 0)
        memcpy(record + fixed_bytes, rest, rest_bytes);
    put_record(builder, kind, record, (uint32_t)(fixed_bytes + rest_bytes));
    free(record);
}

void builder_process(struct builder *builder, const char *const *strings, uint32_t arguments,
                     uint32_t strings_count)
{
    struct vt_buffer text = {0};
    for (uint32_t i = 0; i < strings_count; i++)
        put(&text, strings[i], strlen(strings[i]) + 1);
    struct vt_process process = {.argument_count = arguments, .python_version = 0x030b07f0};
    put_parts(builder, VT_RECORD_PROCESS, &process, sizeof process, text.data, text.bytes);
    free_buffer(&text);
}

uint64_t builder_string(struct builder *builder, const char *text)
{
    struct vt_string string = {.id = ++builder->strings};
    put_parts(builder, VT_RECORD_STRING, &string, sizeof string, text, strlen(text));
    return builder->strings;
}

void builder_function(struct builder *builder, uint16_t id, const char *name)
{
    struct vt_string string = {.id = id};
    put_parts(builder, VT_RECORD_FUNCTION, &string, sizeof string, name, strlen(name));
}

void builder_thread(struct builder *builder, uint64_t thread_id, const char *name)
{
    struct vt_string thread = {.id = thread_id};
    put_parts(builder, VT_RECORD_THREAD, &thread, sizeof thread, name, strlen(name));
}

void builder_device(struct builder *builder, uint32_t index, uint64_t total_bytes, const char *name)
{
    struct vt_device device = {.device_index = index, .total_bytes = total_bytes};
    put_parts(builder, VT_RECORD_DEVICE, &device, sizeof device, name, strlen(name));
}

void builder_symbol(struct builder *builder, uint64_t address, uint64_t module_base, const char *linkage_name)
{
    struct vt_symbol symbol = {.address = address, .module_base = module_base};
    put_parts(builder, VT_RECORD_SYMBOL, &symbol, sizeof symbol, linkage_name, strlen(linkage_name));
}

void builder_module(struct builder *builder, uint64_t base, uint64_t end, const char *path,
                    const void *build_id, uint32_t build_id_bytes)
{
    struct vt_module module = {.base = base,
                               .start_address = base,
                               .end_address = end,
                               .build_id_bytes = build_id_bytes,
                               .path_bytes = (uint32_t)strlen(path)};
    struct vt_buffer rest = {0};
    put(&rest, build_id, build_id_bytes);
    put(&rest, path, strlen(path));
    put_parts(builder, VT_RECORD_MODULE, &module, sizeof module, rest.data, rest.bytes);
    free_buffer(&rest);
}

uint32_t builder_code(struct builder *builder, const char *file, const char *name, int32_t first_line)
{
    struct vt_code code = {.code_id = ++builder->codes,
                           .first_line = first_line,
                           .python_minor = 11,
                           .file_bytes = (uint32_t)strlen(file),
                           .name_bytes = (uint32_t)strlen(name)};
    struct vt_buffer rest = {0};
    put(&rest, file, strlen(file));
    put(&rest, name, strlen(name));
    put_parts(builder, VT_RECORD_CODE, &code, sizeof code, rest.data, rest.bytes);
    free_buffer(&rest);
    return code.code_id;
}

uint32_t builder_stack_at(struct builder *builder, uint32_t thread_id, uint32_t place_id,
                          const uint64_t *native, uint16_t native_count, const struct vt_python_frame *python,
                          uint16_t python_count)
{
    struct vt_stack stack = {.stack_id = ++builder->stacks,
                             .place_id = place_id,
                             .native_frames = native_count,
                             .python_frames = python_count};
    struct vt_buffer rest = {0};
    put(&rest, native, native_count * sizeof *native);
    put(&rest, python, python_count * sizeof *python);
    put_parts(builder, VT_RECORD_STACK, &stack, sizeof stack, rest.data, rest.bytes);
    builder->threads = realloc(builder->threads, (builder->stacks + 1) * sizeof *builder->threads);
    REQUIRE(builder->threads);
    builder->threads[builder->stacks] = thread_id;
    free_buffer(&rest);
    return stack.stack_id;
}

uint32_t builder_stack(struct builder *builder, uint32_t thread_id, const uint64_t *native,
                       uint16_t native_count, const struct vt_python_frame *python, uint16_t python_count)
{
    return builder_stack_at(builder, thread_id, 0, native, native_count, python, python_count);
}

void builder_inspection_part(struct builder *builder, uint32_t inspection_id, uint32_t part, uint32_t parts,
                             const char *text)
{
    struct vt_inspection_part fixed = {.inspection_id = inspection_id,
                                       .reason = VT_INSPECTION_PEAK,
                                       .part = part,
                                       .parts = parts,
                                       .duration_ns = 1000 * (part + 1)};
    put_parts(builder, VT_RECORD_INSPECTION, &fixed, sizeof fixed, text, strlen(text));
}

void builder_event(struct builder *builder, struct vt_event event)
{
    builder->t_ns = event.t_ns ? event.t_ns : builder->t_ns + 1024;
    event.t_ns = builder->t_ns;
    if (!event.thread_id && event.stack_id && event.stack_id <= builder->stacks)
        event.thread_id = builder->threads[event.stack_id];
    builder->header.counters.events++;
    if (builder->in_ring) {
        put_record(builder, VT_RECORD_EVENT, &event, sizeof event);
        return;
    }
    if (builder->event_count == VT_CHUNK_EVENTS)
        builder_end_chunk(builder);
    const uint32_t before =
        (builder->chunk.place ? builder->chunk.chain_events : 0) + (uint32_t)builder->event_count;
    builder->events[builder->event_count++] = event;
    builder->position++;
    if (vt_chain_may_end(&builder->chain_end, &event, before, builder->chain_events)) {
        builder_end_chunk(builder);
        builder_end_chain(builder);
    }
}

void builder_events(struct builder *builder, const struct vt_event *events, size_t count)
{
    for (size_t i = 0; i < count; i++)
        builder_event(builder, events[i]);
}

void builder_definitions(struct builder *builder, const void *records, size_t bytes)
{
    const uint8_t *at = records, *end = at + bytes;
    put(&builder->chunk.definitions, records, bytes);
    for (const struct vt_record_head *head; (size_t)(end - at) >= sizeof *head;
         at += (head->bytes + 7u) & ~7u) {
        head = (const void *)at;
        if (head->bytes < sizeof *head || head->bytes > (size_t)(end - at))
            return;
        const struct vt_stack *stack = (const void *)at;
        if (head->kind == VT_RECORD_STACK && head->bytes >= sizeof *stack &&
            head->bytes >= sizeof *stack + stack->native_frames * sizeof(uint64_t) +
                               stack->python_frames * sizeof(struct vt_python_frame))
            vt_digest_levels_define(&builder->digests, head);
    }
}

void builder_set_position(struct builder *builder, uint64_t position)
{
    builder->position = position;
}

void builder_end_chunk(struct builder *builder)
{
    struct vt_chunk *chunk = &builder->chunk;
    for (chunk->event_count = 0; chunk->event_count < builder->event_count; chunk->event_count++)
        chunk->events[chunk->event_count] = &builder->events[chunk->event_count];
    REQUIRE(vt_chunk_pack(chunk, builder->position, builder->position) == 0);
    put(&builder->chunks, chunk->stored.data, chunk->stored.bytes);
    vt_digest_levels_take(&builder->digests, chunk, builder->written);
    builder->written += builder->event_count;
    chunk->definitions.bytes = builder->event_count = 0;
}

static int put_digest(void *context, const struct vt_digest_level *level, const struct vt_chunk *chunk,
                      uint64_t ring_position)
{
    struct builder *builder = context;
    (void)level;
    (void)ring_position;
    put(&builder->chunks, chunk->stored.data, chunk->stored.bytes);
    return 0;
}

void builder_end_chain(struct builder *builder)
{
    vt_chunk_end_chain(&builder->chunk);
    REQUIRE(!vt_digest_levels_end_chain(&builder->digests, builder->position, put_digest, builder));
}

void builder_set_chain_events(struct builder *builder, uint32_t events)
{
    builder->chain_events = events;
}

static bool has_open_chunk(const struct builder *builder)
{
    return builder->event_count > 0 || builder->chunk.definitions.bytes > 0;
}

void builder_ring(struct builder *builder, uint64_t start)
{
    struct vt_file_header *header = &builder->header;
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    const uint64_t number = (uint64_t)getpid() << 40 ^ (uint64_t)now.tv_sec << 30 ^ (uint64_t)now.tv_nsec;
    builder->position = start;
    if (has_open_chunk(builder))
        builder_end_chunk(builder);
    builder->in_ring = true;
    memcpy(header->identity, &number, sizeof number);
    snprintf(header->ring_path, sizeof header->ring_path, "/dev/shm/" VT_RING_NAME, (unsigned)getuid(),
             header->pid, (unsigned long long)number);
    header->ring_consumed = start;
    header->state = VT_STATE_RECORDING;
}

void builder_unfinished(struct builder *builder, uint16_t slots, int with_head)
{
    uint64_t at = builder->position & (builder->header.ring_slots - 1);
    struct vt_record_head head = {.slots = slots, .kind = VT_RECORD_EVENT, .bytes = VT_SLOT_BYTES};
    REQUIRE(at + slots <= builder->header.ring_slots);
    if (with_head)
        memcpy(builder->ring + at * VT_SLOT_BYTES, &head, sizeof head);
    builder->position += slots;
}

const uint8_t *builder_image(struct builder *builder, size_t *bytes)
{
    static const uint8_t zeros[VT_HEADER_BYTES];
    struct vt_file_header *header = &builder->header;
    if (!builder->in_ring && has_open_chunk(builder))
        builder_end_chunk(builder);
    if (!builder->in_ring)
        header->ring_consumed = builder->position;
    if (header->chunks_end == 0)
        header->chunks_end = header->chunks_offset + builder->chunks.bytes;
    builder->image.bytes = 0;
    put(&builder->image, header, sizeof *header);
    put(&builder->image, zeros, VT_HEADER_BYTES - sizeof *header);
    put(&builder->image, builder->chunks.data, builder->chunks.bytes);
    *bytes = builder->image.bytes;
    return builder->image.data;
}

/* No process is said to have made it, so no recorder takes it for one that it should adopt. */
const uint8_t *builder_ring_image(struct builder *builder, size_t *bytes)
{
    static const uint8_t zeros[VT_RING_HEADER_BYTES];
    const struct vt_file_header *header = &builder->header;
    struct vt_ring_header ring = {.format_version = VT_FORMAT_VERSION,
                                  .header_bytes = VT_RING_HEADER_BYTES,
                                  .slots = header->ring_slots,
                                  .ring_reserved = builder->position,
                                  .ring_consumed = header->ring_consumed,
                                  .counters = header->counters};
    memcpy(ring.magic, VT_RING_MAGIC, sizeof ring.magic);
    memcpy(ring.identity, header->identity, sizeof ring.identity);
    builder->ring_image.bytes = 0;
    put(&builder->ring_image, &ring, sizeof ring);
    put(&builder->ring_image, zeros, sizeof zeros - sizeof ring);
    put(&builder->ring_image, builder->ring, header->ring_slots * VT_SLOT_BYTES);
    *bytes = builder->ring_image.bytes;
    return builder->ring_image.data;
}

static void write_file(const char *path, const void *image, size_t bytes)
{
    FILE *file = fopen(path, "wb");
    REQUIRE(file && fwrite(image, 1, bytes, file) == bytes);
    REQUIRE(fclose(file) == 0);
}

void builder_write_ring(struct builder *builder, const void *image, size_t bytes)
{
    builder->other_ring = true;
    write_file(builder->header.ring_path, image, bytes);
}

const char *builder_write_bytes(struct builder *builder, const void *image, size_t bytes)
{
    if (!builder->path[0]) {
        snprintf(builder->path, sizeof builder->path, "/tmp/vramtrace-test-XXXXXX");
        int file = mkstemp(builder->path);
        REQUIRE(file >= 0);
        close(file);
    }
    if (builder->in_ring && !builder->other_ring) {
        size_t ring_bytes;
        const uint8_t *ring = builder_ring_image(builder, &ring_bytes);
        write_file(builder->header.ring_path, ring, ring_bytes);
    }
    write_file(builder->path, image, bytes);
    return builder->path;
}

const char *builder_write(struct builder *builder)
{
    size_t bytes;
    const uint8_t *image = builder_image(builder, &bytes);
    return builder_write_bytes(builder, image, bytes);
}
