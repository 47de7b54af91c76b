/* Traces measured against limits. Filled by findings/check.c. */
#ifndef VT_CHECKS_H
#define VT_CHECKS_H

#include "report/facts.h"

/* One thing that was measured. */
struct vt_checked {
    const char *what; /* "peak", "unknown", "cached", "leak", "lost", "baseline" */
    const char *part; /* of "baseline": "peak" or a category; of "lost": "baseline" or NULL; of "leak":
                         "unjudged" or NULL; else NULL */
    int device_index; /* -1 = none */
    bool of_device, passed;
    uint64_t bytes, limit_bytes;
    char *text; /* what is wrong, in words; NULL if nothing is. Owned */
};

struct vt_checks {
    struct vt_trace_facts facts; /* path, command and simulated are copies, owned */
    struct vt_checked *items;
    size_t count, breaches;
    bool passed;
};

/* All traces of one command. */
struct vt_check_list {
    struct vt_checks *items;
    size_t count;
    const char **unread; /* paths of traces that could not be read */
    size_t unread_count;
    bool passed;
};

#endif
