/* Free memory of streams: PyTorch's allocator serves each stream only from segments of its own. */
#ifndef VT_DIAGNOSE_STREAMS_H
#define VT_DIAGNOSE_STREAMS_H

#include <stdint.h>

struct vt_cause_search;
struct vt_fragmentation;
struct vt_report;

/* Sets what a cache has by stream, just after an event. */
void vt_streams_find(const struct vt_report *report, int device_index, uint32_t event_index,
                     struct vt_fragmentation *found);
/* Advice on a cache of many streams; frees none. */
void vt_streams_advise(struct vt_fragmentation *found);

/* A cause of an OOM: the request would fit into free memory of another stream. */
void vt_cause_streams(struct vt_cause_search *search);
/* What the request could be served from: free bytes in segments of its stream and size that hold blocks, and
 * their largest hole. All of the cache if streams are not known. */
struct vt_own_free {
    uint64_t kept_bytes, largest_hole_bytes;
};
struct vt_own_free vt_streams_own(const struct vt_cause_search *search);

#endif
