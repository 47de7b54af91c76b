/* Memory of a job, from its arena. */
#ifndef VT_JOB_ARENA_H
#define VT_JOB_ARENA_H

#include "base/arena.h"

/* Zeroed. */
void *vt_job_take(struct vt_arena *arena, size_t count, size_t item_bytes);
const char *vt_job_print(struct vt_arena *arena, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
const char *vt_job_copy(struct vt_arena *arena, const char *text); /* NULL stays NULL */

#endif
