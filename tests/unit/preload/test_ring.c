/* The ring under several producers: nothing lost, nothing doubled, each producer's records in its own order.
 */
#include <criterion/criterion.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "record/ring.h"

enum { SLOTS = 1024, PRODUCERS = 4, RECORDS = 100000 };

static struct vt_ring *make_ring(uint64_t slots)
{
    struct vt_ring *ring = calloc(1, sizeof *ring);
    ring->header = calloc(1, VT_RING_HEADER_BYTES);
    ring->slots = calloc(slots, VT_SLOT_BYTES);
    ring->slot_count = slots;
    return ring;
}

struct producer {
    struct vt_ring *ring;
    uint64_t number, lost;
};

/* Body: producer, counter, then filler of the record's length, all with the counter's low byte. */
static void *produce(void *context)
{
    struct producer *self = context;
    for (uint64_t i = 0; i < RECORDS; i++) {
        uint32_t bytes = 24 + (uint32_t)(i * 7 % 300);
        uint64_t *record;
        while (!(record = vt_ring_reserve(self->ring, VT_RECORD_STRING, bytes)))
            self->lost++;
        record[1] = self->number;
        record[2] = i;
        memset(record + 3, (int)(i & 0xff), bytes - 24);
        vt_ring_commit(record);
    }
    return NULL;
}

Test(ring, many_producers_one_consumer)
{
    struct vt_ring *ring = make_ring(SLOTS);
    struct producer producers[PRODUCERS];
    pthread_t threads[PRODUCERS];
    uint64_t next[PRODUCERS] = {0}, position = 0, seen = 0;
    for (uint64_t i = 0; i < PRODUCERS; i++) {
        producers[i] = (struct producer){ring, i, 0};
        pthread_create(&threads[i], NULL, produce, &producers[i]);
    }
    while (seen < (uint64_t)PRODUCERS * RECORDS) {
        const struct vt_record_head *head = vt_ring_at(ring, &position);
        if (!head) {
            vt_ring_consume(ring, position);
            continue;
        }
        const uint64_t *record = (const void *)head;
        cr_assert_lt(record[1], PRODUCERS);
        cr_assert_eq(record[2], next[record[1]], "producer %lu", (unsigned long)record[1]);
        cr_assert_eq(head->bytes, 24 + record[2] * 7 % 300);
        for (uint32_t i = 24; i < head->bytes; i++)
            cr_assert_eq(((const uint8_t *)head)[i], record[2] & 0xff);
        next[record[1]]++;
        position += head->slots;
        if (++seen % 100 == 0)
            vt_ring_consume(ring, position);
    }
    for (int i = 0; i < PRODUCERS; i++)
        pthread_join(threads[i], NULL);
    vt_ring_consume(ring, position);
    cr_assert_eq(vt_ring_pending(ring), 0);
    for (size_t i = 0; i < SLOTS * VT_SLOT_BYTES; i++)
        cr_assert_eq(ring->slots[i], 0, "a slot given back is zero");
}

Test(ring, full_ring_drops_and_does_not_wait_twice)
{
    struct vt_ring *ring = make_ring(8);
    struct timespec before, after;
    for (int i = 0; i < 8; i++)
        cr_assert_not_null(vt_ring_reserve(ring, VT_RECORD_EVENT, VT_SLOT_BYTES));
    cr_assert_null(vt_ring_reserve(ring, VT_RECORD_EVENT, VT_SLOT_BYTES));
    clock_gettime(CLOCK_MONOTONIC, &before);
    for (int i = 0; i < 1000; i++)
        cr_assert_null(vt_ring_reserve(ring, VT_RECORD_EVENT, VT_SLOT_BYTES));
    clock_gettime(CLOCK_MONOTONIC, &after);
    /* had each waited its 10 ms, this were 10 s */
    cr_assert_lt((after.tv_sec - before.tv_sec) * 1000 + (after.tv_nsec - before.tv_nsec) / 1000000, 1000);
}

Test(ring, a_record_that_is_not_committed_stops_the_reader)
{
    struct vt_ring *ring = make_ring(16);
    uint64_t position = 0;
    void *first = vt_ring_reserve(ring, VT_RECORD_EVENT, VT_SLOT_BYTES);
    void *second = vt_ring_reserve(ring, VT_RECORD_EVENT, VT_SLOT_BYTES);
    vt_ring_commit(second);
    cr_assert_null(vt_ring_at(ring, &position));
    vt_ring_commit(first);
    cr_assert_eq(vt_ring_at(ring, &position), first);
}

Test(ring, a_record_larger_than_a_quarter_is_refused)
{
    struct vt_ring *ring = make_ring(64);
    cr_assert_null(vt_ring_reserve(ring, VT_RECORD_CODE, 17 * VT_SLOT_BYTES));
    cr_assert_not_null(vt_ring_reserve(ring, VT_RECORD_CODE, 16 * VT_SLOT_BYTES));
}

/* ---- records that nobody commits ---- */

