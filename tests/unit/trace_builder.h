/* Makes trace files for tests, with the recorder's own coder of chunks. Also a library that Python loads
 * (tests/golden/trace_file.py, tests/fuzz/mutate.py).
 *
 * Records go to the open chunk until builder_ring is called, then to the ring, a file in memory as of a
 * process that was killed. Everything aborts on failure: a test that cannot make its input has nothing to
 * say. */
#ifndef TRACE_BUILDER_H
#define TRACE_BUILDER_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "trace/trace.h"
#include "vramtrace/ring.h"

struct builder;

struct builder *builder_new(uint64_t ring_slots);
void builder_free(struct builder *builder);
struct vt_file_header *builder_header(struct builder *builder); /* to be changed before builder_write */

/* Definitions. Ids count from 1 in the order of the calls. */
void builder_process(struct builder *builder, const char *const *strings, uint32_t arguments,
                     uint32_t strings_count);
uint64_t builder_string(struct builder *builder, const char *text);
void builder_function(struct builder *builder, uint16_t id, const char *name);
void builder_thread(struct builder *builder, uint64_t thread_id, const char *name);
void builder_device(struct builder *builder, uint32_t index, uint64_t total_bytes, const char *name);
void builder_symbol(struct builder *builder, uint64_t address, uint64_t module_base,
                    const char *linkage_name);
void builder_module(struct builder *builder, uint64_t base, uint64_t end, const char *path,
                    const void *build_id, uint32_t build_id_bytes);
uint32_t builder_code(struct builder *builder, const char *file, const char *name, int32_t first_line);
uint32_t builder_stack(struct builder *builder, uint32_t thread_id, const uint64_t *native,
                       uint16_t native_count, const struct vt_python_frame *python, uint16_t python_count);
/* The same of a stack with a place (VT_RECORD_PLACE). */
uint32_t builder_stack_at(struct builder *builder, uint32_t thread_id, uint32_t place_id,
                          const uint64_t *native, uint16_t native_count, const struct vt_python_frame *python,
                          uint16_t python_count);
/* One part of an inspection's text. */
void builder_inspection_part(struct builder *builder, uint32_t inspection_id, uint32_t part, uint32_t parts,
                             const char *text);
void builder_raw(struct builder *builder, uint8_t kind, const void *body, uint32_t bytes);

/* t_ns, if it is 0, becomes 1024 ns after the event before, and thread_id that of the stack. In a chunk times
 * are multiples of 256 ns. A full chunk is ended. */
void builder_event(struct builder *builder, struct vt_event event);
void builder_events(struct builder *builder, const struct vt_event *events, size_t count);
/* Adds definitions to the open chunk as they are, right or wrong. */
void builder_definitions(struct builder *builder, const void *records, size_t bytes);

void builder_end_chunk(struct builder *builder);
/* Once its last chunk has ended. Its digest follows. */
void builder_end_chain(struct builder *builder);
/* About how many events a chain has, if not as many as in a recorder's. */
void builder_set_chain_events(struct builder *builder, uint32_t events);
/* How many slots of the ring there were so far, if not as many as the records took. */
void builder_set_position(struct builder *builder, uint64_t position);
/* Ends the chunk: what follows goes to the ring, from position `start` (as much is told to be consumed). */
void builder_ring(struct builder *builder, uint64_t start);
/* A record of the ring that was reserved but not committed, with its head stored or not. */
void builder_unfinished(struct builder *builder, uint16_t slots, int with_head);

/* The file as bytes (owned by the builder), complete unless something is in the ring. */
const uint8_t *builder_image(struct builder *builder, size_t *bytes);
/* What is in the ring, with its header. */
const uint8_t *builder_ring_image(struct builder *builder, size_t *bytes);
/* Writes the trace to a new temporary file, and the ring to its own; the path is owned by the builder, and
 * both are removed with it. */
const char *builder_write(struct builder *builder);
/* Writes other bytes there instead. */
const char *builder_write_bytes(struct builder *builder, const void *image, size_t bytes);
void builder_write_ring(struct builder *builder, const void *image, size_t bytes);

/* builder_write and vt_trace_open, failing the test if it does not open. */
static inline struct vt_trace *builder_open(struct builder *builder)
{
    struct vt_trace *trace;
    char error[512];
    if (vt_trace_open(builder_write(builder), NULL, &trace, error, sizeof error) != 0) {
        fprintf(stderr, "%s\n", error);
        abort();
    }
    return trace;
}

/* A rules file with that text, for the test to remove; its name lives until the next one. */
static inline const char *builder_rules_file(const char *text)
{
    static char path[] = "/tmp/vramtrace-rules-XXXXXX";
    strcpy(path, "/tmp/vramtrace-rules-XXXXXX");
    int file = mkstemp(path);
    if (file < 0 || write(file, text, strlen(text)) != (ssize_t)strlen(text))
        abort();
    close(file);
    return path;
}

#endif
