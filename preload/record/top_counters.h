/* What `vramtrace top` shows besides the hot path's counters (format.h, struct vt_top_counters), updated
 * from each record that the writer takes from the ring. Threads: the writer's. */
#ifndef VT_TOP_H
#define VT_TOP_H

#include "record/address_table.h"
#include "vramtrace/ring.h"

/* Live driver memory, found by its start address. Which of it holds a framework's blocks is learned when the
 * framework reports that it holds more than before. Memory that does not fit into the table counts again
 * once the framework reports its total. All zero at first. */
enum { VT_TOP_RANGES = 4096 };
struct vt_top_ranges {
    struct vt_address_table table; /* at most VT_TOP_RANGES; `device`: if the memory is a segment, its device;
                                      else (uint8_t)-1 */
    struct vt_address_entry freed; /* the latest one, in case the free fails */
};

/* `rank`: as the launcher gave it; a text. */
void vt_top_begin(struct vt_top_counters *top, const char *rank);
void vt_top_event(struct vt_top_counters *top, struct vt_top_ranges *known, const struct vt_event *event);
/* Takes a definition; ignores those that are not about a device. */
void vt_top_definition(struct vt_top_counters *top, const struct vt_record_head *head);
/* Takes what an inspection's text says of a server's pool. Threads: the inspection's. */
void vt_top_inspection(struct vt_top_pool *pool, const char *text, size_t bytes, uint64_t t_ns);

#endif
