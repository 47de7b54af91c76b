/* The header's running totals, and the size of each live driver allocation, so that a free can tell its bytes.
 * Threads: any; a short lock, never held across a call out of this file, and not waited for without end. */
#ifndef VT_LIVE_H
#define VT_LIVE_H

#include <stdatomic.h>
#include <stdint.h>

#include "vramtrace/format.h"

struct vt_session;
struct vt_live_entry;

/* A part of the session: so a forked child has its own, and no lock that a thread of its parent held. */
struct vt_live_table {
    struct vt_live_entry *entries; /* made with the first of them */
    uint32_t used, bits; /* 1 << bits entries */
    _Atomic int busy, stuck; /* stuck: somebody waited in vain for who is busy */
};

/* In a forked child: memory.h. */
void vt_live_replace_memory(struct vt_live_table *table);

/* Updates the totals by a driver or runtime event, and fills in a free's bytes and device where known. */
void vt_live_driver(struct vt_session *session, struct vt_event *event);

/* The framework's own counter after a block event. */
void vt_live_framework(struct vt_session *session, const struct vt_event *event);

#endif
