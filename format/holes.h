/* Where a framework's allocator will put its next block: the smallest hole that is large enough, of equal
 * ones the lowest, as PyTorch does. Right or wrong, it is the same for writer and reader, which is all that
 * exactness needs. Addresses and sizes are in bytes. All fits the struct: what is too much is not kept, which
 * only costs bytes. */
#ifndef VT_HOLES_H
#define VT_HOLES_H

#include <stdbool.h>
#include <stdint.h>

#include "format/coder.h"

enum { VT_HOLES_MAXIMUM = 1024 };

struct vt_ranges_kept {      /* by start; they do not overlap */
    uint32_t count, guessed; /* guessed: where the last guess was, so that it need not be searched for */
    uint64_t start[VT_HOLES_MAXIMUM], end[VT_HOLES_MAXIMUM];
    int32_t size[VT_HOLES_MAXIMUM]; /* in units of 512 bytes, and above that the pool */
};
struct vt_holes {
    uint64_t fresh; /* start of the latest segment if no block was in it yet, else 0 */
    struct vt_ranges_kept segments, holes[2]; /* each hole is in a segment; [1] in one for small blocks */
};

/* The driver gave memory, or took it back. */
void vt_holes_add_segment(struct vt_holes *known, unsigned device, uint64_t start, uint64_t bytes);
void vt_holes_end_segment(struct vt_holes *known, uint64_t start);
/* A block was made, or freed. */
void vt_holes_take(struct vt_holes *known, uint64_t start, uint64_t bytes);
void vt_holes_give(struct vt_holes *known, uint64_t start, uint64_t bytes);
/* Where a block of so many bytes would go, 0 = not known; *bytes becomes the whole hole's, if what were left
 * of it is too small to be cut off. */
uint64_t vt_holes_guess(struct vt_holes *known, unsigned device, uint64_t *bytes);

/* Writes or reads what a chain begins with. */
void vt_holes_code(struct vt_holes *known, struct vt_coder *coder, bool reading);

#endif
