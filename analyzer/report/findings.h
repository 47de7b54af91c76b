/* Findings: what findings/ fills in a report. Text that is not owned lives as long as the report. */
#ifndef VT_FINDINGS_H
#define VT_FINDINGS_H

#include "report/instant.h"

#define VT_LEAK_LINES 3u
#define VT_LEAK_STEPS 6u /* with fewer, leaks cannot be judged */
#define VT_STEP_SPREADS 6

/* ---- Leaks ---- */

/* What each step keeps, by the line that made it. */
struct vt_leak_part {
    uint32_t stack_id;
    uint8_t category;
    uint64_t bytes_per_step, bytes, blocks;
    const struct vt_place *place; /* NULL = not known */
    const char *operator_name;    /* NULL = not known */
};

/* A Python name that an inspection's census saw hold a tensor of a leak. */
struct vt_leak_holder {
    const char *name; /* "list 'history' in __main__, 412 items"; NULL = none is known */
    const char *kind; /* "local", "global", "attribute", "cell", "traceback", "cycle" … */
    const char *way;  /* all steps from the tensor to the name */
    const char *dtype, *shape;
    const char *node; /* of autograd that made the tensor, "" = none */
    uint64_t bytes, storage_bytes;
    uint32_t stack_id; /* that made a tensor which it holds itself; 0 = it holds them by a graph */
    uint32_t step;     /* in which an inspection saw it: the number of items in `name` is that of then */
};

struct vt_leak {
    uint8_t verdict;  /* enum vt_leak_verdict of findings/leaks/ */
    const char *name; /* of the verdict */
    char remedy[192]; /* the same, or with what the program's own framework has against it */
    bool is_leak;     /* false: it grows, but nothing is lost */
    uint8_t category; /* of most of its bytes */
    uint64_t bytes,
        blocks;     /* alive when the last step begins; of a cycle: the most that waited for the collector */
    bool collected; /* of a cycle that the collector freed */
    uint64_t bytes_per_step;
    uint32_t first_step, last_step; /* that made it: the first and the last that were seen */
    uint32_t forecast_step; /* in which memory runs out if all leaks of the device go on; 0 = it did, or not
                               known */
    uint32_t stack_id;      /* of the block that keeps the others alive, or of the largest; 0 = none */
    bool rebuilt;           /* one tensor, replaced in each step by a larger one */
    const char *owner, *module; /* of that block, NULL = not known */
    struct vt_leak_holder holder;
    const char *holder_unknown; /* why the holder has no name, and what to do; NULL = it has one, or cannot
                                   have one */
    const char *first_owner, *last_owner; /* without a holder: the names that modules and optimizers give it;
                                             NULL = none, or all the same */
    uint64_t owned_blocks;                /* with such a name */
    struct vt_place lines[VT_LEAK_LINES]; /* to check, the likeliest first */
    size_t line_count;
    struct vt_leak_part *parts; /* largest first; owned */
    size_t part_count;
    uint32_t *kept; /* allocations that it keeps: indices in the replay; owned */
    size_t kept_count;
    char why[512]; /* the evidence, in a sentence */
};

struct vt_leaks {
    struct vt_leak *items; /* leaks first, by bytes per step, then the rest */
    size_t count, leak_count;
    uint32_t step_count; /* of the trace */
    bool judged;         /* whether growth per step could be measured */
    char unjudged[200];  /* if not, why, in a sentence, and what to do */
    struct vt_leak_part
        *remaining; /* if not: still allocated at the end, by line, the most bytes first; owned */
    size_t remaining_count;
    uint64_t bytes_per_step; /* of all leaks of device memory */
    /* The least that was allocated when a step of the earlier or the later half began; the first steps, which
     * may warm up, are in no half. */
    uint64_t early_bytes, late_bytes;
};

/* ---- Holders ---- */

/* What a name of the program keeps. */
struct vt_holder_row {
    const char *name;            /* "list 'history' in __main__, 412 items", "model net (Sequential)" */
    const char *from;            /* the variable that leads to it; NULL = it is one itself */
    uint64_t tensors;            /* that were found under it */
    uint64_t bytes, graph_bytes; /* graph_bytes: of these, kept by the autograd graphs of its tensors */
    uint64_t categories[VT_CATEGORY_COUNT];
};

/* Who keeps what, at one inspection. The rows sum to held_bytes; the rest of `bytes` no name reaches. */
struct vt_holder_table {
    bool present;
    const char *unknown; /* why there are no rows; NULL = there are */
    uint32_t number;     /* of the inspection, from 1; 0 = there was none */
    uint32_t event_index, step;
    uint8_t phase;
    bool before;                                 /* it came before the moment shown */
    uint64_t t_ns;                               /* since recording began */
    uint64_t distance_ns;                        /* from the moment shown */
    uint64_t bytes, held_bytes;                  /* in use then; kept by the rows */
    uint64_t rest_categories[VT_CATEGORY_COUNT]; /* of what no name reaches */
    struct vt_holder_row *rows;                  /* largest first; owned */
    size_t row_count;
};

