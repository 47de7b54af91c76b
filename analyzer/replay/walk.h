/* Walks the events of a device with its counts. */
#ifndef VT_REPLAY_WALK_H
#define VT_REPLAY_WALK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct vt_counts;
struct vt_replay;

/* Either function may be NULL. */
struct vt_replay_visitor {
    /* An allocation of the device, or of page-locked memory, begins or ends at the event that is visited
     * next. Not called for one that ends at the event that made it. */
    void (*change)(void *context, uint32_t allocation, bool begins);
    /* After each event that touches the device. Non-zero ends the walk. */
    int (*visit)(void *context, uint32_t event_index, const struct vt_counts *counts);
    void *context;
};

/* Walks all events in order for one device. Page-locked memory has no device and counts with each. Returns
 * what the last visit returned. */
int vt_replay_walk(const struct vt_replay *replay, int device_index, const struct vt_replay_visitor *visitor);

/* Checks that the counts agree with the allocations alive after every event of the device, and that every
 * block lies in its parent's life. Returns 0, or -EINVAL with the first breach in `error`. */
int vt_replay_verify(const struct vt_replay *replay, int device_index, char *error, size_t error_bytes);

#endif
