/* Calls each family of hooked functions (the argument names one), and prints the truth line by line:
 *   alloc ADDRESS BYTES FLAGS, free ADDRESS     as in way.h
 *   check NAME VALUE                            for the test to compare
 * Calls that must fail are given where the hooks have something to tell about it. */
#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>

#include <dlfcn.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The stand-in driver's books. A GPU's driver has none: there it is asked what the card has in use. */
__attribute__((weak)) uint64_t standin_device_bytes(int device);
__attribute__((weak)) uint64_t standin_allocation_bytes(int device);
__attribute__((weak)) uint64_t standin_use_bytes(int device, const char *use);

#define MIB ((size_t)1 << 20)
#define GOOD(call)                                                                                           \
    do {                                                                                                     \
        CUresult result_ = call;                                                                             \
        if (result_ != CUDA_SUCCESS) {                                                                       \
            printf("failed %s %d\n", #call, result_);                                                        \
            exit(1);                                                                                         \
        }                                                                                                    \
    } while (0)

static CUcontext context;
static uint64_t bytes_at_start; /* in use on the card before the family's first call */
static int other_device;        /* 1, or 0 where there is no second one */

static uint64_t device_bytes(int device)
{
    size_t free_bytes, total;
    if (standin_device_bytes != NULL)
        return standin_device_bytes(device);
    GOOD(cuMemGetInfo_v2(&free_bytes, &total));
    return total - free_bytes;
}

static uint64_t allocation_bytes(void)
{
    return standin_allocation_bytes != NULL ? standin_allocation_bytes(0) : device_bytes(0) - bytes_at_start;
}

static uint64_t graph_bytes(int device)
{
    cuuint64_t bytes;
    if (standin_use_bytes != NULL)
        return standin_use_bytes(device, "pool");
    GOOD(cuDeviceGetGraphMemAttribute(device, CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT, &bytes));
    return bytes;
}

static void check_value(const char *name, uint64_t value)
{
    printf("check %s %lu\n", name, (unsigned long)value);
}

static void say_alloc(uint64_t address, size_t bytes, int flags)
{
    printf("alloc 0x%lx %zu %d\n", (unsigned long)address, bytes, flags);
}

static void say_free(uint64_t address)
{
    printf("free 0x%lx\n", (unsigned long)address);
}

static void linear(void)
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

static void first_abi(void)
{
    CUdeviceptr_v1 address;
    unsigned int pitch;
    void *host;
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
}

static void failures(void)
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

static void pools(void)
{
    CUmemoryPool pool, default_pool;
    CUmemPoolProps properties = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                                 .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}};
    cuuint64_t keep = UINT64_MAX;
    CUdeviceptr first, second, third;
    CUstream stream;
    GOOD(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    GOOD(cuDeviceGetDefaultMemPool(&default_pool, 0));
    GOOD(cuMemPoolSetAttribute(default_pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &keep));
    GOOD(cuMemPoolCreate(&pool, &properties));
    GOOD(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &keep));
    check_value("default_pool", (uintptr_t)default_pool);
    check_value("pool", (uintptr_t)pool);
    GOOD(cuMemAllocAsync(&first, 5 * MIB, stream));
    say_alloc(first, 5 * MIB, 4);
    GOOD(cuMemAllocFromPoolAsync(&second, 40 * MIB, pool, stream));
    say_alloc(second, 40 * MIB, 4);
    GOOD(cuMemAllocAsync_ptsz(&third, MIB, NULL));
    say_alloc(third, MIB, 4);
    check_value("reserved", allocation_bytes());
    say_free(first);
    GOOD(cuMemFreeAsync(first, stream));
    say_free(second);
    GOOD(cuMemFreeAsync_ptsz(second, stream));
    say_free(third);
    GOOD(cuMemFree_v2(third));
    GOOD(cuStreamSynchronize(stream));
    GOOD(cuMemPoolTrimTo(pool, 0));
    GOOD(cuMemPoolTrimTo(default_pool, 0));
    check_value("reserved_after_trim", allocation_bytes());
    GOOD(cuMemPoolDestroy(pool));
}

