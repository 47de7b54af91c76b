/* Predicts where a framework's allocator puts its next block: into the smallest hole that is large enough,
 * the lowest of equal ones, as PyTorch does. Right or wrong, writer and reader predict the same, and nothing
 * else matters for exactness. Addresses and sizes are in bytes. Everything is in the struct; what does not
 * fit is not kept, which only costs bytes. Threads: one at a time. */
#ifndef VT_HOLES_H
#define VT_HOLES_H

#include <stdbool.h>
#include <stdint.h>

#include "format/coder.h"

enum { VT_HOLES_MAXIMUM = 1024 };

struct vt_ranges_kept {      /* sorted by start; they do not overlap */
    uint32_t count, guessed; /* guessed: the index of the last guess */
    uint64_t start[VT_HOLES_MAXIMUM], end[VT_HOLES_MAXIMUM];
    int32_t size[VT_HOLES_MAXIMUM]; /* in units of 512 bytes; the bits above are the pool */
};
struct vt_holes {
    uint64_t fresh; /* start of the newest segment if it never had a block, else 0 */
    struct vt_ranges_kept segments, holes[2]; /* each hole lies in a segment; [1]: in one for small blocks */
};

/* The driver gave memory, or took it back. */
void vt_holes_add_segment(struct vt_holes *known, unsigned device, uint64_t start, uint64_t bytes);
void vt_holes_end_segment(struct vt_holes *known, uint64_t start);
/* A block was made, or freed. */
void vt_holes_take(struct vt_holes *known, uint64_t start, uint64_t bytes);
void vt_holes_give(struct vt_holes *known, uint64_t start, uint64_t bytes);
/* Where a block of *bytes would go; 0 = not known. *bytes becomes the size of the whole hole if the
 * allocator would not split it. */
uint64_t vt_holes_guess(struct vt_holes *known, unsigned device, uint64_t *bytes);

/* Writes or reads the state that a chain begins with. */
void vt_holes_code(struct vt_holes *known, struct vt_coder *coder, bool reading);

#endif
