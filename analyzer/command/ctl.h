/* Asks the recorder of a running process. */
#ifndef VT_COMMAND_CTL_H
#define VT_COMMAND_CTL_H

#include "vramtrace/ring.h"

struct vt_recorder;

/* Asks the recorder and waits for its answer, 3 s at most. Why it is not done, which the caller frees; NULL =
 * it is. */
char *vt_control_ask(enum vt_control_command what, const char *text, const struct vt_recorder *recorder);

#endif
