/* Mixed calls of every family of the driver, from several threads: calls_stress SEED CALLS THREADS FOLDER.
 *
 * Writes to FOLDER: results.N, what each call of thread N returned and wrote (addresses only as "none, null,
 * some"), which the seed alone decides; and books, what the driver says lives at the end (standin_books). The
 * hooks must change no result, and the trace must end with the books.
 *
 * Frees are in random order, a part of them in other threads and in other contexts. Calls that must fail: too
 * large, refused by the stand-in (VRAMTRACE_STANDIN_FAIL), without a context, of addresses that other threads
 * use but of another kind, second frees. Second frees of addresses only where the driver gives none out again
 * (VRAMTRACE_STANDIN_REUSE=0): else they may free what another thread has got there, and nothing can be
 * expected. */
#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>

#include <fcntl.h>
#include <pthread.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int standin_books(const char *path);
extern char **environ;

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)
#define POISON UINT64_C(0x7777777777777777)
#define TOO_MUCH ((size_t)1 << 50)
#define SLOT_BYTES (4 * KIB)
#define ARENA_BYTES ((size_t)2 << 30) /* address space for what a thread registers, each place once */

enum {
    MAX_THREADS = 64,
    MAX_ITEMS = 96,
    DEAD = 64,
    BOARD = 512,
    ROUND_CALLS = 2000,
    SHARED = 4,
    POOLS = 3,
    CONTEXTS = 3
};

enum item_kind { LINEAR, POOLED, HOST, REGISTERED, VIRTUAL, ARRAY, MIPMAP, FOREIGN, GRAPH };
struct item {
    enum item_kind kind;
    uint64_t address; /* or handle */
    uint64_t bytes;
    CUmemGenericAllocationHandle handle; /* VIRTUAL */
    unsigned references;                 /* VIRTUAL: releases that are left */
    CUgraphExec exec;                    /* GRAPH */
    CUgraph graph;
    bool live; /* GRAPH: its memory is to be freed */
};

struct worker {
    int number;
    uint64_t random;
    unsigned long calls, wanted;
    FILE *results;
    struct item items[MAX_ITEMS], outbox[MAX_ITEMS], dead[DEAD];
    unsigned item_count, outbox_count, dead_count;
    CUstream stream;
    char *arena;
    size_t arena_used;
};

struct exported { /* by the other process */
    CUipcMemHandle memory[SHARED];
    int descriptors[SHARED];
    pid_t process;
};

static struct worker workers[MAX_THREADS];
static int threads;
static bool reuse;
static pthread_barrier_t barrier;
static CUcontext contexts[CONTEXTS + 1]; /* the last one is none */
static CUmemoryPool pools[POOLS];
static struct exported others;
static _Atomic uint64_t board[BOARD]; /* addresses and handles that somebody has or had */

static void need(bool good, const char *what)
{
    if (!good) {
        fprintf(stderr, "calls_stress: %s\n", what);
        exit(1);
    }
}

static uint64_t draw(struct worker *worker, uint64_t below)
{
    worker->random ^= worker->random << 13;
    worker->random ^= worker->random >> 7;
    worker->random ^= worker->random << 17;
    return (worker->random >> 11) % below;
}

