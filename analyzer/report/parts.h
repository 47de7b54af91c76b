/* What the files that make a report share; the views use view.h only. */
#ifndef VT_REPORT_PARTS_H
#define VT_REPORT_PARTS_H

#include "report/report.h"

/* Where --at points: the state after event `last`, or the largest state within `first` to `last`. */
struct vt_moment {
    uint32_t first, last;
    bool largest;
    bool peak, end; /* the device's own */
    uint64_t t_ns;  /* of a time, as it was asked for */
};

/* Reads `at` (see view.h). -EINVAL with a reason in `error`. `label` is what the moment is called. */
int vt_moment_parse(const struct vt_report *report, const char *at, struct vt_moment *moment, char *label,
                    size_t label_bytes, char *error, size_t error_bytes);

/* Time of an event since recording began. */
uint64_t vt_event_time(const struct vt_trace *trace, uint32_t event_index);

/* Groups, evidence and kinds of what is alive on `device_index` just after the instant's event. One maker
 * serves all instants of a report: it remembers what it found out about each stack. `depth`: levels of
 * modules' names, 0 = all. */
struct vt_grouper;
int vt_grouper_make(const struct vt_attribution *attribution, unsigned depth, struct vt_grouper **grouper);
void vt_grouper_free(struct vt_grouper *grouper);
int vt_group_instant(struct vt_grouper *grouper, int device_index, unsigned groups,
                     struct vt_instant *instant);
void vt_groups_free(struct vt_groups *groups);

/* True if an allocation has bytes of its own: not the cache, which is what blocks leave of segments and
 * pools, nor a context, which is nobody's. */
bool vt_is_grouped(const struct vt_allocation *allocation);
/* ... and is alive on the device just after the event. */
bool vt_is_counted(const struct vt_allocation *allocation, int device_index, uint32_t event_index);
/* The stack that tells a person where an allocation was made: for one of backward, that of the forward
 * operator whose node made it, where that is known. */
uint32_t vt_telling_stack(const struct vt_attribution *attribution, const struct vt_allocation *allocation);
/* The module that an allocation is shown with, or NULL: what serves all modules is no module's, even if one
 * was the first to need it. */
const char *vt_shown_module(const struct vt_label *label);

/* Fills instant->blocks. */
int vt_list_blocks(const struct vt_replay *replay, int device_index, struct vt_instant *instant);

/* The caller frees explanation->reasons; `what` must outlive it. */
int vt_explain(const struct vt_attribution *attribution, const char *what, int device_index,
               const struct vt_instant *instant, struct vt_explanation *explanation);

/* "model.py:141 forward"; without a file "main (program)"; without a symbol the object's name. */
void vt_name_frame(const struct vt_trace *trace, const struct vt_frame *frame, char *text, size_t bytes);

/* What a person would call an allocation: its owner, else where it was made. In the style of tables. */
void vt_name_allocation(const struct vt_attribution *attribution, const struct vt_allocation *allocation,
                        char *text, size_t bytes);

/* True for what is a whole model's, or a device's: which module was running when it was made says nothing. */
bool vt_belongs_to_no_module(unsigned category);

/* What the driver said was free on the whole card within a second of an event, with nothing in between that
 * changed it; false if nobody asked it. */
bool vt_free_near(const struct vt_trace *trace, uint32_t event_index, int device_index, uint64_t *free_bytes,
                  uint64_t *total_bytes);

/* Fills report->refusals; the last is the one shown. */
int vt_find_refusals(struct vt_report *report);
/* "oom" is the last, "oom#2" the second. -EINVAL with a reason in `error`. */
int vt_refusal_parse(const struct vt_report *report, const char *at, size_t *index, char *error,
                     size_t error_bytes);
/* The one that `at` (see vt_report_options) means where only these are meant: the last in a step, the first
 * after a mark, the nearest to a time. -EINVAL with a reason in `error`. */
int vt_refusal_choose(const struct vt_report *report, const char *at, size_t *index, char *error,
                      size_t error_bytes);
/* Shows that one, and completes what is known of it. */
void vt_refusal_show(struct vt_report *report, size_t index);
/* Sets who asked for them. -ENOMEM. */
int vt_find_askers(struct vt_report *report);

#endif
