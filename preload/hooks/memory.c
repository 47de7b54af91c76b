/* Linear memory: device, managed, page-locked host. */
#include "hooks/driver.h"

#define ALLOCATED(symbol, flags_value, address_value, bytes_value)                                           \
    vt_after_allocation(                                                                                     \
        &(struct vt_allocation){.function = VT_FUNCTION_##symbol,                                            \
                                .flags = (flags_value),                                                      \
                                .device_index = device_index,                                                \
                                .address = result == CUDA_SUCCESS ? (uintptr_t)(address_value) : 0,          \
                                .bytes = (bytes_value)},                                                     \
        result)

VT_HOOK(cuMemAlloc_v2, (CUdeviceptr * address, size_t bytes))
{
    VT_REAL(cuMemAlloc_v2);
    int8_t device_index = vt_before_allocation();
    CUresult result = real(address, bytes);
    ALLOCATED(cuMemAlloc_v2, 0, *address, bytes);
    return result;
}

VT_HOOK(cuMemAlloc, (CUdeviceptr_v1 * address, unsigned int bytes))
{
    VT_REAL(cuMemAlloc);
    int8_t device_index = vt_before_allocation();
    CUresult result = real(address, bytes);
    ALLOCATED(cuMemAlloc, 0, *address, bytes);
    return result;
}

/* The pitch is the driver's choice: bytes asked for until the call has told it. */
VT_HOOK(cuMemAllocPitch_v2,
        (CUdeviceptr * address, size_t *pitch, size_t width_bytes, size_t height, unsigned int element_bytes))
{
    VT_REAL(cuMemAllocPitch_v2);
    int8_t device_index = vt_before_allocation();
    CUresult result = real(address, pitch, width_bytes, height, element_bytes);
    ALLOCATED(cuMemAllocPitch_v2, 0, *address, (result == CUDA_SUCCESS ? *pitch : width_bytes) * height);
    return result;
}

VT_HOOK(cuMemAllocPitch, (CUdeviceptr_v1 * address, unsigned int *pitch, unsigned int width_bytes,
                          unsigned int height, unsigned int element_bytes))
{
    VT_REAL(cuMemAllocPitch);
    int8_t device_index = vt_before_allocation();
    CUresult result = real(address, pitch, width_bytes, height, element_bytes);
    ALLOCATED(cuMemAllocPitch, 0, *address,
              (uint64_t)(result == CUDA_SUCCESS ? *pitch : width_bytes) * height);
    return result;
}

VT_HOOK(cuMemAllocManaged, (CUdeviceptr * address, size_t bytes, unsigned int flags))
{
    VT_REAL(cuMemAllocManaged);
    int8_t device_index = vt_before_allocation();
    CUresult result = real(address, bytes, flags);
    ALLOCATED(cuMemAllocManaged, VT_FLAG_MANAGED, *address, bytes);
    return result;
}

VT_HOOK(cuMemAllocHost_v2, (void **address, size_t bytes))
{
    VT_REAL(cuMemAllocHost_v2);
    int8_t device_index = vt_before_allocation();
    CUresult result = real(address, bytes);
    ALLOCATED(cuMemAllocHost_v2, VT_FLAG_HOST, *address, bytes);
    return result;
}

VT_HOOK(cuMemAllocHost, (void **address, unsigned int bytes))
{
    VT_REAL(cuMemAllocHost);
    int8_t device_index = vt_before_allocation();
    CUresult result = real(address, bytes);
    ALLOCATED(cuMemAllocHost, VT_FLAG_HOST, *address, bytes);
    return result;
}

VT_HOOK(cuMemHostAlloc, (void **address, size_t bytes, unsigned int flags))
{
    VT_REAL(cuMemHostAlloc);
    int8_t device_index = vt_before_allocation();
    CUresult result = real(address, bytes, flags);
    ALLOCATED(cuMemHostAlloc, VT_FLAG_HOST, *address, bytes);
    return result;
}

#define REGISTER(symbol)                                                                                     \
    VT_HOOK(symbol, (void *address, size_t bytes, unsigned int flags))                                       \
    {                                                                                                        \
        VT_REAL(symbol);                                                                                     \
        int8_t device_index = vt_before_allocation();                                                        \
        CUresult result = real(address, bytes, flags);                                                       \
        ALLOCATED(symbol, VT_FLAG_HOST | VT_FLAG_REGISTERED, address, bytes);                                \
        return result;                                                                                       \
    }
REGISTER(cuMemHostRegister)
REGISTER(cuMemHostRegister_v2)

#define FREE(symbol, type, flags_value)                                                                      \
    VT_HOOK(symbol, (type address))                                                                          \
    {                                                                                                        \
        VT_REAL(symbol);                                                                                     \
        struct vt_allocation taken_back = {.function = VT_FUNCTION_##symbol,                                 \
                                           .kind = VT_EVENT_FREE,                                            \
                                           .flags = (flags_value),                                           \
                                           .device_index = VT_NO_DEVICE,                                     \
                                           .address = (uintptr_t)address};                                   \
        vt_before_free(&taken_back);                                                                         \
        CUresult result = real(address);                                                                     \
        vt_after_free(&taken_back, result);                                                                  \
        if ((flags_value) == 0) /* it takes pools' addresses too */                                          \
            vt_poll_pools(VT_FUNCTION_##symbol, false);                                                      \
        return result;                                                                                       \
    }
FREE(cuMemFree_v2, CUdeviceptr, 0)
FREE(cuMemFree, CUdeviceptr_v1, 0)
FREE(cuMemFreeHost, void *, VT_FLAG_HOST)
FREE(cuMemHostUnregister, void *, VT_FLAG_HOST | VT_FLAG_REGISTERED)
