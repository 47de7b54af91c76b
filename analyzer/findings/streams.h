/* Free memory of streams: PyTorch's allocator serves each stream only from segments of its own. */
#ifndef VT_FINDINGS_STREAMS_H
#define VT_FINDINGS_STREAMS_H

#include <stdint.h>

struct vt_fragmentation;
struct vt_report;

/* Sets what a cache has by stream, just after an event. */
void vt_streams_find(const struct vt_report *report, int device_index, uint32_t event_index,
                     struct vt_fragmentation *found);
/* Advice on a cache of many streams; frees none. */
void vt_streams_advise(struct vt_fragmentation *found);

#endif