/* ---- Advice ---- */

/* How much lower memory would be, from an event on until the next saving. */
struct vt_saving {
    uint32_t event;
    uint64_t bytes; /* modulo 2^64: may be less than 0 */
};

/* What an advice would have saved over time. Of a long trace a saving is the least of several events. */
struct vt_savings {
    struct vt_saving *items; /* owned */
    size_t count;
    uint64_t
        *allocations; /* bits: what it would have freed, by index in the replay; while advice is searched */
};

struct vt_advice {
    const char *kind; /* as in findings/findings.def; of the GPU: gpu_advice.c */
    char what[192], why[400];
    const char *how;   /* the code for it, "" = `what` has it */
    char module[160];  /* that it is about, "" = the line of stack_id */
    const char *where; /* the module's or the line's name, "" = neither is known */
    char change[192];  /* by which a dry run tries it, "" = it cannot */
    uint32_t stack_id; /* 0 = none */
    uint64_t bytes;    /* how much lower the peak would be; for the GPU, see gpu_advice.c */
    double share;      /* of the peak; of the GPU's bytes in use */
    struct vt_savings savings;
    /* Numbers, from 0, of others in the list that would free some of the same allocations. */
    uint64_t *same; /* owned */
    size_t same_count;
};

struct vt_advices {
    struct vt_advice *items; /* leaks first, then the largest */
    size_t count;
    uint64_t peak_bytes; /* for the GPU: in use on it */
};

/* What the allocator kept in empty segments at the peak. */
struct vt_reserved_unused {
    uint64_t bytes;     /* that the remedy returns to the GPU; 0 = none, or no remedy is known */
    double share;       /* of the reserved bytes then */
    const char *remedy; /* a call of the framework; NULL = none */
};

/* ---- Every byte of a GPU ---- */

struct vt_gpu_row {
    /* "category", "library", "cached", "graph_memory", "modules", "graphs", "streams", "settings", "context",
     * "process", "context_and_processes", "unlisted", "unexplained"; told: "foreign", "host", "reserved", and
     * "process": listed, but its bytes are not told, or it may be this one */
    const char *kind;
    const char *name;    /* of the category, the library, who made a further context; NULL = has none */
    const char *command; /* of a process; NULL = not known */
    uint32_t pid;        /* of a process, as the driver reports it */
    int64_t bytes;
    bool known;           /* the bytes; false only for processes that are listed without bytes */
    int64_t module_bytes; /* of modules: what was loaded with a module, not at a kernel's first use */
};

/* Whether the bytes of other processes are known apart from this one's context, or why not. */
#define VT_PROCESSES_TOLD "told"
#define VT_PROCESSES_NO_NVML "no_nvml"
#define VT_PROCESSES_NOT_LISTED "not_listed"     /* NVML refused to list processes */
#define VT_PROCESSES_WITHOUT_THIS "without_this" /* none of those listed is surely this one */
#define VT_PROCESSES_WITHOUT_BYTES "without_bytes"
#define VT_PROCESSES_DO_NOT_FIT                                                                              \
    "do_not_fit" /* the process that seems to be this one has less than it, or more than the GPU */

/* At one moment. The rows add up to device_bytes. */
struct vt_gpu_table {
    bool present;
    uint32_t event_index;
    uint64_t t_ns;           /* of the moment, since recording began */
    const char *source;      /* "nvml" or "driver" */
    uint64_t measured_ns;    /* when the source reported the bytes in use */
    bool steady;             /* our own driver memory did not change then */
    const char *processes;   /* VT_PROCESSES_* */
    bool processes_known;    /* VT_PROCESSES_TOLD; else contexts and other processes are one row */
    bool nested;             /* NVML may not list processes outside of this one's container */
    uint64_t device_bytes;   /* in use: as reported, plus moved_bytes */
    int64_t moved_bytes;     /* how much more this process had at the moment than when it was reported */
    uint64_t total_bytes;    /* of the GPU, as the source reports it */
    uint64_t returned_bytes; /* what pools had given back to the device by then, which no event shows: not
                                in the row of cached bytes */
    int64_t own_unexplained_bytes;  /* where processes_known: what NVML charges this process with beyond its
                                       rows */
    struct vt_gpu_row *rows, *told; /* owned; reported beside device_bytes */
    size_t row_count, told_count;
    struct vt_advices advices; /* of this moment, largest first */
};

