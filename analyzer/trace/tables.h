/* Private to analyzer/trace: the parts of a trace that are not public. */
#ifndef VT_TABLES_H
#define VT_TABLES_H

#include "base/arena.h"
#include "base/index.h"
#include "base/strings.h"
#include "trace/digest_events.h"
#include "trace/reading_plan.h"
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
    struct vt_reading_plan *plan;
    struct vt_raw_events { /* as they are in the file, of chains that are not read to their end */
        struct vt_event *items;
        size_t count, capacity;
        size_t chain; /* where those of the latest chain begin, whose id follows */
        uint64_t id;
        struct vt_digest_reader reader;
    } raw;
    bool head_only; /* vt_reading */
    bool process_known;

    struct vt_strings texts;
    struct vt_index places; /* id → vt_trace.places */
    size_t place_capacity, setting_capacity;
    struct vt_index strings, functions,
        threads; /* id of a string or function, kernel id of a thread → texts */

    struct vt_index symbols; /* address → entries; pointers to them stay valid */
    struct vt_symbol_entry **entries;
    size_t entry_count, entry_capacity;

    struct vt_module_entry *modules; /* by start_address once the trace is read */
    size_t module_count, module_capacity;

    const struct vt_inspection_part **inspection_parts; /* in the file's order until vt_inspections_read */
    size_t inspection_part_count, inspection_part_capacity;

    size_t event_capacity, rare_event_capacity, stack_capacity, code_capacity, device_capacity,
        gpu_use_capacity;
    struct vt_compiled_line *compiled; /* by file (by its text) and line once the trace is read */
    size_t compiled_count, compiled_capacity;

    struct vt_index lines; /* (code, offset) → line */
    uint8_t *code_kinds;   /* by code id: stacks.c; 0 unknown */
};

#endif
