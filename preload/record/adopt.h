/* Rings that killed processes of the same user have left in memory: what they hold goes to the traces that
 * they belong to, and they are removed. Threads: the writer's. */
#ifndef VT_ADOPT_H
#define VT_ADOPT_H

#include "record/drain.h"

/* Whether there is one. Before the host goes on, since some hosts notice a descriptor that is open for a
 * moment. */
bool vt_adopt_any(const struct vt_drain *own);

/* Adopts one ring at most. `own`: of this process, whose buffers are used, and must be empty. False if
 * there is none left, or one could not be adopted: then it stays as it was. */
bool vt_adopt_one(struct vt_drain *own);

#endif
