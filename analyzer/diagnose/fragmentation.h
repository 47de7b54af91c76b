/* Fragmentation: the segments at an instant, their blocks, and what keeps each from being returned. */
#ifndef VT_FRAGMENTATION_H
#define VT_FRAGMENTATION_H

#include "report/report.h"

struct vt_replay;

/* The state of a device just after an event; of blocks index, address and bytes only. -ENOMEM. */
int vt_fragmentation_find(const struct vt_replay *replay, int device_index, uint32_t event_index,
                          struct vt_fragmentation *found);
/* Sets the rest of the blocks, and the pins. -ENOMEM. */
int vt_fragmentation_describe(const struct vt_report *report, struct vt_fragmentation *found);

#endif
