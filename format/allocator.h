/* The numbers of PyTorch's allocator, c10/cuda/CUDACachingAllocator.cpp, as they are without options. */
#ifndef VT_ALLOCATOR_NUMBERS_H
#define VT_ALLOCATOR_NUMBERS_H

#include <stdint.h>

/* Requests are rounded up to a multiple of this; no block is smaller. */
#define VT_TORCH_ROUND_BYTES UINT64_C(512)
/* Requests up to this are served from small segments, larger ones from others. A large block is not split
 * where the rest would not be larger than this: it may be so much larger than was asked for. */
#define VT_TORCH_SMALL_BYTES (UINT64_C(1) << 20)
#define VT_TORCH_SMALL_SEGMENT_BYTES (UINT64_C(2) << 20)
/* Of a large request; from OWN_SEGMENT_BYTES on it has a segment of its own, rounded up to
 * SEGMENT_ROUND_BYTES. */
#define VT_TORCH_LARGE_SEGMENT_BYTES (UINT64_C(20) << 20)
#define VT_TORCH_OWN_SEGMENT_BYTES (UINT64_C(10) << 20)
#define VT_TORCH_SEGMENT_ROUND_BYTES (UINT64_C(2) << 20)
/* Streams of one device and priority, which it hands out in turn. */
#define VT_TORCH_STREAMS 32u

#endif
