/* Arrays and mipmapped arrays: bytes by their descriptors. They have no addresses that anyone could use, so
 * their contents are plain host memory for the copies. */
#include "standin.h"

#include <stdlib.h>

struct CUarray_st {
    CUarray next;
    CUcontext context;
    CUdevice device;
    CUDA_ARRAY3D_DESCRIPTOR descriptor;
    size_t bytes;
    CUmipmappedArray mipmapped; /* the array it is a level of, NULL = stands alone */
};

struct CUmipmappedArray_st {
    CUmipmappedArray next;
    CUcontext context;
    unsigned levels;
    CUarray level[]; /* their bytes are the mipmapped array's */
};

static CUarray arrays;
static CUmipmappedArray mipmapped_arrays;

static size_t element_bytes(const CUDA_ARRAY3D_DESCRIPTOR *descriptor)
{
    switch (descriptor->Format) {
    case CU_AD_FORMAT_UNSIGNED_INT8:
    case CU_AD_FORMAT_SIGNED_INT8:
        return descriptor->NumChannels;
    case CU_AD_FORMAT_UNSIGNED_INT16:
    case CU_AD_FORMAT_SIGNED_INT16:
    case CU_AD_FORMAT_HALF:
        return 2 * descriptor->NumChannels;
    case CU_AD_FORMAT_UNSIGNED_INT32:
    case CU_AD_FORMAT_SIGNED_INT32:
    case CU_AD_FORMAT_FLOAT:
        return 4 * descriptor->NumChannels;
    default:
        return 0;
    }
}

static size_t at_least_one(size_t value)
{
    return value != 0 ? value : 1;
}

static CUresult array_new(CUarray *out, const CUDA_ARRAY3D_DESCRIPTOR *descriptor, CUcontext context)
{
    size_t element = element_bytes(descriptor);
    REQUIRE(element != 0 && descriptor->Width != 0);
    size_t bytes =
        element * descriptor->Width * at_least_one(descriptor->Height) * at_least_one(descriptor->Depth);
    if (descriptor->Flags & (CUDA_ARRAY3D_SPARSE | CUDA_ARRAY3D_DEFERRED_MAPPING))
        bytes = 0; /* mapped later */
    if (standin_fails() || !standin_take(context->device, USE_ARRAY, bytes))
        return CUDA_ERROR_OUT_OF_MEMORY;
    CUarray array = calloc(1, sizeof(*array));
    if (array == NULL)
        abort();
    array->context = context;
    array->device = context->device;
    array->descriptor = *descriptor;
    array->bytes = bytes;
    array->next = arrays;
    arrays = array;
    *out = array;
    return CUDA_SUCCESS;
}

static bool array_known(CUarray array)
{
    CUarray at = arrays;
    while (at != NULL && at != array)
        at = at->next;
    return at != NULL;
}

static void array_free(CUarray array)
{
    CUarray *link = &arrays;
    while (*link != array)
        link = &(*link)->next;
    *link = array->next;
    standin_give(array->device, USE_ARRAY, array->bytes);
    standin_free_handle(array);
}

static void mipmapped_free(CUmipmappedArray mipmapped)
{
    CUmipmappedArray *link = &mipmapped_arrays;
    while (*link != mipmapped)
        link = &(*link)->next;
    *link = mipmapped->next;
    for (unsigned i = 0; i < mipmapped->levels; i++)
        array_free(mipmapped->level[i]);
    standin_free_handle(mipmapped);
}

void standin_write_arrays(FILE *out)
{
    for (CUarray at = arrays; at != NULL; at = at->next) {
        if (at->mipmapped == NULL)
            fprintf(out, "array %p %zu %d\n", (void *)at, at->bytes, at->device);
    }
    for (CUmipmappedArray at = mipmapped_arrays; at != NULL; at = at->next) {
        size_t bytes = 0;
        for (unsigned i = 0; i < at->levels; i++)
            bytes += at->level[i]->bytes;
        fprintf(out, "array %p %zu %d\n", (void *)at, bytes, at->levels != 0 ? at->level[0]->device : -1);
    }
}

void standin_free_arrays_of_context(CUcontext context)
{
    for (CUmipmappedArray at = mipmapped_arrays, next; at != NULL; at = next) {
        next = at->next;
        if (at->context == context)
            mipmapped_free(at);
    }
    for (CUarray at = arrays, next; at != NULL; at = next) {
        next = at->next;
        if (at->context == context)
            array_free(at);
    }
}

CUresult cuArrayCreate_v2(CUarray *pHandle, const CUDA_ARRAY_DESCRIPTOR *pAllocateArray)
{
    CONTEXT_CALL();
    REQUIRE(pHandle != NULL && pAllocateArray != NULL);
    CUDA_ARRAY3D_DESCRIPTOR descriptor = {.Width = pAllocateArray->Width,
                                          .Height = pAllocateArray->Height,
                                          .Format = pAllocateArray->Format,
                                          .NumChannels = pAllocateArray->NumChannels};
    return array_new(pHandle, &descriptor, context);
}

