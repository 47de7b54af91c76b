/* Golden vectors hold the coding of events still: vectors/NAME.vrt is what the recorder's coder made of the
 * events in vectors/NAME.txt. After a change of the format on purpose, VRAMTRACE_WRITE_VECTORS=1 writes the
 * .vrt files again.
 *
 * A line of the text is an event (thread, time, address in hexadecimal, bytes, detail, total_bytes, sequence,
 * stack, kind, layer, device, flags), `string TEXT`, `end POSITION` (of the chunk), or `chain` (it ends). */
#include <criterion/criterion.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "trace/chain.h"
#include "trace_builder.h"

static const char *const names[] = {"allocator", "anything", "training"};
enum { NAMES = sizeof names / sizeof *names };

/* What a path holds, with a NUL behind it. */
static char *read_file(const char *name, const char *extension, size_t *bytes)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s.%s", VECTORS, name, extension);
    FILE *file = fopen(path, "rb");
    cr_assert(file, "%s", path);
    cr_assert_eq(fseek(file, 0, SEEK_END), 0);
    *bytes = (size_t)ftell(file);
    rewind(file);
    char *data = calloc(1, *bytes + 1);
    cr_assert_eq(fread(data, 1, *bytes, file), *bytes);
    fclose(file);
    return data;
}

static void write_trace(const char *name, const void *image, size_t bytes)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s.vrt", VECTORS, name);
    FILE *file = fopen(path, "wb");
    cr_assert(file && fwrite(image, 1, bytes, file) == bytes && !fclose(file));
}

/* ---- text to a trace ---- */

static bool parse_event(const char *line, struct vt_event *event)
{
    *event = (struct vt_event){.kind = 0};
    return sscanf(line,
                  "%" SCNu32 " %" SCNu64 " %" SCNx64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64
                  " %" SCNu32 " %" SCNu8 " %" SCNu8 " %" SCNd8 " %" SCNu8,
                  &event->thread_id, &event->t_ns, &event->address, &event->bytes, &event->detail,
                  &event->total_bytes, &event->sequence, &event->stack_id, &event->kind, &event->layer,
                  &event->device_index, &event->flags) == 12;
}

static struct builder *build(const char *name)
{
    struct builder *builder = builder_new(64);
    size_t bytes;
    char *text = read_file(name, "txt", &bytes), *rest;
    for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        struct vt_event event;
        uint64_t position;
        if (!strcmp(line, "chain")) {
            builder_end_chain(builder);
        } else if (sscanf(line, "end %" SCNu64, &position) == 1) {
            builder_set_position(builder, position);
            builder_end_chunk(builder);
        } else if (!strncmp(line, "string ", 7)) {
            builder_string(builder, line + 7);
        } else {
            cr_assert(parse_event(line, &event), "%s", line);
            builder_event(builder, event);
        }
    }
    free(text);
    return builder;
}

/* ---- a trace to text ---- */

struct chunk {
    const struct vt_chunk_header *head;
    const uint8_t *stored;
};

/* The next chunk of a trace; false at its end. */
static bool next_chunk(const char *image, size_t bytes, struct chunk *chunk)
{
    const char *at = chunk->head
                         ? (const char *)chunk->stored + chunk->head->stored_bytes
                         : image + ((const struct vt_file_header *)(const void *)image)->chunks_offset;
    if (at == image + bytes)
        return false;
    chunk->head = (const void *)at;
    chunk->stored = (const uint8_t *)at + chunk->head->header_bytes;
    cr_assert(vt_chain_is_plausible(chunk->head));
    cr_assert(vt_chain_is_whole(chunk->head, chunk->stored));
    return true;
}

