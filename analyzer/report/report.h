/* The result of an analysis: plain structures that views print. vt_report_make fills all but the findings,
 * vt_diagnose (findings/findings.h) the findings that are wanted; vt_report_free frees both.
 *
 * Text belongs to the trace, the attribution or the report: it lives as long as these three. */
#ifndef VT_REPORT_H
#define VT_REPORT_H

#include "report/facts.h"
#include "report/findings.h"
#include "report/timeline.h"

struct vt_trace;
struct vt_attribution;
struct vt_needs;

struct vt_device_report {
    int index;
    const char *name; /* "" = not known */
    uint64_t total_bytes;
    struct vt_instant peak; /* first event with the most block bytes; without blocks, with the most
                               driver bytes that are not cached (in a pool) */
    struct vt_instant end;
    uint64_t reserved_peak_bytes;      /* the most that the framework's segments had at any time */
    uint64_t driver_peak_bytes;        /* the most that the driver had given, without the context */
    struct vt_instant at;              /* present only with --at */
    const struct vt_instant *shown;    /* what tables are about: `at` if present, else `peak` */
    struct vt_explanation explanation; /* of what is shown */
    struct vt_timeline timeline;
    /* Near the moment shown, as the driver reported; 0 = it did not. */
    uint64_t card_free_bytes, card_total_bytes;
    struct vt_leaks leaks;
    struct vt_holder_table holders; /* near what is shown; with VT_FIND_HOLDERS */
    struct vt_advices advices;
    struct vt_reserved_unused reserved_unused; /* at the peak; found with the advice */
    struct vt_inference inference;
    struct vt_fragmentation fragmentation; /* of what is shown */
    const char *cache_release;             /* returns empty segments to the GPU; NULL = not known */
    struct vt_graph_pools graph_pools;     /* of what is shown */
    struct vt_steps steps;
    struct vt_state last_read; /* after the last event at which the GPU's bytes in use were reported */
    struct vt_gpu_table card, last_card;     /* of what is shown, and of last_read */
    struct vt_context_levels context_levels; /* as NVML reported; with VT_FIND_CARD */
};

/* A request that failed for lack of memory. */
enum { VT_LISTED_REFUSALS = 1000 };
struct vt_oom {
    size_t number; /* 1 = the first */
    uint32_t event_index, step;
    uint64_t t_ns; /* since recording began */
    uint64_t asked_bytes;
    int device_index;
    uint8_t phase, layer; /* enum vt_layer */
    bool of_framework;
    /* What was free on the GPU then: as the driver reported just before or after; else its size minus what
     * this process held, some of which other processes may hold. */
    bool free_told; /* the driver reported it */
    bool free_known;
    uint64_t free_bytes, total_bytes; /* of the GPU, where free_known */
    uint32_t driver_tries; /* requests for it that the driver refused; for a framework, 0 = the framework
                              refused without asking the driver */
    uint64_t tried_bytes;  /* the smallest of these: a framework may ask for a whole segment */
    bool ends_run;         /* nothing was allocated after it */
    uint32_t stack_id;
    const char *limit; /* what sets the framework's own; NULL = not known */
    /* Who requested it; NULL = not known. In backward the place is that of the forward operator. */
    const char *asker; /* in words; never NULL */
    const struct vt_place *asker_place;
    uint32_t asker_stack;
    const char *operator_name, *asker_module, *asker_class;
    /* Known for the one that is shown only: */
    uint64_t went_on_ns;  /* to the last allocation after it; 0 = there was none */
    uint64_t other_bytes; /* of the GPU: of other processes, or not seen */
    uint64_t driver_bytes, categories[VT_CATEGORY_COUNT]; /* of this process on the device */
};

/* A request that the driver refused, and granted after the framework had freed its cache. */
struct vt_survived {
    uint64_t t_ns, bytes; /* since recording began; requested */
    uint32_t step;
    uint8_t phase;
    bool emptied;                 /* the framework is one that then empties its cache and tries again */
    const struct vt_place *place; /* NULL = not known */
};

struct vt_mark {
    const char *name;
    uint64_t t_ns; /* since recording began */
    uint32_t event_index;
};

/* What must hold for the blocks of an optimizer, and whether the labels agree with it. */
struct vt_report_identity {
    const char *optimizer;                /* its class */
    const char *kind;                     /* "states", "gradients" */
    const char *result;                   /* "holds", "restored", "broken" */
    uint32_t states;                      /* for each parameter; 0 = it is not about them */
    uint64_t expected_bytes, found_bytes; /* found: by the first labels */
    uint64_t blocks;                      /* whose label or evidence was changed for it */
    char text[400];                       /* a sentence or two; "" = it holds */
};

/* Where a trace lacks events: after the event before `first_event`, until `end_event`. Not everything that
 * was alive in between is known. Numbers are those of the file. */
struct vt_report_gap {
    uint64_t first_event, end_event, omitted_events;
    uint64_t t_ns, end_ns; /* of the events around it, since recording began */
};

struct vt_step_start {
    uint32_t step, event_index;
    uint64_t t_ns; /* since recording began */
};

