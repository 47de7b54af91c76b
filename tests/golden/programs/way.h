/* Shared by the programs that reach libcuda in different ways: allocates and frees through a table of
 * functions, and prints what it did, one line each, for the test to compare with what was recorded. */
#ifndef WAY_H
#define WAY_H

#include <stdio.h>
#include <stdlib.h>

typedef unsigned long long device_pointer;

struct way {
    int (*init)(unsigned flags);
    int (*retain)(void **context, int device);
    int (*set_current)(void *context);
    int (*allocate)(device_pointer *address, size_t bytes);
    int (*allocate_managed)(device_pointer *address, size_t bytes, unsigned flags);
    int (*allocate_host)(void **address, size_t bytes, unsigned flags);
    int (*free)(device_pointer address);
    int (*free_host)(void *address);
};

#define WAY_FUNCTIONS(X)                                                                                     \
    X(init, "cuInit", 2000)                                                                                  \
    X(retain, "cuDevicePrimaryCtxRetain", 7000)                                                              \
    X(set_current, "cuCtxSetCurrent", 4000)                                                                  \
    X(allocate, "cuMemAlloc_v2", 3020)                                                                       \
    X(allocate_managed, "cuMemAllocManaged", 6000)                                                           \
    X(allocate_host, "cuMemHostAlloc", 2020)                                                                 \
    X(free, "cuMemFree_v2", 3020)                                                                            \
    X(free_host, "cuMemFreeHost", 2000)

static inline void check(int result, const char *what)
{
    if (result == 0)
        return;
    printf("failed %s %d\n", what, result);
    exit(1);
}

static inline void begin(const struct way *way)
{
    void *context;
    check(way->init(0), "cuInit");
    check(way->retain(&context, 0), "cuDevicePrimaryCtxRetain");
    check(way->set_current(context), "cuCtxSetCurrent");
}

static inline void allocate_and_free(const struct way *way, int rounds)
{
    for (int i = 1; i <= rounds; i++) {
        device_pointer device, managed;
        void *host;
        size_t bytes = (size_t)i << 20;
        check(way->allocate(&device, bytes), "cuMemAlloc");
        printf("alloc 0x%llx %zu 0\n", device, bytes);
        check(way->allocate_managed(&managed, bytes + 4096, 1), "cuMemAllocManaged");
        printf("alloc 0x%llx %zu 2\n", managed, bytes + 4096);
        check(way->allocate_host(&host, 8192, 0), "cuMemHostAlloc");
        printf("alloc 0x%llx %d 1\n", (device_pointer)host, 8192);
        printf("free 0x%llx\n", managed);
        check(way->free(managed), "cuMemFree");
        printf("free 0x%llx\n", device);
        check(way->free(device), "cuMemFree");
        printf("free 0x%llx\n", (device_pointer)host);
        check(way->free_host(host), "cuMemFreeHost");
    }
}

#endif
