/* The rings of processes that record at this moment, and what can be asked of their recorders (format.h,
 * struct vt_control). Threads: one at a time. */
#ifndef VT_RINGS_H
#define VT_RINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vramtrace/format.h"

struct vt_recorder {
    char path[VT_RING_PATH_BYTES];
    struct vt_ring_header header; /* as read; texts end with NUL */
};

/* Of all processes of this machine whose rings we may open, in order of process id. A process that was killed
 * is left out. 0 or -ENOMEM; the caller frees the list. */
int vt_recorders_find(struct vt_recorder **recorders, size_t *count);

/* Asks, and waits for the answer: true in *recorded if it was done. 0, -ETIMEDOUT if the recorder does not
 * answer in `milliseconds`, or another -errno. `text`: at most 1,019 bytes are taken. */
int vt_recorder_ask(const struct vt_recorder *recorder, enum vt_control_command command, const char *text,
                    int milliseconds, bool *recorded);

#endif