/* Page-locked host memory of the process: it is on no device and in no sum. */
struct vt_host_memory {
    uint64_t peak_bytes, end_bytes; /* the most at any time; 0 = there never was any */
    struct vt_state peak;           /* when; no bytes are set */
    uint64_t shown_bytes;           /* at the moment shown; without --at at the peak */
    struct vt_groups lines, stacks; /* of these */
};

struct vt_report {
    const struct vt_trace *trace;             /* for makers; opaque to views */
    const struct vt_attribution *attribution; /* for makers; opaque to views */
    struct vt_places *places;                 /* owned */
    struct vt_trace_facts facts;
    uint64_t duration_ns;
    size_t event_count, allocation_count; /* that were read */
    uint32_t step_count;
    bool has_operators;               /* stacks name operators */
    struct vt_device_report *devices; /* those that held any memory, or the requested one */
    size_t device_count;
    struct vt_host_memory host;
    struct vt_mark *marks; /* in order */
    size_t mark_count;
    struct vt_report_gap *gaps; /* in order */
    size_t gap_count;
    struct vt_report_identity *identities; /* those that could be checked */
    size_t identity_count;
    struct vt_step_start *step_starts; /* of steps from 1 on, in order */
    size_t step_start_count;
    /* Out of memory, in order: what frameworks reported, and what the driver refused to other code. */
    struct vt_oom *refusals;
    size_t refusal_count;
    size_t shown_refusal; /* index: the last, or that of --at */
    /* Of them, those that documents list: at most VT_LISTED_REFUSALS, with the shown one. */
    const struct vt_oom *listed_refusals;
    size_t listed_refusal_count;
    size_t survived_count; /* requests that the driver granted after the framework had freed its cache */
    struct vt_survived survived; /* the largest of them, the first of equal ones */
    const char *untold_limit;    /* a limit by which a framework may have refused more requests, which are not
                                    here; NULL = none */
    struct vt_shortage shortage;
    struct vt_empty_context *bare_contexts; /* by device */
    size_t bare_context_count;
    bool has_at;        /* a moment is shown beside the peak */
    char at_label[256]; /* of what is shown: "mark 'warm'", "the step's largest moment", "the peak" */
};

/* ONLY: `at` chooses among the times that memory ran out. */
enum vt_at_oom { VT_AT_OOM_NEVER, VT_AT_OOM_IF_IT_ENDED_THE_RUN, VT_AT_OOM_ONLY };

struct vt_report_options {
    int device_index; /* -1 = all */
    /* a category, FILE:LINE, owner or module, or part of such a name; NULL = none */
    const char *explain;
    const char *default_at; /* the moment without `at` and "oom"; NULL = the peak */
    const char *at; /* peak|reserved|end|oom[#k]|mark:NAME[#k]|step:N|event:N|TIME (e.g. 3.2s), NULL = none */
    unsigned groups;         /* 1u << enum vt_by of the groups to make, 0 = all, VT_NO_GROUPS = none */
    bool shown_only;         /* groups only for the moment shown, not for every moment */
    unsigned depth;          /* levels of modules' names, what is below counts with its ancestor; 0 = all */
    bool blocks;             /* list those of the moment that the tables show */
    uint8_t oom;             /* enum vt_at_oom: without `at`, when to take "oom" */
    size_t timeline_columns; /* 0 = VT_TIMELINE_COLUMNS; or VT_NO_TIMELINE */
    uint8_t axis;            /* enum vt_axis, of the timeline */
    const char *from, *to; /* what the timeline covers: moments as `at`; NULL = from the start, to the end */
};
#define VT_NO_GROUPS (1u << VT_BY_COUNT)
#define VT_NO_TIMELINE SIZE_MAX
#define VT_TIMELINE_COLUMNS 1000u /* finer than a terminal: the text view draws from it at any width */

/* -EINVAL with a reason in `error` for an `at` that is malformed or is not in the trace, and for a device
 * that the trace does not know. */
int vt_report_make(const struct vt_attribution *attribution, const struct vt_report_options *options,
                   struct vt_report **report, char *error, size_t error_bytes);
void vt_report_free(struct vt_report *report);
/* NULL = it has no such device. */
struct vt_device_report *vt_report_device(const struct vt_report *report, int device_index);
/* The number that an event has in the file, of its index. */
uint64_t vt_report_event_number(const struct vt_report *report, uint64_t event_index);
/* That of the last event before the next one that is not left out: where something ends that ends with it. */
uint64_t vt_report_last_event_number(const struct vt_report *report, uint64_t event_index);

/* Any memory at any time, of any kind but context. */
bool vt_held_memory(const struct vt_report *report, int device_index);

/* The events that a report with these options needs in full, where the trace has only a digest of them. */
void vt_report_needs(const struct vt_attribution *attribution, const struct vt_report_options *options,
                     struct vt_needs *needs);

const char *vt_by_name(unsigned by); /* of enum vt_by: "category", "module", … */

/* All-zero ones too. */
void vt_fragmentation_free(struct vt_fragmentation *fragmentation);

#endif
