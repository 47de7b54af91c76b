/* What the user asks of this process from outside (format.h, struct vt_control). Writer thread. */
#ifndef VT_CONTROL_H
#define VT_CONTROL_H

#include "record/session.h"

/* Does what was asked since the last look. */
void vt_control_obey(struct vt_session *session);

#endif
