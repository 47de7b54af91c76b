/* What the makers of a job share. */
#ifndef VT_JOB_PARTS_H
#define VT_JOB_PARTS_H

#include "base/arena.h"
#include "job/job.h"

/* A job and the memory of all that it has; `job` is the first member. */
struct vt_job_maker {
    struct vt_job job;
    struct vt_arena arena;
};

/* memory.c. Zeroed. */
void *vt_job_take(struct vt_arena *arena, size_t count, size_t item_bytes);
const char *vt_job_print(struct vt_arena *arena, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
const char *vt_job_copy(struct vt_arena *arena, const char *text); /* NULL stays NULL */

/* launch.c: reads rank, sizes, launcher and run from the variables of a trace. */
struct vt_trace;
void vt_job_read_launch(const struct vt_trace *trace, struct vt_arena *arena, struct vt_job_process *process);

/* levels.c: fills levels and the context of a device. */
void vt_job_read_levels(const struct vt_report *report, struct vt_arena *arena, struct vt_job_device *device);
/* levels.c: fills others; context_told is false afterwards where they cannot all be kept. */
void vt_job_read_others(const struct vt_trace *trace, struct vt_arena *arena, struct vt_job_device *device);
/* The place of that process, else one that is free: without bytes, or after the last. */
size_t vt_job_place_of(const struct vt_job_other *others, size_t count, uint32_t pid);

/* Each of these fills its part of the job. */
void vt_job_find_runs(struct vt_job_maker *maker);  /* runs.c: nodes, parents, runs; sorts processes */
void vt_job_fit_clocks(struct vt_job_maker *maker); /* clocks.c: the times of all, and what is said of them */
void vt_job_find_ends(struct vt_job_maker *maker);  /* oom_order.c: until when each process was there */
void vt_job_find_gpus(struct vt_job_maker *maker);  /* gpus.c */
void vt_job_find_shared(struct vt_job_maker *maker);  /* shared.c */
void vt_job_find_parallelism(struct vt_job_maker *maker); /* parallelism.c: groups of each run */
void vt_job_find_outliers(struct vt_job_maker *maker);    /* outliers.c */
void vt_job_find_oom_order(struct vt_job_maker *maker);   /* oom_order.c */
void vt_job_make_timeline(struct vt_job_maker *maker);    /* job_timeline.c: the timeline */

/* The device of a process that had the most in use at the moment that is compared; NULL = it has none. */
const struct vt_job_device *vt_job_main_device(const struct vt_job_process *process);

/* Compares a device of a process with those of processes like it, without itself or with it: the median of
 * them is what is usual. */
void vt_job_compare(struct vt_job_maker *maker, uint32_t process, const struct vt_job_device *device,
                    const struct vt_job_device *const *others, size_t other_count, struct vt_job_odd *odd);
/* modules.c: what named_bytes of a part are of. */
extern const uint8_t vt_job_named_categories[VT_JOB_NAMED];
/* modules.c: fills `parts`, one for each device, with its modules under names that mean the same in all.
 * Where some have no names of a category, it is in no module. */
void vt_job_align_modules(struct vt_job_maker *maker, const struct vt_job_device *const *devices,
                          size_t count, struct vt_job_parts *parts);
/* What the processes of a GPU held at a time, instead of at their peak. */
void vt_job_card_at(struct vt_job_maker *maker, uint32_t card_index, uint64_t t_ns, struct vt_job_card *card);
/* The lower of the middle two. Sorts the values. 0 of none. */
uint64_t vt_job_median(uint64_t *values, size_t count);

#endif
