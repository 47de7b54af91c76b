/* What an address is: cuPointerGetAttribute and its like. */
#include "standin.h"

#include <string.h>

static CUmemorytype memory_type(const struct standin_range *range)
{
    return range->device < 0 ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
}

static CUresult attribute_of(void *data, CUpointer_attribute attribute, const struct standin_range *range,
                             CUdeviceptr address)
{
    switch (attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
        if (range->context == NULL)
            return CUDA_ERROR_INVALID_VALUE;
        *(CUcontext *)data = range->context;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
        *(unsigned *)data = memory_type(range);
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
        if (attribute == CU_POINTER_ATTRIBUTE_HOST_POINTER && range->device >= 0 &&
            range->kind != KIND_MANAGED)
            return CUDA_ERROR_INVALID_VALUE;
        *(CUdeviceptr *)data = address;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
        *(unsigned long long *)data = range->buffer_id;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
        *(bool *)data = range->kind == KIND_MANAGED;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
        *(int *)data = range->device >= 0 ? range->device : range->context ? range->context->device : 0;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
        *(bool *)data = range->kind == KIND_DEVICE;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
        *(CUdeviceptr *)data = range->start;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
        *(size_t *)data = range->bytes;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MAPPED:
        *(bool *)data = true;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
        *(CUmemoryPool *)data = range->kind == KIND_POOL ? range->owner : NULL;
        return CUDA_SUCCESS;
    default:
        return CUDA_ERROR_NOT_SUPPORTED;
    }
}

CUresult cuPointerGetAttribute(void *data, CUpointer_attribute attribute, CUdeviceptr ptr)
{
    CONTEXT_CALL();
    struct standin_range *range = standin_range_find((uintptr_t)ptr);
    REQUIRE(data != NULL && range != NULL);
    return attribute_of(data, attribute, range, ptr);
}

/* For an unknown address each attribute gets its "none" and the call is a success. */
static void attribute_of_unknown(void *data, CUpointer_attribute attribute)
{
    switch (attribute) {
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
        *(unsigned *)data = 0;
        break;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
        *(int *)data = -2;
        break;
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
    case CU_POINTER_ATTRIBUTE_MAPPED:
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
        *(bool *)data = false;
        break;
    case CU_POINTER_ATTRIBUTE_CONTEXT:
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
        memset(data, 0, 8);
        break;
    default:
        break;
    }
}

CUresult cuPointerGetAttributes(unsigned int numAttributes, CUpointer_attribute *attributes, void **data,
                                CUdeviceptr ptr)
{
    CONTEXT_CALL();
    REQUIRE(attributes != NULL && data != NULL);
    struct standin_range *range = standin_range_find((uintptr_t)ptr);
    for (unsigned i = 0; i < numAttributes; i++) {
        if (range == NULL || attribute_of(data[i], attributes[i], range, ptr) != CUDA_SUCCESS)
            attribute_of_unknown(data[i], attributes[i]);
    }
    return CUDA_SUCCESS;
}

CUresult cuPointerSetAttribute(const void *value, CUpointer_attribute attribute, CUdeviceptr ptr)
{
    CONTEXT_CALL();
    REQUIRE(value != NULL && attribute == CU_POINTER_ATTRIBUTE_SYNC_MEMOPS);
    REQUIRE(standin_range_find((uintptr_t)ptr) != NULL);
    return CUDA_SUCCESS;
}
