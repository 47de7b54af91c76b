/* Allocations of every family, good and bad. */
#include "calls_stress.h"

#include <fcntl.h>
#include <unistd.h>

void make_linear(struct worker *worker)
{
    CUdeviceptr address = POISON;
    size_t bytes = some_bytes(worker), pitch = 0;
    switch (draw(worker, 8)) {
    case 0:
    case 1:
    case 2:
        if (CALL_OUT(cuMemAlloc_v2, address, &address, bytes))
            add(worker, LINEAR, address, bytes);
        break;
    case 3:
        if (CALL_OUT(cuMemAllocPitch_v2, address, &address, &pitch, 1 + bytes % 3000, 1 + bytes % 60, 4))
            add(worker, LINEAR, address, pitch * (1 + bytes % 60));
        fprintf(worker->results, "pitch %zu\n", pitch);
        break;
    case 4:
        if (CALL_OUT(cuMemAllocManaged, address, &address, bytes, CU_MEM_ATTACH_GLOBAL))
            add(worker, LINEAR, address, bytes);
        break;
    case 5:
        CALL_OUT(cuMemAlloc_v2, address, &address, TOO_MUCH);
        break;
    case 6:
        CALL_OUT(cuMemAllocManaged, address, &address, TOO_MUCH, CU_MEM_ATTACH_GLOBAL);
        break;
    default:
        CALL(cuMemAlloc_v2, POISON, NULL, bytes);
        CALL_OUT(cuMemAlloc_v2, address, &address, 0);
    }
}

void make_pooled(struct worker *worker)
{
    CUdeviceptr address = POISON;
    size_t bytes = some_bytes(worker);
    switch (draw(worker, 5)) {
    case 0:
        CALL_OUT(cuMemAllocAsync, address, &address, TOO_MUCH, worker->stream);
        return;
    case 1:
        if (CALL_OUT(cuMemAllocAsync, address, &address, bytes, worker->stream))
            add(worker, POOLED, address, bytes);
        return;
    case 2:
        if (CALL_OUT(cuMemAllocAsync_ptsz, address, &address, bytes, NULL))
            add(worker, POOLED, address, bytes);
        return;
    default:
        if (CALL_OUT(cuMemAllocFromPoolAsync, address, &address, bytes, pools[draw(worker, POOLS)],
                     worker->stream))
            add(worker, POOLED, address, bytes);
    }
}

void make_host(struct worker *worker)
{
    void *address = (void *)(uintptr_t)POISON;
    size_t bytes = some_bytes(worker) / 4 + 1;
    bool good = draw(worker, 2) ? CALL_OUT(cuMemHostAlloc, address, &address, bytes, 0)
                                : CALL_OUT(cuMemAllocHost_v2, address, &address, bytes);
    if (good)
        add(worker, HOST, (uintptr_t)address, bytes);
}

void make_registered(struct worker *worker)
{
    char *place = worker->arena + worker->arena_used;
    size_t bytes = SLOT_BYTES * (1 + draw(worker, 4));
    if (worker->arena_used + bytes > ARENA_BYTES)
        return;
    worker->arena_used += bytes;
    if (!CALL(cuMemHostRegister_v2, POISON, place, bytes, 0))
        return;
    add(worker, REGISTERED, (uintptr_t)place, bytes);
    if (draw(worker, 8) == 0)
        CALL(cuMemHostRegister_v2, POISON, place, bytes, 0);
}

static void share(struct worker *worker, struct item *item)
{
    CUmemGenericAllocationHandle handle = POISON;
    int descriptor = -1;
    if (!CALL(cuMemExportToShareableHandle, POISON, &descriptor, item->handle,
              CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0))
        return;
    if (CALL_OUT(cuMemImportFromShareableHandle, handle, &handle, (void *)(intptr_t)descriptor,
                 CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR))
        item->references++;
    close(descriptor);
}

void make_imported(struct worker *worker)
{
    char path[64];
    CUmemGenericAllocationHandle handle = POISON;
    snprintf(path, sizeof(path), "/proc/%d/fd/%d", others.process, others.descriptors[draw(worker, SHARED)]);
    int descriptor = open(path, O_RDONLY | O_CLOEXEC);
    need(descriptor >= 0, "the other process's descriptor cannot be opened");
    if (CALL_OUT(cuMemImportFromShareableHandle, handle, &handle, (void *)(intptr_t)descriptor,
                 CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)) {
        struct item *item = add(worker, VIRTUAL, 0, 0);
        item->handle = handle;
        item->references = 1;
    }
    close(descriptor);
}