CUresult cuArrayCreate(CUarray *pHandle, const CUDA_ARRAY_DESCRIPTOR_v1 *pAllocateArray)
{
    CONTEXT_CALL();
    REQUIRE(pHandle != NULL && pAllocateArray != NULL);
    CUDA_ARRAY3D_DESCRIPTOR descriptor = {.Width = pAllocateArray->Width,
                                          .Height = pAllocateArray->Height,
                                          .Format = pAllocateArray->Format,
                                          .NumChannels = pAllocateArray->NumChannels};
    return array_new(pHandle, &descriptor, context);
}

CUresult cuArray3DCreate_v2(CUarray *pHandle, const CUDA_ARRAY3D_DESCRIPTOR *pAllocateArray)
{
    CONTEXT_CALL();
    REQUIRE(pHandle != NULL && pAllocateArray != NULL);
    return array_new(pHandle, pAllocateArray, context);
}

CUresult cuArray3DCreate(CUarray *pHandle, const CUDA_ARRAY3D_DESCRIPTOR_v1 *pAllocateArray)
{
    CONTEXT_CALL();
    REQUIRE(pHandle != NULL && pAllocateArray != NULL);
    CUDA_ARRAY3D_DESCRIPTOR descriptor = {.Width = pAllocateArray->Width,
                                          .Height = pAllocateArray->Height,
                                          .Depth = pAllocateArray->Depth,
                                          .Format = pAllocateArray->Format,
                                          .NumChannels = pAllocateArray->NumChannels,
                                          .Flags = pAllocateArray->Flags};
    return array_new(pHandle, &descriptor, context);
}

CUresult cuArray3DGetDescriptor_v2(CUDA_ARRAY3D_DESCRIPTOR *pArrayDescriptor, CUarray hArray)
{
    CONTEXT_CALL();
    REQUIRE(pArrayDescriptor != NULL);
    if (!array_known(hArray))
        return CUDA_ERROR_INVALID_HANDLE;
    *pArrayDescriptor = hArray->descriptor;
    return CUDA_SUCCESS;
}

CUresult cuArrayGetDescriptor_v2(CUDA_ARRAY_DESCRIPTOR *pArrayDescriptor, CUarray hArray)
{
    CONTEXT_CALL();
    REQUIRE(pArrayDescriptor != NULL);
    if (!array_known(hArray))
        return CUDA_ERROR_INVALID_HANDLE;
    *pArrayDescriptor = (CUDA_ARRAY_DESCRIPTOR){.Width = hArray->descriptor.Width,
                                                .Height = hArray->descriptor.Height,
                                                .Format = hArray->descriptor.Format,
                                                .NumChannels = hArray->descriptor.NumChannels};
    return CUDA_SUCCESS;
}

CUresult cuArrayDestroy(CUarray hArray)
{
    CONTEXT_CALL();
    if (!array_known(hArray) || hArray->mipmapped != NULL)
        return CUDA_ERROR_INVALID_HANDLE;
    array_free(hArray);
    return CUDA_SUCCESS;
}

CUresult cuMipmappedArrayCreate(CUmipmappedArray *pHandle, const CUDA_ARRAY3D_DESCRIPTOR *pMipmappedArrayDesc,
                                unsigned int numMipmapLevels)
{
    CONTEXT_CALL();
    REQUIRE(pHandle != NULL && pMipmappedArrayDesc != NULL && numMipmapLevels > 0 && numMipmapLevels < 32);
    CUmipmappedArray made = calloc(1, sizeof(*made) + numMipmapLevels * sizeof(made->level[0]));
    if (made == NULL)
        abort();
    made->context = context;
    made->next = mipmapped_arrays;
    mipmapped_arrays = made;
    CUDA_ARRAY3D_DESCRIPTOR descriptor = *pMipmappedArrayDesc;
    for (unsigned i = 0; i < numMipmapLevels; i++) {
        CUresult result = array_new(&made->level[i], &descriptor, context);
        if (result != CUDA_SUCCESS) {
            mipmapped_free(made);
            return result;
        }
        made->level[i]->mipmapped = made;
        made->levels++;
        descriptor.Width = at_least_one(descriptor.Width / 2);
        descriptor.Height = descriptor.Height > 1 ? descriptor.Height / 2 : descriptor.Height;
        descriptor.Depth = descriptor.Depth > 1 ? descriptor.Depth / 2 : descriptor.Depth;
    }
    *pHandle = made;
    return CUDA_SUCCESS;
}

CUresult cuMipmappedArrayGetLevel(CUarray *pLevelArray, CUmipmappedArray hMipmappedArray, unsigned int level)
{
    CONTEXT_CALL();
    REQUIRE(pLevelArray != NULL && hMipmappedArray != NULL && level < hMipmappedArray->levels);
    *pLevelArray = hMipmappedArray->level[level];
    return CUDA_SUCCESS;
}

CUresult cuMipmappedArrayDestroy(CUmipmappedArray hMipmappedArray)
{
    CONTEXT_CALL();
    CUmipmappedArray at = mipmapped_arrays;
    while (at != NULL && at != hMipmappedArray)
        at = at->next;
    if (at == NULL)
        return CUDA_ERROR_INVALID_HANDLE;
    mipmapped_free(at);
    return CUDA_SUCCESS;
}