static void *slot_of(struct vt_ring *ring, uint64_t position)
{
    return ring->slots + (position & (ring->slot_count - 1)) * VT_SLOT_BYTES;
}

Test(ring, an_abandoned_record_keeps_its_slots)
{
    struct vt_ring *ring = make_ring(64);
    uint64_t position = 0;
    uint8_t *lost = vt_ring_reserve(ring, VT_RECORD_STACK, 3 * VT_SLOT_BYTES);
    vt_ring_commit(vt_ring_reserve(ring, VT_RECORD_EVENT, VT_SLOT_BYTES));
    cr_assert_eq(vt_ring_abandon(ring, &position, 4), VT_RECORD_STACK);
    cr_assert_eq(position, 3);
    cr_assert_not_null(vt_ring_at(ring, &position));
    vt_ring_consume(ring, ++position);
    /* Its producer was only slow, and writes now, as long as it likes. Nobody else was given its slots. */
    for (int i = 0; i < 1000; i++) {
        uint64_t *record = vt_ring_reserve(ring, VT_RECORD_STRING, (uint32_t)(24 + i % 5 * 64));
        cr_assert_not_null(record);
        record[1] = (uint64_t)i;
        memset(lost + sizeof(struct vt_record_head), 0xee, 3 * VT_SLOT_BYTES - sizeof(struct vt_record_head));
        vt_ring_commit(lost);
        vt_ring_commit(record);
        const struct vt_record_head *head = vt_ring_at(ring, &position);
        cr_assert_eq((const void *)head, (const void *)record);
        cr_assert_eq(((const uint64_t *)(const void *)head)[1], (uint64_t)i);
        position += head->slots;
        vt_ring_consume(ring, position);
    }
}

Test(ring, a_record_without_a_head_is_abandoned_up_to_the_next)
{
    struct vt_ring *ring = make_ring(64);
    uint64_t position = 0;
    ring->header->ring_reserved = 5; /* a producer that ended right after it had reserved */
    vt_ring_commit(vt_ring_reserve(ring, VT_RECORD_EVENT, VT_SLOT_BYTES));
    vt_ring_reserve(ring, VT_RECORD_EVENT, VT_SLOT_BYTES);
    cr_assert_null(vt_ring_at(ring, &position));
    cr_assert_eq(vt_ring_abandon(ring, &position, 7), 0);
    cr_assert_eq(position, 5);
    cr_assert_eq((const void *)vt_ring_at(ring, &position), slot_of(ring, 5));
    position++;
    cr_assert_eq(vt_ring_abandon(ring, &position, 7), VT_RECORD_EVENT);
    cr_assert_eq(position, 7);
}

/* Producers of which some never commit: all that others commit arrives, whole and in order. */
static void *produce_with_losses(void *context)
{
    struct producer *self = context;
    for (uint64_t i = 0; i < RECORDS / 10; i++) {
        uint64_t *record;
        while (!(record = vt_ring_reserve(self->ring, VT_RECORD_STRING, 24)))
            ;
        record[1] = self->number;
        record[2] = i;
        if (i % 5000 != 4999)
            vt_ring_commit(record);
    }
    return NULL;
}

Test(ring, others_arrive_past_abandoned_records)
{
    struct vt_ring *ring = make_ring(SLOTS);
    struct producer producers[PRODUCERS];
    pthread_t threads[PRODUCERS];
    uint64_t next[PRODUCERS] = {0}, position = 0, seen = 0, lost = 0, waited = 0;
    for (uint64_t i = 0; i < PRODUCERS; i++) {
        producers[i] = (struct producer){ring, i, 0};
        pthread_create(&threads[i], NULL, produce_with_losses, &producers[i]);
    }
    while (seen + lost < (uint64_t)PRODUCERS * RECORDS / 10) {
        const struct vt_record_head *head = vt_ring_at(ring, &position);
        uint64_t reserved = __atomic_load_n(&ring->header->ring_reserved, __ATOMIC_ACQUIRE);
        if (!head && position != reserved && ++waited > 3000) { /* long enough for who only needs a moment */
            const struct timespec moment = {.tv_nsec = 50 * 1000 * 1000};
            nanosleep(&moment, NULL);
            if (!vt_ring_at(ring, &position)) {
                vt_ring_abandon(ring, &position, position + 1);
                lost++;
            }
            waited = 0;
        }
        if (!head) {
            vt_ring_consume(ring, position);
            continue;
        }
        waited = 0;
        const uint64_t *record = (const void *)head;
        cr_assert_lt(record[1], PRODUCERS);
        uint64_t expected = next[record[1]];
        expected += expected % 5000 == 4999;
        cr_assert_eq(record[2], expected, "producer %lu", (unsigned long)record[1]);
        next[record[1]] = record[2] + 1;
        position += head->slots;
        seen++;
    }
    for (int i = 0; i < PRODUCERS; i++)
        pthread_join(threads[i], NULL);
    cr_assert_eq(lost, PRODUCERS * (RECORDS / 10 / 5000));
}
