/* Memory of other processes (IPC) and of other interfaces (graphics), mapped here: recorded as foreign. */
#include "hooks/wrap.h"
#include "hooks/shared_identity.h"

VT_HOOK_EVENT(cuIpcGetMemHandle, VT_EVENT_EXPORT, VT_NO_DEVICE,
              (CUipcMemHandle * handle, CUdeviceptr address), (handle, address), .address = address,
              .bytes = vt_range_bytes(address), .detail = vt_identity_of_bytes(handle, sizeof(*handle)))

/* Opening a handle again gives the same address and one more reference; each is one event. */
#define OPEN(symbol)                                                                                         \
    VT_HOOK_ALLOCATE(symbol, (CUdeviceptr * address, CUipcMemHandle handle, unsigned int flags),             \
                     (address, handle, flags), .flags = VT_FLAG_FOREIGN, .address = done ? *address : 0,     \
                     .bytes = done ? vt_range_bytes(*address) : 0,                                           \
                     .total_bytes = vt_identity_of_bytes(&handle, sizeof(handle)))
OPEN(cuIpcOpenMemHandle)
OPEN(cuIpcOpenMemHandle_v2)

/* A failure is not recorded: the memory already belongs to somebody else. */
VT_HOOK_ALLOCATE_IF(cuImportExternalMemory, done,
                    (CUexternalMemory * memory, const CUDA_EXTERNAL_MEMORY_HANDLE_DESC *descriptor),
                    (memory, descriptor), .flags = VT_FLAG_FOREIGN, .address = (uintptr_t)*memory,
                    .bytes = descriptor->size)

/* A mapping has no bytes of its own: those of the imported memory (`detail`) are counted already. It is
 * recorded because it is freed like any allocation. */
VT_HOOK_ALLOCATE_IF(cuExternalMemoryGetMappedBuffer, done,
                    (CUdeviceptr * address, CUexternalMemory memory,
                     const CUDA_EXTERNAL_MEMORY_BUFFER_DESC *descriptor),
                    (address, memory, descriptor), .flags = VT_FLAG_FOREIGN, .address = *address,
                    .detail = (uintptr_t)memory)
VT_HOOK_ALLOCATE_IF(cuExternalMemoryGetMappedMipmappedArray, done,
                    (CUmipmappedArray * array, CUexternalMemory memory,
                     const CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC *descriptor),
                    (array, memory, descriptor), .flags = VT_FLAG_FOREIGN, .address = (uintptr_t)*array,
                    .detail = (uintptr_t)memory)

VT_HOOK_FREE(cuIpcCloseMemHandle, VT_EVENT_FREE, (CUdeviceptr address), (address), .flags = VT_FLAG_FOREIGN,
             .address = address)
VT_HOOK_FREE(cuDestroyExternalMemory, VT_EVENT_FREE, (CUexternalMemory memory), (memory),
             .flags = VT_FLAG_FOREIGN, .address = (uintptr_t)memory)
