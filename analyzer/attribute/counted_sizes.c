/* Counts of blocks by size. */
#include "attribute/counted_sizes.h"

#include "attribute/lives.h"
#include "format/allocator.h"

/* The allocator leaves up to 1 MiB unsplit in larger blocks, so the blocks of a parameter and its gradient
 * may differ by that much. Their sizes are compared in units. */
#define UNIT_BYTES (UINT64_C(1) << 16)

uint64_t vt_size_bucket(uint64_t bytes)
{
    return bytes <= VT_TORCH_SMALL_BYTES ? bytes : VT_TORCH_SMALL_BYTES + bytes / UNIT_BYTES;
}

static uint32_t count_of(const struct vt_index *sizes, uint64_t size_bucket)
{
    uint32_t count = vt_index_get(sizes, size_bucket);
    return count == VT_INDEX_NONE ? 0 : count;
}

void vt_size_add(struct vt_index *sizes, uint64_t bytes)
{
    uint64_t size_bucket = vt_size_bucket(bytes);
    vt_index_put(sizes, size_bucket, count_of(sizes, size_bucket) + 1);
}

/* The nearest size with at least `least` blocks that a block of `bytes` may match: its own, or for a large
 * block one within the unsplit remainder. 0 = none. */
uint64_t vt_size_nearest(const struct vt_index *sizes, uint64_t bytes, uint32_t least)
{
    uint64_t middle = vt_size_bucket(bytes),
             reach = bytes <= VT_TORCH_SMALL_BYTES ? 0 : VT_TORCH_SMALL_BYTES / UNIT_BYTES;
    for (uint64_t away = 0; away <= reach; away++)
        for (uint64_t near = middle - away;; near = middle + away) {
            uint32_t count = vt_index_get(sizes, near);
            if (count != VT_INDEX_NONE && count >= least)
                return near;
            if (near == middle + away)
                break;
        }
    return 0;
}

bool vt_size_take(struct vt_index *sizes, uint64_t bytes)
{
    uint64_t found = vt_size_nearest(sizes, bytes, 1);
    if (found)
        vt_index_put(sizes, found, count_of(sizes, found) - 1);
    return found != 0;
}
