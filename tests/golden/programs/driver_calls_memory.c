/* Linear memory, page-locked memory, memory of others, and calls that fail. */
#include "driver_calls.h"

void linear(void)
{
    CUdeviceptr address;
    size_t pitch;
    void *host;
    GOOD(cuMemAllocPitch_v2(&address, &pitch, 1000, 100, 4));
    say_alloc(address, pitch * 100, 0);
    say_free(address);
    GOOD(cuMemFree_v2(address));
    GOOD(cuMemAllocHost_v2(&host, 4096));
    say_alloc((uintptr_t)host, 4096, 1);
    say_free((uintptr_t)host);
    GOOD(cuMemFreeHost(host));
    host = aligned_alloc(4096, 65536);
    GOOD(cuMemHostRegister_v2(host, 65536, 0));
    say_alloc((uintptr_t)host, 65536, 17);
    say_free((uintptr_t)host);
    GOOD(cuMemHostUnregister(host));
    GOOD(cuMemHostRegister(host, 4096, 0));
    say_alloc((uintptr_t)host, 4096, 17);
    say_free((uintptr_t)host);
    GOOD(cuMemHostUnregister(host));
    GOOD(cuMemFree_v2(0)); /* nothing */
}

void first_abi(void)
{
    CUdeviceptr_v1 address;
    unsigned int pitch;
    void *host;
    CUarray array;
    CUDA_ARRAY_DESCRIPTOR_v1 plane = {.Width = 64, .Format = CU_AD_FORMAT_HALF, .NumChannels = 1};
    GOOD(cuMemAlloc(&address, MIB));
    say_alloc(address, MIB, 0);
    say_free(address);
    GOOD(cuMemFree(address));
    GOOD(cuMemAllocPitch(&address, &pitch, 1000, 100, 4));
    say_alloc(address, (size_t)pitch * 100, 0);
    say_free(address);
    GOOD(cuMemFree(address));
    GOOD(cuMemAllocHost(&host, 4096));
    say_alloc((uintptr_t)host, 4096, 1);
    say_free((uintptr_t)host);
    GOOD(cuMemFreeHost(host));
    GOOD(cuArrayCreate(&array, &plane));
    say_alloc((uintptr_t)array, 128, 64);
    say_free((uintptr_t)array);
    GOOD(cuArrayDestroy(array));
}

void failures(void)
{
    CUdeviceptr address = 0, none = 0;
    CUmemGenericAllocationHandle handle;
    CUmemAllocationProp properties = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                      .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}};
    size_t too_much = (size_t)1 << 50;
    GOOD(cuMemAlloc_v2(&address, MIB));
    say_alloc(address, MIB, 0);
    check_value("alloc", cuMemAlloc_v2(&none, too_much));
    if (standin_device_bytes != NULL) /* a GPU may hang that is asked for more than it has */
        check_value("managed", cuMemAllocManaged(&none, too_much, CU_MEM_ATTACH_GLOBAL));
    check_value("async", cuMemAllocAsync(&none, too_much, NULL));
    check_value("create", cuMemCreate(&handle, too_much, &properties, 0));
    check_value("free", cuMemFree_v2(address + 1));
    check_value("unmap", cuMemUnmap(address, 2 * MIB));
    check_value("null", cuMemAlloc_v2(NULL, 1));
    say_free(address);
    GOOD(cuMemFree_v2(address));
}

void foreign(void)
{
    CUdeviceptr own, opened;
    CUipcMemHandle shared;
    CUexternalMemory memory;
    CUDA_EXTERNAL_MEMORY_HANDLE_DESC import = {
        .type = CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD, .handle.fd = 0, .size = 3 * MIB};
    CUDA_EXTERNAL_MEMORY_BUFFER_DESC buffer = {.offset = 0, .size = MIB};
    GOOD(cuMemAlloc_v2(&own, 2 * MIB));
    say_alloc(own, 2 * MIB, 0);
    GOOD(cuIpcGetMemHandle(&shared, own));
    if (cuIpcOpenMemHandle_v2(&opened, shared, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS) == CUDA_SUCCESS) {
        check_value("ipc", opened);
        GOOD(cuIpcCloseMemHandle(opened));
    }
    if (cuImportExternalMemory(&memory, &import) == CUDA_SUCCESS) {
        check_value("external", (uintptr_t)memory);
        GOOD(cuExternalMemoryGetMappedBuffer(&opened, memory, &buffer));
        check_value("buffer", opened);
        GOOD(cuMemFree_v2(opened));
        GOOD(cuDestroyExternalMemory(memory));
    }
    say_free(own);
    GOOD(cuMemFree_v2(own));
}

void no_context(void)
{
    CUdeviceptr address;
    check_value("before_init", cuMemAlloc_v2(&address, MIB));
    GOOD(cuInit(0));
    check_value("before_context", cuMemAlloc_v2(&address, MIB));
    check_value("free", cuMemFree_v2(MIB));
}
