/* What the families of driver calls share: a file for each family, the table of all in driver_calls.c.
 *
 * Each prints the truth line by line:
 *   alloc ADDRESS BYTES FLAGS, free ADDRESS     as in way.h
 *   check NAME VALUE                            for the test to compare
 * Calls that must fail are given where the hooks have something to tell about it. */
#ifndef DRIVER_CALLS_H
#define DRIVER_CALLS_H

#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

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

extern CUcontext primary_context; /* of device 0, current; none in no_context */
extern int other_device;          /* 1, or 0 where there is no second one */

/* In use on the device. */
uint64_t device_bytes(int device);
/* Of it on device 0, what the family's calls took, but for streams made before `count_from_here`. */
uint64_t allocation_bytes(void);
void count_from_here(void);
/* Of it, what graphs' own nodes hold. */
uint64_t graph_bytes(int device);

void check_value(const char *name, uint64_t value);
void say_alloc(uint64_t address, size_t bytes, int flags);
void say_free(uint64_t address);

/* X(function, the argument that names it) */
#define FAMILIES(X)                                                                                          \
    X(linear, "linear")                                                                                      \
    X(first_abi, "first_abi")                                                                                \
    X(failures, "failures")                                                                                  \
    X(pools, "pools")                                                                                        \
    X(capture, "capture")                                                                                    \
    X(graph_memory, "graph_memory")                                                                          \
    X(virtual_memory, "virtual_memory")                                                                      \
    X(arrays, "arrays")                                                                                      \
    X(sparse, "sparse")                                                                                      \
    X(foreign, "foreign")                                                                                    \
    X(loads, "loads")                                                                                        \
    X(kernels, "kernels")                                                                                    \
    X(streams, "streams")                                                                                    \
    X(launches, "launches")                                                                                  \
    X(contexts, "contexts")                                                                                  \
    X(no_context, "no_context")                                                                              \
    X(leaves_errno, "errno")                                                                                 \
    X(leaves_dlerror, "dlerror")                                                                             \
    X(many_graphs, "many_graphs")
#define X(function, name) void function(void);
FAMILIES(X)
#undef X

#endif
