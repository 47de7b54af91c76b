#include "record/live_blocks.h"

#include <sched.h>
#include <stdbool.h>
#include <stddef.h>

#include "guard.h"
#include "hash.h"
#include "memory.h"
#include "record/session.h"

/* Open addressing with backward-shift deletion; grows when three quarters full. Without memory for that,
 * further allocations are not tracked: the header's running totals become wrong, the trace stays right. */
enum { FIRST_BITS = 10, GROWTH_BITS = 2, MAXIMUM_BITS = 26 };
enum { SPINS = 100, YIELDS = 20, NAPS = 200, NAP_NS = 50000 };

struct vt_live_entry {
    uint64_t address; /* 0 = free */
    uint64_t bytes : 56;
    uint64_t device : 8;
    uint64_t context; /* the context whose end frees it; 0 = none */
};

/* The allocation that this thread's latest free removed from the table, in case the free fails. */
static __thread struct vt_live_entry last_taken __attribute__((tls_model("initial-exec")));

/* False after about 20 ms: the holder was stopped, or has a lower priority. */
static bool lock(struct vt_live_table *table)
{
    for (int turn = 0; atomic_exchange_explicit(&table->busy, 1, memory_order_acquire); turn++) {
        if (atomic_load_explicit(&table->stuck, memory_order_relaxed) || turn == SPINS + YIELDS + NAPS) {
            atomic_store_explicit(&table->stuck, 1, memory_order_relaxed);
            return false;
        }
        if (turn >= SPINS + YIELDS)
            vt_nap(NAP_NS);
        else if (turn >= SPINS)
            sched_yield();
    }
    return true;
}

static void unlock(struct vt_live_table *table)
{
    atomic_store_explicit(&table->stuck, 0, memory_order_relaxed);
    atomic_store_explicit(&table->busy, 0, memory_order_release);
}

static size_t table_bytes(unsigned bits)
{
    return sizeof(struct vt_live_entry) << bits;
}

void vt_live_replace_memory(struct vt_live_table *table)
{
    vt_replace_memory(table->entries, table_bytes(table->bits));
}

static uint32_t home_of(const struct vt_live_table *table, uint64_t address)
{
    return (uint32_t)(vt_hash(address) >> (64 - table->bits));
}

static uint32_t next_place(const struct vt_live_table *table, uint32_t place)
{
    return (place + 1) & ((UINT32_C(1) << table->bits) - 1);
}

static void insert_entry(struct vt_live_table *table, struct vt_live_entry entry)
{
    uint32_t i = home_of(table, entry.address);
    while (table->entries[i].address)
        i = next_place(table, i);
    table->entries[i] = entry;
    table->used++;
}

/* Makes sure that one more entry fits. False if it does not. */
static bool make_room(struct vt_live_table *table)
{
    struct vt_live_table before = {.entries = table->entries, .bits = table->bits};
    size_t count = before.entries ? (size_t)1 << before.bits : 0;
    if (count && table->used < count / 4 * 3)
        return true;
    unsigned bits = before.entries ? before.bits + GROWTH_BITS : FIRST_BITS;
    void *memory = bits > MAXIMUM_BITS ? NULL : vt_memory_make(table_bytes(bits));
    if (!memory)
        return table->used + 1 < count;
    table->entries = memory;
    table->bits = bits;
    table->used = 0;
    for (size_t i = 0; i < count; i++)
        if (before.entries[i].address)
            insert_entry(table, before.entries[i]);
    vt_memory_free(before.entries, table_bytes(before.bits));
    return true;
}

static struct vt_live_entry *find_entry(const struct vt_live_table *table, uint64_t address)
{
    struct vt_live_entry *entries = table->entries;
    if (!entries)
        return NULL;
    uint32_t i = home_of(table, address);
    while (entries[i].address != address) {
        if (!entries[i].address)
            return NULL;
        i = next_place(table, i);
    }
    return &entries[i];
}

