/* Fragmentation: segments at an instant, what lies in them, and what keeps them from being given back. */
#ifndef VT_FRAGMENTATION_H
#define VT_FRAGMENTATION_H

#include "replay/replay.h"

struct vt_hole {
    uint64_t address, bytes;
    bool usable; /* some request that was ever made of its pool fits in it */
};

/* A run of driver memory that blocks are cut from. Mappings that lie side by side (expandable segments) are
 * one. */
struct vt_segment {
    uint64_t address, bytes, block_bytes, largest_hole_bytes;
    uint32_t allocation;          /* index in replay->allocations, of the first of the run */
    uint32_t blocks, first_block; /* into vt_fragmentation.blocks, by address */
    uint32_t holes, first_hole;
    /* The block in it that stays longest after the instant, of those that stay for ever the oldest: without
     * it and what goes before it the segment could be given back. VT_NEVER = no block is in it. */
    uint32_t pin;
    bool small; /* of the pool of small requests */
};

struct vt_fragmentation {
    struct vt_segment *segments; /* by address */
    size_t segment_count;
    uint32_t *blocks; /* indexes of allocations */
    size_t block_count;
    struct vt_hole *holes; /* by address */
    size_t hole_count;
    uint64_t reserved_bytes, block_bytes, hole_bytes;
    uint64_t empty_bytes;    /* of segments without any block: an empty cache would give them back */
    uint64_t kept_bytes;     /* holes of the others */
    uint64_t unusable_bytes; /* of holes that no request ever made of their pool fits in */
    uint64_t largest_hole_bytes;
    /* Of each pool (0: large, 1: small): the least and the largest request ever made, 0 = none. */
    uint64_t least_request_bytes[2], largest_request_bytes[2];
};

/* The state of a device just after an event. -ENOMEM. */
int vt_fragmentation_find(const struct vt_replay *replay, int device_index, uint32_t event_index,
                          struct vt_fragmentation *found);
void vt_fragmentation_free(struct vt_fragmentation *found);

#endif
