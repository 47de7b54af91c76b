/* Blocks counted by size, in the unit in which sizes are compared. */
#ifndef VT_ATTRIBUTE_COUNTED_SIZES_H
#define VT_ATTRIBUTE_COUNTED_SIZES_H

#include <stdbool.h>
#include <stdint.h>

struct vt_index;

/* vt_size_nearest:
 * the nearest unit with at least `least` blocks that a block of `bytes` may match, its own, or for a large
 * block one within the unsplit remainder; 0 = none. vt_size_take: whether there was one, which is used up. */
uint64_t vt_size_bucket(uint64_t bytes);
void vt_size_add(struct vt_index *sizes, uint64_t bytes);
uint64_t vt_size_nearest(const struct vt_index *sizes, uint64_t bytes, uint32_t least);
bool vt_size_take(struct vt_index *sizes, uint64_t bytes);

#endif
