/* Settings, the lock, physical bytes, the table of addresses, and what tests read. */
#include "standin.h"

#include <pthread.h>
#include <search.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

struct standin_settings standin_settings;
struct standin_device standin_devices[STANDIN_MAXIMUM_DEVICES];
uint64_t standin_host_used_bytes, standin_registered_used_bytes;

static pthread_mutex_t state_mutex = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
static bool initialized;
static bool forked;  /* a child of a process that used CUDA cannot use it, as with the real driver */
static void *ranges; /* tsearch tree of struct standin_range, compared by overlap */

int standin_lock(void)
{
    pthread_mutex_lock(&state_mutex);
    return 0;
}

void standin_unlock(int *guard)
{
    (void)guard;
    pthread_mutex_unlock(&state_mutex);
}

CUresult standin_check(void)
{
    bool usable = __atomic_load_n(&initialized, __ATOMIC_ACQUIRE) && !forked;
    return usable ? CUDA_SUCCESS : CUDA_ERROR_NOT_INITIALIZED;
}

uint64_t standin_next_id(void)
{
    static uint64_t last;
    return __atomic_add_fetch(&last, 1, __ATOMIC_RELAXED);
}

/* ---- Settings. */

static uint64_t bytes_from_text(const char *name, uint64_t fallback)
{
    const char *text = getenv(name);
    if (text == NULL || *text == '\0')
        return fallback;
    char *unit;
    double value = strtod(text, &unit);
    const char *units[] = {"", "KiB", "MiB", "GiB", "TiB"};
    for (int i = 0; i < 5; i++) {
        if (strcmp(unit, units[i]) == 0)
            return (uint64_t)(value * (double)(1ull << (10 * i)));
    }
    fprintf(stderr, "stand-in driver: %s=%s is not a size (as 16GiB)\n", name, text);
    return fallback;
}

/* CUDA_VISIBLE_DEVICES: numbers of cards, up to the first that is none. */
static void choose_devices(int cards)
{
    const char *text = getenv("CUDA_VISIBLE_DEVICES");
    for (int i = 0; text == NULL && i < cards; i++)
        standin_settings.cards[standin_settings.devices++] = i;
    while (text != NULL && standin_settings.devices < STANDIN_MAXIMUM_DEVICES) {
        char *end;
        long card = strtol(text, &end, 10);
        if (end == text || card < 0 || card >= cards)
            return;
        standin_settings.cards[standin_settings.devices++] = (int)card;
        text = *end == ',' ? end + 1 : end;
    }
}

static const struct standin_gpu *choose_gpu(void)
{
    static const struct standin_gpu gpus[] = {
#define X(key, ...) {#key, __VA_ARGS__},
#include "../gpus.def"
#undef X
    };
    const char *key = getenv("VRAMTRACE_STANDIN_GPU");
    for (size_t i = 0; key != NULL && i < sizeof(gpus) / sizeof(gpus[0]); i++) {
        if (strcmp(gpus[i].key, key) == 0)
            return &gpus[i];
    }
    if (key != NULL)
        fprintf(stderr, "stand-in driver: VRAMTRACE_STANDIN_GPU=%s is not in gpus.def\n", key);
    return gpus;
}

__attribute__((constructor)) static void read_settings(void)
{
    standin_settings.gpu = choose_gpu();
    const char *devices = getenv("VRAMTRACE_STANDIN_DEVICES");
    int count = devices != NULL ? atoi(devices) : 1;
    choose_devices(count < 0 ? 0 : count > STANDIN_MAXIMUM_DEVICES ? STANDIN_MAXIMUM_DEVICES : count);
    standin_settings.memory_bytes =
        bytes_from_text("VRAMTRACE_STANDIN_MEMORY", (uint64_t)standin_settings.gpu->memory_mib << 20);
    standin_settings.context_bytes =
        bytes_from_text("VRAMTRACE_STANDIN_CONTEXT", (uint64_t)standin_settings.gpu->context_mib << 20);
    standin_settings.module_bytes = bytes_from_text("VRAMTRACE_STANDIN_MODULE", 0);
    standin_settings.kernel_bytes = bytes_from_text("VRAMTRACE_STANDIN_KERNEL", 0);
    standin_settings.stream_bytes = bytes_from_text("VRAMTRACE_STANDIN_STREAM", 0);
    standin_settings.unlisted_bytes = bytes_from_text("VRAMTRACE_STANDIN_UNLISTED", 0);
    standin_settings.multicast_bytes = bytes_from_text("VRAMTRACE_STANDIN_MULTICAST", 0);
    standin_settings.reuse = bytes_from_text("VRAMTRACE_STANDIN_REUSE", 1) != 0;
    standin_settings.fail_every = (unsigned)bytes_from_text("VRAMTRACE_STANDIN_FAIL", 0);
    standin_settings.copy_limit_bytes = bytes_from_text("VRAMTRACE_STANDIN_COPY", 64ull << 20);
    for (int i = 0; i < standin_settings.devices; i++)
        standin_devices[i].total_bytes = standin_settings.memory_bytes;
}

static void before_fork(void)
{
    standin_lock();
}
static void after_fork_parent(void)
{
    standin_unlock(NULL);
}
static void after_fork_child(void)
{
    pthread_mutex_t fresh = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
    state_mutex = fresh;
    forked = initialized;
}

