/* Finds nodes, parents and runs of a job, and sorts its processes. */
#ifndef VT_JOB_RUNS_H
#define VT_JOB_RUNS_H

struct vt_job_maker;

void vt_job_find_runs(struct vt_job_maker *maker);

#endif
