/* Virtual memory management: physical handles, address ranges, and mappings between them; multicast objects.
 * A handle's memory lives until it has no reference, mapping or binding left; the analyzer counts that from
 * these events. */
#include "hash.h"
#include "hooks/wrap.h"
#include "hooks/shared_identity.h"

VT_HOOK(cuMemCreate, (CUmemGenericAllocationHandle * handle, size_t bytes,
                      const CUmemAllocationProp *properties, unsigned long long flags))
{
    VT_REAL(cuMemCreate);
    int8_t device_index = vt_before_allocation(VT_FUNCTION_cuMemCreate);
    CUresult result = real(handle, bytes, properties, flags);
    const bool on_device = properties != NULL && vt_is_on_device(properties->location);
    vt_after_allocation(
        &(struct vt_observation){.function = VT_FUNCTION_cuMemCreate,
                                 .kind = VT_EVENT_HANDLE_CREATE,
                                 .flags = on_device ? 0 : VT_FLAG_HOST,
                                 .device_index = on_device ? (int8_t)properties->location.id : device_index,
                                 .address = result == CUDA_SUCCESS ? *handle : 0,
                                 .bytes = bytes},
        result);
    return result;
}

/* Nothing reports the size of shared memory at its import; the mapping shows it. */
VT_HOOK_ALLOCATE(cuMemImportFromShareableHandle,
                 (CUmemGenericAllocationHandle * handle, void *shared, CUmemAllocationHandleType handle_type),
                 (handle, shared, handle_type), .kind = VT_EVENT_HANDLE_CREATE, .flags = VT_FLAG_FOREIGN,
                 .address = done ? *handle : 0,
                 .total_bytes = done ? vt_identity_of_handle(shared, handle_type, false) : 0)
VT_HOOK_EVENT(cuMemExportToShareableHandle, VT_EVENT_EXPORT, VT_NO_DEVICE,
              (void *shared, CUmemGenericAllocationHandle handle, CUmemAllocationHandleType handle_type,
               unsigned long long flags),
              (shared, handle, handle_type, flags), .address = handle,
              .detail = vt_identity_of_handle(shared, handle_type, true))

VT_HOOK_EVENT(cuMemRetainAllocationHandle, VT_EVENT_HANDLE_RETAIN, VT_NO_DEVICE,
              (CUmemGenericAllocationHandle * handle, void *address), (handle, address), .address = *handle)
VT_HOOK_FREE(cuMemRelease, VT_EVENT_HANDLE_RELEASE, (CUmemGenericAllocationHandle handle), (handle),
             .address = handle)

VT_HOOK_EVENT(cuMemAddressReserve, VT_EVENT_RESERVE, VT_NO_DEVICE,
              (CUdeviceptr * address, size_t bytes, size_t alignment, CUdeviceptr wanted,
               unsigned long long flags),
              (address, bytes, alignment, wanted, flags), .address = *address, .bytes = bytes)
VT_HOOK_FREE(cuMemAddressFree, VT_EVENT_UNRESERVE, (CUdeviceptr address, size_t bytes), (address, bytes),
             .address = address, .bytes = bytes)

VT_HOOK_EVENT(cuMemMap, VT_EVENT_MAP, VT_NO_DEVICE,
              (CUdeviceptr address, size_t bytes, size_t offset, CUmemGenericAllocationHandle handle,
               unsigned long long flags),
              (address, bytes, offset, handle, flags), .address = address, .bytes = bytes, .detail = handle,
              .total_bytes = offset)
VT_HOOK_FREE(cuMemUnmap, VT_EVENT_UNMAP, (CUdeviceptr address, size_t bytes), (address, bytes),
             .address = address, .bytes = bytes)

/* A place in a sparse array has no address. A hash of its coordinates stands for one. */
static uint64_t place_in_array(const CUarrayMapInfo *part)
{
    const bool is_tail = part->subresourceType == CU_ARRAY_SPARSE_SUBRESOURCE_TYPE_MIPTAIL;
    uint64_t hash = vt_hash_add((uintptr_t)part->resource.array, part->subresourceType);
    if (is_tail) {
        hash =
            vt_hash_add(vt_hash_add(hash, part->subresource.miptail.layer), part->subresource.miptail.offset);
    } else {
        const unsigned words[] = {part->subresource.sparseLevel.level, part->subresource.sparseLevel.layer,
                                  part->subresource.sparseLevel.offsetX,
                                  part->subresource.sparseLevel.offsetY,
                                  part->subresource.sparseLevel.offsetZ};
        for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
            hash = vt_hash_add(hash, words[i]);
    }
    return hash | UINT64_C(1) << 63;
}

/* Unmappings too are recorded after the call: one call has many parts, and fails as a whole. */
#define MAP_ARRAY(symbol)                                                                                    \
    VT_HOOK(symbol, (CUarrayMapInfo * parts, unsigned int count, CUstream stream))                           \
    {                                                                                                        \
        VT_REAL(symbol);                                                                                     \
        CUresult result = real(parts, count, stream);                                                        \
        for (unsigned int i = 0; i < count && result == CUDA_SUCCESS; i++) {                                 \
            const bool mapped = parts[i].memOperationType == CU_MEM_OPERATION_TYPE_MAP;                      \
            vt_driver_event(&(struct vt_observation){.function = VT_FUNCTION_##symbol,                       \
                                                     .kind = mapped ? VT_EVENT_MAP : VT_EVENT_UNMAP,         \
                                                     .device_index = VT_NO_DEVICE,                           \
                                                     .address = place_in_array(&parts[i]),                   \
                                                     .detail = mapped ? parts[i].memHandle.memHandle : 0,    \
                                                     .total_bytes = mapped ? parts[i].offset : 0});          \
        }                                                                                                    \
        return result;                                                                                       \
    }
MAP_ARRAY(cuMemMapArrayAsync)
MAP_ARRAY(cuMemMapArrayAsync_ptsz)

/* A failure does not mean out of memory, so it is not recorded. */
VT_HOOK_EVENT(cuMulticastCreate, VT_EVENT_MULTICAST_CREATE, VT_NO_DEVICE,
              (CUmemGenericAllocationHandle * object, const CUmulticastObjectProp *properties),
              (object, properties), .address = *object, .bytes = properties->size)

/* The driver does not report how much memory this takes, if any. */
VT_HOOK_BRACKETED(cuMulticastAddDevice, (CUmemGenericAllocationHandle object, CUdevice device),
                  (object, device))

/* `bound` is a handle or an address. */
#define BIND(symbol, kind, device_value, parameters, arguments)                                              \
    VT_HOOK_EVENT(symbol, kind, vt_device_index(device_value), parameters, arguments, .address = object,     \
                  .bytes = bytes, .detail = bound, .total_bytes = offset)
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

/* Recorded after the call: if the call failed, it would be hard to say which bindings the event had ended.
 * Memory that counts a moment too long does less harm. */
VT_HOOK_EVENT(cuMulticastUnbind, VT_EVENT_UNBIND, vt_device_index(device),
              (CUmemGenericAllocationHandle object, CUdevice device, size_t offset, size_t bytes),
              (object, device, offset, bytes), .address = object, .bytes = bytes, .total_bytes = offset)
