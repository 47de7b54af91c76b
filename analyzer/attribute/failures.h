/* Requests for memory that failed, and whether they failed for good. */
#ifndef VT_FAILURES_H
#define VT_FAILURES_H

#include "replay/replay.h"

enum vt_failure_outcome {
    VT_FAILURE_FINAL,    /* the caller got nothing */
    VT_FAILURE_SURVIVED, /* the driver refused, and agreed after the framework freed its cache */
    VT_FAILURE_REPEATED, /* one attempt of a later failure in the list */
};

struct vt_failure {
    uint32_t event_index;
    uint32_t tries;       /* of a final failure: attempts that the driver refused */
    uint64_t tried_bytes; /* the smallest of them; 0 = there was none */
    uint8_t outcome;
};

struct vt_failures {
    struct vt_failure *items; /* in order of their events */
    size_t count;
};

/* Finds all requests that failed for lack of memory. */
void vt_failures_find(const struct vt_replay *replay, struct vt_failures *failures);
void vt_failures_free(struct vt_failures *failures);

#endif
