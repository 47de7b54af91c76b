/* Rings that killed processes of the same user have left in memory: what they hold goes to the traces that
 * they belong to, and they are removed. */
#ifndef VT_ORPHAN_RINGS_H
#define VT_ORPHAN_RINGS_H

#include "record/session.h"

/* Adopts what there is, until `end_ns` (CLOCK_MONOTONIC) and one ring more at most. `own`: of this process. A
 * thread of ours that opens and prints nothing after it: it loses all its descriptors, since some hosts would
 * notice ones that are open for a moment. Does nothing where the kernel has no such call. */
void vt_adopt_rings(const struct vt_session *own, uint64_t end_ns);

/* The same in a thread that is made for it. The writer's thread. */
void vt_adopt_rings_beside(struct vt_session *own);

#endif