CUresult cuInit(unsigned int flags)
{
    COUNT_CALL();
    REQUIRE(flags == 0);
    if (forked)
        return CUDA_ERROR_NOT_INITIALIZED;
    if (standin_settings.devices == 0)
        return CUDA_ERROR_NO_DEVICE;
    __attribute__((cleanup(standin_unlock), unused)) int guard = standin_lock();
    if (initialized)
        return CUDA_SUCCESS;
    pthread_atfork(before_fork, after_fork_parent, after_fork_child);
    for (int i = 0; i < standin_settings.devices; i++) {
        standin_devices[i].default_pool = standin_devices[i].current_pool = standin_pool_new(i, true);
        standin_devices[i].graph_pool = standin_pool_new(i, true);
    }
    __atomic_store_n(&initialized, true, __ATOMIC_RELEASE);
    return CUDA_SUCCESS;
}

CUresult cuDriverGetVersion(int *version)
{
    COUNT_CALL();
    REQUIRE(version != NULL);
    *version = STANDIN_DRIVER_VERSION;
    return CUDA_SUCCESS;
}

/* ---- Physical bytes. */

uint64_t standin_used(CUdevice device)
{
    uint64_t sum = 0;
    for (int use = 0; use < USE_COUNT; use++)
        sum += standin_devices[device].used_bytes[use];
    return sum;
}

bool standin_take(CUdevice device, enum standin_use use, uint64_t bytes)
{
    struct standin_device *state = &standin_devices[device];
    uint64_t used = standin_used(device) + standin_used_by_others(device);
    if (used > state->total_bytes || bytes > state->total_bytes - used)
        return false;
    state->used_bytes[use] += bytes;
    standin_publish(device);
    return true;
}

void standin_give(CUdevice device, enum standin_use use, uint64_t bytes)
{
    if (standin_devices[device].used_bytes[use] < bytes) {
        fprintf(stderr, "stand-in driver: more bytes given back than taken (use %d)\n", use);
        abort(); /* a fault of the stand-in itself: a test must not go on with wrong truth */
    }
    standin_devices[device].used_bytes[use] -= bytes;
    standin_publish(device);
}

bool standin_fails(void)
{
    static _Thread_local unsigned allocations;
    return standin_settings.fail_every != 0 && ++allocations % standin_settings.fail_every == 0;
}

/* ---- Address space. */

void *standin_map(size_t bytes, size_t alignment, bool low)
{
    const size_t page = 4096;
    bytes = standin_round_up(bytes, page);
    size_t slack = alignment > page ? alignment : 0;
    if (bytes + slack < bytes)
        return NULL;
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    uintptr_t wanted = 0;
#ifdef MAP_32BIT
    flags |= low ? MAP_32BIT : 0;
#else /* ask for an address that fits 32 bits */
    static _Atomic uintptr_t next_low = 1u << 30;
    wanted = low ? atomic_fetch_add(&next_low, bytes + slack) : 0;
#endif
    uint8_t *start = mmap((void *)wanted, bytes + slack, PROT_READ | PROT_WRITE, flags, -1, 0);
    if (start == MAP_FAILED)
        return NULL;
    if (slack == 0)
        return start;
    size_t before = (alignment - (uintptr_t)start % alignment) % alignment;
    if (before != 0)
        munmap(start, before);
    if (slack != before)
        munmap(start + before + bytes, slack - before);
    return start + before;
}

void standin_unmap(void *address, size_t bytes)
{
    bytes = standin_round_up(bytes, 4096);
    if (standin_settings.reuse)
        munmap(address, bytes);
    else
        mmap(address, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
}

void standin_free_handle(void *handle)
{
    if (standin_settings.reuse)
        free(handle);
}

static int compare_ranges(const void *a, const void *b)
{
    const struct standin_range *left = a, *right = b;
    if (left->start + left->bytes <= right->start)
        return -1;
    return right->start + right->bytes <= left->start ? 1 : 0;
}

struct standin_range *standin_range_add(uintptr_t start, size_t bytes, enum standin_kind kind,
                                        CUdevice device)
{
    struct standin_range *range = calloc(1, sizeof(*range));
    if (range == NULL)
        return NULL;
    range->start = start;
    range->bytes = bytes;
    range->kind = kind;
    range->device = device;
    range->buffer_id = standin_next_id();
    struct standin_range **slot = tsearch(range, &ranges, compare_ranges);
    if (slot == NULL || *slot != range) { /* overlaps what is known */
        free(range);
        return NULL;
    }
    return range;
}

struct standin_range *standin_range_find(uintptr_t address)
{
    struct standin_range key = {.start = address, .bytes = 1};
    struct standin_range **slot = tfind(&key, &ranges, compare_ranges);
    return slot != NULL ? *slot : NULL;
}

struct standin_range *standin_range_at(uintptr_t start, enum standin_kind kind)
{
    struct standin_range *range = standin_range_find(start);
    return range != NULL && range->start == start && range->kind == kind ? range : NULL;
}

void standin_range_remove(struct standin_range *range)
{
    tdelete(range, &ranges, compare_ranges);
    free(range);
}

static struct {
    struct standin_range **items;
    size_t count, room;
} all; /* under the lock; twalk_r is newer than some C libraries */

static void gather(const void *node, VISIT visit, int depth)
{
    (void)depth;
    if (visit != postorder && visit != leaf)
        return;
    if (all.count == all.room) {
        all.room = all.room * 2 + 64;
        all.items = realloc(all.items, all.room * sizeof(*all.items));
        if (all.items == NULL)
            abort();
    }
    all.items[all.count++] = *(struct standin_range *const *)node;
}

void standin_range_each(void (*visit)(struct standin_range *range, void *argument), void *argument)
{
    /* A snapshot first: a tree must not change while it is walked. */
    twalk(ranges, gather);
    struct standin_range **items = all.items;
    const size_t count = all.count;
    all.items = NULL;
    all.count = all.room = 0;
    for (size_t i = 0; i < count; i++)
        visit(items[i], argument);
    free(items);
}
