/* How far the analysis of a trace is, for whoever shows it. Stages report here; each thread has a listener of
 * its own, or none. Without one, a report costs a test. VT_WORK_TRACES is all the work, of several traces. */
#ifndef VT_PROGRESS_H
#define VT_PROGRESS_H

#include <stdint.h>

enum vt_work {
    VT_WORK_READ,
    VT_WORK_REPLAY,
    VT_WORK_ATTRIBUTE,
    VT_WORK_REPORT,
    VT_WORK_TRACES,
    VT_WORK_COUNT
};

struct vt_progress {
    enum vt_work work;
    uint64_t done, whole; /* of this work; bytes of the file, events, traces, else parts of the work */
};

/* About how much of all work is done, 0 to 1. */
double vt_progress_part(const struct vt_progress *progress);

typedef void vt_progress_listener(const struct vt_progress *progress);
/* NULL = nobody listens any more. */
void vt_progress_listen(vt_progress_listener *listener);
void vt_progress_tell(enum vt_work work, uint64_t done, uint64_t whole);

/* For loops over events: reports the first and every 65536th. */
static inline void vt_progress_at(enum vt_work work, uint64_t done, uint64_t whole)
{
    if (!(done & 0xffff))
        vt_progress_tell(work, done, whole);
}

#endif