static void render_chunk(struct vt_chain *chain, const struct chunk *chunk, FILE *out)
{
    const struct vt_chunk_header *head = chunk->head;
    struct vt_event *events = calloc(head->events + 1, sizeof *events);
    uint8_t *definitions = malloc(head->definitions_bytes + 1);
    cr_assert_eq(vt_chain_read(chain, head, chunk->stored, definitions, events), 0);
    for (size_t at = 0; at < head->definitions_bytes;) {
        const struct vt_string *string = (const void *)(definitions + at);
        const int text_bytes = (int)(string->head.bytes - sizeof *string);
        cr_assert_eq(string->head.kind, VT_RECORD_STRING);
        fprintf(out, "string %.*s\n", text_bytes, (const char *)(string + 1));
        at += (string->head.bytes + 7) & ~(size_t)7;
    }
    for (const struct vt_event *event = events; event < events + head->events; event++)
        fprintf(out,
                "%" PRIu32 " %" PRIu64 " %" PRIx64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu32
                " %d %d %d %d\n",
                event->thread_id, event->t_ns, event->address, event->bytes, event->detail,
                event->total_bytes, event->sequence, event->stack_id, event->kind, event->layer,
                event->device_index, event->flags);
    fprintf(out, "end %" PRIu64 "\n", head->ring_position);
    free(definitions);
    free(events);
}

static char *render(const char *image, size_t bytes)
{
    struct vt_chain *chain = vt_chain_make();
    struct chunk chunk = {NULL, NULL};
    char *text;
    size_t text_bytes;
    FILE *out = open_memstream(&text, &text_bytes);
    for (bool first = true; next_chunk(image, bytes, &chunk); first = false) {
        if (chunk.head->level)
            continue; /* a digest, which the coder makes of the events */
        if (chunk.head->place == 0 && !first)
            fputs("chain\n", out);
        render_chunk(chain, &chunk, out);
    }
    fclose(out);
    vt_chain_free(chain);
    return text;
}

/* ---- tests ---- */

Test(vectors, are_decoded_to_their_events)
{
    for (size_t i = 0; i < NAMES; i++) {
        size_t bytes, expected_bytes;
        char *image = read_file(names[i], "vrt", &bytes),
             *expected = read_file(names[i], "txt", &expected_bytes), *text = render(image, bytes);
        cr_assert_str_eq(text, expected, "%s", names[i]);
        free(text);
        free(expected);
        free(image);
    }
}

/* How definitions are packed is up to the version of zstd. */
Test(vectors, are_what_the_coder_makes_of_their_events)
{
    for (size_t i = 0; i < NAMES; i++) {
        size_t bytes, made_bytes;
        struct builder *builder = build(names[i]);
        const char *made = (const char *)builder_image(builder, &made_bytes);
        if (getenv("VRAMTRACE_WRITE_VECTORS"))
            write_trace(names[i], made, made_bytes);
        char *image = read_file(names[i], "vrt", &bytes);
        struct chunk expected = {NULL, NULL}, chunk = {NULL, NULL};
        while (next_chunk(image, bytes, &expected)) {
            cr_assert(next_chunk(made, made_bytes, &chunk));
            const struct vt_chunk_header *a = expected.head, *b = chunk.head;
            const size_t events_bytes = a->stored_bytes - a->packed_definitions_bytes;
            cr_assert_eq(events_bytes, b->stored_bytes - b->packed_definitions_bytes, "%s", names[i]);
            cr_assert_eq(memcmp(expected.stored + a->packed_definitions_bytes,
                                chunk.stored + b->packed_definitions_bytes, events_bytes),
                         0, "%s", names[i]);
            cr_assert(a->header_bytes == b->header_bytes && a->definitions_bytes == b->definitions_bytes &&
                      a->events == b->events && a->ring_position == b->ring_position &&
                      a->chain == b->chain && a->place == b->place);
        }
        cr_assert_not(next_chunk(made, made_bytes, &chunk));
        builder_free(builder);
        free(image);
    }
}

Test(vectors, are_traces)
{
    for (size_t i = 0; i < NAMES; i++) {
        char path[512], error[512];
        struct vt_trace *trace;
        snprintf(path, sizeof path, "%s/%s.vrt", VECTORS, names[i]);
        cr_assert_eq(vt_trace_open(path, NULL, &trace, error, sizeof error), 0, "%s", error);
        cr_assert(trace->complete);
        cr_assert_eq(trace->event_count, trace->header.counters.events);
        vt_trace_close(trace);
    }
}
