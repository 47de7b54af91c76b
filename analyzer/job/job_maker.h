/* A job while it is made: the result, and the memory of all that it has. */
#ifndef VT_JOB_JOB_MAKER_H
#define VT_JOB_JOB_MAKER_H

#include "base/arena.h"
#include "report/job.h"

struct vt_job_maker {
    struct vt_job job; /* the first member */
    struct vt_arena arena;
};

#endif
