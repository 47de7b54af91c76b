/* Finds memory that processes share. */
#ifndef VT_JOB_SHARED_H
#define VT_JOB_SHARED_H

struct vt_job_maker;

void vt_job_find_shared(struct vt_job_maker *maker);

#endif
