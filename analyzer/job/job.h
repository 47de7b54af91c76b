/* From the reports of single traces to the result of a job (report/job.h). */
#ifndef VT_JOB_MAKE_H
#define VT_JOB_MAKE_H

#include "report/job.h"
#include "report/list.h"
#include "report/report.h"

/* Copies what a job needs from one trace's report: after this the report, and everything below it, may be
 * freed. The report has groups by module and line of what it shows, a timeline of VT_JOB_OWN_COLUMNS on an
 * axis of time, and leaks. Threads: several may run at once, each with a trace of its own. Returns 0, as
 * all below. */
#define VT_JOB_OWN_COLUMNS 1000u
void vt_job_process_read(const struct vt_report *report, struct vt_job_process *process);
/* The same of less: who was recorded, the peak of each device, and when memory ran out. */
void vt_job_process_read_brief(const struct vt_report *report, bool head_only,
                               struct vt_job_process *process);
void vt_job_process_free(struct vt_job_process *process);

/* Merges. Takes the processes over (from malloc); `unread` is copied. `brief`: of processes that were read
 * so; only which were launched together is found. */
void vt_job_make(const char *what, struct vt_job_process *processes, size_t process_count,
                 const struct vt_job_unread *unread, size_t unread_count, bool brief, struct vt_job **job);
void vt_job_free(struct vt_job *job);

/* list.c: a row for each run of a brief job, the newest first. The job must stay; the caller frees it. */
void vt_list_make(const struct vt_job *job, struct vt_list *list);
void vt_list_free(struct vt_list *list);

/* After an out of memory: compares the first that fell with its neighbours at that moment. The caller has
 * read each job->neighbours[i].then, of a report that shows own_ns; those without an owner are taken out. */
void vt_job_compare_first(struct vt_job *job);

#endif
