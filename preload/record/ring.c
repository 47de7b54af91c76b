#include "record/ring.h"

#include <string.h>

#include "futex.h"
#include "guard.h"
#include "memory.h"

/* How long a producer waits for the writer at a full ring. */
enum { WAIT_TURNS = 20, WAIT_TURN_NS = 500 * 1000 };

static uint8_t *slot_at(const struct vt_ring *ring, uint64_t position)
{
    return ring->slots + (position & (ring->slot_count - 1)) * VT_SLOT_BYTES;
}

static void begin_record(uint8_t *slot, enum vt_record_kind kind, uint64_t slots, uint32_t bytes)
{
    struct vt_record_head head = {
        .slots = (uint16_t)slots, .kind = (uint8_t)kind, .committed = 0, .bytes = bytes};
    uint64_t word;
    memcpy(&word, &head, sizeof word);
    __atomic_store_n((uint64_t *)(void *)slot, word, __ATOMIC_RELAXED);
}

/* True if there may be free slots now. Once a wait has failed, no producer waits again until the writer has
 * made progress. */
static bool wait_for_slots(struct vt_ring *ring, int *turn)
{
    uint64_t consumed = __atomic_load_n(&ring->header->ring_consumed, __ATOMIC_ACQUIRE);
    if (atomic_load_explicit(&ring->gave_up_at, memory_order_relaxed) == consumed + 1)
        return false;
    if (*turn == WAIT_TURNS) {
        atomic_store_explicit(&ring->gave_up_at, consumed + 1, memory_order_relaxed);
        return false;
    }
    if ((*turn)++ == 0)
        vt_ring_wake(ring);
    vt_nap(WAIT_TURN_NS);
    return true;
}

static void fill_with_pad(struct vt_ring *ring, uint64_t position, uint64_t slots)
{
    while (slots) {
        uint64_t part = slots < UINT16_MAX ? slots : UINT16_MAX;
        uint8_t *rest = slot_at(ring, position);
        begin_record(rest, VT_RECORD_PAD, part, (uint32_t)(part * VT_SLOT_BYTES));
        vt_ring_commit(rest);
        position += part;
        slots -= part;
    }
}

/* If one of the next `slots` slots is dead: how many slots there are from `position` to the end of its run;
 * else 0. A run begins one slot before the lost record, so that no head is ever stored where a lost producer
 * may write. */
static uint64_t slots_past_dead(const struct vt_ring *ring, uint64_t position, uint64_t slots)
{
    const uint8_t *dead = atomic_load_explicit(&ring->dead, memory_order_acquire);
    const uint64_t mask = ring->slot_count - 1;
    uint64_t i = 0;
    if (__builtin_expect(!dead, 1))
        return 0;
    while (i < slots && !dead[(position + i) & mask])
        i++;
    if (i == slots)
        return 0;
    while (i < ring->slot_count && dead[(position + i) & mask])
        i++;
    return i;
}

static inline __attribute__((always_inline)) void *reserve(struct vt_ring *ring, enum vt_record_kind kind,
                                                           uint32_t bytes)
{
    struct vt_ring_header *header = ring->header;
    uint64_t slots = (bytes + VT_SLOT_BYTES - 1) / VT_SLOT_BYTES;
    uint64_t reserved = __atomic_load_n(&header->ring_reserved, __ATOMIC_RELAXED);
    uint64_t pad, skipped;
    int turn = 0;
    if (bytes > VT_RECORD_MAXIMUM_BYTES || slots > ring->slot_count / 4)
        return NULL;
    for (;;) {
        /* Read first: a slot that is freed later must not look as if it had never been lost. */
        const uint64_t consumed = __atomic_load_n(&header->ring_consumed, __ATOMIC_ACQUIRE);
        const uint64_t left = ring->slot_count - (reserved & (ring->slot_count - 1));
        pad = slots > 1 && slots > left ? left : 0; /* one slot always fits, which the compiler cannot know */
        skipped = slots_past_dead(ring, reserved, pad + slots);
        const uint64_t taken = skipped ? skipped : pad + slots;
        /* Negative if `reserved` is older than `consumed`: then the exchange fails. */
        const int64_t in_use = (int64_t)(reserved + taken - consumed);
        if (__builtin_expect(in_use > (int64_t)ring->slot_count, 0)) {
            if (!wait_for_slots(ring, &turn))
                return NULL;
            reserved = __atomic_load_n(&header->ring_reserved, __ATOMIC_RELAXED);
            continue;
        }
        if (!__atomic_compare_exchange_n(&header->ring_reserved, &reserved, reserved + taken, true,
                                         __ATOMIC_RELAXED, __ATOMIC_RELAXED))
            continue;
        if (__builtin_expect(!skipped, 1))
            break;
        fill_with_pad(ring, reserved, skipped); /* the only kind of record that may wrap around */
        reserved = __atomic_load_n(&header->ring_reserved, __ATOMIC_RELAXED);
    }
    fill_with_pad(ring, reserved, pad);
    uint8_t *record = slot_at(ring, reserved + pad);
    begin_record(record, kind, slots, bytes);
    /* The writer polls. A burst must not fill the ring before the next poll, so it is woken at each quarter.
     */
    if (__builtin_expect((reserved ^ (reserved + pad + slots)) & ~(ring->slot_count / 4 - 1), 0))
        vt_ring_wake(ring);
    return record;
}