void make_virtual(struct worker *worker)
{
    CUmemAllocationProp properties = {
        .type = CU_MEM_ALLOCATION_TYPE_PINNED,
        .requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
        .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = (int)draw(worker, 2)}};
    CUmemAccessDesc access = {.location = properties.location, .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUmemGenericAllocationHandle handle = POISON, retained = POISON;
    CUdeviceptr address = POISON;
    size_t bytes = 2 * MIB * (1 + draw(worker, 2));
    if (draw(worker, 8) == 0) {
        CALL_OUT(cuMemCreate, handle, &handle, TOO_MUCH, &properties, 0);
        return;
    }
    if (draw(worker, 8) == 0)
        properties.location.type = CU_MEM_LOCATION_TYPE_HOST_NUMA;
    if (!CALL_OUT(cuMemCreate, handle, &handle, bytes, &properties, 0))
        return;
    struct item *item = add(worker, VIRTUAL, 0, bytes);
    item->handle = handle;
    item->references = 1;
    if (draw(worker, 4) == 0)
        share(worker, item);
    if (draw(worker, 4) == 0 || !CALL_OUT(cuMemAddressReserve, address, &address, bytes, 0, 0, 0))
        return;
    item->address = address;
    CALL(cuMemMap, POISON, address, bytes, 0, handle, 0);
    CALL(cuMemSetAccess, POISON, address, bytes, &access, 1);
    CALL(cuMemMap, POISON, address, bytes, 0, handle, 0); /* it is mapped already */
    atomic_store_explicit(&board[draw(worker, BOARD)], address, memory_order_relaxed);
    if (draw(worker, 3) == 0 &&
        CALL_OUT(cuMemRetainAllocationHandle, retained, &retained, (void *)(uintptr_t)address))
        item->references++;
    while (item->references > 0 && draw(worker, 2))
        item->references -= CALL(cuMemRelease, POISON, item->handle);
}

void make_array(struct worker *worker)
{
    CUarray array = (CUarray)(uintptr_t)POISON;
    CUmipmappedArray mipmap = (CUmipmappedArray)(uintptr_t)POISON;
    size_t width = 16 << draw(worker, 4);
    CUDA_ARRAY_DESCRIPTOR plane = {
        .Width = width, .Height = width, .Format = CU_AD_FORMAT_FLOAT, .NumChannels = 4};
    CUDA_ARRAY3D_DESCRIPTOR solid = {
        .Width = width, .Height = 16, .Depth = 16, .Format = CU_AD_FORMAT_UNSIGNED_INT8, .NumChannels = 2};
    switch (draw(worker, 4)) {
    case 0:
        if (CALL_OUT(cuArrayCreate_v2, array, &array, &plane))
            add(worker, ARRAY, (uintptr_t)array, 0);
        return;
    case 1:
        if (CALL_OUT(cuArray3DCreate_v2, array, &array, &solid))
            add(worker, ARRAY, (uintptr_t)array, 0);
        return;
    case 2:
        solid.Width = TOO_MUCH;
        CALL_OUT(cuArray3DCreate_v2, array, &array, &solid);
        return;
    default:
        if (CALL_OUT(cuMipmappedArrayCreate, mipmap, &mipmap, &solid, 3))
            add(worker, MIPMAP, (uintptr_t)mipmap, 0);
    }
}

void make_foreign(struct worker *worker)
{
    CUdeviceptr address = POISON;
    if (CALL_OUT(cuIpcOpenMemHandle_v2, address, &address, others.memory[draw(worker, SHARED)],
                 CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS))
        add(worker, FOREIGN, address, 0);
}

/* An allocation node, by capture or by hand; half of them have their free node too. */
void make_graph(struct worker *worker)
{
    CUDA_MEM_ALLOC_NODE_PARAMS parameters = {
        .poolProps = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                      .location = {CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}},
        .bytesize = MIB + some_bytes(worker)};
    CUgraph graph = NULL;
    CUgraphExec exec = NULL;
    CUgraphNode node;
    CUdeviceptr address = POISON;
    bool frees = draw(worker, 2), frees_first = draw(worker, 2), good;
    if (draw(worker, 2)) {
        if (!CALL(cuStreamBeginCapture_v2, POISON, worker->stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL))
            return;
        good = CALL_OUT(cuMemAllocAsync, address, &address, parameters.bytesize, worker->stream);
        if (good && frees)
            CALL(cuMemFreeAsync, POISON, address, worker->stream);
        good &= CALL(cuStreamEndCapture, POISON, worker->stream, &graph);
    } else {
        CALL(cuGraphCreate, POISON, &graph, 0);
        good = CALL(cuGraphAddMemAllocNode, POISON, &node, graph, NULL, 0, &parameters);
        address = parameters.dptr;
        if (good && frees)
            CALL(cuGraphAddMemFreeNode, POISON, &node, graph, &node, 1, address);
    }
    good = good && CALL(cuGraphInstantiateWithFlags, POISON, &exec, graph,
                        frees_first ? CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH : 0);
    if (!good) {
        CALL(cuGraphDestroy, POISON, graph);
        return;
    }
    struct item *item = add(worker, GRAPH, address, parameters.bytesize);
    item->graph = graph;
    item->exec = exec;
    for (uint64_t launches = draw(worker, 3); launches > 0; launches--) /* a second one may fail */
        item->live |= CALL(cuGraphLaunch, POISON, exec, worker->stream) && !frees;
}
