/* Simulates PyTorch's caching allocator: how it would serve further requests. It begins with the segments and
 * blocks of a trace at some moment, and with what the driver has free. */
#ifndef VT_ALLOCATOR_H
#define VT_ALLOCATOR_H

#include "replay/replay.h"

struct vt_allocator;

/* A block of the allocator; VT_NO_BLOCK = the request failed. */
#define VT_NO_BLOCK UINT32_MAX

/* The state of a device just after an event; NULL where another kind of allocator owns its memory: no
 * segments, or segments that expand. */
struct vt_allocator *vt_allocator_make(const struct vt_replay *replay, int device_index, uint32_t event_index,
                                       uint64_t free_bytes);
void vt_allocator_free(struct vt_allocator *allocator);
/* The block that an allocation of the trace lies in. */
uint32_t vt_allocator_find(const struct vt_allocator *allocator, uint32_t allocation);
/* Fails when the driver has no more, after all segments without blocks were returned to it. */
uint32_t vt_allocator_take(struct vt_allocator *allocator, uint64_t bytes);
void vt_allocator_give(struct vt_allocator *allocator, uint32_t block);

#endif
