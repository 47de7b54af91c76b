/* A trace in memory: what the file says, with names resolved and nothing judged.
 *
 * Ownership: everything hangs on struct vt_trace and lives until vt_trace_close. Strings are NUL-terminated
 * UTF-8 (bad bytes replaced). Threads: one at a time. The file is untrusted: nothing here trusts a length. */
#ifndef VT_TRACE_H
#define VT_TRACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/frame.h"
#include "base/index.h"
#include "trace/processes.h"
#include "vramtrace/format.h"

struct vt_trace_stack {
    uint32_t thread_id;
    uint16_t function; /* the hooked function, 0 = none */
    uint16_t label;    /* the runtime call round it, 0 = none */
    uint32_t flags;    /* enum vt_stack_flag */
    uint32_t place_id; /* of its record; places.h has those of events */
    uint32_t native_count, python_count;
    const uint64_t *native; /* innermost first, up to the interpreter or the loop of autograd's engine */
    const struct vt_python_frame *python;
    bool recorded; /* false: no record of this id is in the trace */
};

struct vt_trace_code {
    const char *file, *name;
    int32_t first_line;
    uint16_t python_minor;
    const uint8_t *line_table;
    uint32_t line_table_bytes;
};

struct vt_trace_symbol {
    uint64_t address;
    const char *linkage_name; /* "" = unknown */
    const char *name;         /* demangled, with arguments and templates */
    const char *short_name;   /* for people: without arguments, template arguments and return type */
    const char *module;       /* path of the object, "" = unknown */
    uint64_t symbol_address, module_base;
};

struct vt_trace_device {
    int index;
    const char *name;     /* "" = unknown */
    uint64_t total_bytes; /* 0 = unknown */
    bool has_uuid;        /* uuid identifies the GPU */
    uint8_t uuid[16];
};

/* Where a framework's blocks lie. */
struct vt_trace_place {
    int device_index;
    uint64_t stream; /* the framework's id of it; 0 = the default stream */
    uint32_t number; /* 0 = the default stream; else its number on the device, in order of first use */
};

/* An environment variable that the launcher (preload/launch.def) or the program itself set. */
struct vt_trace_variable {
    const char *name, *value;
    bool inspected; /* the value is from the first inspection that saw it */
};

/* What an inspection of live objects found (format.h, struct vt_inspection_part). Strings are never NULL. */
struct vt_inspection_module {
    uint64_t address; /* as self_address in stacks */
    uint32_t root;    /* index into vt_trace.roots */
    const char *class_name, *path;
};
struct vt_inspection_tensor {
    const char *role;  /* "parameter", "buffer", "gradient", "exp_avg" … */
    uint8_t kind;      /* enum vt_inspection_kind */
    bool own_path;     /* an array of a library other than PyTorch: path is its own, whatever it is */
    int32_t root;      /* index into vt_trace.roots, -1 = in no module */
    int32_t optimizer; /* index into vt_trace.optimizers, -1 = none */
    const char *path, *dtype, *shape;
    const char
        *whole_shape; /* of the distributed tensor that it is a part of; "" = it is of none, or not known */
    uint64_t data_address, bytes, storage_address, storage_bytes;
    int8_t device_index;
};
enum vt_inspection_kind {
    VT_INSPECTION_PARAMETER,
    VT_INSPECTION_BUFFER,
    VT_INSPECTION_GRADIENT,
    VT_INSPECTION_OPTIMIZER_STATE,
    VT_INSPECTION_TENSOR /* nothing says what it is for but its name or path; role is "tensor" or "array" */
};
/* A CUDA tensor that a census found, and the Python name that holds it. */
struct vt_inspection_holder {
    const char *kind;   /* "local", "global", "attribute", "cell", "traceback", "cycle" … */
    const char *holder; /* "list 'history' in __main__, 412 items" */
    const char *way;    /* all steps from the tensor to a name */
    const char *dtype, *shape;
    const char *node;  /* the autograd node that made it, "" = none */
    const char *nodes; /* numbers of the nodes that it keeps alive, "12-40,52-52" */
    uint64_t data_address, bytes, storage_address, storage_bytes;
    int8_t device_index;
};
struct vt_inspection {
    uint32_t event_index;                     /* of its VT_EVENT_INSPECTION */
    uint32_t reason;                          /* enum vt_inspection_reason, bits */
    uint64_t duration_ns, processor_ns;       /* that the host waited; CPU time of that, 0 = not known */
    const char *failure;                      /* "" = none */
    bool census, census_ended, census_cycles; /* it searched for holders; saw everything; cycles, too */
    uint64_t census_objects;
    bool knows_collections;
    uint64_t collections[3]; /* runs of Python's garbage collector so far, by generation */
    struct vt_inspection_module *modules;
    size_t module_count;
    struct vt_inspection_tensor *tensors;
    size_t tensor_count;
    struct vt_inspection_holder *holders;
    size_t holder_count;
};

