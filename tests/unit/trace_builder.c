#include "trace_builder.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>
#include <zstd.h>

#define REQUIRE(condition)                                                                                   \
    do {                                                                                                     \
        if (!(condition)) {                                                                                  \
            fprintf(stderr, "trace_builder.c:%d: %s\n", __LINE__, #condition);                               \
            abort();                                                                                         \
        }                                                                                                    \
    } while (0)

struct buffer {
    uint8_t *data;
    size_t bytes, capacity;
};

struct builder {
    struct vt_file_header header;
    struct buffer definitions, chunks, image;
    struct vt_event *events;
    size_t event_count, event_capacity;
    uint8_t *ring;
    int in_ring;
    uint64_t position; /* in the ring */
    uint64_t t_ns, strings;
    uint32_t codes, stacks;
    char path[64];
};

static void put(struct buffer *buffer, const void *data, size_t bytes)
{
    if (buffer->bytes + bytes > buffer->capacity) {
        buffer->capacity = (buffer->bytes + bytes) * 2;
        buffer->data = realloc(buffer->data, buffer->capacity);
        REQUIRE(buffer->data);
    }
    if (bytes > 0)
        memcpy(buffer->data + buffer->bytes, data, bytes);
    buffer->bytes += bytes;
}

struct builder *builder_new(uint64_t ring_slots)
{
    struct builder *builder = calloc(1, sizeof *builder);
    REQUIRE(builder);
    builder->ring = calloc(ring_slots, VT_SLOT_BYTES);
    REQUIRE(builder->ring);
    builder->header = (struct vt_file_header){
        .format_version = 1,
        .minimum_readable = 1,
        .header_bytes = VT_HEADER_BYTES,
        .slot_bytes = VT_SLOT_BYTES,
        .ring_offset = VT_HEADER_BYTES,
        .ring_slots = ring_slots,
        .chunks_offset = VT_HEADER_BYTES + ring_slots * VT_SLOT_BYTES,
        .pid = 4711,
        .start_monotonic_ns = 1000000,
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
    free(builder->definitions.data);
    free(builder->chunks.data);
    free(builder->image.data);
    free(builder->events);
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
    *head = (struct vt_record_head){.slots = slots, .kind = kind, .committed = 1, .bytes = bytes};
    if (!builder->in_ring) {
        static const uint8_t padding[8];
        put(&builder->definitions, record, bytes);
        put(&builder->definitions, padding, (8 - bytes % 8) % 8);
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
    struct buffer text = {0};
    for (uint32_t i = 0; i < strings_count; i++)
        put(&text, strings[i], strlen(strings[i]) + 1);
    struct vt_process process = {.argument_count = arguments, .python_version = 0x030b07f0};
    put_parts(builder, VT_RECORD_PROCESS, &process, sizeof process, text.data, text.bytes);
    free(text.data);
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
    struct vt_thread thread = {.thread_id = thread_id};
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
    struct buffer rest = {0};
    put(&rest, build_id, build_id_bytes);
    put(&rest, path, strlen(path));
    put_parts(builder, VT_RECORD_MODULE, &module, sizeof module, rest.data, rest.bytes);
    free(rest.data);
}

uint32_t builder_code(struct builder *builder, const char *file, const char *name, int32_t first_line)
{
    struct vt_code code = {.code_id = ++builder->codes,
                           .first_line = first_line,
                           .python_minor = 11,
                           .file_bytes = (uint32_t)strlen(file),
                           .name_bytes = (uint32_t)strlen(name)};
    struct buffer rest = {0};
    put(&rest, file, strlen(file));
    put(&rest, name, strlen(name));
    put_parts(builder, VT_RECORD_CODE, &code, sizeof code, rest.data, rest.bytes);
    free(rest.data);
    return code.code_id;
}

uint32_t builder_stack(struct builder *builder, uint32_t thread_id, const uint64_t *native,
                       uint16_t native_count, const struct vt_python_frame *python, uint16_t python_count)
{
    struct vt_stack stack = {.stack_id = ++builder->stacks,
                             .thread_id = thread_id,
                             .native_frames = native_count,
                             .python_frames = python_count};
    struct buffer rest = {0};
    put(&rest, native, native_count * sizeof *native);
    put(&rest, python, python_count * sizeof *python);
    put_parts(builder, VT_RECORD_STACK, &stack, sizeof stack, rest.data, rest.bytes);
    free(rest.data);
    return stack.stack_id;
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
    builder->t_ns = event.t_ns ? event.t_ns : builder->t_ns + 1000;
    event.t_ns = builder->t_ns;
    builder->header.counters.events++;
    if (builder->in_ring) {
        put_record(builder, VT_RECORD_EVENT, &event, sizeof event);
        return;
    }
    if (builder->event_count == VT_CHUNK_EVENTS)
        builder_end_chunk(builder);
    if (builder->event_count == builder->event_capacity) {
        builder->event_capacity = builder->event_capacity ? builder->event_capacity * 2 : 64;
        builder->events = realloc(builder->events, builder->event_capacity * sizeof *builder->events);
        REQUIRE(builder->events);
    }
    builder->events[builder->event_count++] = event;
}

static void put_leb128(struct buffer *out, uint64_t value)
{
    uint8_t bytes[10];
    size_t count = 0;
    do {
        bytes[count] = (uint8_t)(value & 0x7f);
        value >>= 7;
        bytes[count++] |= value ? 0x80 : 0;
    } while (value);
    put(out, bytes, count);
}

void builder_end_chunk(struct builder *builder)
{
    struct buffer payload = {0};
    put(&payload, builder->definitions.data, builder->definitions.bytes);
#define COLUMN(field)                                                                                        \
    {                                                                                                        \
        uint64_t previous = 0;                                                                               \
        for (size_t i = 0; i < builder->event_count; i++) {                                                  \
            uint64_t value = (uint64_t)builder->events[i].field, change = value - previous;                  \
            put_leb128(&payload, (change << 1) ^ (0 - (change >> 63)));                                      \
            previous = value;                                                                                \
        }                                                                                                    \
    }
    VT_EVENT_COLUMNS(COLUMN)
    if (builder->header.feature_bits & VT_FEATURE_EVENT_THREADS)
        VT_EVENT_THREAD_COLUMN(COLUMN)
    size_t room = ZSTD_compressBound(payload.bytes);
    void *stored = malloc(room);
    REQUIRE(stored);
    size_t stored_bytes = ZSTD_compress(stored, room, payload.data, payload.bytes, 1);
    REQUIRE(!ZSTD_isError(stored_bytes));
    struct vt_chunk_header header = {.magic = VT_CHUNK_MAGIC,
                                     .header_bytes = sizeof header,
                                     .stored_bytes = (uint32_t)stored_bytes,
                                     .payload_bytes = (uint32_t)payload.bytes,
                                     .definitions_bytes = (uint32_t)builder->definitions.bytes,
                                     .events = (uint32_t)builder->event_count,
                                     .ring_position = builder->position,
                                     .checksum = XXH3_64bits(stored, stored_bytes)};
    put(&builder->chunks, &header, sizeof header);
    put(&builder->chunks, stored, stored_bytes);
    free(stored);
    free(payload.data);
    builder->definitions.bytes = 0;
    builder->event_count = 0;
}

void builder_ring(struct builder *builder, uint64_t start)
{
    builder->position = start;
    if (builder->event_count > 0 || builder->definitions.bytes > 0)
        builder_end_chunk(builder);
    builder->in_ring = 1;
    builder->header.ring_consumed = start;
    builder->header.state = VT_STATE_RECORDING;
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
    if (!builder->in_ring && (builder->event_count > 0 || builder->definitions.bytes > 0))
        builder_end_chunk(builder);
    struct vt_file_header *header = &builder->header;
    if (header->ring_reserved == 0)
        header->ring_reserved = builder->position;
    if (!builder->in_ring && header->ring_consumed == 0)
        header->ring_consumed = header->ring_reserved;
    if (header->chunks_end == 0)
        header->chunks_end = header->chunks_offset + builder->chunks.bytes;
    builder->image.bytes = 0;
    put(&builder->image, header, sizeof *header);
    put(&builder->image, zeros, VT_HEADER_BYTES - sizeof *header);
    put(&builder->image, builder->ring, header->ring_slots * VT_SLOT_BYTES);
    put(&builder->image, builder->chunks.data, builder->chunks.bytes);
    *bytes = builder->image.bytes;
    return builder->image.data;
}

const char *builder_write_bytes(struct builder *builder, const void *image, size_t bytes)
{
    if (!builder->path[0]) {
        snprintf(builder->path, sizeof builder->path, "/tmp/vramtrace-test-XXXXXX");
        int file = mkstemp(builder->path);
        REQUIRE(file >= 0);
        close(file);
    }
    FILE *file = fopen(builder->path, "wb");
    REQUIRE(file && fwrite(image, 1, bytes, file) == bytes);
    REQUIRE(fclose(file) == 0);
    return builder->path;
}

const char *builder_write(struct builder *builder)
{
    size_t bytes;
    const uint8_t *image = builder_image(builder, &bytes);
    return builder_write_bytes(builder, image, bytes);
}

struct vt_trace *builder_open(struct builder *builder)
{
    struct vt_trace *trace;
    char error[512];
    if (vt_trace_open(builder_write(builder), &trace, error, sizeof error) != 0) {
        fprintf(stderr, "%s\n", error);
        abort();
    }
    return trace;
}

const char *builder_rules_file(const char *text)
{
    static char path[] = "/tmp/vramtrace-rules-XXXXXX";
    strcpy(path, "/tmp/vramtrace-rules-XXXXXX");
    int file = mkstemp(path);
    REQUIRE(file >= 0);
    REQUIRE(write(file, text, strlen(text)) == (ssize_t)strlen(text));
    close(file);
    return path;
}