static bool remove_entry(struct vt_live_table *table, uint64_t address, struct vt_live_entry *found)
{
    struct vt_live_entry *entries = table->entries, *there = find_entry(table, address);
    const uint32_t mask = (UINT32_C(1) << table->bits) - 1;
    if (!there)
        return false;
    *found = *there;
    for (uint32_t hole = (uint32_t)(there - entries), at = next_place(table, hole);;
         at = next_place(table, at)) {
        if (!entries[at].address) {
            entries[hole].address = 0;
            break;
        }
        if (((at - home_of(table, entries[at].address)) & mask) >= ((at - hole) & mask)) {
            entries[hole] = entries[at];
            hole = at;
        }
    }
    table->used--;
    return true;
}

static void add_driver_bytes(struct vt_session *session, int device_index, uint64_t bytes)
{
    if (device_index < 0 || device_index >= (int)VT_MAX_DEVICES)
        return;
    struct vt_live_device *live = &session->ring.header->counters.live[device_index];
    live->driver_bytes += bytes;
    if ((int64_t)live->driver_bytes > (int64_t)live->driver_peak_bytes)
        live->driver_peak_bytes = live->driver_bytes;
}

/* Adds or removes a handle; on removal fills in the address. Two handles may share an address: they share
 * the block, or the end of one is reported only after the other was made there. The block belongs to the
 * latest handle, and ends only with that one. */
static bool follow_handle(struct vt_session *session, struct vt_event *event, uint64_t handle)
{
    struct vt_live_entry known = {0}, before;
    const bool had = remove_entry(&session->handles, handle, &known);
    if (event->kind != VT_EVENT_ALLOC) {
        const struct vt_live_entry *holder = had ? find_entry(&session->holders, known.bytes) : NULL;
        event->address = known.bytes;
        return holder && holder->bytes == handle && remove_entry(&session->holders, known.bytes, &before);
    }
    if (!make_room(&session->handles) || !make_room(&session->holders))
        return false;
    insert_entry(&session->handles, (struct vt_live_entry){handle, event->address, 0, 0});
    remove_entry(&session->holders, event->address, &before);
    insert_entry(&session->holders, (struct vt_live_entry){event->address, handle, 0, 0});
    return true;
}

/* Whatever array had this handle before is gone. */
static void follow_part(struct vt_session *session, uint64_t handle, uint64_t part_of)
{
    struct vt_live_entry before;
    remove_entry(&session->parts, handle, &before);
    if (!part_of)
        return;
    remove_entry(&session->parts, part_of, &before);
    if (make_room(&session->parts))
        insert_entry(&session->parts, (struct vt_live_entry){part_of, handle, 0, 0});
}