/* What a device took for this process beside its own memory. */
struct vt_context_levels {
    struct vt_level *items; /* in order; owned */
    size_t count;
};

/* ---- Contexts without memory ---- */

/* A device on which the process had a context, and never any memory: mostly code that ran before the device
 * was chosen. */
struct vt_empty_context {
    int device_index;
    uint64_t t_ns; /* when the first was made */
    bool ended, bytes_known;
    uint64_t end_ns;              /* when the last one ended, if all did before the process */
    uint64_t bytes;               /* that NVML charged the process with there, in its last report */
    const struct vt_place *place; /* who made the first; NULL = not known */
};

/* ---- Fragmentation ---- */

struct vt_hole {
    uint64_t address, bytes;
    bool usable; /* some request that was ever made of its pool fits in it */
};

/* A run of driver memory that blocks are cut from. Adjacent mappings (expandable segments) are one. */
struct vt_segment {
    uint64_t address, bytes, block_bytes, largest_hole_bytes;
    uint64_t free_bytes;           /* bytes - block_bytes */
    uint32_t allocation;           /* index in the replay, of the first of the run */
    const struct vt_block *blocks; /* by address */
    const struct vt_hole *holes;
    uint32_t block_count, hole_count;
    /* The block in it that lives longest after the moment; the oldest one if several are never freed. The
     * segment cannot be returned before this block is freed. NULL = no block is in it. */
    const struct vt_block *pin;
    uint32_t pin_count; /* 0 or 1 */
    const char *pool;   /* "small" or "large", after the requests that it serves */
    bool small;
    bool captured;   /* only graphs that were captured into it use it; set if there are several streams */
    uint32_t place;  /* trace/places.h: of its stream; 0 = not known, or there is only one stream */
    uint32_t stream; /* 0 = the default stream; else its number on the device, in order of first use */
};

/* Segments with holes whose pins one line made. */
struct vt_pin {
    const char *name; /* of the place; "" = not known */
    uint64_t segments;
    uint64_t bytes, kept_bytes; /* of the pins; of the segments' holes */
    uint64_t categories[VT_CATEGORY_COUNT];
};

struct vt_fragmentation {
    struct vt_segment *segments; /* by address */
    size_t segment_count;
    struct vt_pin *pins; /* those that keep most first */
    size_t pin_count;
    struct vt_block *blocks; /* by address; segments point into them */
    size_t block_count;
    struct vt_hole *holes; /* by address */
    size_t hole_count;
    uint64_t reserved_bytes, block_bytes, hole_bytes;
    uint64_t empty_bytes;      /* of segments without any block */
    uint64_t returnable_bytes; /* of these, what `release` returns to the GPU */
    const char *release;       /* the framework's code for it; NULL = none, or not known */
    const char *setting;       /* with which holes serve more requests; NULL = none, or not known */
    const char *grows;         /* a setting that avoids allocating half the GPU at once, most of it unused */
    uint64_t kept_bytes;       /* holes of the others */
    /* By stream; 0 where there is only one, or streams are not known. Without segments of captured graphs. */
    uint32_t stream_count, idle_stream_count; /* that have segments; of these, without any block */
    uint64_t idle_stream_bytes;               /* of the segments of the latter */
    uint64_t side_free_bytes;                 /* free on all streams but the one with most */
    uint64_t
        stream_kept_bytes;   /* the most of kept_bytes that one stream has; all of it if there is only one */
    uint64_t unusable_bytes; /* of holes that no request ever made of their pool fits in */
    uint64_t largest_hole_bytes;
    char *advice[4]; /* what would return free bytes to the GPU, or let them serve a request */
    uint32_t advice_count;
    /* For each pool (0: large, 1: small): the smallest and the largest request ever made, 0 = none. */
    bool has_pools; /* small requests and large ones have segments of their own */
    uint64_t least_request_bytes[2], largest_request_bytes[2];
};

/* ---- CUDA graphs ---- */

/* Segments that only captured graphs use, at one moment. Captures that share memory share a pool. */
struct vt_graph_pool {
    uint64_t bytes, block_bytes, free_bytes; /* of its segments; of the blocks in them; bytes - block_bytes */
    uint64_t launches;                       /* of its graphs, so far */
    uint32_t graphs;                         /* that can be launched */
    uint32_t abandoned_graphs;               /* that were */
    bool abandoned;                          /* no graph is left: emptying the cache returns what is free */
    uint32_t first_event;                    /* of its first capture */
    const struct vt_place *place;            /* of its first capture; NULL = not known */
};

struct vt_graph_pools {
    struct vt_graph_pool *items; /* largest first */
    size_t count;
    uint64_t bytes, free_bytes; /* of all */
};

