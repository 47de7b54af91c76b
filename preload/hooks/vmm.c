/* Virtual memory management: physical handles, address space, and mappings between them; multicast objects.
 * A handle's memory is alive until it is neither referred to, mapped nor bound; the analyzer counts that from
 * these events. */
#include "hooks/driver.h"

#define CALL(symbol, kind_value, flags_value, device_value, address_value, bytes_value, ...)                 \
    (struct vt_allocation)                                                                                   \
    {                                                                                                        \
        .function = VT_FUNCTION_##symbol, .kind = (kind_value), .flags = (flags_value),                      \
        .device_index = (device_value), .address = (address_value), .bytes = (bytes_value), __VA_ARGS__      \
    }

VT_HOOK(cuMemCreate, (CUmemGenericAllocationHandle * handle, size_t bytes,
                      const CUmemAllocationProp *properties, unsigned long long flags))
{
    VT_REAL(cuMemCreate);
    int8_t device_index = vt_before_allocation();
    CUresult result = real(handle, bytes, properties, flags);
    uint8_t host = 0;
    if (properties != NULL && properties->location.type == CU_MEM_LOCATION_TYPE_DEVICE &&
        (unsigned)properties->location.id < VT_MAX_DEVICES)
        device_index = (int8_t)properties->location.id;
    else
        host = VT_FLAG_HOST;
    vt_after_allocation(&CALL(cuMemCreate, VT_EVENT_HANDLE_CREATE, host, device_index,
                              result == CUDA_SUCCESS ? *handle : 0, bytes, ),
                        result);
    return result;
}

/* Nothing tells the size of what another process shares: it shows when it is mapped. */
VT_HOOK(cuMemImportFromShareableHandle,
        (CUmemGenericAllocationHandle * handle, void *shared, CUmemAllocationHandleType handle_type))
{
    VT_REAL(cuMemImportFromShareableHandle);
    int8_t device_index = vt_before_allocation();
    CUresult result = real(handle, shared, handle_type);
    vt_after_allocation(&CALL(cuMemImportFromShareableHandle, VT_EVENT_HANDLE_CREATE, VT_FLAG_FOREIGN,
                              device_index, result == CUDA_SUCCESS ? *handle : 0, 0, ),
                        result);
    return result;
}

VT_HOOK(cuMemRetainAllocationHandle, (CUmemGenericAllocationHandle * handle, void *address))
{
    VT_REAL(cuMemRetainAllocationHandle);
    CUresult result = real(handle, address);
    if (result == CUDA_SUCCESS)
        vt_driver_event(
            &CALL(cuMemRetainAllocationHandle, VT_EVENT_HANDLE_RETAIN, 0, VT_NO_DEVICE, *handle, 0, ));
    return result;
}

VT_HOOK(cuMemRelease, (CUmemGenericAllocationHandle handle))
{
    VT_REAL(cuMemRelease);
    struct vt_allocation taken_back =
        CALL(cuMemRelease, VT_EVENT_HANDLE_RELEASE, 0, VT_NO_DEVICE, handle, 0, );
    vt_before_free(&taken_back);
    CUresult result = real(handle);
    vt_after_free(&taken_back, result);
    return result;
}

VT_HOOK(cuMemAddressReserve,
        (CUdeviceptr * address, size_t bytes, size_t alignment, CUdeviceptr wanted, unsigned long long flags))
{
    VT_REAL(cuMemAddressReserve);
    CUresult result = real(address, bytes, alignment, wanted, flags);
    if (result == CUDA_SUCCESS)
        vt_driver_event(&CALL(cuMemAddressReserve, VT_EVENT_RESERVE, 0, VT_NO_DEVICE, *address, bytes, ));
    return result;
}

VT_HOOK(cuMemAddressFree, (CUdeviceptr address, size_t bytes))
{
    VT_REAL(cuMemAddressFree);
    struct vt_allocation taken_back =
        CALL(cuMemAddressFree, VT_EVENT_UNRESERVE, 0, VT_NO_DEVICE, address, bytes, );
    vt_before_free(&taken_back);
    CUresult result = real(address, bytes);
    vt_after_free(&taken_back, result);
    return result;
}