/* One call's outcome; `out` is POISON if there is no out-parameter. */
static bool note(struct worker *worker, const char *call, CUresult result, uint64_t out)
{
    fprintf(worker->results, "%s %d %s\n", call, (int)result, out == POISON ? "none" : out ? "some" : "null");
    worker->calls++;
    return result == CUDA_SUCCESS;
}
#define CALL(function, out, ...) note(worker, #function, function(__VA_ARGS__), out)
/* With an out-parameter: reads it after the call. */
#define CALL_OUT(function, variable, ...)                                                                    \
    ({                                                                                                       \
        CUresult result_ = function(__VA_ARGS__);                                                            \
        note(worker, #function, result_, (uint64_t)(uintptr_t)(variable));                                   \
    })

static struct item *add(struct worker *worker, enum item_kind kind, uint64_t address, uint64_t bytes)
{
    struct item *item = &worker->items[worker->item_count++];
    *item = (struct item){.kind = kind, .address = address, .bytes = bytes};
    atomic_store_explicit(&board[draw(worker, BOARD)], address, memory_order_relaxed);
    return item;
}

static size_t some_bytes(struct worker *worker)
{
    return draw(worker, 8) == 0 ? MIB + draw(worker, 3 * MIB) : 1 + draw(worker, 256 * KIB);
}

/* ---- Allocations. */

static void make_linear(struct worker *worker)
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

static void make_pooled(struct worker *worker)
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

static void make_host(struct worker *worker)
{
    void *address = (void *)(uintptr_t)POISON;
    size_t bytes = some_bytes(worker) / 4 + 1;
    bool good = draw(worker, 2) ? CALL_OUT(cuMemHostAlloc, address, &address, bytes, 0)
                                : CALL_OUT(cuMemAllocHost_v2, address, &address, bytes);
    if (good)
        add(worker, HOST, (uintptr_t)address, bytes);
}

static void make_registered(struct worker *worker)
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

static void import(struct worker *worker)
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

static void make_virtual(struct worker *worker)
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

static void make_array(struct worker *worker)
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

static void make_foreign(struct worker *worker)
{
    CUdeviceptr address = POISON;
    if (CALL_OUT(cuIpcOpenMemHandle_v2, address, &address, others.memory[draw(worker, SHARED)],
                 CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS))
        add(worker, FOREIGN, address, 0);
}

/* An allocation node, by capture or by hand; half of them have their free node too. */
static void make_graph(struct worker *worker)
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

/* ---- Frees. */

static bool free_virtual(struct worker *worker, struct item *item)
{
    while (item->references > 0 && draw(worker, 4))
        item->references -= CALL(cuMemRelease, POISON, item->handle);
    if (item->address != 0) {
        CALL(cuMemUnmap, POISON, item->address, item->bytes);
        CALL(cuMemAddressFree, POISON, item->address, item->bytes);
        item->address = 0;
    }
    while (item->references > 0)
        item->references -= CALL(cuMemRelease, POISON, item->handle);
    return true;
}

static bool free_graph(struct worker *worker, struct item *item)
{
    if (item->live && !(draw(worker, 2) ? CALL(cuMemFree_v2, POISON, item->address)
                                        : CALL(cuMemFreeAsync, POISON, item->address, worker->stream)))
        return false; /* no context */
    CALL(cuGraphExecDestroy, POISON, item->exec);
    CALL(cuGraphDestroy, POISON, item->graph);
    return true;
}

static bool free_item(struct worker *worker, struct item *item)
{
    switch (item->kind) {
    case LINEAR:
    case POOLED:
        return draw(worker, 3) ? CALL(cuMemFree_v2, POISON, item->address)
                               : CALL(cuMemFreeAsync, POISON, item->address, worker->stream);
    case HOST:
        return CALL(cuMemFreeHost, POISON, (void *)(uintptr_t)item->address);
    case REGISTERED:
        return CALL(cuMemHostUnregister, POISON, (void *)(uintptr_t)item->address);
    case VIRTUAL:
        return free_virtual(worker, item);
    case ARRAY:
        return CALL(cuArrayDestroy, POISON, (CUarray)(uintptr_t)item->address);
    case MIPMAP:
        return CALL(cuMipmappedArrayDestroy, POISON, (CUmipmappedArray)(uintptr_t)item->address);
    case FOREIGN:
        return CALL(cuIpcCloseMemHandle, POISON, item->address);
    default:
        return free_graph(worker, item);
    }
}

static void free_one(struct worker *worker)
{
    if (worker->item_count == 0)
        return;
    struct item *item = &worker->items[draw(worker, worker->item_count)];
    if (!free_item(worker, item))
        return;
    worker->dead[worker->dead_count++ % DEAD] = *item;
    *item = worker->items[--worker->item_count];
}

/* ---- What must fail, or do nothing. */

static void free_again(struct worker *worker)
{
    if (worker->dead_count == 0)
        return;
    struct item *item = &worker->dead[draw(worker, worker->dead_count < DEAD ? worker->dead_count : DEAD)];
    if (item->kind == VIRTUAL && item->bytes != 0) /* the numbers of handles are never used again */
        CALL(cuMemRelease, POISON, item->handle);
    else if (!reuse && item->kind != GRAPH && item->kind != FOREIGN && item->kind != VIRTUAL)
        free_item(worker, item);
}

/* Frees of the wrong kind: they fail whether the address is in use, and by whomever. */
static void free_others(struct worker *worker)
{
    uint64_t address = atomic_load_explicit(&board[draw(worker, BOARD)], memory_order_relaxed);
    int on_stack;
    if (address == 0)
        address = POISON; /* which address it is depends on the others; what comes of it does not */
    if (address >= (uintptr_t)workers[0].arena &&
        address < (uintptr_t)workers[0].arena + threads * ARENA_BYTES)
        address = (uintptr_t)&on_stack; /* registered: it could be unregistered here */
    switch (draw(worker, 6)) {
    case 0:
        CALL(cuMemHostUnregister, POISON, (void *)(uintptr_t)(address | 1));
        break;
    case 1:
        CALL(cuMemHostUnregister, POISON, (void *)(uintptr_t)address);
        break;
    case 2:
        CALL(cuMemRelease, POISON, address);
        break;
    case 3:
        CALL(cuMemUnmap, POISON, address, 1);
        break;
    case 4:
        CALL(cuMemFree_v2, POISON, (uintptr_t)&on_stack);
        CALL(cuMemFreeHost, POISON, &on_stack);
        break;
    default:
        CALL(cuMemFree_v2, POISON, 0);
        CALL(cuMemFreeHost, POISON, NULL);
        CALL(cuMemFreeAsync, POISON, 0, worker->stream);
        CALL(cuMemRelease, POISON, 0);
    }
}

static void free_without_context(struct worker *worker)
{
    CUcontext before;
    cuCtxGetCurrent(&before);
    while (CALL(cuCtxPopCurrent_v2, POISON, NULL)) {
    }
    for (int i = 0; i < 3; i++) {
        uint64_t address = atomic_load_explicit(&board[draw(worker, BOARD)], memory_order_relaxed);
        address = address != 0 ? address : POISON;
        CALL(cuMemFree_v2, POISON, address);
        CALL(cuMemFreeAsync, POISON, address, NULL);
        CALL(cuMemFreeHost, POISON, (void *)(uintptr_t)address);
        CALL(cuIpcCloseMemHandle, POISON, address);
        CALL(cuArrayDestroy, POISON, (CUarray)(uintptr_t)address);
    }
    if (worker->item_count != 0)
        free_one(worker);
    if (before != NULL)
        cuCtxSetCurrent(before);
}

/* ---- Contexts. */

static void switch_context(struct worker *worker)
{
    CUcontext context = contexts[draw(worker, CONTEXTS)];
    CALL(cuCtxSetCurrent, POISON, context);
}

/* Allocates in a context of its own, which then goes with what is left in it. */
static void live_in_own_context(struct worker *worker)
{
    CUcontext own = NULL;
    unsigned before = worker->item_count;
    if (!CALL(cuCtxCreate_v2, POISON, &own, 0, (CUdevice)draw(worker, 2)))
        return;
    for (uint64_t i = 2 + draw(worker, 6); i > 0 && worker->item_count < MAX_ITEMS; i--)
        switch (draw(worker, 4)) {
        case 0:
            make_host(worker);
            break;
        case 1:
            make_registered(worker);
            break;
        case 2:
            make_array(worker);
            break;
        default:
            make_linear(worker);
        }
    while (worker->item_count > before && draw(worker, 2) &&
           free_item(worker, &worker->items[worker->item_count - 1]))
        worker->item_count--;
    CALL(cuCtxDestroy_v2, POISON, own);
    while (worker->item_count > before) { /* freed with it */
        struct item *item = &worker->items[--worker->item_count];
        worker->dead[worker->dead_count++ % DEAD] = *item;
    }
}

static void settle(struct worker *worker)
{
    if (draw(worker, 2))
        CALL(cuMemPoolTrimTo, POISON, pools[draw(worker, POOLS)], draw(worker, 64 * MIB));
    else if (draw(worker, 4))
        CALL(cuStreamSynchronize, POISON, worker->stream);
    else
        CALL(cuDeviceGraphMemTrim, POISON, 0);
    CUmemoryPool built_in;
    if (draw(worker, 16) == 0 && cuDeviceGetDefaultMemPool(&built_in, 0) == CUDA_SUCCESS)
        CALL(cuMemPoolDestroy, POISON, built_in); /* refused */
}

static void step(struct worker *worker)
{
    static const struct {
        unsigned weight;
        bool makes;
        void (*run)(struct worker *worker);
    } operations[] = {{60, true, make_linear},
                      {60, true, make_pooled},
                      {20, true, make_host},
                      {20, true, make_registered},
                      {16, true, make_virtual},
                      {4, true, import},
                      {12, true, make_array},
                      {8, true, make_foreign},
                      {6, true, make_graph},
                      {150, false, free_one},
                      {20, false, free_others},
                      {12, false, free_again},
                      {2, false, free_without_context},
                      {20, false, switch_context},
                      {1, true, live_in_own_context},
                      {8, false, settle}};
    unsigned sum = 0;
    for (size_t i = 0; i < sizeof(operations) / sizeof(operations[0]); i++)
        sum += operations[i].weight;
    uint64_t drawn = draw(worker, sum);
    for (size_t i = 0; i < sizeof(operations) / sizeof(operations[0]); drawn -= operations[i++].weight) {
        if (drawn >= operations[i].weight)
            continue;
        if (operations[i].makes && worker->item_count + 8 > MAX_ITEMS)
            free_one(worker);
        else
            operations[i].run(worker);
        return;
    }
}

static void *work(void *argument)
{
    struct worker *worker = argument;
    cuCtxSetCurrent(contexts[0]);
    need(cuStreamCreate(&worker->stream, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS, "no stream");
    for (int round = 1; worker->calls < worker->wanted; round++) {
        unsigned long until = (unsigned long)round * ROUND_CALLS;
        while (worker->calls < until && worker->calls < worker->wanted)
            step(worker);
        for (worker->outbox_count = 0; worker->item_count != 0 && worker->outbox_count < MAX_ITEMS / 3;)
            worker->outbox[worker->outbox_count++] = worker->items[--worker->item_count];
        pthread_barrier_wait(&barrier);
        const struct worker *giver = &workers[(worker->number + 1 + round % (threads - 1)) % threads];
        for (unsigned i = 0; i < giver->outbox_count; i++)
            worker->items[worker->item_count++] = giver->outbox[i];
        pthread_barrier_wait(&barrier);
    }
    return NULL;
}

/* ---- The other process, without hooks: what it has is foreign here. */

static int export_memory(void)
{
    struct exported mine = {.process = getpid()};
    CUmemAllocationProp properties = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                      .requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
                                      .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}};
    CUcontext context;
    need(cuInit(0) == CUDA_SUCCESS && cuDevicePrimaryCtxRetain(&context, 0) == CUDA_SUCCESS, "no context");
    cuCtxSetCurrent(context);
    for (int i = 0; i < SHARED; i++) {
        CUdeviceptr address;
        CUmemGenericAllocationHandle handle;
        need(cuMemAlloc_v2(&address, MIB) == CUDA_SUCCESS &&
                 cuIpcGetMemHandle(&mine.memory[i], address) == CUDA_SUCCESS &&
                 cuMemCreate(&handle, 2 * MIB, &properties, 0) == CUDA_SUCCESS &&
                 cuMemExportToShareableHandle(&mine.descriptors[i], handle,
                                              CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0) == CUDA_SUCCESS,
             "nothing to export");
    }
    char end;
    return write(STDOUT_FILENO, &mine, sizeof(mine)) == sizeof(mine) && read(STDIN_FILENO, &end, 1) == 0 ? 0
                                                                                                         : 1;
}

