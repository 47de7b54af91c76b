/* The rings of processes that are recording now, and commands to their recorders (format.h, struct
 * vt_control). Threads: one at a time. */
#ifndef VT_RINGS_H
#define VT_RINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "vramtrace/ring.h"

struct vt_recorder {
    char path[VT_RING_PATH_BYTES];
    struct vt_ring_header header; /* as read; texts end with NUL */
};

/* The running processes on this machine whose rings we may open, by process id. The caller frees the list. */
void vt_recorders_find(struct vt_recorder **recorders, size_t *count);

/* Waits, at most that long, until the header counts everything that was recorded when `recorder` was read,
 * and reads it again. False: the time is over, or the ring is gone. */
bool vt_recorder_settle(struct vt_recorder *recorder, int milliseconds);

/* Sends a command and waits for the answer: *recorded is true if it was done. 0, -ETIMEDOUT if the recorder
 * does not answer in `milliseconds`, or another -errno. `text`: at most 1,019 bytes are taken. */
int vt_recorder_ask(const struct vt_recorder *recorder, enum vt_control_command command, const char *text,
                    int milliseconds, bool *recorded);

/* Waits until the recorder has made that many inspections. False if it has not within `milliseconds`. */
bool vt_recorder_await_inspections(const struct vt_recorder *recorder, uint32_t inspections,
                                   int milliseconds);

/* Waits until what is recorded now is in the trace, at most that long, and copies it: a trace with
 * VT_STATE_SNAPSHOT. 0 or -errno, -ESTALE: another trace is in its place; *missing: it did not get all of
 * that. */
int vt_recorder_copy(const struct vt_recorder *recorder, int milliseconds, FILE *out, bool *missing);

#endif
