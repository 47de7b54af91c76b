#include "hooks/pool_table.h"

#include "guard.h"

#include <errno.h>
#include <sched.h>
#include <stdatomic.h>

#define MAX_POOLS 64
#define BEING_FILLED 1 /* instead of a handle */

enum { READER_YIELDS = 1000, READER_TURNS = 6000, READER_NAP_NS = 100000 };

static struct vt_pool pools[MAX_POOLS];
static _Atomic bool any_pool;

static struct vt_pool *find_pool(uint64_t handle)
{
    for (int i = 0; i < MAX_POOLS; i++)
        if (atomic_load_explicit(&pools[i].handle, memory_order_acquire) == handle)
            return &pools[i];
    return NULL;
}

struct vt_pool *vt_pool_add(uint64_t handle, int8_t device_index, uint8_t flags)
{
    struct vt_pool *pool = find_pool(handle);
    for (int i = 0; pool == NULL && i < MAX_POOLS; i++) {
        uint64_t nobody = 0;
        if (!atomic_compare_exchange_strong(&pools[i].handle, &nobody, BEING_FILLED))
            continue;
        pool = &pools[i];
        any_pool = true;
        pool->reserved_bytes = 0;
        pool->used_bytes = 0;
        pool->polled_ns = 0;
        pool->device_index = device_index;
        pool->flags = flags;
        atomic_store_explicit(&pool->handle, handle, memory_order_release);
    }
    return pool;
}

static bool read_attribute(CUmemoryPool handle, CUmemPool_attribute attribute, uint64_t *value)
{
    VT_NEED(get_attribute, cuMemPoolGetAttribute);
    cuuint64_t got;
    if (get_attribute == NULL || get_attribute(handle, attribute, &got) != CUDA_SUCCESS)
        return false;
    *value = got;
    return true;
}

static void record_if_changed(struct vt_pool *pool, uint64_t handle, enum vt_function function)
{
    CUmemoryPool pool_handle = (CUmemoryPool)(uintptr_t)handle;
    uint64_t reserved, used;
    bool due = vt_interval_passed(&pool->polled_ns);
    if ((pool->flags & VT_FLAG_FOREIGN) ||
        !read_attribute(pool_handle, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &reserved))
        return;
    /* Used bytes follow from allocations and frees, except that frees take effect later. */
    if (reserved == pool->reserved_bytes && !due)
        return;
    if (!read_attribute(pool_handle, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &used) ||
        (reserved == pool->reserved_bytes && used == pool->used_bytes))
        return;
    pool->reserved_bytes = reserved;
    pool->used_bytes = used;
    vt_driver_event_within(&(struct vt_observation){.function = function,
                                                    .kind = VT_EVENT_POOL,
                                                    .flags = pool->flags,
                                                    .device_index = pool->device_index,
                                                    .address = handle,
                                                    .detail = used,
                                                    .total_bytes = reserved},
                           false);
}

/* The host does not know that we are reading, so destroying the pool waits for us (vt_pool_remove): either
 * we see that the handle is gone, or it sees the reader. */
void vt_pool_poll(struct vt_pool *pool, enum vt_function function)
{
    atomic_fetch_add(&pool->readers, 1);
    uint64_t handle = atomic_load(&pool->handle);
    if (handle != 0 && handle != BEING_FILLED)
        record_if_changed(pool, handle, function);
    atomic_fetch_sub(&pool->readers, 1);
}

struct vt_observation vt_pool_remove(uint64_t handle)
{
    struct vt_observation was = {.device_index = VT_NO_DEVICE};
    struct vt_pool *pool;
    int saved_errno = errno;
    /* Two threads that met the pool at the same time may have added it twice. */
    while (handle != 0 && (pool = find_pool(handle)) != NULL) {
        was.device_index = pool->device_index;
        was.flags = pool->flags;
        atomic_store(&pool->handle, 0);
        /* Bounded: the reader may be a thread of the process that forked this one, or have a lower priority.
         */
        for (int turn = 0; atomic_load(&pool->readers) != 0 && turn < READER_TURNS; turn++)
            turn < READER_YIELDS ? (void)sched_yield() : vt_nap(READER_NAP_NS);
    }
    errno = saved_errno;
    return was;
}

static void poll_all(enum vt_function function, bool even_if_empty)
{
    struct vt_query query = vt_query_begin();
    for (int i = 0; query.begun && i < MAX_POOLS; i++)
        if (even_if_empty || pools[i].reserved_bytes != 0)
            vt_pool_poll(&pools[i], function);
    vt_query_end(&query);
}

void vt_poll_pools(enum vt_function function, bool even_if_recent)
{
    static _Atomic uint64_t polled_ns;
    if (atomic_load_explicit(&any_pool, memory_order_relaxed) &&
        (vt_interval_passed(&polled_ns) || even_if_recent))
        poll_all(function, true);
}

static void poll_holding_pools(enum vt_function function)
{
    bool any = false;
    for (int i = 0; atomic_load_explicit(&any_pool, memory_order_relaxed) && i < MAX_POOLS && !any; i++)
        any = pools[i].reserved_bytes != 0;
    if (any)
        poll_all(function, false);
}

int8_t vt_before_allocation(enum vt_function function)
{
    const int8_t device_index = vt_before_any_allocation();
    poll_holding_pools(function);
    return device_index;
}
