/* The result of several traces: the processes of a job, and what they did beside each other. Made by job/.
 *
 * Times with the suffix _ns are since the first process began to record, by each host's own clock of the time
 * of day; those in a struct vt_state are since its process began. Text belongs to the job. Indices are into
 * the arrays of the job. */
#ifndef VT_JOB_H
#define VT_JOB_H

#include "report/instant.h"

#define VT_JOB_COLUMNS 400u
#define VT_JOB_NONE UINT32_MAX

/* Parameters, gradients, optimizer state: their module is known only from names that an inspection saw. */
#define VT_JOB_NAMED 3u
/* What one name had at the moment that is shown. */
struct vt_job_part {
    const char *name; /* "train.py:88 forward", "layers.3.attn"; "" = not known */
    const char *file; /* of a line; "" = not known */
    int32_t line;
    uint8_t phase;    /* of a line */
    uint8_t category; /* of most of it */
    uint64_t bytes;
    uint64_t named_bytes[VT_JOB_NAMED]; /* of these categories among them */
};
struct vt_job_parts {
    struct vt_job_part *items; /* by name, then phase */
    size_t count;
};

/* A parameter that an inspection named. */
struct vt_job_parameter {
    const char *name, *shape, *whole_shape; /* whole_shape: of all shards together; "" = not known */
    uint64_t bytes;
};

/* What NVML charged another process on the GPU with, from then on. */
#define VT_JOB_MOST_OTHERS 64
struct vt_job_other {
    uint64_t t_ns, bytes;
    uint32_t pid;
};
/* A device as one process knows it. */
struct vt_job_device {
    int32_t index;
    uint32_t card;
    const char *name; /* "" = not known */
    const char *uuid; /* "GPU-…"; NULL = not known */
    uint64_t total_bytes;
    struct vt_state peak, end;
    struct vt_state shown; /* what parts are of: the peak, or when memory ran out */
    uint64_t peak_ns;
    uint64_t reserved_peak_bytes; /* the most that the framework's segments had */
    uint64_t driver_peak_bytes;   /* without the context, as in all states here */
    bool context_told;            /* by NVML */
    struct vt_level
        *context_levels; /* what it reported, from change to change; none: context_bytes all the time */
    size_t context_level_count;
    uint32_t nvml_pid; /* the number that NVML has of this process: in a container it may be another */
    struct vt_job_other *others; /* in order; of VT_JOB_MOST_OTHERS at most */
    size_t other_count;
    bool context_known; /* apart from others: by NVML, or because no other process used the GPU */
    uint64_t context_bytes;
    uint64_t context_ns;      /* when its context was first seen */
    uint64_t context_end_ns;  /* of one without memory, if it ended before the process; else 0 */
    const char *context_line; /* of one without memory: what made it; "" = not known */
    struct vt_job_parts modules, lines;
    bool leaks_judged;
    uint64_t leaks, leak_bytes_per_step;
    const char *leak_line;   /* of the largest; "" = none, or not known */
    struct vt_level *levels; /* in order */
    size_t level_count;
    bool levels_are_coarse;       /* too many: only the largest of every few */
    struct vt_level *card_levels; /* what the driver reported as in use on the whole GPU; in order */
    size_t card_level_count;
    uint64_t *used_bytes, *column_ns; /* the process's own timeline; column_ns: where each column begins */
    size_t column_count;
};

/* A request that failed for lack of memory. */
struct vt_job_refusal {
    uint64_t t_ns, asked_bytes;
    uint64_t free_bytes; /* of the GPU, where free_known */
    bool free_known, ends_run;
    int32_t device_index;
    uint32_t step;
    uint8_t phase;
    const char *asker, *line, *file; /* in words; the line's name and its file; "" = not known */
    int32_t line_number;
};

/* Memory that a process shares with others, or has from one. */
struct vt_job_share {
    uint64_t identity; /* the same in each process that has it */
    uint64_t bytes, begin_ns, end_ns;
    int32_t device_index;
    bool is_foreign;         /* another process made it */
    const char *line, *file; /* where it was made, or imported; "" = not known */
    int32_t line_number;
};

