/* What a job needs of one process, copied from the report of its trace. */
#ifndef VT_JOB_PROCESS_H
#define VT_JOB_PROCESS_H

#include <stdbool.h>

struct vt_job_process;
struct vt_report;

/* Copies what a job needs from one trace's report: after this the report, and everything below it, may be
 * freed. The report has groups by module and line of what it shows, a timeline of VT_JOB_OWN_COLUMNS on an
 * axis of time, and leaks. Threads: several may run at once, each with a trace of its own. */
#define VT_JOB_OWN_COLUMNS 1000u
void vt_job_process_read(const struct vt_report *report, struct vt_job_process *process);
/* The same of less: who was recorded, the peak of each device, and when memory ran out. */
void vt_job_process_read_brief(const struct vt_report *report, bool head_only,
                               struct vt_job_process *process);
void vt_job_process_free(struct vt_job_process *process);

#endif