void *vt_ring_reserve(struct vt_ring *ring, enum vt_record_kind kind, uint32_t bytes)
{
    return reserve(ring, kind, bytes);
}

struct vt_event *vt_ring_reserve_event(struct vt_ring *ring)
{
    return reserve(ring, VT_RECORD_EVENT, sizeof(struct vt_event));
}

/* Whether all the record's slots are reserved, and its bytes fit into them. An impossible head was written
 * late by a lost producer, or comes from another process's damaged ring: it counts as not committed. */
static bool is_whole(const struct vt_ring *ring, const struct vt_record_head *head, uint64_t position,
                     uint64_t reserved)
{
    if (!head->slots || head->slots > reserved - position)
        return false;
    return head->kind <= VT_RECORD_EVENT ||
           (head->bytes >= sizeof *head && head->bytes <= (uint32_t)head->slots * VT_SLOT_BYTES &&
            (position & (ring->slot_count - 1)) + head->slots <= ring->slot_count);
}

const struct vt_record_head *vt_ring_at(const struct vt_ring *ring, uint64_t *position)
{
    for (;;) {
        const uint64_t reserved = __atomic_load_n(&ring->header->ring_reserved, __ATOMIC_ACQUIRE);
        if ((int64_t)(reserved - *position) <= 0)
            return NULL;
        const struct vt_record_head *head = (const void *)slot_at(ring, *position);
        if (!__atomic_load_n(&head->committed, __ATOMIC_ACQUIRE) ||
            !is_whole(ring, head, *position, reserved))
            return NULL;
        if (head->kind != VT_RECORD_PAD)
            return head;
        *position += head->slots;
    }
}

uint8_t vt_ring_abandon(struct vt_ring *ring, uint64_t *position, uint64_t end)
{
    const struct vt_record_head *head = (const void *)slot_at(ring, *position);
    const uint8_t kind = head->kind;
    uint8_t *dead = atomic_load_explicit(&ring->dead, memory_order_relaxed);
    uint64_t last = *position + head->slots;
    if (!head->slots) /* up to the next record that has a head */
        for (last = *position + 1;
             last < end && !((const struct vt_record_head *)(const void *)slot_at(ring, last))->slots;)
            last++;
    if (last > end)
        last = end;
    if (!dead)
        dead = vt_memory_grow(NULL, 0, ring->slot_count);
    for (uint64_t i = *position - 1; dead && i != last; i++) /* from the slot before: the pad's head */
        dead[i & (ring->slot_count - 1)] = 1;
    atomic_store_explicit(&ring->dead, dead, memory_order_release);
    *position = last;
    return kind;
}

void vt_ring_consume(struct vt_ring *ring, uint64_t position)
{
    uint64_t from = ring->header->ring_consumed;
    uint64_t first = from & (ring->slot_count - 1), slots = position - from;
    uint64_t until_end = ring->slot_count - first;
    uint64_t straight = slots < until_end ? slots : until_end;
    memset(ring->slots + first * VT_SLOT_BYTES, 0, straight * VT_SLOT_BYTES);
    memset(ring->slots, 0, (slots - straight) * VT_SLOT_BYTES);
    __atomic_store_n(&ring->header->ring_consumed, position, __ATOMIC_RELEASE);
}

void vt_ring_wake(struct vt_ring *ring)
{
    atomic_fetch_add_explicit(&ring->wake, 1, memory_order_release);
    vt_futex_wake(&ring->wake);
}

void vt_ring_wait(struct vt_ring *ring, uint32_t seen, int milliseconds)
{
    vt_futex_wait(&ring->wake, seen, (uint64_t)milliseconds * 1000000);
}
