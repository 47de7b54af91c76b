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
#include "calls_stress.h"

#include <fcntl.h>
#include <spawn.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int standin_books(const char *path);
extern char **environ;

struct worker workers[MAX_THREADS];
int threads;
bool reuse;
pthread_barrier_t barrier;
CUcontext contexts[CONTEXTS + 1]; /* the last one is none */
CUmemoryPool pools[POOLS];
struct exported others;
_Atomic uint64_t board[BOARD]; /* addresses and handles that somebody has or had */

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
                      {4, true, make_imported},
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
