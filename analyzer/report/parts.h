/* What the makers of a report share, here and in diagnose/; views use the other headers. */
#ifndef VT_REPORT_PARTS_H
#define VT_REPORT_PARTS_H

#include <stdio.h>

#include "attribute/sums.h"
#include "base/arena.h"
#include "report/annotation.h"

/* ---- Places (places.c) ---- */

struct vt_places *vt_places_make(const struct vt_trace *trace);
void vt_places_free(struct vt_places *places);
/* NULL = the stack has no frame. */
const struct vt_place *vt_place_of(struct vt_places *places, uint32_t stack_id);
/* Names a frame. */
void vt_place_set(struct vt_places *places, const struct vt_frame *frame, struct vt_place *place);
/* A copy that lives as long as the places. */
const char *vt_places_text(struct vt_places *places, const char *text);

struct vt_stack_name {
    uint64_t hash;    /* of its lines: the same for stacks that are the same to a person */
    const char *text; /* folded */
};
const struct vt_stack_name *vt_stack_name_of(struct vt_places *places, uint32_t stack_id);

/* A path as a person names it: relative to the trace's working folder; else, in an installed package, from
 * the package's name on; else the last two parts. */
const char *vt_short_path(const struct vt_trace *trace, const char *path);

/* ---- Devices (report.c) ---- */

/* At any time, of any kind but context. */
bool vt_held_memory(const struct vt_report *report, int device_index);

/* ---- Source files (sources.c) ---- */

/* Opens a source file that a frame names: a regular file, not changed since the trace began (lines of a newer
 * one may differ), whose name ends as a source's does. NULL with the reason in *state. The caller
 * closes it. */
FILE *vt_source_open(const struct vt_trace *trace, const char *path, uint8_t *state);

/* ---- Lines of stacks (line_table.c) ---- */

/* A line of a file, or a whole file. */
struct vt_line_item {
    uint32_t file; /* index of the item that is the whole file */
    int32_t line;  /* 0 = not known, VT_WHOLE_FILE */
    uint32_t met;  /* private to line_table.c: ordinal of the last stack that has it */
    const char *path;
};
#define VT_WHOLE_FILE (-1)
#define VT_NO_FILE 0u /* the item of what has no file */

/* The items of a stack, each once. */
struct vt_stack_lines {
    uint32_t own, own_file;  /* VT_NO_FILE = not known */
    const uint32_t *through; /* lines and files, with its own; valid until the next stack is added */
    size_t through_count;
};
struct vt_line_table;
struct vt_line_table *vt_line_table_make(const struct vt_report *report);
void vt_line_table_free(struct vt_line_table *table);
void vt_line_table_add(struct vt_line_table *table, uint32_t stack_id, struct vt_stack_lines *lines);
/* The items so far; valid until the next stack is added. */
const struct vt_line_item *vt_line_table_items(const struct vt_line_table *table, size_t *count);

/* ---- Which file is meant (which_file.c) ---- */

struct vt_file_search {
    const struct vt_report *report;
    const struct vt_line_item *items;
    size_t count;
    const char *asked;   /* the end of a path, or a path on this machine */
    uint64_t *own_bytes; /* by item */
    bool *allocates;     /* by item: something is its own */
};
/* The item in *file; -EINVAL with the reason in `error`, also for several that match. */
int vt_file_find(const struct vt_file_search *search, uint32_t *file, char *error, size_t error_bytes);

/* ---- Moments (moments.c) ---- */

/* Where --at points: the state after event `last`, or the largest state within `first` to `last`. */
struct vt_moment {
    uint32_t first, last;
    bool largest;
    bool peak, end, reserved; /* the device's own */
    bool timed;               /* a time was asked for */
    uint64_t t_ns;            /* that time; 0 = another moment */
};

/* Reads options->at, or chooses "oom" without it; sets report->has_at, at_label and shown_refusal. *moment is
 * set only with has_at. -EINVAL with a reason in `error`. */
int vt_find_moment(struct vt_report *report, const struct vt_report_options *options,
                   struct vt_moment *moment, char *error, size_t error_bytes);

/* What a timeline shall show: from the first event of a moment to the last of another. */
struct vt_range {
    struct vt_moment from, to;
    bool has_from, has_to;
};
/* Reads options->from and options->to. -EINVAL as above. */
int vt_find_range(const struct vt_report *report, const struct vt_report_options *options,
                  struct vt_range *range, char *error, size_t error_bytes);

/* Time of an event since recording began. */
uint64_t vt_event_time(const struct vt_trace *trace, uint32_t event_index);

/* ---- Events (info.c) ---- */

struct vt_event;
struct vt_event_names;
void vt_event_names_read(const struct vt_trace *trace, const struct vt_event *event,
                         struct vt_event_names *names);
/* Names of the flags that are set, in order; returns how many. `names` has space for VT_EVENT_FLAGS. */
uint32_t vt_event_flag_names(const struct vt_event *event, const char **names);

/* ---- Instants (instants.c, timeline.c, groups.c, blocks.c, explanations.c) ---- */

