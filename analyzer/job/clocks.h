/* Puts the times of all processes on one clock, and says how sure that is. */
#ifndef VT_JOB_CLOCKS_H
#define VT_JOB_CLOCKS_H

struct vt_job_maker;

void vt_job_fit_clocks(struct vt_job_maker *maker);

#endif
