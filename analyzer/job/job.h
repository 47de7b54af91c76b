/* From the reports of single traces to the result of a job (report/job.h). */
#ifndef VT_JOB_MAKE_H
#define VT_JOB_MAKE_H

#include "report/job.h"

/* Merges. Takes the processes over (from malloc); `unread` is copied. `brief`: of processes that were read
 * so; only which were launched together is found. */
struct vt_job *vt_job_make(const char *what, struct vt_job_process *processes, size_t process_count,
                           const struct vt_job_unread *unread, size_t unread_count, bool brief);
void vt_job_free(struct vt_job *job);

#endif
