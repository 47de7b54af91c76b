/* The libcuda memory pools that this process uses, and how many bytes they hold. Allocations from a pool are
 * part of the pool's reserved bytes. Those are what the device gave, so they are read from the driver, and
 * recorded when they change. Threads: any. */
#ifndef VT_POOL_TABLE_H
#define VT_POOL_TABLE_H

#include "hooks/driver.h"

struct vt_pool {
    _Atomic uint64_t handle; /* 0 = free entry */
    _Atomic int8_t device_index;
    _Atomic uint8_t flags;
    _Atomic uint64_t reserved_bytes, used_bytes; /* as last recorded */
    _Atomic uint64_t polled_ns;
    _Atomic int readers; /* threads that are asking the driver about the pool */
};

/* The pool with this handle, added if it is new. NULL if the table is full: then its allocations are
 * recorded, but not its reserved bytes. */
struct vt_pool *vt_pool_add(uint64_t handle, int8_t device_index, uint8_t flags);

/* Removes the pool. Returns its device (VT_NO_DEVICE = it was not there) and flags, since the entry may be
 * another pool's by then. */
struct vt_observation vt_pool_remove(uint64_t handle);

/* Reads the pool's bytes, and records them if they changed. Call within a query. */
void vt_pool_poll(struct vt_pool *pool, enum vt_function function);

/* Polls all pools, at most once in 10 ms unless `even_if_recent`: a free returns reserved bytes only at some
 * later synchronisation. */
void vt_poll_pools(enum vt_function function, bool even_if_recent);

/* Like vt_before_any_allocation, for an allocation that does not come from a pool. First records what pools
 * have given back, so that those bytes are not counted twice. */
int8_t vt_before_allocation(enum vt_function function);

#endif
