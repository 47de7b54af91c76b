/* The ring (include/vramtrace/format.h): many producers, one consumer, no locks.
 *
 * Threads: reserve and commit from any, the rest from the writer's. A producer never waits for another
 * producer. For free slots it waits at most 10 ms, then drops the record. */
#ifndef VT_RING_H
#define VT_RING_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "vramtrace/ring.h"

struct vt_ring {
    struct vt_ring_header *header;
    uint8_t *slots;
    uint64_t slot_count;         /* a power of two */
    _Atomic uint32_t wake;       /* futex: raised to wake the writer */
    _Atomic uint64_t gave_up_at; /* ring_consumed when a producer's wait failed, plus one; 0 = never */
    _Atomic(uint8_t *) dead;     /* a byte per slot: 1 = a lost producer may still write there; NULL = none */
};

enum { VT_RECORD_MAXIMUM_BYTES = 60000 * VT_SLOT_BYTES };

/* Reserves a record of `bytes`, head included, and fills in its head, not committed. NULL if there are no
 * free slots. */
void *vt_ring_reserve(struct vt_ring *ring, enum vt_record_kind kind, uint32_t bytes);
/* The same, faster, for an event. */
struct vt_event *vt_ring_reserve_event(struct vt_ring *ring);

static inline void vt_ring_commit(void *record)
{
    struct vt_record_head *head = record;
    __atomic_store_n(&head->committed, 1, __ATOMIC_RELEASE);
}

/* The committed record at *position, or NULL. Moves *position past pads. */
const struct vt_record_head *vt_ring_at(const struct vt_ring *ring, uint64_t *position);

/* Skips the record at *position, whose producer will never commit it: its thread ended, jumped out, or is
 * stopped. Its slots, at most up to `end`, are never reserved again, since the producer may still write
 * there. Returns its kind, or 0 if not even that was stored. */
uint8_t vt_ring_abandon(struct vt_ring *ring, uint64_t *position, uint64_t end);

/* Zeroes and frees the slots from ring_consumed to `position`. */
void vt_ring_consume(struct vt_ring *ring, uint64_t position);

void vt_ring_wake(struct vt_ring *ring);
/* Sleeps until woken, or for `milliseconds`. */
void vt_ring_wait(struct vt_ring *ring, uint32_t seen, int milliseconds);

static inline uint64_t vt_ring_consumed(const struct vt_ring *ring)
{
    return __atomic_load_n(&ring->header->ring_consumed, __ATOMIC_RELAXED);
}

/* A copy of the counters, each as it is now: threads count on. */
static inline struct vt_counters vt_counters_now(const struct vt_ring *ring)
{
    enum { WORDS = sizeof(struct vt_counters) / sizeof(uint64_t) };
    const uint64_t *counters = (const uint64_t *)(const void *)&ring->header->counters;
    uint64_t words[WORDS];
    struct vt_counters now;
    for (int i = 0; i < WORDS; i++)
        words[i] = __atomic_load_n(&counters[i], __ATOMIC_RELAXED);
    memcpy(&now, words, sizeof now);
    return now;
}

static inline uint64_t vt_ring_pending(const struct vt_ring *ring)
{
    return __atomic_load_n(&ring->header->ring_reserved, __ATOMIC_RELAXED) - vt_ring_consumed(ring);
}

#endif
