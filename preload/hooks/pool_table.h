/* The memory pools of libcuda that this process uses, and how many bytes they hold. An allocation from a pool
 * is a part of the pool's reserved bytes; these are what the device has given, so they are read from the
 * driver and recorded when they change. Threads: any. */
#ifndef VT_POOL_TABLE_H
#define VT_POOL_TABLE_H

#include "hooks/driver.h"

struct vt_pool {
    _Atomic uint64_t handle; /* 0 = free place */
    _Atomic int8_t device_index;
    _Atomic uint8_t flags;
    _Atomic uint64_t reserved_bytes, used_bytes; /* as recorded last */
    _Atomic uint64_t polled_ns;
    _Atomic int readers; /* threads that are querying the driver about it */
};

/* The pool with this handle, added if it is new. NULL if the table is full: its allocations are recorded, its
 * reserved bytes are not. */
struct vt_pool *vt_pool_add(uint64_t handle, int8_t device_index, uint8_t flags);

/* Its entry may be another pool's when this returns; its device and flags are in *was. */
void vt_pool_remove(uint64_t handle, struct vt_driver_call *was);

/* Reads the pool's bytes and records them if they changed. Within a query. */
void vt_pool_poll(struct vt_pool *pool, enum vt_function function);

/* A free returns reserved bytes of a pool at some later synchronisation, so every pool is polled: at most
 * once in 10 ms unless `even_if_recent`. */
void vt_poll_pools(enum vt_function function, bool even_if_recent);

/* Before the real call of an allocation that no pool serves: as vt_before_any_allocation. Records first what
 * pools have given back, which would else be counted twice. */
int8_t vt_before_allocation(enum vt_function function);

#endif