VT_HOOK(cuMemMap, (CUdeviceptr address, size_t bytes, size_t offset, CUmemGenericAllocationHandle handle,
                   unsigned long long flags))
{
    VT_REAL(cuMemMap);
    CUresult result = real(address, bytes, offset, handle, flags);
    if (result == CUDA_SUCCESS)
        vt_driver_event(&CALL(cuMemMap, VT_EVENT_MAP, 0, VT_NO_DEVICE, address, bytes, .detail = handle,
                              .total_bytes = offset));
    return result;
}

VT_HOOK(cuMemUnmap, (CUdeviceptr address, size_t bytes))
{
    VT_REAL(cuMemUnmap);
    struct vt_allocation taken_back = CALL(cuMemUnmap, VT_EVENT_UNMAP, 0, VT_NO_DEVICE, address, bytes, );
    vt_before_free(&taken_back);
    CUresult result = real(address, bytes);
    vt_after_free(&taken_back, result);
    return result;
}

/* A refusal is no lack of memory, so it is not recorded. */
VT_HOOK(cuMulticastCreate, (CUmemGenericAllocationHandle * object, const CUmulticastObjectProp *properties))
{
    VT_REAL(cuMulticastCreate);
    CUresult result = real(object, properties);
    if (result == CUDA_SUCCESS)
        vt_driver_event(&CALL(cuMulticastCreate, VT_EVENT_MULTICAST_CREATE, 0, VT_NO_DEVICE, *object,
                              properties->size, ));
    return result;
}

/* What it takes of the device, if anything, the driver does not tell. */
VT_HOOK(cuMulticastAddDevice, (CUmemGenericAllocationHandle object, CUdevice device))
{
    VT_REAL(cuMulticastAddDevice);
    struct vt_bracket bracket = vt_bracket_open();
    CUresult result = real(object, device);
    vt_bracket_close(&bracket, VT_FUNCTION_cuMulticastAddDevice);
    return result;
}

/* `bound`: a handle, or an address. */
#define BIND(symbol, kind, device_value, parameters, arguments)                                              \
    VT_HOOK(symbol, parameters)                                                                              \
    {                                                                                                        \
        VT_REAL(symbol);                                                                                     \
        CUresult result = real arguments;                                                                    \
        if (result == CUDA_SUCCESS)                                                                          \
            vt_driver_event(&CALL(symbol, kind, 0, vt_device_index(device_value), object, bytes,             \
                                  .detail = bound, .total_bytes = offset));                                  \
        return result;                                                                                       \
    }
BIND(cuMulticastBindMem, VT_EVENT_BIND, -1,
     (CUmemGenericAllocationHandle object, size_t offset, CUmemGenericAllocationHandle bound,
      size_t bound_offset, size_t bytes, unsigned long long flags),
     (object, offset, bound, bound_offset, bytes, flags))
BIND(cuMulticastBindMem_v2, VT_EVENT_BIND, device,
     (CUmemGenericAllocationHandle object, CUdevice device, size_t offset, CUmemGenericAllocationHandle bound,
      size_t bound_offset, size_t bytes, unsigned long long flags),
     (object, device, offset, bound, bound_offset, bytes, flags))
BIND(cuMulticastBindAddr, VT_EVENT_BIND_ADDRESS, -1,
     (CUmemGenericAllocationHandle object, size_t offset, CUdeviceptr bound, size_t bytes,
      unsigned long long flags),
     (object, offset, bound, bytes, flags))
BIND(cuMulticastBindAddr_v2, VT_EVENT_BIND_ADDRESS, device,
     (CUmemGenericAllocationHandle object, CUdevice device, size_t offset, CUdeviceptr bound, size_t bytes,
      unsigned long long flags),
     (object, device, offset, bound, bytes, flags))

/* Recorded after the call: which bindings a refused one would have ended is more to take back than memory
 * that counts for a moment longer. */
VT_HOOK(cuMulticastUnbind,
        (CUmemGenericAllocationHandle object, CUdevice device, size_t offset, size_t bytes))
{
    VT_REAL(cuMulticastUnbind);
    CUresult result = real(object, device, offset, bytes);
    if (result == CUDA_SUCCESS)
        vt_driver_event(&CALL(cuMulticastUnbind, VT_EVENT_UNBIND, 0, vt_device_index(device), object, bytes,
                              .total_bytes = offset));
    return result;
}