struct vt_job_process {
    const char *path, *command, *host, *outcome;
    const char *simulated; /* of a dry run: the GPU and what was computed; NULL = a real one */
    const char *label;     /* "rank 3", of several runs "run 2 rank 3"; else "pid 4711" */
    uint32_t pid, parent_pid, parent, node, run;
    bool is_child;        /* `parent` is set */
    bool is_helper;       /* inherited the variables of a rank, but is not a rank */
    bool complete, ended; /* as struct vt_trace_facts */
    bool head_only;       /* only who was recorded is known */
    uint64_t start_realtime_ns, start_ns, end_ns;
    uint64_t gone_ns; /* until when its memory was there: of one that was killed, at least its last event */
    uint64_t dropped_events, omitted_events, event_count;
    uint32_t step_count;
    uint64_t *step_ns; /* when the first of them began, since the process began */
    size_t step_start_count;
    /* What the launcher said; -1 and NULL = nothing. */
    int32_t rank, local_rank, world_size, local_world_size, node_rank, attempt;
    const char *launcher, *launch_name; /* "torchrun"; its number or name of the run */
    bool by_group;                      /* inspections saw the rank in PyTorch's default group */
    const char *launch_key;             /* the same for processes that were launched together; "" = none */
    const char *visible_devices;        /* NULL = all */
    uint8_t boot_id[16];                /* zero = not known */
    uint64_t pid_namespace;
    /* Those with memory, then those on which it has only a context: of these only the fields of contexts are
     * set. */
    struct vt_job_device *devices;
    size_t device_count, bare_context_count;
    struct vt_job_refusal *refusals; /* the last VT_LISTED_REFUSALS at most */
    size_t refusal_count;
    struct vt_job_parameter *parameters; /* by name */
    size_t parameter_count;
    uint64_t parameter_elements; /* of all of them */
    uint64_t state_elements;     /* of one kind of optimizer state, such as exp_avg */
    struct vt_job_share *shares;
    size_t share_count;
    bool gathers;         /* whole copies of sharded parameters were seen */
    uint8_t identity[16]; /* of the recording: the same in copies; zero = not known */
    void *owner;          /* private to job/ */
};

/* What differs between one process and those like it. */
struct vt_job_difference {
    const char *name, *file; /* of several modules of one kind: "layers.*.mlp" */
    int32_t line;
    uint8_t phase, category;
    uint64_t bytes, usual_bytes; /* usual: the median of those like it */
};
struct vt_job_differences {
    struct vt_job_difference *items; /* the largest difference first */
    size_t count;
};
struct vt_job_odd {
    uint32_t process;
    int32_t device_index;
    uint64_t bytes, usual_bytes; /* in use at the moment that is compared */
    uint64_t usual_peak_bytes;   /* of an out of memory: the median of the others' own peaks */
    struct vt_job_differences categories, modules, lines;
};

enum vt_job_layout {
    VT_LAYOUT_UNKNOWN,  /* no evidence */
    VT_LAYOUT_SINGLE,   /* one process */
    VT_LAYOUT_DATA,     /* the same parameters in each */
    VT_LAYOUT_SHARDED,  /* ... each rank has a part, and gathers the rest */
    VT_LAYOUT_TENSOR,   /* the same modules, and each rank has a part of them */
    VT_LAYOUT_PIPELINE, /* of a run: groups with different modules */
    VT_LAYOUTS
};
static inline const char *vt_job_layout_name(unsigned layout)
{
    static const char *const names[VT_LAYOUTS] = {
        "unknown", "single", "data_parallel", "sharded_data_parallel", "tensor_parallel", "pipeline"};

    return layout < VT_LAYOUTS ? names[layout] : "?";
}

/* Processes of a run that have the same work. */
struct vt_job_group {
    uint8_t layout;
    const char *modules; /* "embed, layers.0–3"; "" = not known */
    const char *basis;   /* what the layout rests on, in a sentence */
    uint32_t *members;   /* by rank */
    size_t member_count;
    uint64_t median_bytes, most_bytes; /* of the peaks in use, of the largest device of each */
    uint32_t most_process;
    double imbalance;       /* most / median; 0 = no median */
    struct vt_job_odd *odd; /* outliers, the largest first */
    size_t odd_count;
};

/* Processes that were launched together. */
struct vt_job_run {
    uint32_t number;             /* from 1, of those with ranks; 0 = there are no two of these */
    bool has_ranks;              /* else one process started them all, or it is one */
    const char *launcher, *name; /* NULL = not known */
    const char *basis;           /* what says that they belong together */
    int32_t world_size, attempt; /* -1 = not known */
    uint32_t *members;           /* by rank */
    size_t member_count;
    uint32_t *missing; /* ranks without a trace */
    size_t missing_count;
    uint8_t layout;
    const char *basis_of_layout;
    struct vt_job_group *groups; /* of a pipeline: by stage */
    size_t group_count;
    double imbalance; /* of all peaks: most / median */
    uint64_t median_bytes, most_bytes;
    uint32_t most_process;
};

