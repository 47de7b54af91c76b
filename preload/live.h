/* The header's running totals, and the size of each live driver allocation, so that a free can tell its bytes.
 * Threads: any; a short spin, never held across a call out of this file. */
#ifndef VT_LIVE_H
#define VT_LIVE_H

#include <stdint.h>

#include "session.h"
#include "vramtrace/format.h"

/* Updates the totals by a driver or runtime event, and fills in a free's bytes and device where known. */
void vt_live_driver(struct vt_session *session, struct vt_event *event);

/* The framework's own counter after a block event. */
void vt_live_framework(struct vt_session *session, const struct vt_event *event);

#endif