static void start_other(const char *program)
{
    int to[2], from[2];
    posix_spawn_file_actions_t actions;
    pid_t process;
    char *arguments[] = {(char *)program, "export", NULL}, *bare[512];
    size_t count = 0;
    for (char **at = environ; *at != NULL && count < 511; at++)
        if (strncmp(*at, "LD_PRELOAD=", 11) != 0 && strncmp(*at, "VRAMTRACE_STANDIN_FAIL=", 23) != 0)
            bare[count++] = *at;
    bare[count] = NULL;
    need(pipe2(to, O_CLOEXEC) == 0 && pipe2(from, O_CLOEXEC) == 0, "no pipe");
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, to[0], STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions, from[1], STDOUT_FILENO);
    need(posix_spawn(&process, "/proc/self/exe", &actions, NULL, arguments, bare) == 0, "no other process");
    need(read(from[0], &others, sizeof(others)) == sizeof(others), "the other process exported nothing");
    close(to[0]); /* the other end closes with this process */
}

static void prepare(const char *folder, uint64_t seed, unsigned long calls)
{
    CUmemPoolProps properties = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                                 .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}};
    cuuint64_t keep = 64 * MIB;
    char path[4096];
    need(cuInit(0) == CUDA_SUCCESS && cuDevicePrimaryCtxRetain(&contexts[0], 0) == CUDA_SUCCESS &&
             cuDevicePrimaryCtxRetain(&contexts[2], 1) == CUDA_SUCCESS &&
             cuCtxCreate_v2(&contexts[1], 0, 0) == CUDA_SUCCESS,
         "no contexts");
    cuCtxSetCurrent(contexts[0]);
    for (int i = 0; i < POOLS; i++) {
        properties.location.id = i % 2;
        need(cuMemPoolCreate(&pools[i], &properties) == CUDA_SUCCESS, "no pool");
        cuMemPoolSetAttribute(pools[i], CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &keep);
    }
    char *arenas = mmap(NULL, (size_t)threads * ARENA_BYTES, PROT_NONE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    need(arenas != MAP_FAILED, "no address space");
    for (int i = 0; i < threads; i++) {
        struct worker *worker = &workers[i];
        snprintf(path, sizeof(path), "%s/results.%d", folder, i);
        *worker = (struct worker){.number = i,
                                  .random = seed * UINT64_C(0x9e3779b97f4a7c15) + (uint64_t)i * 7919 + 1,
                                  .wanted = calls / (unsigned)threads,
                                  .results = fopen(path, "w"),
                                  .arena = arenas + (size_t)i * ARENA_BYTES};
        need(worker->results != NULL, "no file for results");
    }
}

