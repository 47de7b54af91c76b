/* What `vramtrace top` shows besides the hot path's counters (format.h, struct vt_top_counters), updated
 * from each record that the writer takes from the ring. Threads: the writer's. */
#ifndef VT_TOP_H
#define VT_TOP_H

#include "vramtrace/ring.h"

/* Live driver memory, found by its start address. Which of it holds a framework's blocks is learned when the
 * framework reports that it holds more than before. Memory that does not fit into the table counts again
 * once the framework reports its total. All zero at first. */
enum { VT_TOP_BITS = 12, VT_TOP_RANGES = 1 << VT_TOP_BITS };
struct vt_top_range {
    uint64_t start, bytes; /* bytes 0 = not used */
    int8_t device_index;   /* if the memory is a segment: its device; else -1 */
    uint16_t next;         /* next range with the same hash, or next unused one */
};
struct vt_top_ranges {
    uint16_t heads[VT_TOP_RANGES]; /* by hash; 0 = none */
    uint16_t unused, used;         /* first free range that was used before; highest ever used */
    struct vt_top_range ranges[VT_TOP_RANGES + 1], freed; /* freed: the latest one, in case the free fails */
};

/* `rank`: as the launcher gave it; a text. */
void vt_top_begin(struct vt_top_counters *top, const char *rank);
void vt_top_event(struct vt_top_counters *top, struct vt_top_ranges *known, const struct vt_event *event);
/* Takes a definition; ignores those that are not about a device. */
void vt_top_definition(struct vt_top_counters *top, const struct vt_record_head *head);

#endif
