/* A job while it is made: the result, and the memory of all that it has. */
#ifndef VT_JOB_JOB_MAKER_H
#define VT_JOB_JOB_MAKER_H

#include "base/arena.h"
#include "report/job.h"

struct vt_job_maker {
    struct vt_job job; /* the first member */
    struct vt_arena arena;
};

/* Zeroed. */
void *vt_job_take(struct vt_arena *arena, size_t count, size_t item_bytes);
/* A copy of an array; of no items `items` may be NULL. */
void *vt_job_copy_items(struct vt_arena *arena, const void *items, size_t count, size_t item_bytes);
const char *vt_job_print(struct vt_arena *arena, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
const char *vt_job_copy(struct vt_arena *arena, const char *text); /* NULL stays NULL */

#endif
