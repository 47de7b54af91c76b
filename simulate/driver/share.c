/* Memory of other processes and other APIs, mapped here: IPC handles and external memory. None of its bytes
 * count as ours, and the contents are not shared. */
#include "standin.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct ipc_handle { /* what we keep in CUDA's 64 opaque bytes */
    char magic[8];
    int64_t pid;
    uint64_t address;
    uint64_t bytes;
};
static const char ipc_magic[8] = "STNDIPC";
_Static_assert(sizeof(struct ipc_handle) <= sizeof(CUipcMemHandle), "fits CUDA's handle");

static struct {
    struct ipc_handle from;
    CUdeviceptr here;
} opened[256];

CUresult cuIpcGetMemHandle(CUipcMemHandle *pHandle, CUdeviceptr dptr)
{
    CONTEXT_CALL();
    struct standin_range *range = standin_range_find((uintptr_t)dptr);
    REQUIRE(pHandle != NULL && range != NULL && range->kind == KIND_DEVICE);
    struct ipc_handle handle = {.pid = getpid(), .address = range->start, .bytes = range->bytes};
    memcpy(handle.magic, ipc_magic, sizeof(ipc_magic));
    memset(pHandle, 0, sizeof(*pHandle));
    memcpy(pHandle, &handle, sizeof(handle));
    return CUDA_SUCCESS;
}

static CUresult open_new(CUdeviceptr *address, const struct ipc_handle *handle, CUdevice device)
{
    for (size_t i = 0; i < sizeof(opened) / sizeof(opened[0]); i++) {
        if (opened[i].here != 0)
            continue;
        void *start = standin_map(handle->bytes, STANDIN_GRANULARITY_BYTES, false);
        struct standin_range *range =
            start != NULL ? standin_range_add((uintptr_t)start, handle->bytes, KIND_FOREIGN, device) : NULL;
        if (range == NULL)
            return CUDA_ERROR_OUT_OF_MEMORY;
        range->references = 1;
        range->context = standin_current_context();
        opened[i].from = *handle;
        opened[i].here = *address = range->start;
        return CUDA_SUCCESS;
    }
    return CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult open_handle(CUdeviceptr *address, const CUipcMemHandle *opaque, CUdevice device)
{
    struct ipc_handle handle;
    memcpy(&handle, opaque, sizeof(handle));
    REQUIRE(address != NULL && memcmp(handle.magic, ipc_magic, sizeof(ipc_magic)) == 0);
    if (handle.pid == getpid())
        return CUDA_ERROR_INVALID_CONTEXT; /* as the real driver: not in the process that made it */
    for (size_t i = 0; i < sizeof(opened) / sizeof(opened[0]); i++) {
        if (opened[i].here == 0 || memcmp(&opened[i].from, &handle, sizeof(handle)) != 0)
            continue;
        standin_range_find((uintptr_t)opened[i].here)->references++;
        *address = opened[i].here;
        return CUDA_SUCCESS;
    }
    return open_new(address, &handle, device);
}

CUresult cuIpcOpenMemHandle_v2(CUdeviceptr *pdptr, CUipcMemHandle handle, unsigned int Flags)
{
    CONTEXT_CALL();
    REQUIRE(Flags == CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
    return open_handle(pdptr, &handle, context->device);
}

CUresult cuIpcOpenMemHandle(CUdeviceptr *pdptr, CUipcMemHandle handle, unsigned int Flags)
{
    CONTEXT_CALL();
    (void)Flags;
    return open_handle(pdptr, &handle, context->device);
}

void standin_close(struct standin_range *range)
{
    for (size_t i = 0; i < sizeof(opened) / sizeof(opened[0]); i++) {
        if (opened[i].here == range->start)
            opened[i].here = 0;
    }
    standin_unmap((void *)range->start, range->bytes);
    standin_range_remove(range);
}

CUresult cuIpcCloseMemHandle(CUdeviceptr dptr)
{
    CONTEXT_CALL();
    for (size_t i = 0; i < sizeof(opened) / sizeof(opened[0]); i++) {
        if (dptr == 0 || opened[i].here != dptr)
            continue;
        struct standin_range *range = standin_range_find((uintptr_t)dptr);
        if (--range->references == 0)
            standin_close(range);
        return CUDA_SUCCESS;
    }
    return CUDA_ERROR_INVALID_VALUE;
}

struct CUextMemory_st {
    uint64_t bytes;
    CUdevice device;
};

CUresult cuImportExternalMemory(CUexternalMemory *extMem_out,
                                const CUDA_EXTERNAL_MEMORY_HANDLE_DESC *memHandleDesc)
{
    CONTEXT_CALL();
    REQUIRE(extMem_out != NULL && memHandleDesc != NULL && memHandleDesc->size != 0);
    CUexternalMemory memory = calloc(1, sizeof(*memory));
    if (memory == NULL)
        abort();
    memory->bytes = memHandleDesc->size;
    memory->device = context->device;
    if (memHandleDesc->type == CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD)
        close(memHandleDesc->handle.fd); /* the driver owns it from here */
    *extMem_out = memory;
    return CUDA_SUCCESS;
}

CUresult cuExternalMemoryGetMappedBuffer(CUdeviceptr *devPtr, CUexternalMemory extMem,
                                         const CUDA_EXTERNAL_MEMORY_BUFFER_DESC *bufferDesc)
{
    CONTEXT_CALL();
    REQUIRE(devPtr != NULL && extMem != NULL && bufferDesc != NULL && bufferDesc->size != 0);
    REQUIRE(bufferDesc->offset <= extMem->bytes && bufferDesc->size <= extMem->bytes - bufferDesc->offset);
    void *start = standin_map(bufferDesc->size, 0, false);
    struct standin_range *range =
        start != NULL ? standin_range_add((uintptr_t)start, bufferDesc->size, KIND_FOREIGN, extMem->device)
                      : NULL;
    if (range == NULL)
        return CUDA_ERROR_OUT_OF_MEMORY;
    range->owner = extMem; /* tells cuMemFree that this one is its to free */
    *devPtr = range->start;
    return CUDA_SUCCESS;
}

CUresult cuDestroyExternalMemory(CUexternalMemory extMem)
{
    CONTEXT_CALL();
    REQUIRE(extMem != NULL);
    free(extMem);
    return CUDA_SUCCESS;
}
