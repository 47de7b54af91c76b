/* The checksum of a chunk (format.h). To build xxHash in, define XXH_INLINE_ALL before. Pure. */
#ifndef VT_CHECKSUM_H
#define VT_CHECKSUM_H

#include <xxhash.h>

#include "vramtrace/format.h"

/* Of the header, except for its own checksum, and of head->stored_bytes bytes at `stored`. */
static inline uint64_t vt_chunk_checksum(const struct vt_chunk_header *head, const uint8_t *stored)
{
    struct vt_chunk_header copy = *head;
    copy.checksum = 0;
    return XXH3_64bits_withSeed(stored, head->stored_bytes, XXH3_64bits(&copy, sizeof copy));
}

#endif
