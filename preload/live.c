#include "live.h"

#include <sched.h>
#include <stdbool.h>
#include <sys/mman.h>

/* Open addressing with backward-shift deletion. When it is nearly full, further allocations are not
 * remembered: only the running totals of the header suffer, never the trace. */
enum { TABLE_BITS = 18, TABLE_SLOTS = 1 << TABLE_BITS, SPINS_BEFORE_YIELD = 100 };

struct live_entry {
    uint64_t address; /* 0 = free */
    uint64_t bytes : 56;
    uint64_t device : 8;
};

static struct live_entry *table;
static uint32_t table_generation, used;
static _Atomic int busy;

static void lock(void)
{
    for (int spins = 1; atomic_exchange_explicit(&busy, 1, memory_order_acquire); spins++)
        if (spins % SPINS_BEFORE_YIELD == 0)
            sched_yield();
}

static void unlock(void)
{
    atomic_store_explicit(&busy, 0, memory_order_release);
}

static uint32_t home(uint64_t address)
{
    return (uint32_t)((address * UINT64_C(0x9E3779B97F4A7C15)) >> (64 - TABLE_BITS));
}

static bool table_ready(const struct vt_session *session)
{
    if (table_generation == session->generation)
        return table != NULL;
    /* A fork's child: the parent's table is not inherited. */
    void *memory = mmap(NULL, sizeof *table * TABLE_SLOTS, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    table = memory == MAP_FAILED ? NULL : memory;
    if (table)
        madvise(table, sizeof *table * TABLE_SLOTS, MADV_DONTFORK);
    table_generation = session->generation;
    used = 0;
    return table != NULL;
}

static void insert(const struct vt_event *event)
{
    uint32_t i = home(event->address);
    if (used > TABLE_SLOTS / 4 * 3)
        return;
    while (table[i].address && table[i].address != event->address)
        i = (i + 1) % TABLE_SLOTS;
    used += !table[i].address;
    table[i] = (struct live_entry){event->address, event->bytes, (uint8_t)event->device_index};
}

static bool take(uint64_t address, struct live_entry *found)
{
    uint32_t i = home(address);
    while (table[i].address != address) {
        if (!table[i].address)
            return false;
        i = (i + 1) % TABLE_SLOTS;
    }
    *found = table[i];
    for (uint32_t hole = i, next = (i + 1) % TABLE_SLOTS;; next = (next + 1) % TABLE_SLOTS) {
        if (!table[next].address) {
            table[hole].address = 0;
            break;
        }
        if (((next - home(table[next].address)) % TABLE_SLOTS) >= ((next - hole) % TABLE_SLOTS)) {
            table[hole] = table[next];
            hole = next;
        }
    }
    used--;
    return true;
}

static void add(struct vt_session *session, int device_index, uint64_t bytes)
{
    if (device_index < 0 || device_index >= (int)VT_MAX_DEVICES)
        return;
    struct vt_live_device *live = &session->ring.header->live[device_index];
    live->driver_bytes += bytes;
    if ((int64_t)live->driver_bytes > (int64_t)live->driver_peak_bytes)
        live->driver_peak_bytes = live->driver_bytes;
}

void vt_live_driver(struct vt_session *session, struct vt_event *event)
{
    const uint8_t not_device = VT_FLAG_HOST | VT_FLAG_REGISTERED | VT_FLAG_FOREIGN | VT_FLAG_CAPTURED;
    bool made = event->kind == VT_EVENT_ALLOC || event->kind == VT_EVENT_HANDLE_CREATE;
    bool gone = event->kind == VT_EVENT_FREE || event->kind == VT_EVENT_HANDLE_RELEASE;
    struct live_entry entry;
    if ((!made && !gone) || !event->address)
        return;
    lock();
    if (!table_ready(session)) {
        unlock();
        return;
    }
    if (made) {
        if (!(event->flags & not_device)) {
            insert(event);
            add(session, event->device_index, event->bytes);
        }
    } else if (take(event->address, &entry)) {
        event->bytes = entry.bytes;
        event->device_index = (int8_t)entry.device;
        add(session, event->device_index, -(uint64_t)entry.bytes);
    }
    unlock();
}

void vt_live_framework(struct vt_session *session, const struct vt_event *event)
{
    if (event->device_index < 0 || event->device_index >= (int)VT_MAX_DEVICES)
        return;
    struct vt_live_device *live = &session->ring.header->live[event->device_index];
    __atomic_store_n(&live->block_bytes, event->total_bytes, __ATOMIC_RELAXED);
    if (event->total_bytes > __atomic_load_n(&live->block_peak_bytes, __ATOMIC_RELAXED))
        __atomic_store_n(&live->block_peak_bytes, event->total_bytes, __ATOMIC_RELAXED);
}
