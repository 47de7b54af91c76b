/* Requests for memory that failed: which of them were final. */
#ifndef VT_FAILURES_H
#define VT_FAILURES_H

#include "replay/replay.h"

enum vt_failure_outcome {
    VT_FAILURE_FINAL,    /* who asked got nothing */
    VT_FAILURE_SURVIVED, /* the driver refused, and gave when the framework had freed its cache */
    VT_FAILURE_REPEATED, /* one more attempt of a failure that comes later in the list */
};

struct vt_failure {
    uint32_t event_index;
    uint32_t tries; /* of a final one: attempts that the driver refused */
    uint8_t outcome;
};

struct vt_failures {
    struct vt_failure *items; /* in order of their events */
    size_t count;
};

/* All that failed for lack of memory. -ENOMEM. */
int vt_failures_find(const struct vt_replay *replay, struct vt_failures *failures);
void vt_failures_free(struct vt_failures *failures);

#endif
