/* What the files of calls_stress share. */
#ifndef CALLS_STRESS_H
#define CALLS_STRESS_H

#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

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

extern struct worker workers[MAX_THREADS];
extern int threads;
extern bool reuse;
extern pthread_barrier_t barrier;
extern CUcontext contexts[CONTEXTS + 1]; /* the last one is none */
extern CUmemoryPool pools[POOLS];
extern struct exported others;
extern _Atomic uint64_t board[BOARD]; /* addresses and handles that somebody has or had */

static inline void need(bool good, const char *what)
{
    if (!good) {
        fprintf(stderr, "calls_stress: %s\n", what);
        exit(1);
    }
}

static inline uint64_t draw(struct worker *worker, uint64_t below)
{
    worker->random ^= worker->random << 13;
    worker->random ^= worker->random >> 7;
    worker->random ^= worker->random << 17;
    return (worker->random >> 11) % below;
}

/* One call's outcome; `out` is POISON if there is no out-parameter. */
static inline bool note(struct worker *worker, const char *call, CUresult result, uint64_t out)
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

static inline struct item *add(struct worker *worker, enum item_kind kind, uint64_t address, uint64_t bytes)
{
    struct item *item = &worker->items[worker->item_count++];
    *item = (struct item){.kind = kind, .address = address, .bytes = bytes};
    atomic_store_explicit(&board[draw(worker, BOARD)], address, memory_order_relaxed);
    return item;
}

static inline size_t some_bytes(struct worker *worker)
{
    return draw(worker, 8) == 0 ? MIB + draw(worker, 3 * MIB) : 1 + draw(worker, 256 * KIB);
}

/* calls_stress_allocate.c: each makes some calls of one family. */
void make_linear(struct worker *worker);
void make_pooled(struct worker *worker);
void make_host(struct worker *worker);
void make_registered(struct worker *worker);
void make_imported(struct worker *worker);
void make_virtual(struct worker *worker);
void make_array(struct worker *worker);
void make_foreign(struct worker *worker);
void make_graph(struct worker *worker);

/* calls_stress_free.c */
void free_one(struct worker *worker);
void free_again(struct worker *worker);
void free_others(struct worker *worker);
void free_without_context(struct worker *worker);
bool free_item(struct worker *worker, struct item *item);

#endif
