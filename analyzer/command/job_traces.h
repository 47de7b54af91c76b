/* Private to commands: reading the traces of a job. */
#ifndef VT_COMMAND_JOB_TRACES_H
#define VT_COMMAND_JOB_TRACES_H

#include <stdbool.h>
#include <stddef.h>

struct vt_job;

struct vt_job_request {
    const char *const *paths; /* of traces, each file once */
    size_t count;
    const char *what;  /* what was named, for people */
    const char *rules; /* NULL = the program's own */
    bool oom;          /* read the moment when memory ran out; otherwise the peak */
    const bool *brief; /* NULL, or for each trace: only its head is read. Then the job is brief (job/job.h) */
};

/* Reads on as many threads as there are processors, which report their progress, and merges. A trace that
 * cannot be read is in (*job)->unread, with a line on stderr, and the job may have none that can. An exit
 * status; there is a job either way. */
int vt_job_traces_read(const struct vt_job_request *request, struct vt_job **job);

#endif
