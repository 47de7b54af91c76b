/* Fragmentation: segments, their blocks, and what keeps each from being returned. */
#ifndef VT_FINDINGS_FRAGMENTATION_H
#define VT_FINDINGS_FRAGMENTATION_H

#include <stdbool.h>
#include <stdint.h>

struct vt_allocation;
struct vt_fragmentation;
struct vt_replay;
struct vt_report;

/* Some block came with its allocator's own total: of all frameworks, PyTorch's do. So without native stacks
 * segments are PyTorch's. */
bool vt_counts_blocks(const struct vt_replay *replay);
/* Code that returns empty segments of the device's framework to the GPU; NULL = none is known. */
const char *vt_cache_release(const struct vt_replay *replay, int device_index);
/* Fragmentation of one device just after an event: its segments, their blocks (index, address and bytes
 * only), and what keeps each from being returned. */
struct vt_fragmentation vt_fragmentation_find(const struct vt_replay *replay, int device_index,
                                              uint32_t event_index);
/* A segment of the virtual memory calls, which can expand. */
bool vt_is_mapping(const struct vt_replay *replay, const struct vt_allocation *segment);
/* Sets the rest of the blocks, and the pins. */
void vt_fragmentation_describe(const struct vt_report *report, struct vt_fragmentation *found);

#endif
