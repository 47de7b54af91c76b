/* Where an allocator would put the next block: holes of the segments, and the smallest that is large enough.
 * The page's reader does the same, so that addresses need not be written where this is right. All numbers are
 * in units of VT_ADDRESS_UNIT bytes. */
#ifndef VT_PLACEMENT_H
#define VT_PLACEMENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define VT_ADDRESS_UNIT 256u
#define VT_PLACEMENT_POOLS 64u
#define VT_MOST_HOLES 4096u /* further ones are forgotten: that only costs bytes */
#define VT_NO_SEGMENT UINT32_MAX

struct vt_place_hole {
    uint64_t start, end;
    uint32_t segment, pool;
};
struct vt_place_fit {
    uint64_t size, start;
};
struct vt_placement {
    struct vt_place_hole *holes; /* by start */
    size_t count;
    struct vt_place_fit *fits[VT_PLACEMENT_POOLS]; /* the same holes by pool: by size, then start */
    size_t fit_counts[VT_PLACEMENT_POOLS];
    bool failed; /* no memory */
};

void vt_placement_free(struct vt_placement *placement);

/* A free piece of a segment, joined with those next to it that are of the same segment. */
void vt_placement_give(struct vt_placement *placement, uint32_t segment, uint32_t pool, uint64_t start,
                       uint64_t size);
/* Takes a piece of a hole and returns its segment; VT_NO_SEGMENT where no hole has it. */
uint32_t vt_placement_take(struct vt_placement *placement, uint64_t start, uint64_t size);
/* Forgets the holes of a segment that is no more. */
void vt_placement_drop(struct vt_placement *placement, uint32_t segment, uint64_t start, uint64_t size);
/* The start of the smallest hole that holds `size`, of equal ones the lowest; false without any. */
bool vt_placement_guess(const struct vt_placement *placement, uint32_t pool, uint64_t size, uint64_t *start);

#endif
