/* Addresses at which libraries were unloaded, and where others may be now. So that an address means the same
 * code in all of a trace, it is recorded there with the number of the latest unload in its upper bits
 * (VT_ADDRESS_BITS in format.h).
 *
 * Threads: any, at any time: no lock, no allocation, no system call; vt_unloads_add in one at a time. */
#ifndef VT_STACK_UNLOADS_H
#define VT_STACK_UNLOADS_H

#include <stdatomic.h>
#include <stdint.h>

/* No address outside of [start, start + bytes) has a mark. `start` is to be read first. */
extern _Atomic uintptr_t vt_unloads_start, vt_unloads_bytes;

/* The address with its mark; as it is if nothing was unloaded there. */
uint64_t vt_unloads_mark(uintptr_t address);

/* A library was unloaded from [start, end). */
void vt_unloads_add(uintptr_t start, uintptr_t end);

/* The end of the addresses from `start` on that have one mark, at most `end`. *mark: as it stands in an
 * address, 0 = none. */
uintptr_t vt_unloads_run(uintptr_t start, uintptr_t end, uint64_t *mark);

#endif
