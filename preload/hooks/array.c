/* Arrays and mipmapped arrays. No call reports their size, so their bytes are estimated from the descriptor,
 * without the padding of the hardware's layout. */
#include "hooks/wrap.h"

/* Bytes of one channel; block-compressed and planar formats count as 1. */
static unsigned channel_bytes(CUarray_format format)
{
    switch ((int)format) {
    case CU_AD_FORMAT_UNSIGNED_INT16:
    case CU_AD_FORMAT_SIGNED_INT16:
    case CU_AD_FORMAT_HALF:
        return 2;
    case CU_AD_FORMAT_UNSIGNED_INT32:
    case CU_AD_FORMAT_SIGNED_INT32:
    case CU_AD_FORMAT_FLOAT:
        return 4;
    default:
        return 1;
    }
}

struct extent {
    uint64_t width, height, depth; /* 0 for missing dimensions */
    CUarray_format format;
    unsigned channels, flags;
};

static uint64_t estimate_bytes(const struct extent *extent, unsigned levels)
{
    /* Sparse and deferred arrays get their memory later, by mapping. */
    if (extent->flags & (CUDA_ARRAY3D_SPARSE | CUDA_ARRAY3D_DEFERRED_MAPPING))
        return 0;
    uint64_t bytes = 0, width = extent->width, height = extent->height, depth = extent->depth;
    bool layered = extent->flags & (CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_CUBEMAP);
    for (unsigned level = 0; level < levels && level < 64; level++) {
        bytes += (width != 0 ? width : 1) * (height != 0 ? height : 1) * (depth != 0 ? depth : 1) *
                 channel_bytes(extent->format) * extent->channels;
        width /= 2;
        height /= 2;
        if (!layered)
            depth /= 2;
    }
    return bytes;
}

/* The two ABIs' descriptors have the same members, in different widths. */
#define EXTENT_2D(descriptor)                                                                                \
    {                                                                                                        \
        .width = (descriptor)->Width, .height = (descriptor)->Height, .format = (descriptor)->Format,        \
        .channels = (descriptor)->NumChannels                                                                \
    }
#define EXTENT_3D(descriptor)                                                                                \
    {                                                                                                        \
        .width = (descriptor)->Width, .height = (descriptor)->Height, .depth = (descriptor)->Depth,          \
        .format = (descriptor)->Format, .channels = (descriptor)->NumChannels, .flags = (descriptor)->Flags  \
    }

/* Only out of memory is recorded as a failure: otherwise there may be no descriptor. */
#define CREATE(symbol, extent_of, levels_value, parameters, arguments)                                       \
    VT_HOOK_ALLOCATE_IF(symbol, done || result == CUDA_ERROR_OUT_OF_MEMORY, parameters, arguments,           \
                        .flags = VT_FLAG_ESTIMATE, .address = done ? (uintptr_t)*array : 0,                  \
                        .bytes = estimate_bytes(&(struct extent)extent_of(descriptor), levels_value))
#define CREATE_ARRAY(symbol, descriptor_type, extent_of)                                                     \
    CREATE(symbol, extent_of, 1, (CUarray * array, const descriptor_type *descriptor), (array, descriptor))
CREATE_ARRAY(cuArrayCreate_v2, CUDA_ARRAY_DESCRIPTOR, EXTENT_2D)
CREATE_ARRAY(cuArrayCreate, CUDA_ARRAY_DESCRIPTOR_v1, EXTENT_2D)
CREATE_ARRAY(cuArray3DCreate_v2, CUDA_ARRAY3D_DESCRIPTOR, EXTENT_3D)
CREATE_ARRAY(cuArray3DCreate, CUDA_ARRAY3D_DESCRIPTOR_v1, EXTENT_3D)
CREATE(cuMipmappedArrayCreate, EXTENT_3D, levels,
       (CUmipmappedArray * array, const CUDA_ARRAY3D_DESCRIPTOR *descriptor, unsigned int levels),
       (array, descriptor, levels))

#define DESTROY(symbol, type)                                                                                \
    VT_HOOK_FREE(symbol, VT_EVENT_FREE, (type array), (array), .flags = VT_FLAG_ESTIMATE,                    \
                 .address = (uintptr_t)array)
DESTROY(cuArrayDestroy, CUarray)
DESTROY(cuMipmappedArrayDestroy, CUmipmappedArray)
