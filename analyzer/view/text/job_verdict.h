/* The paragraphs about a run of a job. */
#ifndef VT_VIEW_TEXT_JOB_VERDICT_H
#define VT_VIEW_TEXT_JOB_VERDICT_H

struct vt_job;
struct vt_job_run;
struct vt_print;

void vt_job_verdict(struct vt_print *print, const struct vt_job *job, const struct vt_job_run *run);

#endif
