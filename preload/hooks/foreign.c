/* Memory of other processes and of other interfaces, mapped here: recorded as foreign. */
#include "guard.h"
#include "hash.h"
#include "hooks/driver.h"
#include "hooks/identity.h"

#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#define FABRIC_HANDLE 8 /* CU_MEM_HANDLE_TYPE_FABRIC, from 12.3 on */
#define FABRIC_HANDLE_BYTES 64
#define ANONYMOUS_FILES 0x09041934 /* one inode for all: ANON_INODE_FS_MAGIC */

uint64_t vt_identity_of_bytes(const void *handle, size_t bytes)
{
    uint64_t hash = bytes, word;
    for (size_t i = 0; i + sizeof(word) <= bytes; i += sizeof(word)) {
        memcpy(&word, (const char *)handle + i, sizeof(word));
        hash = vt_hash_add(hash, word);
    }
    hash = vt_hash_spread(hash);
    return hash != 0 ? hash : 1;
}

static uint64_t identity_of_file(int descriptor)
{
    struct stat status;
    struct statfs files;
    int saved_errno;
    uint64_t identity = 0;
    if (!vt_enter(&saved_errno))
        return 0;
    if (fstat(descriptor, &status) == 0 && !S_ISCHR(status.st_mode) && fstatfs(descriptor, &files) == 0 &&
        files.f_type != ANONYMOUS_FILES)
        identity = vt_identity_of_bytes((uint64_t[]){status.st_dev, status.st_ino}, 2 * sizeof(uint64_t));
    vt_leave(saved_errno);
    return identity;
}

uint64_t vt_identity_of_handle(const void *shared, CUmemAllocationHandleType type, bool exported)
{
    switch ((int)type) {
    case CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR:
        return identity_of_file(exported ? *(const int *)shared : (int)(intptr_t)shared);
    case FABRIC_HANDLE:
        return vt_identity_of_bytes(shared, FABRIC_HANDLE_BYTES);
    default:
        return 0;
    }
}

VT_HOOK_EVENT(cuIpcGetMemHandle, VT_EVENT_EXPORT, VT_NO_DEVICE,
              (CUipcMemHandle * handle, CUdeviceptr address), (handle, address), .address = address,
              .bytes = vt_range_bytes(address), .detail = vt_identity_of_bytes(handle, sizeof(*handle)))

/* Opening a handle again gives the same address and counts one more reference: one event each. */
#define OPEN(symbol)                                                                                         \
    VT_HOOK_ALLOCATE(symbol, (CUdeviceptr * address, CUipcMemHandle handle, unsigned int flags),             \
                     (address, handle, flags), .flags = VT_FLAG_FOREIGN, .address = done ? *address : 0,     \
                     .bytes = done ? vt_range_bytes(*address) : 0,                                           \
                     .total_bytes = vt_identity_of_bytes(&handle, sizeof(handle)))
OPEN(cuIpcOpenMemHandle)
OPEN(cuIpcOpenMemHandle_v2)

/* A failure is not recorded: the memory is another's already. */
#define IMPORT(symbol, parameters, arguments, ...)                                                           \
    VT_HOOK(symbol, parameters)                                                                              \
    {                                                                                                        \
        VT_REAL(symbol);                                                                                     \
        int8_t device_index = vt_before_allocation(VT_FUNCTION_##symbol);                                    \
        CUresult result = real arguments;                                                                    \
        if (result == CUDA_SUCCESS)                                                                          \
            vt_after_allocation(&(struct vt_allocation){.function = VT_FUNCTION_##symbol,                    \
                                                        .flags = VT_FLAG_FOREIGN,                            \
                                                        .device_index = device_index,                        \
                                                        __VA_ARGS__},                                        \
                                result);                                                                     \
        return result;                                                                                       \
    }
IMPORT(cuImportExternalMemory,
       (CUexternalMemory * memory, const CUDA_EXTERNAL_MEMORY_HANDLE_DESC *descriptor), (memory, descriptor),
       .address = (uintptr_t)*memory, .bytes = descriptor->size)

/* A mapping's bytes are those of the imported memory (`detail`), which already count; the event is there
 * because the mapping is freed like any allocation. */
IMPORT(cuExternalMemoryGetMappedBuffer,
       (CUdeviceptr * address, CUexternalMemory memory, const CUDA_EXTERNAL_MEMORY_BUFFER_DESC *descriptor),
       (address, memory, descriptor), .address = *address, .detail = (uintptr_t)memory)
IMPORT(cuExternalMemoryGetMappedMipmappedArray,
       (CUmipmappedArray * array, CUexternalMemory memory,
        const CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC *descriptor),
       (array, memory, descriptor), .address = (uintptr_t)*array, .detail = (uintptr_t)memory)

VT_HOOK_FREE(cuIpcCloseMemHandle, VT_EVENT_FREE, (CUdeviceptr address), (address), .flags = VT_FLAG_FOREIGN,
             .address = address)
VT_HOOK_FREE(cuDestroyExternalMemory, VT_EVENT_FREE, (CUexternalMemory memory), (memory),
             .flags = VT_FLAG_FOREIGN, .address = (uintptr_t)memory)
