/* Views: a report in memory, and the writers that show it (text, JSON; later html, exports): one table. */
#ifndef VT_VIEW_H
#define VT_VIEW_H

#include <stdio.h>

#include "attribute/sums.h"
#include "base/units.h"
#include "diagnose/leaks/leaks.h"

/* What --by takes: ways of grouping, then the blocks themselves. */
enum vt_by {
    VT_BY_CATEGORY,
    VT_BY_MODULE,
    VT_BY_KIND, /* modules of one class */
    VT_BY_OWNER,
    VT_BY_LINE,
    VT_BY_STACK,
    VT_BY_OP,
    VT_BY_COUNT, /* ways of grouping */
    VT_BY_BLOCK = VT_BY_COUNT,
    VT_BY_CHOICES
};

struct vt_group {
    char *name;        /* "train.py:88 forward", "layers.3.attn", "aten::addmm", …; "" = not known */
    uint32_t stack_id; /* one stack of it, for showing frames; 0 = none */
    uint32_t forward_stack_id; /* by stack: of the forward operator whose backward it is; 0 = none known */
    uint64_t bytes;
    uint64_t blocks;
    /* By line: where. NULL and 0 elsewhere and where it is not known. Owned by the trace. */
    const char *file, *function;
    int32_t line;
    uint8_t phase; /* by line */
    /* By owner: one of them, NULL = it is not known by name; what its tensors have of the bytes; of all its
     * allocations the weakest evidence; and the module, NULL = none. */
    const struct vt_owner *owner;
    uint64_t tensor_bytes;
    uint8_t evidence;
    const char *module;
    /* By module and by kind. */
    char *dtype_shape;                   /* by owner: "float32 1024x256" */
    const char *class_name;        /* by module; by owner its looks; NULL or "" = not known */
    uint64_t temporary_peak_bytes; /* the most of temporaries at once, at any time */
    uint64_t modules;              /* by kind: how many of it hold something */
    /* Of the group without a name: what Python code made outside of any module's call. */
    uint64_t outside[VT_CATEGORY_COUNT];
    uint64_t categories[VT_CATEGORY_COUNT];
};

struct vt_groups {
    struct vt_group *items; /* largest first */
    size_t count;
};

/* Something alive that counts in a category: a framework's block, or memory used as the driver gave it. */
struct vt_block {
    uint32_t allocation; /* index in replay->allocations */
    /* How-manieth of the framework's allocations on its device it is, from 1, those that left no trace not
     * counted; 0 = not the framework's. */
    uint64_t number;
};

/* One instant of one device: the state just after trace->events[event_index]. */
struct vt_instant {
    bool present;
    uint32_t event_index;
    uint64_t t_ns; /* since recording began */
    uint32_t step;
    uint8_t phase;
    struct vt_counts counts;
    uint64_t categories[VT_CATEGORY_COUNT];
    uint64_t rounding_bytes;                /* of the categories */
    uint64_t evidence[VT_EVIDENCE_COUNT];   /* of the categories' bytes but cached and context */
    uint64_t kinds[VT_ALLOCATION_HOST + 1]; /* bytes alive by enum vt_allocation_kind */
    struct vt_groups groups[VT_BY_COUNT];
    struct vt_block *blocks; /* largest first; only where they were asked for */
    size_t block_count;
};

/* Why some of what is alive at an instant has its category. */
struct vt_reason {
    uint8_t category, evidence;
    uint16_t rule;
    struct vt_rule_source source; /* its name is "" by look or by kind */
    uint32_t inspection;                /* number, from 1, of the one that saw the largest block; 0 = none did */
    const struct vt_inspection_tensor *tensor; /* what it saw there */
    uint64_t bytes, blocks;
    uint32_t allocation; /* of the largest */
};
/* Everything that a name stands for at an instant. */
struct vt_explanation {
    const char *what; /* as asked; NULL = nothing was */
    const char *way,
        *way_label; /* how it was understood: "category", "a category"; NULL = nothing is called so */
    uint64_t bytes, blocks;
    struct vt_reason *reasons; /* largest first */
    size_t count;
};

/* Each column holds the state at the largest driver-less-cached instant inside it, so that no peak is lost.
 */
struct vt_timeline {
    size_t columns;
    uint64_t *t_ns; /* since recording began */
    uint64_t (*categories)[VT_CATEGORY_COUNT];
    uint64_t *driver_bytes;
    uint32_t *step;
    uint8_t *phase;
};

struct vt_device_report {
    int index;
    const char *name;
    uint64_t total_bytes;
    struct vt_instant peak; /* first event with the most block bytes; without blocks, with the most
                               driver bytes that are not cached (in a pool) */
    struct vt_instant end;
    struct vt_instant at;              /* present only with --at */
    struct vt_explanation explanation; /* of what the tables show */
    struct vt_timeline timeline;
    struct vt_leaks leaks;
};