/* A server's pool of blocks for keys and values, as inspections saw it; 0 = not known. */
struct vt_trace_pool {
    uint64_t blocks, block_tokens, tokens; /* tokens of a block, of all */
    uint64_t used_blocks, requests;        /* the most that an inspection saw */
    uint64_t longest;                      /* tokens that one request may have */
};

/* A module without a parent, or an optimizer, with the names that it had last. */
struct vt_inspection_root {
    uint64_t address;
    const char *class_name, *holder;
};

/* What NVML reported for a GPU between begin and end. Bytes; UINT64_MAX = not reported. */
struct vt_trace_gpu_process {
    uint32_t pid;
    uint64_t bytes;
    const char *command; /* "" = not known */
};
struct vt_trace_gpu_use {
    int device_index;
    uint64_t begin_ns, end_ns; /* as events' t_ns */
    uint64_t total_bytes, used_bytes, reserved_bytes;
    uint32_t flags;                               /* enum vt_gpu_use_flag */
    const struct vt_trace_gpu_process *processes; /* largest first */
    uint32_t process_count;
    uint32_t own; /* index of the recorded process; process_count = unknown */
};

struct vt_trace {
    char *path;
    struct vt_file_header header; /* as read */
    bool complete;                /* ended in order and everything committed is here */
    bool truncated;               /* the file is shorter than its header says, or a chunk is damaged */
    uint64_t damaged_bytes;       /* of chunks that could not be read */
    uint64_t ring_events;         /* events taken from the ring, since the process did not exit normally */
    bool ring_missing;            /* the process did not exit normally, and its ring is gone */
    uint64_t unfinished_records;  /* reserved in the ring, never committed */
    enum vt_life life;            /* of a process that has not ended recording */
    char end_text[32];            /* "interrupted (Ctrl-C)": how the process ended; "" = not known */
    uint64_t missing_stacks;      /* events whose stack is not in the trace */
    uint64_t paused_events, paused_ns; /* between VT_EVENT_PAUSE and VT_EVENT_RESUME, or the end */

    int argument_count;
    const char **arguments;
    const char *command; /* arguments joined by spaces, or the title that it gave itself, for people */
    const char *working_folder;
    const char *executable;
    uint32_t python_version; /* PY_VERSION_HEX, 0 = no Python */
    struct vt_trace_variable *launch;
    size_t launch_count;
    /* PyTorch's default process group, as the last inspection saw it: rank and size, -1 = there was none, and
     * the address of its store, "" = unknown. */
    int32_t group_rank, group_size;
    const char *group_store;
    struct vt_trace_pool pool;

    /* In order; their threads are those of their stacks. head_start: 1 in a gap of the recorder, where detail
     * and total_bytes of blocks are not the allocator's (VT_EVENT_RAN), else 0. */
    struct vt_event *events;
    uint32_t *rare_events; /* indices of those that neither allocate, free nor make a node, in order */
    size_t rare_event_count;
    size_t event_count;

    uint64_t recorded_events; /* in the file: more than `event_count` if some chains are read as digests */
    uint64_t omitted_events, unkept_events; /* unkept: those of the omitted ones that the recorder left out */
    bool leaves_out;                        /* chains that are in the file were not read, but for damage */
    uint64_t gap_refusals;       /* in gaps of the recorder: not all that was alive then is known */
    uint64_t unseen_passes;      /* backward passes without events: their steps are not counted */
    uint64_t (*digest_kinds)[4]; /* of events of which there are only digests: by kind and enum vt_layer;
                                    NULL: of none */
    uint64_t *event_numbers;     /* of each event, as recorded; NULL: its index */
    size_t window_count;         /* runs of events without gaps */
    struct vt_index node_stacks; /* by sequence: where nodes were made that blocks of whole chains name, but
                                    whose own   events are not here */
    struct vt_gap *gaps;         /* digest_events.h: where events are missing; in order */
    size_t gap_count;

    struct vt_trace_stack
        *stacks; /* index = stack id; 0 is the empty stack; ids without a record are empty */
    size_t stack_count;
    struct vt_trace_code *codes; /* index = code id */
    size_t code_count;
    struct vt_trace_place *places; /* 0: not known */
    size_t place_count;
    uint16_t *
        event_places; /* by event: index into places; NULL: all blocks are of default streams, or not known */
    const char **settings; /* that the program gave the framework's allocator while it ran, in order */
    size_t setting_count;
    struct vt_trace_device *devices;
    size_t device_count;

