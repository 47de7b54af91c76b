/* Asks the recorder of a running process. */
#ifndef VT_COMMAND_CTL_H
#define VT_COMMAND_CTL_H

#include "vramtrace/format.h"

#include <stddef.h>

/* Asks the recorder and waits for its answer, 3 s at most. An exit status, with the reason in `error` (at
 * least 512 bytes). */
struct vt_recorder;
int vt_control_ask(enum vt_control_command what, const char *text, const struct vt_recorder *recorder,
                   char *error, size_t error_bytes);

#endif
