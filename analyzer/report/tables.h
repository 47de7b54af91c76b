/* Everything of a trace as tables of rows, for those who print or export all of it. Rows refer to each other
 * by numbers: a stack's id, an allocation's index, an event's index. schema.def names their columns.
 *
 * Rows are made one by one as a table is walked; nothing but frames is kept. One thread at a time. */
#ifndef VT_TABLES_H
#define VT_TABLES_H

#include "report/info.h"
#include "report/peak_rows.h"
#include "report/launch_info.h"
#include "report/report.h"
#include "report/schema.h"

#define VT_TABLES(X)                                                                                         \
    X(EVENTS, events, struct vt_event_facts)                                                                 \
    X(ALLOCATIONS, allocations, struct vt_allocation_row)                                                    \
    X(STACKS, stacks, struct vt_stack_row)                                                                   \
    X(FRAMES, frames, struct vt_frame_row)                                                                   \
    X(TENSORS, tensors, struct vt_tensor_row)                                                                \
    X(STEPS, steps, struct vt_step_row)                                                                      \
    X(PHASES, phases, struct vt_phase_row)                                                                   \
    X(MARKS, marks, struct vt_mark)                                                                          \
    X(REQUESTS, requests, struct vt_request_row)                                                             \
    X(INSTANTS, instants, struct vt_instant_row)                                                             \
    X(TRACE, trace, struct vt_trace_row)                                                                     \
    X(DEVICES, devices, struct vt_device_report)                                                             \
    X(PEAK, peak, struct vt_peak_row)                                                                        \
    X(LEAKS, leaks, struct vt_leak_row)                                                                      \
    X(OUT_OF_MEMORY, out_of_memory, struct vt_oom)                                                           \
    X(CARDS, cards, struct vt_gpu_table_row)                                                                 \
    X(COLUMNS, columns, struct vt_column_row)
enum vt_table_id {
#define X(id, name, row) VT_TABLE_##id,
    VT_TABLES(X)
#undef X
        VT_TABLE_COUNT
};
/* Those that are small however long a trace is, and hold nothing that digests lack: what a fleet's
 * traces are compared by. */
#define VT_SUMMARY_TABLES                                                                                    \
    (1u << VT_TABLE_TRACE | 1u << VT_TABLE_DEVICES | 1u << VT_TABLE_PEAK | 1u << VT_TABLE_LEAKS |            \
     1u << VT_TABLE_OUT_OF_MEMORY | 1u << VT_TABLE_COLUMNS)
#define VT_ALL_TABLES ((1u << VT_TABLE_COUNT) - 1)

/* A named tensor of a list. Allocations name the list of the tensors that lie in them; several may name the
 * same: a flat buffer that is made again in each step. */
struct vt_tensor_row {
    uint32_t tensor_list;
    const char *name;          /* "layers.3.attn.in_proj.weight · exp_avg" */
    const char *role;          /* "parameter", "buffer", "gradient", "exp_avg" … */
    const char *module;        /* NULL = none */
    const char *dtype, *shape; /* "" = not known */
    uint64_t bytes;            /* of the tensor alone */
    uint64_t share_bytes;      /* of the block; the shares of an allocation sum to its bytes */
    uint8_t evidence;
};

/* Anything that was ever allocated: blocks, segments, driver memory, context, page-locked memory. While it is
 * alive (from its alloc_event until before its free_event) it adds
 *     counted_bytes to its category,
 *     cached_change_bytes to the category "cached" (segments add, blocks in them take away),
 *     driver_bytes to what the driver gave.
 * These sums are, at every event, those of `instants`. */
struct vt_allocation_row {
    struct vt_block block; /* `number` is not set */
    int device_index;      /* -1 = page-locked host memory */
    uint64_t free_t_ns;    /* block.freed */
    const char *module_class;
    uint32_t stack_id;         /* 0 = none */
    uint32_t forward_stack_id; /* of the forward operator whose backward made it, 0 = not known */
    uint32_t parent;           /* index of the allocation that it lies in */
    bool has_parent;
    bool foreign; /* of another process or API: in no sum */
    uint64_t rounding_bytes;
    uint64_t counted_bytes, driver_bytes;
    int64_t cached_change_bytes;
    uint32_t tensor_list;  /* the same for allocations that have the same tensors; 0 = none */
    uint32_t tensor_count; /* vt_row_tensors gives them */
};

/* A frame of a stack: the stack's depth-th, from 0 = innermost. */
struct vt_stack_row {
    uint32_t stack_id, depth, frame; /* frame: id in `frames` */
    bool is_place;                   /* the frame of the stack that matters to a user */
};

struct vt_frame_row {
    uint32_t id;
    struct vt_frame frame; /* address: of native code; 0 = Python */
    const char *name;      /* as people call it: "model.py:141 forward" */
};

struct vt_step_row {
    int device_index;
    const struct vt_step *step;
};

/* A run of one phase; together they cover all events. */
struct vt_phase_row {
    uint32_t first_event, last_event, step;
    uint8_t phase;
    uint64_t t_ns, end_ns; /* of its first event; of the next phase's first, or the last event */
};

/* A request to a model: a call of `function` under which forward passes run. Those of several threads overlap. */
struct vt_request_row {
    uint32_t request, first_event, last_event; /* number, from 1 on */
    const char *function;
    uint64_t t_ns, duration_ns; /* as its events tell */
};

/* A device just after each event that touches it. */
struct vt_instant_row {
    int device_index;
    struct vt_state state;
};

struct vt_leak_row {
    int device_index;
    const struct vt_leak *leak;
    const struct vt_place *place; /* the likeliest of its lines; NULL = none is known */
};

/* A part of a GPU's bytes, at the peak or in the last report of them. */
struct vt_gpu_table_row {
    int device_index;
    const char *moment; /* "peak", "last" */
    const struct vt_gpu_table *table;
    const struct vt_gpu_row *row;
    bool counted; /* among the GPU's bytes in use */
};

/* A column of one of these tables. */
struct vt_column_row {
    const char *table, *column;
    const char *type, *unit; /* vt_cell_kind_name, vt_unit_name */
    const char *about;
};

/* `report` must outlive the tables. `wanted`: bits of enum vt_table_id; stacks number the frames, so take
 * both or neither. Steps, leaks and the bytes of GPUs are those that vt_diagnose found. */
struct vt_tables;
struct vt_tables *vt_tables_make(const struct vt_report *report, unsigned wanted);
bool vt_table_wanted(const struct vt_tables *tables, unsigned table);
void vt_tables_free(struct vt_tables *tables);

/* Calls `visit` with each row of a table, in order; the row is valid for the call. Non-zero ends the walk.
 * Returns what the last visit returned. */
typedef int vt_row_visit(void *context, const void *row);
int vt_table_walk(struct vt_tables *tables, unsigned table, vt_row_visit *visit, void *context);
/* The tensors of an allocation, in a walk of allocations; valid until the next call. NULL without any.
 * Ask once for each list: a list can be long, and be of many allocations. */
const struct vt_tensor_row *vt_row_tensors(struct vt_tables *tables, const struct vt_allocation_row *row);

#endif