    struct vt_trace_gpu_use *gpu_uses; /* in order of time for each device */
    size_t gpu_use_count;

    struct vt_inspection *inspections; /* in order of their events */
    size_t inspection_count;
    uint64_t lost_inspections; /* of which only the event or only the text is here */
    struct vt_inspection_root *roots, *optimizers;
    size_t root_count, optimizer_count;

    struct vt_trace_tables *tables; /* private to analyzer/trace */
};

/* What a trace is opened for, if not as a whole: of a file with more events than about `budget_events`, the
 * others are there as digests. */
struct vt_window;
struct vt_reading {
    uint64_t budget_events;
    const struct vt_window *asked; /* events, as recorded, that are read whole; in any order */
    size_t asked_count;
    bool head_only; /* read only the first chunk: who was recorded */
};

/* Opens and reads PATH; reading: NULL = as a whole. On failure returns -errno (-EBADMSG for not a trace,
 * -ENODATA for one in which nothing was recorded, -EPROTO for a version that we cannot read) and writes one
 * line saying what and where to `error` (at least 512 bytes). A damaged or unfinished trace is no failure. */
int vt_trace_open(const char *path, const struct vt_reading *reading, struct vt_trace **trace, char *error,
                  size_t error_bytes);
void vt_trace_close(struct vt_trace *trace);

/* The number that an event has in the file. */
static inline uint64_t vt_trace_event_number(const struct vt_trace *trace, uint32_t event_index)
{
    return trace->event_numbers && event_index < trace->event_count ? trace->event_numbers[event_index]
                                                                    : event_index;
}

/* Text of a string id (marks, ranges), or NULL; name of a function id, or NULL. */
const char *vt_trace_string(const struct vt_trace *trace, uint64_t id);
const char *vt_trace_function(const struct vt_trace *trace, uint16_t id);

/* NULL = it is not described. */
static inline const struct vt_trace_device *vt_trace_device_of(const struct vt_trace *trace, int device_index)
{
    for (size_t i = 0; i < trace->device_count; i++)
        if (trace->devices[i].index == device_index)
            return &trace->devices[i];
    return NULL;
}

/* Name of a kernel thread id, "" if it is not known. */
const char *vt_trace_thread_name(const struct vt_trace *trace, uint32_t thread_id);

/* NULL if the address is unknown. Names are made on first use. */
const struct vt_trace_symbol *vt_trace_symbol(const struct vt_trace *trace, uint64_t address);

/* Line of a Python frame, 0 = unknown. */
int32_t vt_trace_python_line(const struct vt_trace *trace, const struct vt_python_frame *frame);

/* Finds all that vt_trace_python_line and vt_trace_code_is_library otherwise find, and keep, on first use.
 * After it, any thread may call them. */
void vt_trace_settle_frames(const struct vt_trace *trace);

/* Frames of a stack, innermost first: native (up to the interpreter), then Python. Returns how many there
 * are, of which at most `capacity` are written. */
size_t vt_trace_frames(const struct vt_trace *trace, uint32_t stack_id, struct vt_frame *frames,
                       size_t capacity);

/* The frame that a person would name for this stack: the innermost Python frame of the user's own code within
 * this process, else of a library that is no framework, else of all, else the innermost native frame of the
 * program's own code. Where only PyTorch's code is there, the autograd node, by its name alone
 * ("AddmmBackward0"), else the innermost frame that is not plumbing. What is whose: frameworks.h. False if
 * the stack is empty. */
bool vt_trace_user_frame(const struct vt_trace *trace, uint32_t stack_id, struct vt_frame *frame);

/* Whether that frame is in code that a compiler generated: its line is then that of the user's code. */
bool vt_trace_is_compiled(const struct vt_trace *trace, uint32_t stack_id);

/* vt_is_library_file of a code object's file; true if the file is not known. */
bool vt_trace_code_is_library(const struct vt_trace *trace, uint32_t code_id);

/* A key for a frame's code and line. */
static inline uint64_t vt_trace_line_key(const struct vt_trace *trace, const struct vt_python_frame *frame)
{
    return (uint64_t)frame->code_id << 32 | (uint32_t)vt_trace_python_line(trace, frame);
}

/* The key of a stack's innermost frame in the user's own code; 0 if there is none in this process. */
uint64_t vt_trace_own_line_key(const struct vt_trace *trace, uint32_t stack_id);

#endif
