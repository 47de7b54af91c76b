/* What the pages of several traces share. */
#ifndef VT_JOB_TEXT_H
#define VT_JOB_TEXT_H

#include "report/job.h"
#include "view/text/print.h"

/* What was named, what it contains, what is missing. */
void vt_job_header(struct vt_print *print, const struct vt_job *job, const char *command);

/* "ranks 0–3, 6", "ranks 0, 1 of run 2", "run 1 rank 0 and pid 4711": of indices of processes. `text` holds
 * VT_JOB_RANKS_BYTES. */
#define VT_JOB_RANKS_BYTES 112
char *vt_job_ranks(const struct vt_job *job, const uint32_t *members, size_t count, char *text);
#define VT_JOB_RANKS(job, members, count) vt_job_ranks(job, members, count, (char[VT_JOB_RANKS_BYTES]){0})
/* "0–3, 6" */
char *vt_job_numbers(const uint32_t *numbers, size_t count, char *text);

/* How recording ended, in few words. */
const char *vt_job_outcome(const struct vt_job_process *process);
/* "+3.1 %", "28 times". `text` holds 32 bytes. */
char *vt_job_change(uint64_t bytes, uint64_t usual, char *text);
#define VT_JOB_CHANGE(bytes, usual) vt_job_change(bytes, usual, (char[32]){0})

/* "12.00 MiB more activations, 12.00 MiB more at train.py:88 forward, in layers.3.mlp": the largest
 * differences in the direction of the whole; nothing without one. */
void vt_job_put_why(FILE *out, const struct vt_job_odd *odd);
/* Tables of what differs. `usual`: "median", "rank 1". */
void vt_job_differences(struct vt_print *print, const struct vt_job *job, const struct vt_job_odd *odd,
                        const char *usual);
/* Who an odd process is compared with, as a column's title. `text` holds 64 bytes. */
const char *vt_job_usual(const struct vt_job *job, const uint32_t *members, size_t count, uint32_t process,
                         char *text);

#endif
