/* Views: a report in memory, and the writers that show it (text, JSON; later html, exports): one table. */
#ifndef VT_VIEW_H
#define VT_VIEW_H

#include <stdio.h>

#include "attribute/attribute.h"

enum vt_by { VT_BY_CATEGORY, VT_BY_MODULE, VT_BY_OWNER, VT_BY_LINE, VT_BY_STACK, VT_BY_OP, VT_BY_COUNT };

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
    /* By module, of the group without a name: what Python code made outside of any module's call. */
    uint64_t outside_bytes;
    uint64_t categories[VT_CATEGORY_COUNT];
};

struct vt_groups {
    struct vt_group *items; /* largest first */
    size_t count;
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
    uint64_t evidence[VT_EVIDENCE_COUNT]; /* of the categories' bytes but cached and context */
    uint64_t kinds[VT_ALLOCATION_HOST + 1]; /* bytes alive by enum vt_allocation_kind */
    struct vt_groups groups[VT_BY_COUNT];
};

/* Each column holds the state at the largest driver-less-cached instant inside it, so that no peak is lost. */
struct vt_timeline {
    size_t columns;
    uint64_t *t_ns;                               /* since recording began */
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
    struct vt_instant at; /* present only with --at */
    struct vt_timeline timeline;
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
    /* What this process held on the device; known for the last refusal only. */
    uint64_t driver_bytes, categories[VT_CATEGORY_COUNT];
};

struct vt_report {
    const struct vt_trace *trace;
    const struct vt_attribution *attribution;
    uint64_t duration_ns;
    struct vt_device_report *devices; /* those that held any memory, or all asked for */
    size_t device_count;
    /* Out of memory: what the framework told, in order; without any, what the driver refused for lack of memory. */
    struct vt_refusal *refusals;
    size_t refusal_count;
    char at_label[256]; /* "mark 'warm'", "the step's largest moment"; "" without --at */
};

struct vt_report_options {
    int device_index;   /* -1 = all */
    const char *at;     /* peak|end|oom|mark:NAME[#k]|step:N|TIME (e.g. 3.2s, 150ms), NULL = none */
    unsigned groups;    /* 1u << enum vt_by of the groups to make, 0 = all */
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
    int width;  /* columns of the terminal, 80 where there is none */
    int height; /* rows of the terminal, 0 = not one */
    int by;     /* enum vt_by, -1 = the report's own choice of tables */
    int top;    /* rows of each table, 0 = the view's own choice */
    bool compact; /* json: on one line */
};

struct vt_view {
    const char *name;
    int (*write)(const struct vt_report *report, const struct vt_view_style *style, FILE *out);
};
/* Each returns 0 or -errno, also of a failed write to `out`. */
extern const struct vt_view vt_view_text, vt_view_timeline, vt_view_json;

const char *vt_by_name(enum vt_by by); /* "category", "module", … */

/* One event as `info --events` shows it: a line of text or a JSON object on a line. `with_stack` adds all
 * frames. */
int vt_view_event_text(const struct vt_trace *trace, uint32_t event_index, bool with_stack, FILE *out);
int vt_view_event_json(const struct vt_trace *trace, uint32_t event_index, bool with_stack, FILE *out);
const char *vt_event_kind_name(uint8_t kind); /* "alloc", …, "unknown" */
const char *vt_layer_name(uint8_t layer);     /* "driver", …, "none" */

/* "38.21 GiB", "512 B": the largest binary unit, two decimals. `text` holds at least 24 bytes. */
char *vt_format_bytes(uint64_t bytes, char *text);

#endif
