/* What `vramtrace top` shows besides the counters of the hot path (format.h, struct vt_top_counters): kept
 * from the records as they are taken from the ring. Threads: the writer's. */
#ifndef VT_TOP_H
#define VT_TOP_H

#include "vramtrace/format.h"

/* Live driver memory, found by its start: which of it holds a framework's blocks is seen when the framework
 * says that it holds more. Memory that is too much for the table counts once the framework tells its own
 * total again. All zero at first. */
enum { VT_TOP_BITS = 12, VT_TOP_RANGES = 1 << VT_TOP_BITS };
struct vt_top_range {
    uint64_t start, bytes; /* 0 = not used */
    int8_t device_index;   /* of the segment that it is, -1 = it is none */
    uint16_t next;         /* with the same hash, or not used */
};
struct vt_top_ranges {
    uint16_t heads[VT_TOP_RANGES]; /* by hash; 0 = none */
    uint16_t unused, used;         /* the first that was used and is not; the highest that ever was */
    struct vt_top_range ranges[VT_TOP_RANGES + 1], freed; /* freed: the latest, in case that fails */
};

/* `rank`: a text of the launcher's. */
void vt_top_begin(struct vt_top_counters *top, const char *rank);
void vt_top_event(struct vt_top_counters *top, struct vt_top_ranges *known, const struct vt_event *event);
/* A definition; what is not of a device is passed over. */
void vt_top_definition(struct vt_top_counters *top, const struct vt_record_head *head);

#endif
