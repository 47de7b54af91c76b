/* Free memory of streams: PyTorch's allocator serves each stream only from segments of its own. */
#ifndef VT_FINDINGS_STREAMS_H
#define VT_FINDINGS_STREAMS_H

#include <stdbool.h>
#include <stdint.h>

struct vt_fragmentation;
struct vt_report;
struct vt_trace;

/* Sets what a cache has by stream, just after an event. */
void vt_streams_find(const struct vt_report *report, int device_index, uint32_t event_index,
                     struct vt_fragmentation *found);
/* The same where segments that graphs captured are marked, or are not known. */
void vt_streams_count(const struct vt_trace *trace, struct vt_fragmentation *found);
/* More than a program may well need, with so many bytes free on all but one of them. */
bool vt_streams_are_many(const struct vt_fragmentation *found, uint64_t bytes);
/* Advice on a cache of many streams; frees none. */
void vt_streams_advise(struct vt_fragmentation *found);

#endif
