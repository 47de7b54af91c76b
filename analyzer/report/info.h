/* What is in a trace, without judgement: `vramtrace info`. */
#ifndef VT_INFO_H
#define VT_INFO_H

#include "base/words.h"
#include "report/facts.h"
#include "report/places.h"

struct vt_attribution;

#define VT_LAYERS 4

struct vt_device_facts {
    int index;
    const char *name;     /* "" = not known */
    uint64_t total_bytes; /* 0 = not known */
};

struct vt_setting_facts {
    const char *variable; /* NULL = the program set it while it ran */
    const char *value;
};

struct vt_kind_counts {
    const char *kind;
    uint64_t layers[VT_LAYERS]; /* events, by enum vt_layer */
};

struct vt_inspection_facts {
    uint64_t t_ns, duration_ns, processor_ns;
    char reasons[96]; /* words, apart by ", " */
    uint64_t tensors, holders;
    bool census, census_ended; /* it had one; which saw everything */
    bool knows_collections;
    uint64_t collections; /* runs of Python's garbage collector so far */
    uint64_t census_objects;
    const char *failure; /* "" = none */
};

/* Text belongs to the trace. */
struct vt_info {
    struct vt_trace_facts facts;
    uint64_t file_bytes, chunk_bytes;
    uint64_t disk_bytes; /* without holes, such as the ring of a process that ended in order */
    uint64_t ring_bytes;
    const char *program_version, *host, *working_folder, *executable; /* NULL = not known */
    uint32_t format_version, parent_pid, stop_reason, python_version, python_unsupported_minor,
        python_free_threaded;
    struct vt_setting_facts *settings; /* of memory, that were in force */
    size_t setting_count;
    struct vt_device_facts *devices;
    size_t device_count;
    uint64_t layers[VT_LAYERS];
    struct vt_kind_counts *kinds; /* those that occur */
    size_t kind_count;
    /* Where the replay disagrees with the trace or the framework. */
    uint64_t unknown_frees, doubled_allocations, total_mismatches;
    /* Inspections, and the tensors that they saw. */
    uint64_t inspection_count, inspection_ns, failed_inspections, lost_inspections;
    const char *failure; /* the first, "" = none */
    uint64_t tensors, homeless, misplaced;
    struct vt_inspection_facts *inspections;
    uint64_t census_count, census_ended_count;
    uint32_t step_count;
};

void vt_info_make(const struct vt_attribution *attribution, struct vt_info *info);
void vt_info_free(struct vt_info *info);

#define VT_EVENT_FRAMES 512
#define VT_EVENT_FLAGS 8
#define VT_EVENT_TOP_FRAMES 3

/* Names that an event refers to. */
struct vt_event_names {
    const char *name;             /* of a mark or range; NULL = none */
    const char *function, *label; /* the hooked function, the runtime call around it; NULL = none */
    uint32_t thread;              /* 0 = not known */
};

/* One event, with its names. Text belongs to the trace. */
struct vt_event_facts {
    uint32_t index, stack_id; /* stack 0 = none */
    uint64_t t_ns;            /* since recording began */
    const char *kind, *layer;
    int device_index; /* -1 = host or not known */
    uint64_t address, bytes, detail, total_bytes, sequence;
    int64_t change_bytes;     /* of a measured difference, instead of bytes */
    bool is_change, is_plain; /* one of them: which of the two it has */
    struct vt_event_names names;
    const char *flags[VT_EVENT_FLAGS];
    uint32_t flag_count;
    char flag_list[72]; /* "host,async" */
    /* Set by vt_event_frames_read: */
    char address_text[24];                          /* "0x…" */
    const char *top_functions[VT_EVENT_TOP_FRAMES]; /* innermost first */
    uint32_t top_count;
    struct vt_frame at; /* the user's line */
    bool has_at;
    const struct vt_frame *frames; /* all; NULL = not requested */
    size_t frame_count;
};

void vt_event_facts_read(const struct vt_trace *trace, uint32_t event_index, struct vt_event_facts *facts);
/* `frames` has space for VT_EVENT_FRAMES and outlives the facts; NULL = only the innermost are wanted. */
void vt_event_frames_read(const struct vt_trace *trace, struct vt_frame *frames,
                          struct vt_event_facts *facts);

#endif
