/* Linear memory: device, managed, page-locked host. */
#include "hooks/wrap.h"

#define ALLOCATE(symbol, flags_value, bytes_value, parameters, arguments)                                    \
    VT_HOOK_ALLOCATE(symbol, parameters, arguments, .flags = (flags_value),                                  \
                     .address = done ? (uintptr_t)*address : 0, .bytes = (bytes_value))

ALLOCATE(cuMemAlloc_v2, 0, bytes, (CUdeviceptr * address, size_t bytes), (address, bytes))
ALLOCATE(cuMemAlloc, 0, bytes, (CUdeviceptr_v1 * address, unsigned int bytes), (address, bytes))

/* The driver chooses the pitch: for a failed call only the requested bytes are known. */
ALLOCATE(cuMemAllocPitch_v2, 0, (done ? *pitch : width_bytes) * height,
         (CUdeviceptr * address, size_t *pitch, size_t width_bytes, size_t height,
          unsigned int element_bytes),
         (address, pitch, width_bytes, height, element_bytes))
ALLOCATE(cuMemAllocPitch, 0, (uint64_t)(done ? *pitch : width_bytes) * height,
         (CUdeviceptr_v1 * address, unsigned int *pitch, unsigned int width_bytes, unsigned int height,
          unsigned int element_bytes),
         (address, pitch, width_bytes, height, element_bytes))

ALLOCATE(cuMemAllocManaged, VT_FLAG_MANAGED, bytes, (CUdeviceptr * address, size_t bytes, unsigned int flags),
         (address, bytes, flags))
ALLOCATE(cuMemAllocHost_v2, VT_FLAG_HOST, bytes, (void **address, size_t bytes), (address, bytes))
ALLOCATE(cuMemAllocHost, VT_FLAG_HOST, bytes, (void **address, unsigned int bytes), (address, bytes))
ALLOCATE(cuMemHostAlloc, VT_FLAG_HOST, bytes, (void **address, size_t bytes, unsigned int flags),
         (address, bytes, flags))

#define REGISTER(symbol)                                                                                     \
    VT_HOOK_ALLOCATE(symbol, (void *address, size_t bytes, unsigned int flags), (address, bytes, flags),     \
                     .flags = VT_FLAG_HOST | VT_FLAG_REGISTERED, .address = done ? (uintptr_t)address : 0,   \
                     .bytes = bytes)
REGISTER(cuMemHostRegister)
REGISTER(cuMemHostRegister_v2)

/* cuMemFree also takes addresses of pool memory. */
#define FREE_DEVICE(symbol, type)                                                                            \
    VT_HOOK_FREE_THEN(symbol, VT_EVENT_FREE, vt_poll_pools(VT_FUNCTION_##symbol, false), (type address),     \
                      (address), .address = address)
FREE_DEVICE(cuMemFree_v2, CUdeviceptr)
FREE_DEVICE(cuMemFree, CUdeviceptr_v1)

VT_HOOK_FREE(cuMemFreeHost, VT_EVENT_FREE, (void *address), (address), .flags = VT_FLAG_HOST,
             .address = (uintptr_t)address)
VT_HOOK_FREE(cuMemHostUnregister, VT_EVENT_FREE, (void *address), (address),
             .flags = VT_FLAG_HOST | VT_FLAG_REGISTERED, .address = (uintptr_t)address)
