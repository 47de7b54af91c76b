/* The stand-in driver's own state, shared by its files. Everything here is under one recursive lock, taken
 * by the macros at the head of each entry point. Sizes are bytes; a device's physical memory is only a sum:
 * the memory itself is NORESERVE address space, so an allocation of many GiB costs nothing until touched.
 *
 * Compiled with __CUDA_API_VERSION_INTERNAL, so that cuda.h declares every exported name as it is spelled:
 * old versions, _v2 and so on, and _ptsz. */
#ifndef STANDIN_H
#define STANDIN_H

#include <cuda.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define STANDIN_DRIVER_VERSION 13000
#define STANDIN_MAXIMUM_DEVICES 16
#define STANDIN_GRANULARITY_BYTES ((size_t)2 << 20)
#define STANDIN_POOL_STEP_BYTES ((size_t)32 << 20)
#define STANDIN_EXPORT __attribute__((visibility("default")))

/* ---- What device bytes are used for. */
enum standin_use {
    USE_CONTEXT,
    USE_LIMIT, /* heap, printf buffer and stack beyond their defaults */
    USE_MODULE,
    USE_STREAM,
    USE_ALLOCATION, /* cuMemAlloc, cuMemAllocPitch */
    USE_MANAGED,
    USE_ARRAY,
    USE_PHYSICAL, /* cuMemCreate */
    USE_POOL,     /* reserved bytes of pools, graph memory among them */
    USE_COUNT
};

enum standin_limit_kind {
    LIMIT_STACK,
    LIMIT_PRINTF,
    LIMIT_HEAP,
    LIMIT_SYNC_DEPTH,
    LIMIT_PENDING,
    LIMIT_COUNT
};

struct CUctx_st {
    CUcontext next;
    CUdevice device;
    bool primary;
    bool alive;
    unsigned references;
    unsigned flags;
    unsigned api_version;
    uint64_t id;
    uint64_t limits[LIMIT_COUNT];
};

struct CUmemPoolHandle_st {
    CUmemoryPool next;
    CUmemLocation location;
    CUmemAllocationHandleType handle_types;
    bool built_in;     /* a default pool or the graphs' pool: cannot be destroyed */
    bool destroyed;    /* freed when its last allocation is */
    bool imported;     /* another process's: its bytes are not ours */
    unsigned flags[3]; /* the three reuse attributes */
    uint64_t release_threshold_bytes;
    uint64_t maximum_bytes; /* 0 = the device's */
    uint64_t reserved_bytes, reserved_high_bytes;
    uint64_t used_bytes, used_high_bytes;
    uint64_t allocations;
};

struct standin_device {
    uint64_t total_bytes;
    uint64_t used_bytes[USE_COUNT];
    struct CUctx_st primary;
    CUmemoryPool default_pool, current_pool, graph_pool;
};

struct standin_gpu {
    const char *key, *name;
    int memory_mib, context_mib;
    int capability; /* 90: 9.0 */
    int sms, l2_kib, threads_per_sm, blocks_per_sm, shared_kib_per_sm;
    int estimated; /* not published: 1 the context, 2 the memory, 3 both */
};

struct standin_settings {
    const struct standin_gpu *gpu;
    int devices;
    int cards[STANDIN_MAXIMUM_DEVICES]; /* the card that each device is: CUDA_VISIBLE_DEVICES chooses */
    uint64_t memory_bytes;              /* of each device */
    uint64_t context_bytes;             /* what each context costs */
    uint64_t module_bytes;              /* what each loaded module costs */
    uint64_t kernel_bytes;     /* what each kernel costs once it is loaded, which is at its first use */
    uint64_t stream_bytes;     /* what each stream costs */
    uint64_t unlisted_bytes;   /* in use on each card, but of no process */
    uint64_t multicast_bytes;  /* what a device's first multicast object costs */
    uint64_t copy_limit_bytes; /* of a larger copy or fill only the begin is done: values do not matter, time
                                  does */
    bool reuse; /* what was freed may be given out again: addresses, and handles of arrays and pools */
    unsigned fail_every; /* each thread's allocation of that number fails, and every such one; 0 = none */
};
extern struct standin_settings standin_settings;
extern struct standin_device standin_devices[STANDIN_MAXIMUM_DEVICES];

/* ---- Memory known by address. */
enum standin_kind {
    KIND_DEVICE, /* cuMemAlloc, Pitch */
    KIND_MANAGED,
    KIND_POOL,       /* stream-ordered */
    KIND_GRAPH,      /* of a graph's allocation node */
    KIND_HOST,       /* page-locked, ours */
    KIND_REGISTERED, /* page-locked, the application's */
    KIND_MAPPED,     /* a mapping of physical memory */
    KIND_FOREIGN,    /* another process's, or an external memory's buffer */
    KIND_GLOBAL      /* a module's variable */
};

