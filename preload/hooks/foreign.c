/* Memory of other processes and of other interfaces, mapped here. It is told apart from our process's own. */
#include "hooks/driver.h"

static void after(enum vt_function function, int8_t device_index, uint64_t address, uint64_t bytes,
                  uint64_t detail, CUresult result)
{
    vt_after_allocation(&(struct vt_allocation){.function = function,
                                                .flags = VT_FLAG_FOREIGN,
                                                .device_index = device_index,
                                                .address = address,
                                                .bytes = bytes,
                                                .detail = detail},
                        result);
}

/* Opening a handle again gives the same address and counts one more reference: one event each. */
#define OPEN(symbol)                                                                                         \
    VT_HOOK(symbol, (CUdeviceptr * address, CUipcMemHandle handle, unsigned int flags))                      \
    {                                                                                                        \
        VT_REAL(symbol);                                                                                     \
        int8_t device_index = vt_before_allocation();                                                        \
        CUresult result = real(address, handle, flags);                                                      \
        bool good = result == CUDA_SUCCESS;                                                                  \
        after(VT_FUNCTION_##symbol, device_index, good ? *address : 0, good ? vt_range_bytes(*address) : 0,  \
              0, result);                                                                                    \
        return result;                                                                                       \
    }
OPEN(cuIpcOpenMemHandle)
OPEN(cuIpcOpenMemHandle_v2)

VT_HOOK(cuImportExternalMemory,
        (CUexternalMemory * memory, const CUDA_EXTERNAL_MEMORY_HANDLE_DESC *descriptor))
{
    VT_REAL(cuImportExternalMemory);
    int8_t device_index = vt_before_allocation();
    CUresult result = real(memory, descriptor);
    if (result == CUDA_SUCCESS)
        after(VT_FUNCTION_cuImportExternalMemory, device_index, (uintptr_t)*memory, descriptor->size, 0,
              result);
    return result;
}

/* A mapping's bytes are those of the imported memory (`detail`), which counted already; the event is there
 * because the mapping is freed like any allocation. */
VT_HOOK(cuExternalMemoryGetMappedBuffer,
        (CUdeviceptr * address, CUexternalMemory memory, const CUDA_EXTERNAL_MEMORY_BUFFER_DESC *descriptor))
{
    VT_REAL(cuExternalMemoryGetMappedBuffer);
    int8_t device_index = vt_before_allocation();
    CUresult result = real(address, memory, descriptor);
    if (result == CUDA_SUCCESS)
        after(VT_FUNCTION_cuExternalMemoryGetMappedBuffer, device_index, *address, 0, (uintptr_t)memory,
              result);
    return result;
}

VT_HOOK(cuExternalMemoryGetMappedMipmappedArray,
        (CUmipmappedArray * array, CUexternalMemory memory,
         const CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC *descriptor))
{
    VT_REAL(cuExternalMemoryGetMappedMipmappedArray);
    int8_t device_index = vt_before_allocation();
    CUresult result = real(array, memory, descriptor);
    if (result == CUDA_SUCCESS)
        after(VT_FUNCTION_cuExternalMemoryGetMappedMipmappedArray, device_index, (uintptr_t)*array, 0,
              (uintptr_t)memory, result);
    return result;
}

#define CLOSE(symbol, type)                                                                                  \
    VT_HOOK(symbol, (type address))                                                                          \
    {                                                                                                        \
        VT_REAL(symbol);                                                                                     \
        struct vt_allocation taken_back = {.function = VT_FUNCTION_##symbol,                                 \
                                           .kind = VT_EVENT_FREE,                                            \
                                           .flags = VT_FLAG_FOREIGN,                                         \
                                           .device_index = VT_NO_DEVICE,                                     \
                                           .address = (uintptr_t)address};                                   \
        vt_before_free(&taken_back);                                                                         \
        CUresult result = real(address);                                                                     \
        vt_after_free(&taken_back, result);                                                                  \
        return result;                                                                                       \
    }
CLOSE(cuIpcCloseMemHandle, CUdeviceptr)
CLOSE(cuDestroyExternalMemory, CUexternalMemory)
