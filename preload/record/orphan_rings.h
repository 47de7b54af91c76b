/* Rings that killed processes of the same user left in memory: their contents are appended to the traces
 * that they belong to, and the rings are removed. */
#ifndef VT_ORPHAN_RINGS_H
#define VT_ORPHAN_RINGS_H

#include "record/session.h"

/* Adopts all such rings; starts no new one after `end_ns` (CLOCK_MONOTONIC). `own`: this process's session.
 * Must run on a thread of ours that opens and prints nothing afterwards: it loses all its descriptors, since
 * some hosts notice descriptors that are open for a moment. Does nothing where the kernel lacks that call. */
void vt_adopt_rings(const struct vt_session *own, uint64_t end_ns);

/* The same on a new thread. Called by the writer's. */
void vt_adopt_rings_beside(struct vt_session *own);

#endif
