/* Bookkeeping of the stand-in driver: every case compares cuMemGetInfo with the truth functions and with
 * what it did itself. Run by meson with 2 devices of 16 GiB, contexts of 300 MiB, modules of 3 MiB. */
#include <cuda.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "driver/truth.h"

#define MIB ((uint64_t)1 << 20)
#define GIB ((uint64_t)1 << 30)
#define CONTEXT (300 * MIB)
#define MODULE (3 * MIB)

#define CHECK(condition)                                                                                     \
    do {                                                                                                     \
        if (!(condition)) {                                                                                  \
            fprintf(stderr, "%s:%d: %s: not so: %s\n", __FILE__, __LINE__, __func__, #condition);            \
            exit(1);                                                                                         \
        }                                                                                                    \
    } while (0)
#define OK(call) CHECK((call) == CUDA_SUCCESS)

/* The three ways to know the device's bytes agree, and are this many. */
static void expect(uint64_t bytes)
{
    size_t free_bytes, total_bytes;
    OK(cuMemGetInfo(&free_bytes, &total_bytes));
    if (total_bytes - free_bytes != bytes)
        fprintf(stderr, "used %zu, expected %lu\n", total_bytes - free_bytes, (unsigned long)bytes);
    CHECK(total_bytes == 16 * GIB);
    CHECK(total_bytes - free_bytes == bytes);
    CHECK(standin_device_bytes(0) == bytes);
}

static void before_init_and_context(CUcontext *context)
{
    CUdeviceptr address;
    CHECK(cuMemAlloc(&address, 1) == CUDA_ERROR_NOT_INITIALIZED);
    OK(cuInit(0));
    CHECK(cuMemAlloc(&address, 1) == CUDA_ERROR_INVALID_CONTEXT);
    int count, version;
    OK(cuDeviceGetCount(&count));
    CHECK(count == 2);
    OK(cuDriverGetVersion(&version));
    CHECK(version == 13000);
    OK(cuDevicePrimaryCtxRetain(context, 0));
    OK(cuCtxSetCurrent(*context));
    expect(CONTEXT);
}

static void plain_memory(void)
{
    CUdeviceptr a, b, base;
    size_t pitch, bytes;
    uint64_t calls = standin_calls("cuMemAlloc_v2");
    OK(cuMemAlloc(&a, 10 * GIB));
    expect(CONTEXT + 10 * GIB);
    CHECK(cuMemAlloc(&b, 6 * GIB) == CUDA_ERROR_OUT_OF_MEMORY);
    OK(cuMemAlloc(&b, 6 * GIB - CONTEXT));
    expect(16 * GIB);
    OK(cuMemFree(b));
    CHECK(standin_calls("cuMemAlloc_v2") == calls + 3);
    OK(cuMemGetAddressRange(&base, &bytes, a + 12345));
    CHECK(base == a && bytes == 10 * GIB);
    CHECK(cuMemFree(a + 512) == CUDA_ERROR_INVALID_VALUE);
    CHECK(cuMemFree(0x1234) == CUDA_ERROR_INVALID_VALUE);
    OK(cuMemFree(0));
    OK(cuMemFree(a));
    CHECK(cuMemFree(a) == CUDA_ERROR_INVALID_VALUE);
    expect(CONTEXT);
    OK(cuMemAllocPitch(&a, &pitch, 1000, 10, 4));
    CHECK(pitch == 1024);
    OK(cuMemAllocManaged(&b, 5 * MIB, CU_MEM_ATTACH_GLOBAL));
    expect(CONTEXT + 10240 + 5 * MIB);
    CHECK(standin_use_bytes(0, "managed") == 5 * MIB);
    CHECK(standin_allocation_bytes(0) == 10240 + 5 * MIB);
    OK(cuMemFree(a));
    OK(cuMemFree(b));
    expect(CONTEXT);
    CHECK(cuMemAlloc(&a, 0) == CUDA_ERROR_INVALID_VALUE);
}

static void contents(void)
{
    CUdeviceptr a, b;
    char in[64], out[64];
    memset(in, 7, sizeof(in));
    OK(cuMemAlloc(&a, 64));
    OK(cuMemAlloc(&b, 64));
    OK(cuMemcpyHtoD(a, in, 64));
    OK(cuMemcpyDtoD(b, a, 64));
    OK(cuMemcpyDtoH(out, b, 64));
    CHECK(memcmp(in, out, 64) == 0);
    OK(cuMemsetD32(b, 0x01020304, 16));
    OK(cuMemcpyDtoH(out, b, 64));
    CHECK(out[0] == 4 && out[63] == 1);
    OK(cuMemFree(a));
    OK(cuMemFree(b));
}

static void host_memory(void)
{
    void *pinned;
    static char own[8192];
    OK(cuMemHostAlloc(&pinned, 3 * MIB, 0));
    CHECK(standin_host_bytes() == 3 * MIB);
    OK(cuMemHostRegister(own, sizeof(own), 0));
    CHECK(cuMemHostRegister(own, sizeof(own), 0) == CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
    CHECK(standin_registered_bytes() == sizeof(own));
    OK(cuMemHostUnregister(own));
    CHECK(cuMemHostUnregister(own) == CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
    CHECK(cuMemFree((CUdeviceptr)(uintptr_t)pinned) == CUDA_ERROR_INVALID_VALUE);
    unsigned type;
    OK(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, (CUdeviceptr)(uintptr_t)pinned));
    CHECK(type == CU_MEMORYTYPE_HOST);
    OK(cuMemFreeHost(pinned));
    CHECK(standin_host_bytes() == 0 && standin_registered_bytes() == 0);
    expect(CONTEXT);
}

static void virtual_memory(void)
{
    CUmemAllocationProp properties = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                      .requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
                                      .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}};
    CUmemAccessDesc access = {.location = properties.location, .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUmemGenericAllocationHandle handle, again;
    CUdeviceptr space;
    CHECK(cuMemCreate(&handle, MIB, &properties, 0) == CUDA_ERROR_INVALID_VALUE);
    CHECK(cuMemCreate(&handle, 16 * GIB, &properties, 0) == CUDA_ERROR_OUT_OF_MEMORY);
    OK(cuMemCreate(&handle, 20 * MIB, &properties, 0));
    expect(CONTEXT + 20 * MIB);
    OK(cuMemAddressReserve(&space, GIB, 0, 0, 0));
    CHECK(space % (2 * MIB) == 0);
    expect(CONTEXT + 20 * MIB); /* address space is not memory */
    OK(cuMemMap(space, 20 * MIB, 0, handle, 0));
    CHECK(cuMemMap(space + 2 * MIB, 2 * MIB, 0, handle, 0) == CUDA_ERROR_INVALID_VALUE);
    OK(cuMemMap(space + 20 * MIB, 4 * MIB, 2 * MIB, handle, 0));
    OK(cuMemSetAccess(space, 24 * MIB, &access, 1));
    OK(cuMemsetD8(space + 19 * MIB, 1, MIB));
    OK(cuMemRetainAllocationHandle(&again, (void *)(uintptr_t)(space + MIB)));
    CHECK(again == handle);
    OK(cuMemRelease(handle));
    OK(cuMemRelease(again));
    CHECK(cuMemRelease(handle) == CUDA_ERROR_INVALID_VALUE);
    expect(CONTEXT + 20 * MIB); /* still mapped */
    CHECK(cuMemAddressFree(space, GIB) == CUDA_ERROR_INVALID_VALUE);
    CHECK(cuMemUnmap(space, 2 * MIB) == CUDA_ERROR_INVALID_VALUE);
    OK(cuMemUnmap(space, 20 * MIB));
    expect(CONTEXT + 20 * MIB);
    OK(cuMemUnmap(space + 20 * MIB, 4 * MIB));
    expect(CONTEXT);
    OK(cuMemAddressFree(space, GIB));

    int descriptor;
    OK(cuMemCreate(&handle, 2 * MIB, &properties, 0));
    OK(cuMemExportToShareableHandle(&descriptor, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    OK(cuMemImportFromShareableHandle(&again, (void *)(intptr_t)descriptor,
                                      CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
    close(descriptor);
    OK(cuMemRelease(handle));
    expect(CONTEXT + 2 * MIB);
    OK(cuMemRelease(again));
    expect(CONTEXT);
}

/* A window onto memory of both devices: it takes nothing, and keeps what is bound to it. */
static void multicast(void)
{
    CUmulticastObjectProp window = {.numDevices = 2, .size = 8 * MIB};
    CUmemAllocationProp properties = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                      .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}};
    CUmemGenericAllocationHandle object, memory[2], retained;
    CUdeviceptr space, alone;
    uint64_t handles = standin_handles();
    OK(cuMulticastCreate(&object, &window));
    for (int i = 0; i < 2; i++) {
        properties.location.id = i;
        OK(cuMemCreate(&memory[i], 4 * MIB, &properties, 0));
    }
    OK(cuMemAddressReserve(&space, 16 * MIB, 0, 0, 0));
    alone = space + 8 * MIB;
    OK(cuMulticastAddDevice(object, 0));
    CHECK(cuMulticastAddDevice(object, 0) == CUDA_ERROR_INVALID_VALUE);
    CHECK(cuMulticastBindMem(object, 0, memory[0], 0, 4 * MIB, 0) == CUDA_ERROR_NOT_READY);
    CHECK(cuMemMap(space, 8 * MIB, 0, object, 0) == CUDA_ERROR_NOT_READY);
    OK(cuMulticastAddDevice(object, 1));
    OK(cuMulticastBindMem(object, 4 * MIB, memory[0], 0, 4 * MIB, 0));
    CHECK(cuMulticastBindMem(object, 4 * MIB, memory[0], 0, 4 * MIB, 0) == CUDA_ERROR_INVALID_VALUE);
    OK(cuMemMap(alone, 4 * MIB, 0, memory[1], 0));
    OK(cuMulticastBindAddr(object, 4 * MIB, alone, 4 * MIB, 0));
    OK(cuMemMap(space, 8 * MIB, 0, object, 0));
    OK(cuMemRetainAllocationHandle(&retained, (void *)(uintptr_t)space));
    CHECK(retained == object && standin_handles() == handles + 3);
    OK(cuMemRelease(retained));
    expect(CONTEXT + 4 * MIB);
    OK(cuMemRelease(memory[0]));
    OK(cuMemRelease(memory[1]));
    OK(cuMemUnmap(alone, 4 * MIB));
    expect(CONTEXT + 4 * MIB); /* bound */
    CHECK(standin_allocation_bytes(1) == 4 * MIB);
    CHECK(cuMulticastUnbind(object, 0, 0, 4 * MIB) == CUDA_ERROR_INVALID_VALUE);
    OK(cuMulticastUnbind(object, 0, 4 * MIB, 4 * MIB));
    expect(CONTEXT);
    OK(cuMemRelease(object));
    CHECK(standin_allocation_bytes(1) == 4 * MIB); /* the window is mapped */
    OK(cuMemUnmap(space, 8 * MIB));
    CHECK(standin_allocation_bytes(1) == 0 && standin_handles() == handles);
    OK(cuMemAddressFree(space, 16 * MIB));
}

static uint64_t attribute(CUmemoryPool pool, CUmemPool_attribute which)
{
    cuuint64_t value;
    OK(cuMemPoolGetAttribute(pool, which, &value));
    return value;
}

static void default_pool(void)
{
    CUmemoryPool pool;
    CUdeviceptr a, b;
    OK(cuDeviceGetDefaultMemPool(&pool, 0));
    OK(cuMemAllocAsync(&a, 10 * MIB, NULL));
    OK(cuMemAllocAsync(&b, 30 * MIB, NULL));
    expect(CONTEXT + 64 * MIB);
    CHECK(attribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT) == 40 * MIB);
    CHECK(attribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT) == 64 * MIB);
    OK(cuMemFreeAsync(b, NULL));
    expect(CONTEXT + 64 * MIB); /* until something is synchronized */
    OK(cuStreamSynchronize(NULL));
    expect(CONTEXT + 32 * MIB);
    cuuint64_t threshold = UINT64_MAX;
    OK(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &threshold));
    OK(cuMemFree(a)); /* the plain free takes it too */
    OK(cuCtxSynchronize());
    expect(CONTEXT + 32 * MIB);
    OK(cuMemPoolTrimTo(pool, 0));
    expect(CONTEXT);
    CHECK(attribute(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH) == 40 * MIB);
    CHECK(attribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH) == 64 * MIB);
    CHECK(cuMemPoolDestroy(pool) == CUDA_ERROR_INVALID_VALUE);
    threshold = 0;
    OK(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &threshold));
    CHECK(cuMemAllocAsync(&a, 16 * GIB, NULL) == CUDA_ERROR_OUT_OF_MEMORY);
}

