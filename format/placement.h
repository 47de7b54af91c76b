/* Where a framework's allocator will put its next block: the smallest hole that is large enough, of equal ones the lowest, as
 * PyTorch does. Right or wrong, it is the same for writer and reader, which is all that exactness needs. Addresses and sizes
 * in bytes. No memory of its own; all fits the struct: what is too much is not kept, which only costs bytes. */
#ifndef VT_PLACEMENT_H
#define VT_PLACEMENT_H

#include <stdbool.h>
#include <stdint.h>

#include "format/coder.h"

enum { VT_PLACEMENT_MAXIMUM = 1024 };

struct vt_place {
    uint64_t start, end;
    uint32_t pool;
};
struct vt_placement {
    uint32_t segment_count, hole_count;
    uint64_t fresh; /* start of the latest segment if no block was in it yet, else 0 */
    struct vt_place segments[VT_PLACEMENT_MAXIMUM]; /* by start; they do not overlap */
    struct vt_place holes[VT_PLACEMENT_MAXIMUM];    /* by start; each within a segment */
    struct vt_fit {
        uint64_t size; /* and in the upper bits the pool: VT_POOL_SHIFT */
        uint64_t start;
    } fits[VT_PLACEMENT_MAXIMUM]; /* the same holes, by pool, size, start */
};

/* The driver gave or took back memory. */
void vt_placement_add_segment(struct vt_placement *placement, unsigned device, uint64_t start, uint64_t bytes);
void vt_placement_end_segment(struct vt_placement *placement, uint64_t start);
/* A block was made or freed. */
void vt_placement_take(struct vt_placement *placement, uint64_t start, uint64_t bytes);
void vt_placement_give(struct vt_placement *placement, uint64_t start, uint64_t bytes);
/* Where a block of so many bytes would go, 0 = not known; *bytes becomes the whole hole's, if what were left of it is too
 * small to be cut off. */
uint64_t vt_placement_guess(const struct vt_placement *placement, unsigned device, uint64_t *bytes);

/* Writes or reads what a chain begins with. */
void vt_placement_code(struct vt_placement *placement, struct vt_coder *coder, bool reading);

#endif