/* A request that was refused. */
struct vt_refusal {
    uint32_t event_index;
    uint64_t t_ns; /* since recording began */
    uint64_t asked_bytes;
    int device_index;
    uint8_t layer; /* enum vt_layer */
    uint32_t step;
    uint8_t phase;
    /* What the card had free then: as the driver told just before or after; else what its size leaves beside
     * this process, which other processes may have taken. */
    uint64_t free_bytes;
    bool free_told; /* by the driver */
    bool free_known;
    uint64_t total_bytes;  /* of the card, where free_known */
    uint32_t driver_tries; /* requests that the driver refused for it: of a framework, 0 = it refused by itself */
    bool ends_run;         /* nothing was allocated after it */
    uint32_t asker_stack;  /* that tells who asked: the forward operator's where it was asked in backward */
    const char *asker_module; /* NULL = not known */
    /* What this process held on the device; known for the one that is shown only. */
    uint64_t driver_bytes, categories[VT_CATEGORY_COUNT];
};

struct vt_report {
    const struct vt_trace *trace;
    const struct vt_attribution *attribution;
    uint64_t duration_ns;
    struct vt_device_report *devices; /* those that held any memory, or all asked for */
    size_t device_count;
    /* Out of memory, in order: what the framework told, and what the driver refused to others for lack of
     * memory. */
    struct vt_refusal *refusals;
    size_t refusal_count;
    size_t shown_refusal;  /* index of the one that is told about: the last, or the one of --at */
    size_t survived_count; /* what the driver refused first and gave when the framework had freed its cache */
    uint64_t survived_bytes; /* the largest of them */
    char at_label[256];      /* "mark 'warm'", "the step's largest moment"; "" without --at */
};

/* ONLY: `at` itself chooses among the times that memory ran out. */
enum vt_at_oom { VT_AT_OOM_NEVER, VT_AT_OOM_IF_IT_ENDED_THE_RUN, VT_AT_OOM_ONLY };

struct vt_report_options {
    int device_index; /* -1 = all */
    /* a category, FILE:LINE, owner or module, or part of such a name; NULL = none */
    const char *explain;
    const char *at;          /* peak|end|oom[#k]|mark:NAME[#k]|step:N|TIME (e.g. 3.2s, 150ms), NULL = none */
    unsigned groups;         /* 1u << enum vt_by of the groups to make, 0 = all */
    unsigned depth;          /* levels of modules' names, what is below counts with its ancestor; 0 = all */
    bool blocks;             /* list those of the instant that the tables show */
    uint8_t oom;             /* enum vt_at_oom: without `at`, when to take "oom" */
    size_t timeline_columns; /* 0 = VT_TIMELINE_COLUMNS */
};
#define VT_TIMELINE_COLUMNS 1000u /* finer than a terminal: the text view draws from it at any width */

/* -EINVAL with a reason in `error` for an `at` that is malformed or is not in the trace, and for a device
 * that the trace does not know. -ENOMEM. */
int vt_report_make(const struct vt_attribution *attribution, const struct vt_report_options *options,
                   struct vt_report **report, char *error, size_t error_bytes);
void vt_report_free(struct vt_report *report);

struct vt_view_style {
    bool colour;
    bool unicode;
    int width;    /* columns of the terminal, 80 where there is none */
    int height;   /* rows of the terminal, 0 = not one */
    int by;       /* enum vt_by, -1 = the report's own choice of tables */
    int top;      /* rows of each table, 0 = the view's own choice */
    bool compact; /* json: on one line */
    bool all;     /* steps: each in a row of its own */
};

struct vt_view {
    const char *name;
    int (*write)(const struct vt_report *report, const struct vt_view_style *style, FILE *out);
};
/* Each returns 0 or -errno, also of a failed write to `out`. */
extern const struct vt_view vt_view_text, vt_view_timeline, vt_view_timeline_json, vt_view_json;
extern const struct vt_view vt_view_steps, vt_view_steps_json, vt_view_leaks, vt_view_leaks_json;
extern const struct vt_view vt_view_oom, vt_view_json_oom, vt_view_frag, vt_view_json_frag;

const char *vt_by_name(enum vt_by by); /* "category", "module", … */
/* The instant that tables are about: the one of --at, else the peak. */
const struct vt_instant *vt_shown_instant(const struct vt_device_report *device);

/* One event as `info --events` shows it: a line of text or a JSON object on a line. `with_stack` adds all
 * frames. */
int vt_view_event_text(const struct vt_trace *trace, uint32_t event_index, bool with_stack, FILE *out);
int vt_view_event_json(const struct vt_trace *trace, uint32_t event_index, bool with_stack, FILE *out);
const char *vt_event_kind_name(uint8_t kind); /* "alloc", …, "unknown" */
const char *vt_layer_name(uint8_t layer);     /* "driver", …, "none" */

#endif
