/* Commands from outside: `vramtrace ctl` (format.h, struct vt_control). Writer thread. */
#ifndef VT_CONTROL_H
#define VT_CONTROL_H

#include "record/session.h"

/* Carries out the command that is waiting, if any, and answers it. */
void vt_control_obey(struct vt_session *session);

#endif
