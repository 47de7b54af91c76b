/* Private to analyzer/trace: what hangs on a trace behind its public arrays. */
#ifndef VT_TABLES_H
#define VT_TABLES_H

#include "base/arena.h"
#include "base/index.h"
#include "trace/trace.h"

/* What is known of a symbol beside the public part. Names are made on first use. */
struct vt_symbol_entry {
    struct vt_trace_symbol symbol;
    bool named;   /* symbol.name and symbol.short_name are set */
    bool refined; /* searched for file and line, and for a name where there was none */
    const char *file;
    int32_t line;
    const char *node; /* of an autograd node's function: the node's name, NULL until first use */
};

struct vt_module_entry {
    uint64_t base, start_address, end_address;
    const uint8_t *build_id;
    uint32_t build_id_bytes;
    const char *path;
    struct vt_debug_file *debug; /* opened on first use */
    bool debug_tried;
};

/* A line of code that a compiler generated (format.h, W), and the user's line behind it. */
struct vt_compiled_line {
    const char *file; /* of the generated code; each text once */
    uint32_t line;
    const char *source_file, *function;
    uint32_t source_line;
};

struct vt_trace_tables {
    struct vt_arena arena;
    uint64_t definition_bytes;             /* read so far: bounds the ids that we accept */
    uint64_t unpacked_bytes, stored_bytes; /* of the chunks so far */
    /* Takes events as they are read, instead of keeping them in `events`; NULL = keep them. */
    int (*take_events)(void *context, const struct vt_event *events, size_t count);
    void *take_context;
    uint64_t taken_events, chunks_read_end;
    bool head_only;         /* vt_thinning */
    bool definitions_known; /* a second reading: only events are taken */
    bool process_known;

    struct vt_index strings, functions; /* id → texts */
    const char **texts;
    size_t text_count, text_capacity;

    struct vt_index symbols; /* address → entries; pointers to them stay valid */
    struct vt_symbol_entry **entries;
    size_t entry_count, entry_capacity;

    struct vt_module_entry *modules; /* by start_address once the trace is read */
    size_t module_count, module_capacity;
    struct vt_index threads; /* kernel id → texts */

    const struct vt_inspection_part **inspection_parts; /* in the file's order until vt_inspections_read */
    size_t inspection_part_count, inspection_part_capacity;

    size_t event_capacity, rare_event_capacity, stack_capacity, code_capacity, device_capacity,
        card_use_capacity;
    struct vt_compiled_line *written; /* by file (by its text) and line once the trace is read */
    size_t written_count, written_capacity;

    struct vt_index lines;    /* (code, offset) → line + 1 */
    uint8_t *code_is_library; /* by code id: 0 unknown, 1 no, 2 yes */
};

/* definitions.c: takes a run of definition records. `data` is 8-byte aligned and lives as long as the trace.
 * Stops at a length that makes no sense. Returns 0, or -EBADMSG if any record was bad. */
int vt_definitions_add(struct vt_trace *trace, const uint8_t *data, size_t bytes);
/* Takes one record, all of whose bytes are at `record`. */
int vt_definition_add(struct vt_trace *trace, const struct vt_record_head *record);
void vt_definitions_finish(struct vt_trace *trace);

/* launch.c: the first record of launchers' variables; then one variable as an inspection saw it. The first
 * inspection's value replaces the one at the start; its texts must live as long as the trace. Returns 0. */
int vt_launch_add(struct vt_trace *trace, const void *record);
void vt_launch_change(struct vt_trace *trace, const char *name, const char *value);

/* inspections.c: keeps one record, which lives as long as the trace; then, once all events are there, reads
 * all. Returns 0. */
int vt_inspection_add(struct vt_trace *trace, const void *part);
void vt_inspections_read(struct vt_trace *trace);

/* compiled_sources.c: adds the source of a generated line; `where` is a traceback's text. Both texts live as
 * long as the trace. False if `where` makes no sense. */
bool vt_compiled_source_add(struct vt_trace *trace, const char *file, uint32_t line, const char *where);
void vt_compiled_source_finish(struct vt_trace *trace);
/* NULL if the line is not generated code. */
const struct vt_compiled_line *vt_compiled_source_find(const struct vt_trace *trace, const char *file,
                                                       int32_t line);

/* stacks.c: the recorder cuts stacks at the loop of autograd's engine once it knows that loop. Cuts earlier
 * stacks there too, and gives events whose stacks are equal then the same id. Needs stack ids in range and
 * all symbols. */
void vt_stacks_end_at_loop(struct vt_trace *trace);

/* records.c: all chunks, then what the ring still holds. again: only the events of the same chunks. */
int vt_records_read(struct vt_trace *trace, int file);
int vt_records_read_again(struct vt_trace *trace, int file);

/* chunks.c: reads chunks of the open file from *offset up to `end`; a later call goes on where the one before
 * it ended. Beyond header.chunks_end one that is not whole ends them, and is no damage. *offset and
 * *ring_position are raised past what was read. */
struct vt_chunk_reader *vt_chunks_begin(struct vt_trace *trace, int file);
int vt_chunks_read(struct vt_chunk_reader *reader, uint64_t end, uint64_t *offset, uint64_t *ring_position);
void vt_chunks_end(struct vt_chunk_reader *reader);
int vt_events_reserve(struct vt_trace *trace, size_t more);
/* Passes the events read so far to tables->take_events, if it is set, and returns its result. */
int vt_events_hand_over(struct vt_trace *trace);
/* Reads exactly `bytes`, or returns -errno (-EBADMSG at the end of the file). */
int vt_read_at(int file, void *buffer, size_t bytes, uint64_t offset);

/* symbols.c. Shortens "void at::native::(anonymous namespace)::f<float>(at::Tensor const&)" to
 * "at::native::f"; `out` is always terminated. */
void vt_shorten_function(const char *full, char *out, size_t out_bytes);
struct vt_symbol_entry *vt_symbol_entry(const struct vt_trace *trace, uint64_t address);
void vt_symbol_refine(const struct vt_trace *trace, struct vt_symbol_entry *entry);
void vt_symbol_add(struct vt_trace *trace, uint64_t address, uint64_t symbol_address, uint64_t module_base,
                   const char *linkage_name);
struct vt_module_entry *vt_module_at(const struct vt_trace *trace, uint64_t address);

/* debug_info.c: file and line, and where the trace has none the name, from the module's file if it is still
 * the same one. Return false if it has none. `exported_too`: also searches exported names, which dladdr would
 * have found had the process asked. */
bool vt_debug_locate(struct vt_trace_tables *tables, struct vt_module_entry *module, uint64_t address,
                     const char **file, int32_t *line);
bool vt_debug_name(const struct vt_trace *trace, struct vt_module_entry *module, uint64_t address,
                   bool exported_too, const char **linkage_name, uint64_t *symbol_address);
void vt_debug_close(struct vt_debug_file *debug);

#endif
