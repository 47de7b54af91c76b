#include "record/live_blocks.h"

#include <sched.h>
#include <stdbool.h>
#include <stddef.h>

#include "guard.h"
#include "record/session.h"

enum { SPINS = 100, YIELDS = 20, NAPS = 200, NAP_NS = 50000 };

/* The allocation that this thread's latest free removed from the table, in case the free fails. */
static __thread struct vt_address_entry last_taken __attribute__((tls_model("initial-exec")));

/* False after about 20 ms: the holder was stopped, or has a lower priority. */
static bool lock(struct vt_live_lock *lock)
{
    for (int turn = 0; atomic_exchange_explicit(&lock->busy, 1, memory_order_acquire); turn++) {
        if (atomic_load_explicit(&lock->stuck, memory_order_relaxed) || turn == SPINS + YIELDS + NAPS) {
            atomic_store_explicit(&lock->stuck, 1, memory_order_relaxed);
            return false;
        }
        if (turn >= SPINS + YIELDS)
            vt_nap(NAP_NS);
        else if (turn >= SPINS)
            sched_yield();
    }
    return true;
}

static void unlock(struct vt_live_lock *lock)
{
    atomic_store_explicit(&lock->stuck, 0, memory_order_relaxed);
    atomic_store_explicit(&lock->busy, 0, memory_order_release);
}

static void add_driver_bytes(struct vt_session *session, int device_index, uint64_t bytes)
{
    if (device_index < 0 || device_index >= (int)VT_MAX_DEVICES)
        return;
    struct vt_live_device *live = &session->ring.header->counters.live[device_index];
    const uint64_t now = live->driver_bytes + bytes;
    __atomic_store_n(&live->driver_bytes, now, __ATOMIC_RELAXED); /* others read it without the lock */
    if ((int64_t)now > (int64_t)live->driver_peak_bytes)
        __atomic_store_n(&live->driver_peak_bytes, now, __ATOMIC_RELAXED);
}

/* Adds or removes a handle; on removal fills in the address. Two handles may share an address: they share
 * the block, or the end of one is reported only after the other was made there. The block belongs to the
 * latest handle, and ends only with that one. */
static bool follow_handle(struct vt_session *session, struct vt_event *event, uint64_t handle)
{
    struct vt_address_entry known = {0}, before;
    const bool had = vt_table_remove(&session->handles, handle, &known);
    if (event->kind != VT_EVENT_ALLOC) {
        const struct vt_address_entry *holder = had ? vt_table_find(&session->holders, known.bytes) : NULL;
        event->address = known.bytes;
        return holder && holder->bytes == handle && vt_table_remove(&session->holders, known.bytes, &before);
    }
    if (!vt_table_make_room(&session->handles) || !vt_table_make_room(&session->holders))
        return false;
    vt_table_insert(&session->handles, (struct vt_address_entry){handle, event->address, 0, 0});
    vt_table_remove(&session->holders, event->address, &before);
    vt_table_insert(&session->holders, (struct vt_address_entry){event->address, handle, 0, 0});
    return true;
}

/* Whatever array had this handle before is gone. */
static void follow_part(struct vt_session *session, uint64_t handle, uint64_t part_of)
{
    struct vt_address_entry before;
    vt_table_remove(&session->parts, handle, &before);
    if (!part_of)
        return;
    vt_table_remove(&session->parts, part_of, &before);
    if (vt_table_make_room(&session->parts))
        vt_table_insert(&session->parts, (struct vt_address_entry){part_of, handle, 0, 0});
}

static bool follow_block(struct vt_session *session, struct vt_event *event)
{
    const bool made = event->kind == VT_EVENT_ALLOC;
    struct vt_address_entry block = {event->address, event->bytes, (uint8_t)event->device_index, 0}, before;
    bool known =
        vt_table_remove(&session->blocks, event->address, &before); /* if made: its free was missed */
    if (known)
        session->block_bytes[before.device] -= before.bytes;
    if (made ? !vt_table_make_room(&session->blocks) : !known)
        return false;
    if (made) {
        vt_table_insert(&session->blocks, block);
        session->block_bytes[block.device] += block.bytes;
    } else {
        event->bytes = before.bytes;
        event->device_index = (int8_t)before.device;
    }
    event->total_bytes = session->block_bytes[(uint8_t)event->device_index];
    return true;
}

bool vt_live_block(struct vt_session *session, struct vt_event *event, uint64_t handle, uint64_t part_of)
{
    if (event->kind == VT_EVENT_ALLOC &&
        (!event->address || event->device_index < 0 || event->device_index >= (int)VT_MAX_DEVICES))
        return false;
    const bool locked = lock(&session->blocks_lock);
    const bool known =
        locked && (!handle || follow_handle(session, event, handle)) && follow_block(session, event);
    if (known && handle)
        follow_part(session, handle, part_of);
    if (locked)
        unlock(&session->blocks_lock);
    if (!known && (!locked || event->kind == VT_EVENT_ALLOC))
        __atomic_fetch_add(&session->ring.header->counters.dropped, 1, __ATOMIC_RELAXED);
    return known;
}

bool vt_live_oom(struct vt_session *session, struct vt_event *event)
{
    if (event->device_index < 0 || event->device_index >= (int)VT_MAX_DEVICES)
        return false;
    event->total_bytes =
        atomic_load_explicit(&session->framework_bytes[event->device_index][0], memory_order_relaxed);
    return true;
}

