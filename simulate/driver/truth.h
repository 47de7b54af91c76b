/* The truth about the stand-in's memory, for tests: by dlsym or ctypes on libcuda.so.1. Sizes are bytes, of
 * this process. */
#ifndef STANDIN_TRUTH_H
#define STANDIN_TRUTH_H

#include <stdint.h>

#pragma GCC visibility push(default)
/* All physical bytes of a device: contexts, limits, modules, and all allocations. This is what
 * cuMemGetInfo's total - free tells. Managed memory counts as if it were on the device. */
uint64_t standin_device_bytes(int device);
/* The same without contexts, limits and modules: what allocation calls took. Pools count by what they
 * reserve, physical handles until released and unmapped. */
uint64_t standin_allocation_bytes(int device);
/* What other processes use of the device (VRAMTRACE_STANDIN_SHARED), with VRAMTRACE_STANDIN_UNLISTED. */
uint64_t standin_other_bytes(int device);
/* All processes that have memory of a card (its number, not a device's index), this one first: how many, at
 * most `maximum`. And the bytes that the card has. */
struct standin_process {
    int pid;
    uint64_t bytes;
};
int standin_card_processes(int card, struct standin_process *processes, int maximum);
uint64_t standin_card_readings(void); /* how often the function above was called, by the stand-in NVML */
uint64_t standin_card_bytes(int card);
const char *standin_card_name(int *capability); /* of all cards: "NVIDIA L40S", 89 */
uint64_t standin_unlisted_bytes(void); /* in use on each card, but of no process */
/* One use: "context", "limit", "module", "stream", "allocation", "managed", "array", "physical" or "pool". */
uint64_t standin_use_bytes(int device, const char *use);
uint64_t standin_host_bytes(void);       /* page-locked memory that the driver gave */
uint64_t standin_registered_bytes(void); /* the application's memory, page-locked */
uint64_t standin_handles(void); /* physical handles and multicast objects that live, ours or imported */
/* Writes all that lives to a new file: lines "KIND ADDRESS BYTES DEVICE", device -1 = the host. Kinds:
 * device, managed, pooled, graph, host, registered, foreign, global by address; physical, imported, array by
 * handle; reserved (a pool's bytes), graphs (those of a device's pool for graphs). 0, or -1 if it cannot be
 * written. */
int standin_books(const char *path);
/* Calls of one exported function (cuMemAlloc_v2), of all with NULL. A _ptsz call counts as the plain one. */
uint64_t standin_calls(const char *name);
/* A result that no kernel computes: this thread's next `count` copies of at most 8 bytes bring it. How many
 * of them are to come. */
void standin_answer(uint64_t value, unsigned count);
unsigned standin_answers_left(void);
#pragma GCC visibility pop

#endif