static void capture(void)
{
    CUdeviceptr address;
    CUstream stream;
    CUgraph graph;
    CUgraphExec exec;
    GOOD(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    GOOD(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    GOOD(cuMemAllocAsync(&address, 64 * MIB, stream));
    say_alloc(address, 64 * MIB, 4 | 32);
    say_free(address);
    GOOD(cuMemFreeAsync(address, stream));
    GOOD(cuStreamEndCapture(stream, &graph));
    GOOD(cuGraphInstantiateWithFlags(&exec, graph, 0));
    check_value("stream", (uintptr_t)stream);
    check_value("graph", (uintptr_t)graph);
    check_value("exec", (uintptr_t)exec);
    uint64_t before = device_bytes(0);
    GOOD(cuGraphLaunch(exec, stream));
    check_value("launch", device_bytes(0) - before);
    GOOD(cuGraphLaunch(exec, stream));
    GOOD(cuStreamSynchronize(stream));
    before = device_bytes(0);
    GOOD(cuDeviceGraphMemTrim(0));
    check_value("trim", before - device_bytes(0));
    GOOD(cuGraphExecDestroy(exec));
}

/* After each part: what both devices' pools for graphs hold, and an event by which the test finds the place.
 */
static void tell_graphs(void)
{
    CUdeviceptr place;
    check_value("graphs_0", graph_bytes(0));
    check_value("graphs_1", graph_bytes(other_device));
    GOOD(cuMemAddressReserve(&place, 2 * MIB, 0, 0, 0));
}

static void graph_memory(void)
{
    CUDA_MEM_ALLOC_NODE_PARAMS first = {.poolProps = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                                                      .location = {CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}},
                                        .bytesize = 32 * MIB};
    CUgraphNodeParams second = {.type = CU_GRAPH_NODE_TYPE_MEM_ALLOC};
    CUgraphExecUpdateResultInfo information;
    CUgraph graph, other;
    CUgraphExec exec, other_exec;
    CUgraphNode node;
    CUdeviceptr captured;
    CUstream stream;
    GOOD(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    GOOD(cuGraphCreate(&graph, 0));
    GOOD(cuGraphAddMemAllocNode(&node, graph, NULL, 0, &first));
    check_value("cuGraphAddMemAllocNode", first.dptr);
    GOOD(cuGraphAddMemFreeNode(&node, graph, &node, 1, first.dptr));
    second.alloc.poolProps = first.poolProps;
    second.alloc.poolProps.location.id = other_device;
    second.alloc.bytesize = 64 * MIB;
    GOOD(cuGraphAddNode_v2(&node, graph, NULL, NULL, 0, &second));
    check_value("cuGraphAddNode_v2", second.alloc.dptr);
    CUgraphNodeParams last = {.type = CU_GRAPH_NODE_TYPE_MEM_FREE, .free.dptr = second.alloc.dptr};
    GOOD(cuGraphAddNode_v2(&node, graph, NULL, NULL, 0, &last));
    GOOD(cuGraphInstantiateWithFlags(&exec, graph, 0));
    tell_graphs();
    GOOD(cuGraphUpload(exec, stream));
    tell_graphs();
    for (int i = 0; i < 3; i++)
        GOOD(cuGraphLaunch(exec, stream));
    GOOD(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    GOOD(cuMemAllocAsync(&captured, 100 * MIB, stream));
    check_value("cuMemAllocAsync", captured);
    GOOD(cuStreamEndCapture(stream, &other));
    GOOD(cuGraphInstantiateWithFlags(&other_exec, other, 0));
    GOOD(cuGraphExecUpdate_v2(other_exec, other, &information));
    GOOD(cuGraphLaunch(other_exec, stream));
    tell_graphs();
    GOOD(cuMemFreeAsync(captured, stream)); /* what the launch made: it stays in the pool */
    GOOD(cuDeviceGraphMemTrim(0));
    tell_graphs();
    GOOD(cuGraphLaunch(exec, stream)); /* takes it anew */
    tell_graphs();
    GOOD(cuGraphExecDestroy(exec));
    GOOD(cuGraphExecDestroy(other_exec));
    GOOD(cuDeviceGraphMemTrim(0));
    tell_graphs();
}

static void virtual_memory(void)
{
    CUdeviceptr address;
    CUmemGenericAllocationHandle handle, retained, host;
    CUmemAllocationProp properties = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                      .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}};
    CUmemAccessDesc access = {.location = properties.location, .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    GOOD(cuMemAddressReserve(&address, 8 * MIB, 0, 0, 0));
    check_value("reserve", address);
    GOOD(cuMemCreate(&handle, 4 * MIB, &properties, 0));
    check_value("create", handle);
    GOOD(cuMemMap(address, 4 * MIB, 0, handle, 0));
    GOOD(cuMemSetAccess(address, 4 * MIB, &access, 1));
    GOOD(cuMemRetainAllocationHandle(&retained, (void *)(uintptr_t)address));
    check_value("retained", retained);
    GOOD(cuMemRelease(retained));
    GOOD(cuMemRelease(handle));
    GOOD(cuMemUnmap(address, 4 * MIB));
    GOOD(cuMemAddressFree(address, 8 * MIB));
    properties.location.type = CU_MEM_LOCATION_TYPE_HOST_NUMA;
    if (cuMemCreate(&host, 2 * MIB, &properties, 0) == CUDA_SUCCESS) {
        check_value("host", host);
        GOOD(cuMemRelease(host));
    }
}

static void arrays(void)
{
    CUarray array;
    CUmipmappedArray mipmap;
    CUDA_ARRAY_DESCRIPTOR plane = {.Width = 64, .Height = 32, .Format = CU_AD_FORMAT_FLOAT, .NumChannels = 4};
    CUDA_ARRAY_DESCRIPTOR_v1 plane_1 = {
        .Width = 64, .Height = 0, .Format = CU_AD_FORMAT_HALF, .NumChannels = 1};
    CUDA_ARRAY3D_DESCRIPTOR solid = {
        .Width = 16, .Height = 16, .Depth = 16, .Format = CU_AD_FORMAT_UNSIGNED_INT8, .NumChannels = 2};
    GOOD(cuArrayCreate_v2(&array, &plane));
    say_alloc((uintptr_t)array, 64 * 32 * 16, 64);
    say_free((uintptr_t)array);
    GOOD(cuArrayDestroy(array));
    GOOD(cuArrayCreate(&array, &plane_1));
    say_alloc((uintptr_t)array, 128, 64);
    say_free((uintptr_t)array);
    GOOD(cuArrayDestroy(array));
    GOOD(cuArray3DCreate_v2(&array, &solid));
    say_alloc((uintptr_t)array, 16 * 16 * 16 * 2, 64);
    say_free((uintptr_t)array);
    GOOD(cuArrayDestroy(array));
    GOOD(cuMipmappedArrayCreate(&mipmap, &solid, 2));
    say_alloc((uintptr_t)mipmap, 16 * 16 * 16 * 2 + 8 * 8 * 8 * 2, 64);
    say_free((uintptr_t)mipmap);
    GOOD(cuMipmappedArrayDestroy(mipmap));
}

/* Memory that only tiles of a sparse array hold. */
static void sparse(void)
{
    CUDA_ARRAY3D_DESCRIPTOR plane = {.Width = 1024,
                                     .Height = 1024,
                                     .Format = CU_AD_FORMAT_FLOAT,
                                     .NumChannels = 1,
                                     .Flags = CUDA_ARRAY3D_SPARSE};
    CUmemAllocationProp properties = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                      .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}};
    CUarrayMapInfo parts[2] = {{.resourceType = CU_RESOURCE_TYPE_ARRAY,
                                .subresourceType = CU_ARRAY_SPARSE_SUBRESOURCE_TYPE_SPARSE_LEVEL,
                                .memOperationType = CU_MEM_OPERATION_TYPE_MAP,
                                .memHandleType = CU_MEM_HANDLE_TYPE_GENERIC}};
    CUmemGenericAllocationHandle handle;
    CUarray array;
    GOOD(cuArray3DCreate_v2(&array, &plane));
    GOOD(cuMemCreate(&handle, 4 * MIB, &properties, 0));
    parts[0].resource.array = array;
    parts[0].memHandle.memHandle = handle;
    parts[1] = parts[0];
    parts[1].subresource.sparseLevel.offsetX = 512;
    GOOD(cuMemMapArrayAsync(parts, 2, NULL));
    GOOD(cuMemRelease(handle));
    check_value("held", allocation_bytes());
    parts[0].memOperationType = CU_MEM_OPERATION_TYPE_UNMAP;
    GOOD(cuMemMapArrayAsync_ptsz(parts, 1, NULL));
    check_value("held", allocation_bytes());
    parts[1].memOperationType = CU_MEM_OPERATION_TYPE_UNMAP;
    GOOD(cuMemMapArrayAsync(&parts[1], 1, NULL));
    check_value("held", allocation_bytes());
    check_value("refused", cuMemMapArrayAsync(&parts[1], 1, NULL));
    GOOD(cuArrayDestroy(array));
}

