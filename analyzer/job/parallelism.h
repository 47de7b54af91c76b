/* Finds the parallel groups of each run. */
#ifndef VT_JOB_PARALLELISM_H
#define VT_JOB_PARALLELISM_H

struct vt_job_maker;

void vt_job_find_parallelism(struct vt_job_maker *maker);

#endif