/* One process's part of a GPU when all its processes together held the most. */
struct vt_job_holder {
    uint32_t process;
    int32_t device_index;
    const char *label, *path;
    uint64_t bytes; /* without the context */
};
/* A process that has a context on a GPU, but never had memory there. */
struct vt_job_bare_context {
    uint32_t process;
    int32_t device_index;
    const char *label;
    uint64_t t_ns;
    bool bytes_known; /* by NVML */
    uint64_t bytes;
    const char *line; /* that made it; "" = not known */
};
struct vt_job_card {
    uint32_t node;
    int32_t number;   /* as the driver or CUDA_VISIBLE_DEVICES counts it */
    bool by_uuid;     /* else by its number, which may mislead */
    const char *uuid; /* "" = not known */
    const char *name;
    uint64_t total_bytes, most_bytes, most_ns; /* of first_card: when memory ran out, not the most */
    uint64_t context_bytes; /* of most_bytes: contexts of all these processes, and what has no trace */
    bool is_coarse;
    struct vt_job_holder *holders; /* largest first */
    size_t holder_count;
    struct vt_job_bare_context *bare_contexts; /* by process */
    size_t bare_context_count;
};

struct vt_job_node {
    const char *host;
    uint8_t boot_id[16];
    size_t process_count, card_count;
    int64_t clock_ahead_ns;   /* of that of each run's first rank, and corrected; 0 = by less than a step, or
                                 not known */
    uint64_t clock_within_ns; /* a step: how well that is known */
};

/* The most that a device of a process had in use in each part of the job's time. */
struct vt_job_row {
    uint32_t process;
    int32_t device_index;
    const char *label;
    uint64_t *used_bytes;
    size_t columns;
};

/* One allocation that several processes have: it counts once, in the one that made it. */
struct vt_job_shared {
    bool has_owner; /* else it has no trace here */
    uint32_t owner;
    int32_t device_index;    /* as the owner counts; without an owner, as the first user does */
    uint64_t bytes;          /* 0 = not known */
    const char *line, *file; /* where the owner made it; else where it was imported; "" = not known */
    int32_t line_number;
    uint32_t *users; /* processes that imported it */
    size_t user_count;
};

struct vt_job_unread {
    const char *path, *why;
    bool is_copy; /* of the trace of a process that is there by another */
};

/* When memory ran out somewhere: one entry for each process that it ended in, that ended soon after, or that
 * was killed. */
struct vt_job_fall {
    uint32_t process;
    const struct vt_job_refusal *refusal; /* NULL = its request did not fail */
    bool killed;                          /* it did not end in order: t_ns is that of its last event */
    bool same_card;                       /* its request failed on the same GPU as the first one */
    uint64_t t_ns;                        /* of the failed request, else of its end */
    int64_t after_ns;                     /* since the first failed */
};

/* One with the same work as the first that failed, at the moment of that failure. */
struct vt_job_neighbour {
    uint32_t process;
    uint64_t own_ns;            /* that moment, since its process began to record */
    struct vt_job_process then; /* its devices show what they had at that moment, by module and line too */
};

struct vt_job {
    const char *what;    /* the folder, or "a.vrt and 3 more" */
    const char *operand; /* the one that was named; NULL = several were */
    uint64_t start_realtime_ns, duration_ns;
    struct vt_job_process *processes; /* by run, rank, start */
    size_t process_count;
    struct vt_job_run *runs;
    size_t run_count;
    struct vt_job_card *cards;
    size_t card_count;
    struct vt_job_shared *shared; /* the largest first */
    size_t shared_count;
    struct vt_job_node *nodes;
    size_t node_count;
    struct vt_job_row *rows;
    size_t row_count;
    uint64_t *t_ns; /* where each column begins */
    size_t columns;
    const char *clock; /* how far the common clock can be trusted, in a sentence */
    bool clock_corrected;
    struct vt_job_unread *unread;
    size_t unread_count, copy_count; /* copies are among the unread */
    struct vt_job_fall *falls;       /* in order */
    size_t fall_count;
    struct vt_job_neighbour *neighbours; /* of the first that failed; vt_job_compare_first has read them */
    size_t neighbour_count;
    struct vt_job_odd *first_odd; /* the first that failed, compared with these; NULL = none */
    size_t first_odd_count;
    struct vt_job_card *first_card; /* its GPU at that moment: NULL = none ran out, or it is not known */
    size_t first_card_count;
    uint64_t dropped_events;
};

#endif