static void foreign(void)
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

/* PTX: the stand-in does not read it, a GPU's driver compiles it. */
#define KERNEL(name) ".visible .entry " name "() { ret; }\n"
static const char image[] = ".version 8.0\n.target sm_80\n.address_size 64\n" KERNEL("one") KERNEL("two")
    KERNEL("three") KERNEL("four") KERNEL("five") KERNEL("six") KERNEL("seven");

static void loads(void)
{
    CUmodule module;
    CUlibrary library;
    uint64_t before = device_bytes(0);
    GOOD(cuModuleLoadData(&module, image));
    check_value("module", device_bytes(0) - before);
    GOOD(cuModuleUnload(module));
    before = device_bytes(0);
    GOOD(cuLibraryLoadData(&library, image, NULL, NULL, 0, NULL, NULL, 0));
    GOOD(cuLibraryGetModule(&module, library));
    check_value("library", device_bytes(0) - before);
    GOOD(cuLibraryUnload(library));
    before = device_bytes(0);
    GOOD(cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, 512 * MIB));
    check_value("limit", device_bytes(0) - before);
}

/* Each way to a kernel's first use; what comes after costs nothing. */
static void kernels(void)
{
    CUmodule module;
    CUlibrary library;
    CUkernel kernel;
    CUfunction function;
    CUlaunchConfig configuration = {1, 1, 1, 1, 1, 1, 0, NULL, NULL, 0};
    GOOD(cuModuleLoadData(&module, image));
    GOOD(cuLibraryLoadData(&library, image, NULL, NULL, 0, NULL, NULL, 0));
#define FIRST(name, call)                                                                                    \
    for (int times = 0; times < 3; times++) {                                                                \
        uint64_t before = device_bytes(0);                                                                   \
        GOOD(call);                                                                                          \
        check_value(name, device_bytes(0) - before);                                                         \
    }
    FIRST("cuModuleGetFunction", cuModuleGetFunction(&function, module, "one"))
    FIRST("nothing", cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL))
    FIRST("cuModuleGetFunction", cuModuleGetFunction(&function, module, "two"))
    FIRST("nothing", cuLibraryGetKernel(&kernel, library, "three"))
    FIRST("cuKernelGetFunction", cuKernelGetFunction(&function, kernel))
    FIRST("nothing", cuLibraryGetKernel(&kernel, library, "four"))
    FIRST("cuLaunchKernel", cuLaunchKernel((CUfunction)kernel, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL))
    FIRST("nothing", cuLibraryGetKernel(&kernel, library, "five"))
    FIRST("cuLaunchKernelEx", cuLaunchKernelEx(&configuration, (CUfunction)kernel, NULL, NULL))
    FIRST("nothing", cuLibraryGetKernel(&kernel, library, "six"))
    FIRST("cuFuncLoad", cuFuncLoad((CUfunction)kernel))
    FIRST("nothing", cuLibraryGetKernel(&kernel, library, "seven"))
    FIRST("cuLaunchCooperativeKernel_ptsz",
          cuLaunchCooperativeKernel_ptsz((CUfunction)kernel, 1, 1, 1, 1, 1, 1, 0, NULL, NULL))
    /* Handles may come again after an unloading. */
    GOOD(cuModuleUnload(module));
    GOOD(cuModuleLoadData(&module, image));
    FIRST("cuModuleGetFunction", cuModuleGetFunction(&function, module, "one"))
    check_value("all", device_bytes(0));
}

