/* Writes a trace again, in chains of another length: rechain IN OUT EVENTS. So a trace of some thousand
 * events has chains and digests as one of millions has, and one of format 2 is read. */
#include <stdio.h>
#include <stdlib.h>

#include "base/allocate.h"
#include "trace/chain.h"
#include "trace_builder.h"

enum { WITHOUT_DIGESTS = 2 }; /* the format before, of the same chunks */

static uint8_t *read_file(const char *path, size_t *bytes)
{
    FILE *file = fopen(path, "rb");
    if (!file || fseek(file, 0, SEEK_END)) {
        perror(path);
        exit(1);
    }
    *bytes = (size_t)ftell(file);
    rewind(file);
    uint8_t *data = vt_allocate(*bytes + 1);
    if (fread(data, 1, *bytes, file) != *bytes) {
        perror(path);
        exit(1);
    }
    fclose(file);
    return data;
}

int main(int argument_count, char **arguments)
{
    size_t bytes;
    if (argument_count != 4) {
        fprintf(stderr, "usage: rechain IN OUT EVENTS\n");
        return 2;
    }
    uint8_t *data = read_file(arguments[1], &bytes);
    const struct vt_file_header *header = (const void *)data;
    if (bytes < VT_HEADER_BYTES || header->format_version < WITHOUT_DIGESTS ||
        header->format_version > VT_FORMAT_VERSION) {
        fprintf(stderr, "rechain: %s: not of format %d or %d\n", arguments[1], WITHOUT_DIGESTS,
                VT_FORMAT_VERSION);
        return 1;
    }
    struct vt_event *events = vt_allocate(VT_CHUNK_EVENTS * sizeof *events);
    struct builder *builder = builder_new(header->ring_slots);
    struct vt_chain *chain = vt_chain_make();
    struct vt_file_header *made = builder_header(builder);
    *made = *header;
    made->format_version = made->minimum_readable = VT_FORMAT_VERSION;
    made->chunks_end = 0;
    made->counters.events = 0;
    builder_set_chain_events(builder, (uint32_t)strtoul(arguments[3], NULL, 10));
    for (uint64_t at = header->chunks_offset; at < header->chunks_end;) {
        const struct vt_chunk_header *head = (const void *)(data + at);
        const uint8_t *stored = data + at + head->header_bytes;
        at += head->header_bytes + (uint64_t)head->stored_bytes;
        if (head->level)
            continue;
        uint8_t *definitions = vt_allocate(head->definitions_bytes + 1);
        if (vt_chain_read(chain, head, stored, definitions, events)) {
            fprintf(stderr, "rechain: %s: a chunk is damaged\n", arguments[1]);
            return 1;
        }
        builder_definitions(builder, definitions, head->definitions_bytes);
        builder_events(builder, events, head->events);
        free(definitions);
    }
    size_t made_bytes;
    const uint8_t *image = builder_image(builder, &made_bytes);
    FILE *out = fopen(arguments[2], "wb");
    if (!out || fwrite(image, 1, made_bytes, out) != made_bytes || fclose(out)) {
        perror(arguments[2]);
        return 1;
    }
    vt_chain_free(chain);
    builder_free(builder);
    return 0;
}
