/* Which process of a job ran out of memory first. */
#ifndef VT_JOB_OOM_ORDER_H
#define VT_JOB_OOM_ORDER_H

struct vt_job;
struct vt_job_maker;

/* Finds when each process ended. */
void vt_job_find_ends(struct vt_job_maker *maker);
void vt_job_find_oom_order(struct vt_job_maker *maker);

/* After an out-of-memory error: compares the first process that failed with its neighbours at that moment. The
 * caller has read each job->neighbours[i].then, from a report at own_ns; those without an owner are removed. */
void vt_job_compare_first(struct vt_job *job);

#endif