bool vt_live_find_handle(struct vt_session *session, uint64_t handle, struct vt_live_place *place)
{
    if (!handle || !lock(&session->blocks_lock))
        return false;
    const struct vt_address_entry *known = vt_table_find(&session->handles, handle),
                                  *block = known ? vt_table_find(&session->blocks, known->bytes) : NULL,
                                  *next_part = block ? vt_table_find(&session->parts, handle) : NULL;
    if (block)
        *place = (struct vt_live_place){block->address, block->bytes, block->device,
                                        next_part ? next_part->bytes : 0};
    unlock(&session->blocks_lock);
    return block != NULL;
}

bool vt_live_find_block(struct vt_session *session, uint64_t address, struct vt_live_place *place)
{
    if (!address || !lock(&session->blocks_lock))
        return false;
    const struct vt_address_entry *block = vt_table_find(&session->blocks, address);
    if (block)
        *place = (struct vt_live_place){block->address, block->bytes, block->device, 0};
    unlock(&session->blocks_lock);
    return block != NULL;
}

static void add_live(struct vt_session *session, struct vt_address_entry entry)
{
    struct vt_address_entry before;
    if (vt_table_remove(&session->live, entry.address, &before)) /* its free was missed */
        add_driver_bytes(session, (int8_t)before.device, -(uint64_t)before.bytes);
    if (!vt_table_make_room(&session->live))
        return;
    vt_table_insert(&session->live, entry);
    add_driver_bytes(session, (int8_t)entry.device, entry.bytes);
}

static void set_graph_bytes(struct vt_session *session, const struct vt_event *event)
{
    if (event->device_index < 0 || event->device_index >= (int)VT_MAX_DEVICES || !lock(&session->live_lock))
        return;
    uint64_t *known = &session->graph_bytes[event->device_index];
    add_driver_bytes(session, event->device_index, event->total_bytes - *known);
    *known = event->total_bytes;
    unlock(&session->live_lock);
}

/* Memory made in a context is freed with it; physical memory and pool memory are not. */
static uint64_t context_of(const struct vt_event *made)
{
    return made->kind == VT_EVENT_ALLOC && !(made->flags & VT_FLAG_ASYNC) ? made->detail : 0;
}

/* Creation and end are both recorded after the call, so a new context at the same address may be reported
 * before the old one's end. */
static void follow_context(struct vt_session *session, const struct vt_event *event)
{
    struct vt_address_table *live = &session->live;
    struct vt_address_entry before, known = {.address = event->address};
    const bool begins = event->kind == VT_EVENT_CONTEXT_CREATE;
    if (!event->address || !lock(&session->live_lock))
        return;
    vt_table_remove(&session->contexts, event->address, &known); /* bytes: how many contexts */
    known.bytes += begins ? 1 : known.bytes ? -1 : 0;
    if (known.bytes && vt_table_make_room(&session->contexts))
        vt_table_insert(&session->contexts, known);
    for (size_t i = 0; !known.bytes && live->entries && i < (size_t)1 << live->bits; i++)
        while (live->entries[i].address && live->entries[i].context == event->address &&
               vt_table_remove(live, live->entries[i].address, &before))
            add_driver_bytes(session, (int8_t)before.device, -(uint64_t)before.bytes);
    unlock(&session->live_lock);
}

void vt_live_driver(struct vt_session *session, struct vt_event *event)
{
    if (event->kind == VT_EVENT_POOL && event->flags & VT_FLAG_CAPTURED) {
        set_graph_bytes(session, event);
        return;
    }
    if (event->kind == VT_EVENT_CONTEXT_CREATE || event->kind == VT_EVENT_CONTEXT_DESTROY) {
        follow_context(session, event);
        return;
    }
    const bool made = vt_makes_device_memory(event), gone = vt_ends_memory(event);
    bool kept = event->kind == VT_EVENT_FREE_FAILED && event->address == last_taken.address;
    if ((!made && !gone && !kept) || !event->address)
        return;
    if (gone)
        last_taken.address = 0;
    if (!lock(&session->live_lock))
        return;
    if (made) {
        add_live(session, (struct vt_address_entry){event->address, event->bytes,
                                                    (uint8_t)event->device_index, context_of(event)});
    } else if (kept) {
        /* if it is there, another thread's free succeeded and the address is in use again */
        if (!vt_table_find(&session->live, event->address))
            add_live(session, last_taken);
    } else if (vt_table_remove(&session->live, event->address, &last_taken)) {
        event->bytes = last_taken.bytes;
        event->device_index = (int8_t)last_taken.device;
        add_driver_bytes(session, event->device_index, -(uint64_t)last_taken.bytes);
    }
    unlock(&session->live_lock);
}

int8_t vt_live_device(struct vt_session *session, uint64_t address)
{
    if (!address || !lock(&session->live_lock))
        return -1;
    const struct vt_address_entry *found = vt_table_find(&session->live, address);
    int8_t device_index = found ? (int8_t)found->device : -1;
    unlock(&session->live_lock);
    return device_index;
}

bool vt_live_framework(struct vt_session *session, const struct vt_event *event)
{
    if (event->device_index < 0 || event->device_index >= (int)VT_MAX_DEVICES)
        return false;
    struct vt_live_device *live = &session->ring.header->counters.live[event->device_index];
    const bool counted = !(event->flags & VT_FLAG_UNCOUNTED);
    _Atomic uint64_t *totals = session->framework_bytes[event->device_index];
    atomic_store_explicit(&totals[counted], event->total_bytes, memory_order_relaxed);
    uint64_t bytes = event->total_bytes + atomic_load_explicit(&totals[!counted], memory_order_relaxed);
    __atomic_store_n(&live->block_bytes, bytes, __ATOMIC_RELAXED);
    if (bytes <= __atomic_load_n(&live->block_peak_bytes, __ATOMIC_RELAXED))
        return false;
    __atomic_store_n(&live->block_peak_bytes, bytes, __ATOMIC_RELAXED);
    return true;
}