/* Launches of one kernel, for their cost. */
static void launches(void)
{
    CUmodule module;
    CUfunction function;
    GOOD(cuModuleLoadData(&module, ""));
    GOOD(cuModuleGetFunction(&function, module, "one"));
    for (int i = 0; i < 100000; i++)
        GOOD(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
}

static void contexts(void)
{
    CUcontext own, again;
    check_value("primary", (uintptr_t)context);
    GOOD(cuDevicePrimaryCtxRetain(&again, 0));
    GOOD(cuDevicePrimaryCtxRelease_v2(0));
    GOOD(cuCtxCreate_v2(&own, 0, 0));
    check_value("own", (uintptr_t)own);
    GOOD(cuCtxDestroy_v2(own));
    GOOD(cuCtxCreate_v4(&own, NULL, 0, 0));
    check_value("own", (uintptr_t)own);
    GOOD(cuCtxDestroy_v2(own));
    GOOD(cuDevicePrimaryCtxRelease_v2(0));
    GOOD(cuDevicePrimaryCtxRetain(&again, 0));
    GOOD(cuDevicePrimaryCtxReset_v2(0));
}

/* The first call of all, with nothing known yet, and later ones, good and bad. */
static void leaves_errno(void)
{
    CUdeviceptr address, pooled, none;
    CUmemoryPool pool;
    size_t too_much = (size_t)1 << 50;
#define ERRNO_AFTER(call)                                                                                    \
    errno = 4711;                                                                                            \
    printf("%s: result %d, errno %d\n", #call, call, errno)
    ERRNO_AFTER(cuMemAlloc_v2(&address, MIB));
    ERRNO_AFTER(cuMemAlloc_v2(&none, too_much));
    ERRNO_AFTER(cuMemAllocAsync(&pooled, MIB, NULL));
    ERRNO_AFTER(cuDeviceGetDefaultMemPool(&pool, 0));
    ERRNO_AFTER(cuMemFreeAsync(pooled, NULL));
    ERRNO_AFTER(cuMemPoolTrimTo(pool, 0));
    ERRNO_AFTER(cuMemFree_v2(address + 1));
    ERRNO_AFTER(cuMemFree_v2(address));
    ERRNO_AFTER(cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, 64 * MIB));
    errno = 4711;
    printf("dlsym %d, errno %d\n", dlsym(RTLD_DEFAULT, "cuMemAlloc_v2") != NULL, errno);
}

/* An error that the host has not read yet outlives as many calls as it likes to make. */
static void leaves_dlerror(void)
{
    CUdeviceptr address, pooled, none;
    size_t too_much = (size_t)1 << 50;
    if (dlsym(RTLD_DEFAULT, "no_such_name") != NULL)
        return;
    for (int i = 0; i < 400; i++) {
        GOOD(cuMemAlloc_v2(&address, MIB));
        GOOD(cuMemAllocAsync(&pooled, MIB, NULL));
        cuMemAlloc_v2(&none, too_much);
        GOOD(cuMemFreeAsync(pooled, NULL));
        GOOD(cuMemFree_v2(address));
    }
    const char *error = dlerror();
    const char *text = error != NULL ? strstr(error, "undefined symbol") : NULL;
    printf("dlerror %s\n", text != NULL ? text : "nothing");
}

/* More graphs than fit a small table, each with memory of its own at its first launch. */
static void many_graphs(void)
{
    enum { GRAPHS = 6000 };
    static CUgraphExec execs[GRAPHS];
    CUstream stream;
    GOOD(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    uint64_t before = device_bytes(0);
    for (int i = 0; i < GRAPHS; i++) {
        CUdeviceptr address;
        CUgraph graph;
        GOOD(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
        GOOD(cuMemAllocAsync(&address, MIB, stream));
        GOOD(cuStreamEndCapture(stream, &graph));
        GOOD(cuGraphInstantiateWithFlags(&execs[i], graph, 0));
        GOOD(cuGraphLaunch(execs[i], stream));
    }
    check_value("graphs", device_bytes(0) - before);
}

static void no_context(void)
{
    CUdeviceptr address;
    check_value("before_init", cuMemAlloc_v2(&address, MIB));
    GOOD(cuInit(0));
    check_value("before_context", cuMemAlloc_v2(&address, MIB));
    check_value("free", cuMemFree_v2(MIB));
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(void);
    } families[] = {{"linear", linear},
                    {"first_abi", first_abi},
                    {"failures", failures},
                    {"pools", pools},
                    {"capture", capture},
                    {"graph_memory", graph_memory},
                    {"virtual_memory", virtual_memory},
                    {"arrays", arrays},
                    {"sparse", sparse},
                    {"foreign", foreign},
                    {"loads", loads},
                    {"kernels", kernels},
                    {"launches", launches},
                    {"contexts", contexts},
                    {"no_context", no_context},
                    {"errno", leaves_errno},
                    {"dlerror", leaves_dlerror},
                    {"many_graphs", many_graphs}};
    int devices;
    for (size_t i = 0; argc > 1 && i < sizeof(families) / sizeof(families[0]); i++) {
        if (strcmp(argv[1], families[i].name) != 0)
            continue;
        if (families[i].run != no_context) {
            GOOD(cuInit(0));
            GOOD(cuDevicePrimaryCtxRetain(&context, 0));
            GOOD(cuCtxSetCurrent(context));
            GOOD(cuDeviceGetCount(&devices));
            other_device = devices > 1;
            bytes_at_start = standin_device_bytes != NULL ? 0 : device_bytes(0);
        }
        families[i].run();
        return 0;
    }
    return 2;
}