static bool follow_block(struct vt_session *session, struct vt_event *event)
{
    const bool made = event->kind == VT_EVENT_ALLOC;
    struct vt_live_entry block = {event->address, event->bytes, (uint8_t)event->device_index, 0}, before;
    bool known = remove_entry(&session->blocks, event->address, &before); /* if made: its free was missed */
    if (known)
        session->block_bytes[before.device] -= before.bytes;
    if (made ? !make_room(&session->blocks) : !known)
        return false;
    if (made) {
        insert_entry(&session->blocks, block);
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
    const bool locked = lock(&session->blocks);
    const bool known =
        locked && (!handle || follow_handle(session, event, handle)) && follow_block(session, event);
    if (known && handle)
        follow_part(session, handle, part_of);
    if (locked)
        unlock(&session->blocks);
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
    if (!handle || !lock(&session->blocks))
        return false;
    const struct vt_live_entry *known = find_entry(&session->handles, handle),
                               *block = known ? find_entry(&session->blocks, known->bytes) : NULL,
                               *next_part = block ? find_entry(&session->parts, handle) : NULL;
    if (block)
        *place = (struct vt_live_place){block->address, block->bytes, block->device,
                                        next_part ? next_part->bytes : 0};
    unlock(&session->blocks);
    return block != NULL;
}

bool vt_live_find_block(struct vt_session *session, uint64_t address, struct vt_live_place *place)
{
    if (!address || !lock(&session->blocks))
        return false;
    const struct vt_live_entry *block = find_entry(&session->blocks, address);
    if (block)
        *place = (struct vt_live_place){block->address, block->bytes, block->device, 0};
    unlock(&session->blocks);
    return block != NULL;
}

static void add_live(struct vt_session *session, struct vt_live_entry entry)
{
    struct vt_live_entry before;
    if (remove_entry(&session->live, entry.address, &before)) /* its free was missed */
        add_driver_bytes(session, (int8_t)before.device, -(uint64_t)before.bytes);
    if (!make_room(&session->live))
        return;
    insert_entry(&session->live, entry);
    add_driver_bytes(session, (int8_t)entry.device, entry.bytes);
}

static void set_graph_bytes(struct vt_session *session, const struct vt_event *event)
{
    if (event->device_index < 0 || event->device_index >= (int)VT_MAX_DEVICES || !lock(&session->live))
        return;
    uint64_t *known = &session->graph_bytes[event->device_index];
    add_driver_bytes(session, event->device_index, event->total_bytes - *known);
    *known = event->total_bytes;
    unlock(&session->live);
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
    struct vt_live_table *live = &session->live;
    struct vt_live_entry before, known = {.address = event->address};
    const bool begins = event->kind == VT_EVENT_CONTEXT_CREATE;
    if (!event->address || !lock(live))
        return;
    remove_entry(&session->contexts, event->address, &known); /* bytes: how many contexts */
    known.bytes += begins ? 1 : known.bytes ? -1 : 0;
    if (known.bytes && make_room(&session->contexts))
        insert_entry(&session->contexts, known);
    for (size_t i = 0; !known.bytes && live->entries && i < (size_t)1 << live->bits; i++)
        while (live->entries[i].address && live->entries[i].context == event->address &&
               remove_entry(live, live->entries[i].address, &before))
            add_driver_bytes(session, (int8_t)before.device, -(uint64_t)before.bytes);
    unlock(live);
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
    const uint8_t not_device = VT_FLAG_HOST | VT_FLAG_REGISTERED | VT_FLAG_FOREIGN | VT_FLAG_CAPTURED;
    bool made = (event->kind == VT_EVENT_ALLOC || event->kind == VT_EVENT_HANDLE_CREATE) &&
                !(event->flags & not_device);
    bool gone = event->kind == VT_EVENT_FREE || event->kind == VT_EVENT_HANDLE_RELEASE;
    bool kept = event->kind == VT_EVENT_FREE_FAILED && event->address == last_taken.address;
    if ((!made && !gone && !kept) || !event->address)
        return;
    if (gone)
        last_taken.address = 0;
    if (!lock(&session->live))
        return;
    if (made) {
        add_live(session, (struct vt_live_entry){event->address, event->bytes, (uint8_t)event->device_index,
                                                 context_of(event)});
    } else if (kept) {
        /* if it is there, another thread's free succeeded and the address is in use again */
        if (!find_entry(&session->live, event->address))
            add_live(session, last_taken);
    } else if (remove_entry(&session->live, event->address, &last_taken)) {
        event->bytes = last_taken.bytes;
        event->device_index = (int8_t)last_taken.device;
        add_driver_bytes(session, event->device_index, -(uint64_t)last_taken.bytes);
    }
    unlock(&session->live);
}

int8_t vt_live_device(struct vt_session *session, uint64_t address)
{
    if (!address || !lock(&session->live))
        return -1;
    const struct vt_live_entry *found = find_entry(&session->live, address);
    int8_t device_index = found ? (int8_t)found->device : -1;
    unlock(&session->live);
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
