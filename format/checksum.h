/* The checksum of a chained chunk (format.h). Where xxHash is built in, XXH_INLINE_ALL is defined before. */
#ifndef VT_CHECKSUM_H
#define VT_CHECKSUM_H

#include <xxhash.h>

#include "vramtrace/format.h"

/* Of the header but for its own checksum, and of head->chunk.stored_bytes at `stored`. */
static inline uint64_t vt_chained_checksum(const struct vt_chained_chunk_header *head, const uint8_t *stored)
{
    struct vt_chained_chunk_header copy = *head;
    copy.chunk.checksum = 0;
    return XXH3_64bits_withSeed(stored, head->chunk.stored_bytes, XXH3_64bits(&copy, sizeof copy));
}

#endif