static void made_pool(void)
{
    CUmemPoolProps properties = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                                 .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}};
    CUmemoryPool pool;
    CUdeviceptr a;
    OK(cuMemPoolCreate(&pool, &properties));
    OK(cuMemAllocFromPoolAsync(&a, 33 * MIB, pool, NULL));
    expect(CONTEXT + 64 * MIB);
    OK(cuMemPoolDestroy(pool));
    expect(CONTEXT + 64 * MIB); /* lives until its last allocation is freed */
    OK(cuMemFreeAsync(a, NULL));
    expect(CONTEXT);
}

static void arrays(void)
{
    CUarray array;
    CUmipmappedArray mipmapped;
    CUDA_ARRAY_DESCRIPTOR flat = {.Width = 100, .Height = 10, .Format = CU_AD_FORMAT_FLOAT, .NumChannels = 4};
    CUDA_ARRAY3D_DESCRIPTOR deep = {.Width = 8, .Height = 8, .Format = CU_AD_FORMAT_HALF, .NumChannels = 1};
    OK(cuArrayCreate(&array, &flat));
    expect(CONTEXT + 16000);
    OK(cuMipmappedArrayCreate(&mipmapped, &deep, 3));
    expect(CONTEXT + 16000 + 2 * (64 + 16 + 4));
    OK(cuArrayDestroy(array));
    OK(cuMipmappedArrayDestroy(mipmapped));
    expect(CONTEXT);
}