struct standin_range {
    uintptr_t start;
    size_t bytes;
    enum standin_kind kind;
    CUdevice device;   /* -1: none (host) */
    CUcontext context; /* NULL: belongs to no context */
    unsigned flags;
    unsigned references; /* KIND_FOREIGN: times opened */
    bool live;           /* KIND_GRAPH: allocated by a launch and not yet freed */
    uint64_t buffer_id;
    size_t offset; /* KIND_MAPPED: in the physical memory */
    void *owner;   /* CUmemoryPool, struct standin_physical, CUgraph … by kind */
};

struct standin_range *standin_range_add(uintptr_t start, size_t bytes, enum standin_kind kind,
                                        CUdevice device);
/* The range that holds this address, not only one that starts there. NULL if none. */
struct standin_range *standin_range_find(uintptr_t address);
struct standin_range *standin_range_at(uintptr_t start, enum standin_kind kind);
/* Forgets the range and frees the struct; the address space is the caller's. */
void standin_range_remove(struct standin_range *range);
/* Calls visit for each range, in order of address; visit may remove the range it is given. */
void standin_range_each(void (*visit)(struct standin_range *range, void *argument), void *argument);

/* True where this allocation is to fail as if the device were full (VRAMTRACE_STANDIN_FAIL). */
bool standin_fails(void);
void *standin_map(size_t bytes, size_t alignment, bool low);
void standin_unmap(void *address, size_t bytes);
void standin_free_handle(void *handle); /* of calloc: free, unless handles are not to be used again */

/* ---- Physical bytes. */
bool standin_take(CUdevice device, enum standin_use use, uint64_t bytes); /* false: the device is full */
void standin_give(CUdevice device, enum standin_use use, uint64_t bytes);
uint64_t standin_used(CUdevice device);
uint64_t standin_used_by_others(CUdevice device); /* other processes, see shared.c */
struct standin_process;
int standin_list_others(int card, struct standin_process *processes, int maximum);
void standin_publish(CUdevice device); /* tells them what this one uses */
extern uint64_t standin_host_used_bytes, standin_registered_used_bytes;

/* ---- Between files. */
CUcontext standin_current_context(void);
bool standin_context_alive(CUcontext context);
void standin_close(struct standin_range *range); /* another process's memory, however often it was opened */
CUresult standin_free_range(struct standin_range *range); /* any kind that cuMemFree takes */
void standin_free_arrays_of_context(CUcontext context);
void standin_free_modules_of_context(CUcontext context);
uint64_t standin_next_id(void);
CUmemoryPool standin_pool_new(CUdevice device, bool built_in);
void standin_pool_free(struct standin_range *range);
void standin_pools_synchronize(void); /* gives back what pools hold beyond their thresholds */
CUresult standin_pool_reserve(CUmemoryPool pool, uint64_t bytes);
void standin_pool_unuse(CUmemoryPool pool, uint64_t bytes);
CUgraph standin_capturing(CUstream stream); /* the graph being captured, or NULL */
CUresult standin_graph_allocate(CUgraph graph, CUdevice device, size_t bytes, CUdeviceptr *address);
CUresult standin_graph_free(CUgraph graph, CUdeviceptr address);
void standin_graph_memory_freed(struct standin_range *range);
void standin_graph_launch(CUstream stream); /* a kernel node, where the stream is being captured */

/* ---- The books, by truth.c. */
void standin_write_physicals(FILE *out);
void standin_write_arrays(FILE *out);
void standin_write_pools(FILE *out);

/* ---- Heads of entry points. */
struct standin_counter {
    const char *name;
    uint64_t calls;
};

CUresult standin_check(void); /* 3 if cuInit was not called, or not in this process */
int standin_lock(void);
void standin_unlock(int *guard);

#define COUNT_CALL()                                                                                         \
    static struct standin_counter counter_                                                                   \
        __attribute__((section("standin_counters"), used)) = {__func__, 0};                                  \
    __atomic_fetch_add(&counter_.calls, 1, __ATOMIC_RELAXED)

#define DRIVER_CALL()                                                                                        \
    COUNT_CALL();                                                                                            \
    if (standin_check() != CUDA_SUCCESS)                                                                     \
        return standin_check();                                                                              \
    __attribute__((cleanup(standin_unlock), unused)) int guard_ = standin_lock()

#define CONTEXT_CALL()                                                                                       \
    DRIVER_CALL();                                                                                           \
    CUcontext context = standin_current_context();                                                           \
    if (context == NULL)                                                                                     \
        return CUDA_ERROR_INVALID_CONTEXT;                                                                   \
    (void)context

#define REQUIRE(condition)                                                                                   \
    do {                                                                                                     \
        if (!(condition))                                                                                    \
            return CUDA_ERROR_INVALID_VALUE;                                                                 \
    } while (0)

static inline bool standin_device_valid(CUdevice device)
{
    return device >= 0 && device < standin_settings.devices;
}

static inline uint64_t standin_round_up(uint64_t bytes, uint64_t step)
{
    return (bytes + step - 1) / step * step;
}

#endif