/* The measure of the peak: block bytes if a framework had blocks, else driver bytes that are not cached. */
uint64_t vt_state_measure(const struct vt_state *state, bool has_blocks);
/* Copies an event's sums; vt_state_finish does the rest. */
void vt_state_keep(struct vt_state *state, uint32_t event_index, const struct vt_sums *sums);
/* Finds time, step, phase and the bytes in use of state->event_index. */
void vt_state_finish(const struct vt_report *report, struct vt_state *state);

void vt_locate(const struct vt_report *report, uint32_t event_index, uint32_t *step, uint8_t *phase);

/* Finds peak and end of a device, and with `at` that moment. */
void vt_walk_device(const struct vt_report *report, const struct vt_moment *at,
                    struct vt_device_report *device);

/* Makes the timeline of a device whose peak is found. -EINVAL with a reason in `error` for a range or an axis
 * that has nothing in it. */
int vt_timeline_make(const struct vt_report *report, const struct vt_range *range, unsigned axis,
                     size_t columns, struct vt_device_report *device, char *error, size_t error_bytes);
void vt_timeline_free(struct vt_timeline *timeline);

/* Groups and evidence of what is alive on `device_index` just after the moment's event. One grouper serves
 * all moments of a report. `depth`: levels of modules' names, 0 = all. */
struct vt_grouper;
struct vt_grouper *vt_grouper_make(const struct vt_report *report, unsigned depth);
void vt_grouper_free(struct vt_grouper *grouper);
void vt_group_instant(struct vt_grouper *grouper, int device_index, unsigned groups,
                      struct vt_instant *instant);
void vt_groups_free(struct vt_groups *groups);

/* True if an allocation has bytes of its own: not segments and pools, whose rest is the cache, and not a
 * context, which nobody owns. */
bool vt_is_grouped(const struct vt_allocation *allocation);
/* ... and is alive on the device just after the event. */
bool vt_is_counted(const struct vt_allocation *allocation, int device_index, uint32_t event_index);
/* The stack to show for an allocation: in backward, that of the forward operator whose node made it, if
 * known. */
uint32_t vt_telling_stack(const struct vt_attribution *attribution, const struct vt_allocation *allocation);
/* The module that an allocation is shown with, or NULL: workspaces and communication buffers serve all
 * modules, even if one was the first to need them. */
const char *vt_shown_module(const struct vt_label *label);

/* All that is printed of an allocation, but its number. */
void vt_block_set(const struct vt_report *report, uint32_t allocation, struct vt_block *block);
/* Fills instant->blocks. */
void vt_list_blocks(const struct vt_report *report, int device_index, struct vt_instant *instant);

/* Explains `what`, which must outlive the report, at device->shown. */
void vt_explain(const struct vt_report *report, const char *what, struct vt_device_report *device);

/* ---- When the GPU's bytes in use were reported (gpu_readings.c) ---- */

/* As NVML reported, else the driver; for this process just after `event_index`. *_bytes are without the
 * context, which has its own. */
struct vt_gpu_reading {
    const struct vt_trace_card_use *use; /* NULL: the driver's */
    uint32_t event_index;
    uint32_t era;              /* contexts of an earlier one are gone */
    uint64_t begin_ns, end_ns; /* since recording began */
    uint64_t held_ns;          /* and until when the report stayed the same: equal answers are left out */
    uint64_t used_bytes, total_bytes;
    uint64_t own_bytes, context_bytes; /* context: as replay has it, with modules and the like */
    uint64_t
        spare_bytes; /* of own_bytes: free parts of pools, which may have gone back to the device unseen */
    bool steady;     /* no driver memory of this process changed near it */
};
struct vt_gpu_readings {
    struct vt_gpu_reading *items; /* in order; NVML's if there are any */
    size_t count;
    uint32_t *era_starts; /* events; of era 0 the first */
    size_t era_count;
};
void vt_gpu_readings_find(const struct vt_report *report, int device_index, struct vt_gpu_readings *readings);
void vt_gpu_readings_free(struct vt_gpu_readings *readings);
/* What an allocation adds to the free parts of pools. */
int64_t vt_spare_change(const struct vt_allocation *allocation);
/* The event of the last one; false if none is among the events examined. */
bool vt_last_reading_event(const struct vt_trace *trace, int device_index, uint32_t *event_index);

/* ---- Out of memory (oom_events.c, oom_requesters.c) ---- */

/* What the driver reported as free on the whole GPU within a second of an event, with no change in between;
 * false without such a report. */
bool vt_free_near(const struct vt_trace *trace, uint32_t event_index, int device_index, uint64_t *free_bytes,
                  uint64_t *total_bytes);

/* Fills report->refusals, without what vt_complete_refusal finds. */
void vt_find_refusals(struct vt_report *report);
/* Completes the one that is shown. */
void vt_complete_refusal(const struct vt_report *report, struct vt_oom *refusal);
/* Sets who made each failed request. */
void vt_find_askers(struct vt_report *report);

#endif