static void modules_and_limits(void)
{
    CUmodule module;
    CUlibrary library;
    CUfunction function;
    OK(cuModuleLoadData(&module, "image"));
    OK(cuLibraryLoadData(&library, "image", NULL, NULL, 0, NULL, NULL, 0));
    expect(CONTEXT + 2 * MODULE);
    CHECK(standin_allocation_bytes(0) == 0);
    OK(cuModuleGetFunction(&function, module, "kernel"));
    OK(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
    OK(cuModuleUnload(module));
    OK(cuLibraryUnload(library));
    OK(cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, 64 * MIB));
    expect(CONTEXT + 56 * MIB); /* 8 MiB are in the context's price */
    OK(cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, 8 * MIB));
    expect(CONTEXT);
}

static void other_contexts(CUcontext primary)
{
    CUcontext made, popped;
    CUdeviceptr a, b;
    CUmemoryPool pool;
    CUctxCreateParams none = {0};
    OK(cuCtxCreate(&made, &none, 0, 0));
    expect(2 * CONTEXT);
    OK(cuMemAlloc(&a, 7 * MIB));
    OK(cuMemAllocAsync(&b, MIB, NULL));
    OK(cuCtxDestroy(made)); /* takes its memory along, but not the pool's */
    OK(cuCtxGetCurrent(&popped));
    CHECK(popped == primary);
    expect(CONTEXT + 32 * MIB);
    OK(cuMemFreeAsync(b, NULL));
    OK(cuDeviceGetDefaultMemPool(&pool, 0));
    OK(cuMemPoolTrimTo(pool, 0));
    CHECK(cuMemFree(a) == CUDA_ERROR_INVALID_VALUE);
    expect(CONTEXT);
    CHECK(standin_device_bytes(1) == 0);
    OK(cuDevicePrimaryCtxRetain(&made, 1));
    CHECK(standin_device_bytes(1) == CONTEXT);
    OK(cuDevicePrimaryCtxRetain(&made, 1));
    OK(cuDevicePrimaryCtxRelease(1));
    CHECK(standin_device_bytes(1) == CONTEXT);
    OK(cuDevicePrimaryCtxRelease(1));
    CHECK(standin_device_bytes(1) == 0);
    expect(CONTEXT);
}

