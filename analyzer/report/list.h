/* The traces of a folder, one row for each run. Made by job/list.c; text belongs to the job that it was made
 * of. */
#ifndef VT_LIST_H
#define VT_LIST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct vt_job_refusal;

struct vt_list_trace {
    const char *path, *host, *outcome;
    uint32_t pid;
    int32_t rank;  /* -1 = not known */
    bool examined; /* else only its head was read, and what follows is not known */
    uint64_t event_count, peak_bytes;
    const struct vt_job_refusal *refusals;
    size_t refusal_count;
};

/* A process, or those that were launched together. */
struct vt_list_row {
    char *name; /* what to call it on a command line: the trace, or a folder with only these traces. Owned */
    char *outcome; /* "complete", "OUT OF MEMORY at step 4, rank 3". Owned */
    const char *command, *gpu;
    uint64_t start_realtime_ns, duration_ns, peak_bytes;
    bool examined, out_of_memory; /* the second: it ended one of them */
    struct vt_list_trace *traces;
    size_t trace_count, missing;
};

struct vt_list {
    struct vt_list_row *rows;
    size_t row_count, copies, unexamined;
    struct vt_list_trace *traces; /* private: of all rows */
};

#endif
