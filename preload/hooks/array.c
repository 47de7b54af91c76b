/* Arrays and mipmapped arrays. No call tells what they take, so their bytes are an estimate from the
 * descriptor, without the padding of the hardware's layout. */
#include "hooks/driver.h"

/* Bytes of one channel; formats of compressed blocks and planes are not in here and count as 1. */
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
    uint64_t width, height, depth; /* height and depth 0: fewer dimensions */
    CUarray_format format;
    unsigned channels, flags;
};

static uint64_t estimate(const struct extent *extent, unsigned levels)
{
    /* Memory of these comes later, by mapping. */
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

/* The descriptors of the two ABIs have the same members of different widths. */
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

static void after(enum vt_function function, int8_t device_index, const void *handle, uint64_t bytes,
                  CUresult result)
{
    vt_after_allocation(&(struct vt_allocation){.function = function,
                                                .flags = VT_FLAG_ESTIMATE,
                                                .device_index = device_index,
                                                .address = (uintptr_t)handle,
                                                .bytes = bytes},
                        result);
}

#define CREATE(symbol, descriptor_type, extent_of)                                                           \
    VT_HOOK(symbol, (CUarray * array, const descriptor_type *descriptor))                                    \
    {                                                                                                        \
        VT_REAL(symbol);                                                                                     \
        int8_t device_index = vt_before_allocation();                                                        \
        CUresult result = real(array, descriptor);                                                           \
        if (result == CUDA_SUCCESS || result == CUDA_ERROR_OUT_OF_MEMORY) {                                  \
            struct extent extent = extent_of(descriptor);                                                    \
            after(VT_FUNCTION_##symbol, device_index, result == CUDA_SUCCESS ? *array : NULL,                \
                  estimate(&extent, 1), result);                                                             \
        }                                                                                                    \
        return result;                                                                                       \
    }
CREATE(cuArrayCreate_v2, CUDA_ARRAY_DESCRIPTOR, EXTENT_2D)
CREATE(cuArrayCreate, CUDA_ARRAY_DESCRIPTOR_v1, EXTENT_2D)
CREATE(cuArray3DCreate_v2, CUDA_ARRAY3D_DESCRIPTOR, EXTENT_3D)
CREATE(cuArray3DCreate, CUDA_ARRAY3D_DESCRIPTOR_v1, EXTENT_3D)

VT_HOOK(cuMipmappedArrayCreate,
        (CUmipmappedArray * array, const CUDA_ARRAY3D_DESCRIPTOR *descriptor, unsigned int levels))
{
    VT_REAL(cuMipmappedArrayCreate);
    int8_t device_index = vt_before_allocation();
    CUresult result = real(array, descriptor, levels);
    if (result == CUDA_SUCCESS || result == CUDA_ERROR_OUT_OF_MEMORY) {
        struct extent extent = EXTENT_3D(descriptor);
        after(VT_FUNCTION_cuMipmappedArrayCreate, device_index, result == CUDA_SUCCESS ? *array : NULL,
              estimate(&extent, levels), result);
    }
    return result;
}

#define DESTROY(symbol, type)                                                                                \
    VT_HOOK(symbol, (type array))                                                                            \
    {                                                                                                        \
        VT_REAL(symbol);                                                                                     \
        struct vt_allocation taken_back = {.function = VT_FUNCTION_##symbol,                                 \
                                           .kind = VT_EVENT_FREE,                                            \
                                           .flags = VT_FLAG_ESTIMATE,                                        \
                                           .device_index = VT_NO_DEVICE,                                     \
                                           .address = (uintptr_t)array};                                     \
        vt_before_free(&taken_back);                                                                         \
        CUresult result = real(array);                                                                       \
        vt_after_free(&taken_back, result);                                                                  \
        return result;                                                                                       \
    }
DESTROY(cuArrayDestroy, CUarray)
DESTROY(cuMipmappedArrayDestroy, CUmipmappedArray)
