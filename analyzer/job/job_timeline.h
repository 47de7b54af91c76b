/* Makes the timeline of a job. */
#ifndef VT_JOB_JOB_TIMELINE_H
#define VT_JOB_JOB_TIMELINE_H

struct vt_job_maker;

void vt_job_make_timeline(struct vt_job_maker *maker);

#endif