static void graphs(void)
{
    CUgraph graph;
    CUgraphNode node;
    CUgraphExec instance;
    CUDA_MEM_ALLOC_NODE_PARAMS parameters = {.bytesize = 40 * MIB};
    parameters.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    parameters.poolProps.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    OK(cuGraphCreate(&graph, 0));
    OK(cuGraphAddMemAllocNode(&node, graph, NULL, 0, &parameters));
    CHECK(parameters.dptr != 0);
    OK(cuGraphInstantiate(&instance, graph, 0));
    expect(CONTEXT); /* no memory yet */
    OK(cuGraphUpload(instance, NULL));
    expect(CONTEXT + 64 * MIB);
    OK(cuGraphLaunch(instance, NULL));
    expect(CONTEXT + 64 * MIB);
    CHECK(cuGraphLaunch(instance, NULL) == CUDA_ERROR_INVALID_VALUE);
    OK(cuDeviceGraphMemTrim(0));
    expect(CONTEXT + 64 * MIB);
    OK(cuMemFreeAsync(parameters.dptr, NULL));
    cuuint64_t used;
    OK(cuDeviceGetGraphMemAttribute(0, CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT, &used));
    CHECK(used == 0);
    OK(cuGraphLaunch(instance, NULL));
    OK(cuMemFreeAsync(parameters.dptr, NULL));
    OK(cuDeviceGraphMemTrim(0));
    expect(CONTEXT);
    OK(cuGraphLaunch(instance, NULL));
    OK(cuGraphExecDestroy(instance));
    OK(cuGraphDestroy(graph));
    OK(cuDeviceGraphMemTrim(0));
    expect(CONTEXT + 64 * MIB); /* what a launch gave outlives the graph */
    OK(cuMemFree(parameters.dptr));
    OK(cuDeviceGraphMemTrim(0));
    expect(CONTEXT);
    CHECK(cuMemFree(parameters.dptr) == CUDA_ERROR_INVALID_VALUE);
}