/* ---- Steps ---- */

struct vt_step {
    uint32_t step; /* 0 = all before the first */
    uint32_t first_event, last_event;
    uint64_t t_ns, duration_ns; /* to the begin of the next step; of the last one, to its last event */
    struct vt_state peak;       /* as `report --at step:N` */
    struct vt_state end;
    uint64_t before_bytes;   /* in use at the end of the step before */
    bool large, slow;        /* stands out */
    const char *outliers[2]; /* "peak", "time": by what it stands out */
    uint32_t outlier_count;
};

struct vt_steps {
    struct vt_step *items; /* in order */
    size_t count;
    /* For steps from 1 on; 0 where there are too few to say which stand out. */
    uint64_t median_peak_bytes, median_ns;
};

/* ---- Inference ---- */

/* A program that only runs models. A step is a mark's, else a forward pass: an outermost call of a model. */
struct vt_inference {
    bool found, room_known, requests_known;
    size_t steps, forward_passes;
    size_t requests;                               /* calls of one function with several passes each */
    const char *request_function;                  /* its name */
    uint32_t concurrent, threads;                  /* calls at one time at most; threads that made them */
    uint64_t step_bytes, largest_step_bytes;       /* over what was there before: the median, the most */
    uint64_t request_bytes, largest_request_bytes; /* the same of requests; 0 = not known */
    uint64_t cache_bytes;          /* the most that keys and values held when a request ended */
    uint64_t cache_bytes_per_call; /* by which they grow, 0 = they do not */
    size_t growth_calls;           /* in which this was seen */
    uint64_t pool_bytes; /* of those laid out outside of the model's calls, if they are most; else 0 */
    uint64_t pool_blocks, pool_tokens, pool_used_blocks; /* in it, as inspections saw; 0 = not known */
    uint64_t pool_sequences; /* of the greatest length that the server allows, `longest`; 0 = not known */
    uint64_t longest;
    uint64_t graph_bytes; /* that CUDA graphs keep for themselves; 0 = none */
    uint32_t graphs;
    uint64_t requests_at_once; /* the most that an inspection saw a server work on; 0 = not known */
    uint64_t sequences;        /* that a call works on, by the shape of its keys; 0 = not known */
    uint64_t token_bytes, sequence_bytes; /* of one sequence: by which it grows, and at most; 0 = not known */
    uint64_t room_bytes;            /* free on the GPU and in the framework's cache at the moment shown */
    bool calls_known, caches_known; /* the two below */
    const char *fit; /* how far that is known: "simulated", "at least", "at most" (schema.def); NULL = not */
    uint64_t calls_that_fit;  /* after the last that grew, if it keeps growing */
    uint64_t caches_that_fit; /* without growth: more caches like the one at the moment shown */
    uint64_t copied_bytes;    /* of that one */
};

/* ---- Out of memory ---- */

/* Blocks of one line and category that would have been freed next. */
struct vt_freed_next {
    struct vt_block first; /* the first of them */
    uint64_t bytes, blocks;
    uint32_t after_events; /* from the failed request to the first of these frees */
    uint8_t phase;         /* in which such blocks are freed */
};

/* What filled the GPU unnecessarily, or simply its size. */
struct vt_cause {
    const char *kind;             /* "leak", "failed_try" … (findings/findings.def) */
    bool certain;                 /* examined; false: an observation */
    const char *examined;         /* in words */
    const char *remedy;           /* in a sentence */
    char what[256];               /* in words, without its bytes */
    uint64_t bytes;               /* on the GPU then; for a request, what it requested */
    double share;                 /* of the GPU */
    bool suffices;                /* without these bytes the request would have been granted */
    const struct vt_place *place; /* where they were made, NULL = not known or many */
    const char *holder;           /* the Python name that holds them, NULL = not known */
};
#define VT_CAUSES 8u

/* What the failed request that a report shows was about. */
struct vt_shortage {
    const struct vt_oom *refusal;          /* NULL = none, or of no device */
    const struct vt_device_report *device; /* its `at` is the refusal */
    const struct vt_instant *at;
    size_t number;           /* ordinal of the failed request, from 1 */
    bool is_last, is_chosen; /* the last of all, or another that --at chose */
    uint64_t missing_bytes;  /* beyond what was free on the GPU; 0 = none, or not known */
    struct vt_fragmentation cache;
    struct vt_cause causes[VT_CAUSES]; /* the likeliest first */
    size_t cause_count;
    struct vt_freed_next *freed; /* soonest first */
    size_t freed_count;
    bool freed_seen; /* as it happened; else estimated from the lives of earlier blocks of the same stacks */
};

#endif