int main(int argc, char **argv)
{
    if (argc == 2)
        return export_memory();
    need(argc == 5, "SEED CALLS THREADS FOLDER");
    threads = atoi(argv[3]);
    need(threads > 1 && threads <= MAX_THREADS, "2 to 64 threads");
    const char *setting = getenv("VRAMTRACE_STANDIN_REUSE");
    reuse = setting == NULL || strcmp(setting, "0") != 0;
    start_other(argv[0]);
    prepare(argv[4], strtoull(argv[1], NULL, 10), strtoul(argv[2], NULL, 10));
    pthread_t thread[MAX_THREADS];
    pthread_barrier_init(&barrier, NULL, (unsigned)threads);
    for (int i = 0; i < threads; i++)
        need(pthread_create(&thread[i], NULL, work, &workers[i]) == 0, "no thread");
    unsigned long calls = 0;
    for (int i = 0; i < threads; i++) {
        pthread_join(thread[i], NULL);
        calls += workers[i].calls;
        fclose(workers[i].results);
    }
    CUmemoryPool built_in;
    for (int i = 0; i < 2; i++) {
        cuDeviceGraphMemTrim(i);
        if (cuDeviceGetDefaultMemPool(&built_in, i) == CUDA_SUCCESS)
            cuMemPoolTrimTo(built_in, 0);
    }
    for (int i = 0; i < POOLS; i++)
        cuMemPoolTrimTo(pools[i], 0);
    char path[4096];
    snprintf(path, sizeof(path), "%s/books", argv[4]);
    need(standin_books(path) == 0, "no books");
    printf("calls %lu\n", calls);
    return 0;
}