static void capture(void)
{
    CUstream stream;
    CUstreamCaptureStatus status;
    CUgraph graph;
    CUgraphExec instance;
    CUdeviceptr a;
    OK(cuStreamCreate(&stream, 0));
    OK(cuStreamIsCapturing(stream, &status));
    CHECK(status == CU_STREAM_CAPTURE_STATUS_NONE);
    OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    OK(cuStreamIsCapturing(stream, &status));
    CHECK(status == CU_STREAM_CAPTURE_STATUS_ACTIVE);
    OK(cuMemAllocAsync(&a, 20 * MIB, stream));
    OK(cuMemFreeAsync(a, stream));
    OK(cuStreamEndCapture(stream, &graph));
    expect(CONTEXT);
    OK(cuGraphInstantiate(&instance, graph, 0));
    OK(cuGraphLaunch(instance, stream));
    expect(CONTEXT + 32 * MIB);
    OK(cuDeviceGraphMemTrim(0));
    OK(cuGraphExecDestroy(instance));
    OK(cuGraphDestroy(graph));
    OK(cuStreamDestroy(stream));
    expect(CONTEXT);
}

static void lookup(void)
{
    void *function = NULL;
    CUdriverProcAddressQueryResult status;
    OK(cuGetProcAddress("cuMemAlloc", &function, 3020, 0, &status));
    CHECK(function == (void *)cuMemAlloc && status == CU_GET_PROC_ADDRESS_SUCCESS);
    void *old;
    OK(cuGetProcAddress("cuMemAlloc", &old, 2000, 0, &status));
    CHECK(old != function && old != NULL);
    OK(cuGetProcAddress("cuMemAlloc", &old, 1000, 0, &status));
    CHECK(old == NULL && status == CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);
    OK(cuGetProcAddress("cuMemAlloc_v2", &old, 13000, 0, &status));
    CHECK(old == NULL && status == CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
    void *plain, *per_thread;
    OK(cuGetProcAddress("cuMemAllocAsync", &plain, 13000, 0, &status));
    OK(cuGetProcAddress("cuMemAllocAsync", &per_thread, 13000, 2, &status));
    CHECK(plain != NULL && per_thread != NULL && plain != per_thread);
    OK(cuGetProcAddress("cuMemFree", &old, 13000, 2, &status));
    CHECK(old == (void *)cuMemFree); /* has no per-thread copy */
    CHECK(cuGetProcAddress("cuMemAlloc", &old, 13000, 4, &status) == CUDA_ERROR_INVALID_VALUE);
    CUresult (*version_1)(const char *, void **, int, cuuint64_t);
    OK(cuGetProcAddress("cuGetProcAddress", (void **)&version_1, 11030, 0, &status));
    CHECK((void *)version_1 != (void *)cuGetProcAddress);
    CHECK(version_1("cuNothing", &old, 13000, 0) == CUDA_ERROR_NOT_FOUND);
}

static void *hammer(void *context)
{
    OK(cuCtxSetCurrent(context));
    for (int i = 0; i < 2000; i++) {
        CUdeviceptr a, b;
        OK(cuMemAlloc(&a, (size_t)(i % 7 + 1) * 1000));
        OK(cuMemAllocAsync(&b, 5000, NULL));
        OK(cuMemFree(a));
        OK(cuMemFreeAsync(b, NULL));
    }
    return NULL;
}

static void threads(CUcontext context)
{
    pthread_t thread[4];
    for (int i = 0; i < 4; i++)
        CHECK(pthread_create(&thread[i], NULL, hammer, context) == 0);
    for (int i = 0; i < 4; i++)
        CHECK(pthread_join(thread[i], NULL) == 0);
    OK(cuCtxSynchronize());
    expect(CONTEXT);
}

/* Another process opens our memory; a forked child has no CUDA of its own until it runs a program. */
static void sharing(const char *program)
{
    CUdeviceptr a, b;
    CUipcMemHandle handle;
    OK(cuMemAlloc(&a, 4 * MIB));
    OK(cuIpcGetMemHandle(&handle, a));
    CHECK(cuIpcOpenMemHandle(&b, handle, 1) == CUDA_ERROR_INVALID_CONTEXT);
    char text[2 * sizeof(handle) + 1];
    for (size_t i = 0; i < sizeof(handle); i++)
        snprintf(text + 2 * i, 3, "%02x", (unsigned char)handle.reserved[i]);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        if (cuInit(0) != CUDA_ERROR_NOT_INITIALIZED || cuMemFree(a) != CUDA_ERROR_NOT_INITIALIZED)
            _exit(2);
        execl(program, program, text, (char *)NULL);
        _exit(3);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    OK(cuMemFree(a));
    expect(CONTEXT);
}

static void shared_with(const char *text)
{
    CUcontext context;
    CUipcMemHandle handle;
    CUdeviceptr a, b;
    for (size_t i = 0; i < sizeof(handle); i++) {
        unsigned byte;
        CHECK(sscanf(text + 2 * i, "%2x", &byte) == 1);
        handle.reserved[i] = (char)byte;
    }
    OK(cuInit(0));
    OK(cuDevicePrimaryCtxRetain(&context, 0));
    OK(cuCtxSetCurrent(context));
    OK(cuIpcOpenMemHandle(&a, handle, 1));
    OK(cuIpcOpenMemHandle(&b, handle, 1));
    CHECK(a == b);
    expect(CONTEXT); /* it is the other process's memory */
    OK(cuIpcCloseMemHandle(a));
    OK(cuIpcCloseMemHandle(a));
    CHECK(cuIpcCloseMemHandle(a) == CUDA_ERROR_INVALID_VALUE);
}

int main(int argc, char **argv)
{
    CUcontext context;
    if (argc > 1) {
        shared_with(argv[1]);
        return 0;
    }
    before_init_and_context(&context);
    plain_memory();
    contents();
    host_memory();
    virtual_memory();
    multicast();
    default_pool();
    made_pool();
    arrays();
    modules_and_limits();
    other_contexts(context);
    graphs();
    capture();
    lookup();
    threads(context);
    sharing(argv[0]);
    CUdeviceptr a;
    OK(cuMemAlloc(&a, MIB));
    OK(cuDevicePrimaryCtxReset(0));
    CHECK(standin_device_bytes(0) == 0);
    puts("the stand-in's books are right");
    return 0;
}
