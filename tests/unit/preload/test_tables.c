/* The tables that grow: interned stacks, and live allocations. */
#include <criterion/criterion.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "record/intern.h"
#include "record/live_blocks.h"
#include "record/session.h"

static uint64_t scramble(uint64_t value)
{
    value = (value ^ value >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    value = (value ^ value >> 27) * UINT64_C(0x94d049bb133111eb);
    return value ^ value >> 31;
}

Test(intern, ids_have_their_hashes)
{
    struct vt_intern table = {0};
    cr_assert_eq(vt_intern_make(&table, 2), 0);
    const uint32_t known = vt_intern_hashed(&table);
    for (uint32_t id = 1; id <= known; id++) {
        const uint64_t hash = scramble(id) | VT_INTERN_MARK;
        struct vt_intern_entry *entry = vt_intern_find(&table, hash);
        cr_assert(!vt_intern_is(&table, hash, id), "not published yet");
        vt_intern_publish(&table, entry, id);
        cr_assert_eq(entry->id, id);
        cr_assert_eq(vt_intern_is(&table, hash, id), id < known);
        cr_assert(!vt_intern_is(&table, hash, id - 1) && !vt_intern_is(&table, hash, id + 1));
    }
    vt_intern_free(&table);
}

Test(intern, finds_again_what_it_took)
{
    struct vt_intern table = {0};
    size_t taken = 0;
    cr_assert_eq(vt_intern_make(&table, 6), 0);
    for (uint64_t i = 0;; i++) {
        struct vt_intern_entry *entry = vt_intern_find(&table, scramble(i) | VT_INTERN_MARK);
        if (!entry)
            break;
        cr_assert_eq(entry->id, 0, "a new one has no number");
        entry->id = (uint32_t)++taken;
    }
    /* 64 + 512 + 4096 + 32768 entries */
    cr_assert_gt(taken, 15000);
    for (uint64_t i = 0; i < taken; i++)
        cr_assert_eq(vt_intern_find(&table, scramble(i) | VT_INTERN_MARK)->id, i + 1);
    vt_intern_free(&table);
}

Test(intern, takes_little_memory_at_first)
{
    struct vt_intern table = {0};
    cr_assert_eq(vt_intern_make(&table, 12), 0);
    for (uint64_t i = 0; i < 100; i++)
        cr_assert_not_null(vt_intern_find(&table, i << 40 | VT_INTERN_MARK | i));
    cr_assert_not_null(table.levels[0]);
    cr_assert_null(table.levels[1]);
    vt_intern_free(&table);
}

enum { THREADS = 4, EACH = 20000 };
static struct vt_intern shared;

static void *take_all(void *ids)
{
    for (uint64_t i = 0; i < EACH; i++) {
        struct vt_intern_entry *entry = vt_intern_find(&shared, scramble(i) | VT_INTERN_MARK);
        ((struct vt_intern_entry **)ids)[i] = entry;
    }
    return NULL;
}

Test(intern, threads_find_the_same_entries)
{
    static struct vt_intern_entry *found[THREADS][EACH];
    pthread_t threads[THREADS];
    cr_assert_eq(vt_intern_make(&shared, 10), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, take_all, found[i]);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    /* Two threads may give one hash two entries, when both find the first place taken in the same moment;
     * then later lookups agree on one. */
    for (uint64_t i = 0; i < EACH; i++)
        cr_assert_not_null(found[0][i]);
    for (uint64_t i = 0; i < EACH; i++)
        cr_assert_eq(vt_intern_find(&shared, scramble(i) | VT_INTERN_MARK)->hash,
                     scramble(i) | VT_INTERN_MARK);
    vt_intern_free(&shared);
}

static struct vt_session *make_session(void)
{
    struct vt_session *session = calloc(1, sizeof *session);
    session->ring.header = calloc(1, VT_RING_HEADER_BYTES);
    return session;
}

static bool block(struct vt_session *session, struct vt_event *event, int kind, uint64_t handle,
                  uint64_t address, uint64_t bytes)
{
    *event = (struct vt_event){.kind = (uint8_t)kind,
                               .address = address,
                               .bytes = bytes,
                               .device_index = kind == VT_EVENT_ALLOC ? 1 : -1};
    return vt_live_block(session, event, handle, 0);
}

Test(live, blocks_of_a_framework_that_does_not_count)
{
    struct vt_session *session = make_session();
    struct vt_event event;
    cr_assert(!block(session, &event, VT_EVENT_FREE, 0, 512, 0)); /* not known */
    cr_assert(block(session, &event, VT_EVENT_ALLOC, 0, 512, 100));
    cr_assert_eq(event.total_bytes, 100);
    cr_assert(block(session, &event, VT_EVENT_ALLOC, 7, 1024, 30));
    cr_assert_eq(event.total_bytes, 130);
    cr_assert(block(session, &event, VT_EVENT_ALLOC, 0, 512, 50)); /* its free was not seen */
    cr_assert_eq(event.total_bytes, 80);
    cr_assert(!block(session, &event, VT_EVENT_FREE, 8, 0, 0));
    cr_assert(block(session, &event, VT_EVENT_FREE, 7, 0, 0)); /* by its handle */
    cr_assert(event.address == 1024 && event.bytes == 30 && event.device_index == 1 &&
              event.total_bytes == 50);
    cr_assert(!block(session, &event, VT_EVENT_FREE, 7, 0, 0));
    cr_assert(block(session, &event, VT_EVENT_FREE, 0, 512, 0));
    cr_assert(event.bytes == 50 && event.total_bytes == 0);
}

static void driver(struct vt_session *session, int kind, uint64_t address, uint64_t bytes, uint64_t detail,
                   uint8_t flags)
{
    vt_live_driver(session, &(struct vt_event){.kind = (uint8_t)kind,
                                               .layer = VT_LAYER_DRIVER,
                                               .flags = flags,
                                               .address = address,
                                               .bytes = bytes,
                                               .detail = detail});
}

Test(live, memory_ends_with_its_context)
{
    enum { CONTEXT = 0xc000, OTHER = 0xd000, COUNT = 5000 };
    struct vt_session *session = make_session();
    const struct vt_live_device *live = &session->ring.header->counters.live[0];
    driver(session, VT_EVENT_CONTEXT_CREATE, CONTEXT, 0, 0, 0);
    driver(session, VT_EVENT_CONTEXT_CREATE, OTHER, 0, 0, 0);
    for (uint64_t i = 1; i <= COUNT; i++)
        driver(session, VT_EVENT_ALLOC, i << 9, i, i % 2 ? CONTEXT : OTHER, 0);
    driver(session, VT_EVENT_ALLOC, 1 << 30, 100, CONTEXT, VT_FLAG_ASYNC); /* of a pool that is called so */
    driver(session, VT_EVENT_HANDLE_CREATE, 1, 1000, 0, 0);
    cr_assert_eq(live->driver_bytes, COUNT * (COUNT + 1) / 2 + 1100);
    driver(session, VT_EVENT_CONTEXT_DESTROY, CONTEXT, 0, 0, 0);
    cr_assert_eq(live->driver_bytes, COUNT / 2 * (COUNT / 2 + 1) + 1100);
    cr_assert_eq(session->live.used, COUNT / 2 + 2);
    driver(session, VT_EVENT_FREE, 1 << 9, 0, 0, 0); /* it is gone already */
    driver(session, VT_EVENT_FREE, 2 << 9, 0, 0, 0);
    cr_assert_eq(live->driver_bytes, COUNT / 2 * (COUNT / 2 + 1) + 1100 - 2);
    driver(session, VT_EVENT_CONTEXT_CREATE, OTHER, 0, 0, 0); /* told before the end of the one before */
    driver(session, VT_EVENT_CONTEXT_DESTROY, OTHER, 0, 0, 0);
    cr_assert_eq(live->driver_bytes, COUNT / 2 * (COUNT / 2 + 1) + 1100 - 2);
    driver(session, VT_EVENT_CONTEXT_DESTROY, OTHER, 0, 0, 0);
    cr_assert_eq(live->driver_bytes, 1100);
    cr_assert_eq(session->contexts.used, 0);
}

static bool part(struct vt_session *session, uint64_t handle, uint64_t part_of)
{
    struct vt_event event = {
        .kind = VT_EVENT_ALLOC, .address = handle << 9, .bytes = handle, .device_index = 1};
    return vt_live_block(session, &event, handle, part_of);
}

Test(live, parts_of_an_array_are_known_by_their_handles)
{
    struct vt_session *session = make_session();
    struct vt_live_place place;
    struct vt_event event;
    cr_assert(part(session, 7, 0) && part(session, 8, 7) && part(session, 9, 8));
    cr_assert(vt_live_find_handle(session, 7, &place));
    cr_assert(place.address == 7 << 9 && place.bytes == 7 && place.device_index == 1 && place.next_part == 8);
    cr_assert(vt_live_find_handle(session, 9, &place) && place.next_part == 0);
    cr_assert(block(session, &event, VT_EVENT_FREE, 8, 0, 0));
    cr_assert(!vt_live_find_handle(session, 8, &place));
    cr_assert(part(session, 8, 0)); /* another array at that handle */
    cr_assert(vt_live_find_handle(session, 8, &place) && place.next_part == 0);
    cr_assert(!vt_live_find_handle(session, 0, &place) && !vt_live_find_handle(session, 1, &place));
}

/* Two threads: the one's array goes, the other's is made in its place, then the first one says so. Or two
 * arrays share memory. */
Test(live, a_block_ends_with_the_latest_of_its_handles)
{
    struct vt_session *session = make_session();
    struct vt_live_place place;
    struct vt_event event;
    cr_assert(block(session, &event, VT_EVENT_ALLOC, 7, 1024, 30));
    cr_assert(block(session, &event, VT_EVENT_ALLOC, 8, 1024, 40));
    cr_assert_eq(event.total_bytes, 40);
    cr_assert(vt_live_find_handle(session, 7, &place) && place.bytes == 40);
    cr_assert(!block(session, &event, VT_EVENT_FREE, 7, 0, 0));
    cr_assert(!vt_live_find_handle(session, 7, &place));
    cr_assert(vt_live_find_handle(session, 8, &place) && place.address == 1024);
    cr_assert(block(session, &event, VT_EVENT_FREE, 8, 0, 0));
    cr_assert(event.address == 1024 && event.bytes == 40 && event.total_bytes == 0);
    cr_assert(!block(session, &event, VT_EVENT_FREE, 8, 0, 0));
    cr_assert(block(session, &event, VT_EVENT_ALLOC, 9, 1024, 50)); /* the later one goes first */
    cr_assert(block(session, &event, VT_EVENT_ALLOC, 10, 1024, 60));
    cr_assert(block(session, &event, VT_EVENT_FREE, 10, 0, 0));
    cr_assert(!block(session, &event, VT_EVENT_FREE, 9, 0, 0));
    cr_assert_eq(session->handles.used + session->holders.used + session->blocks.used, 0);
    cr_assert_eq(session->ring.header->counters.dropped, 0);
}

Test(live, blocks_that_cannot_be_followed_are_counted_as_dropped)
{
    struct vt_session *session = make_session();
    struct vt_event event;
    atomic_store(&session->blocks_lock.busy, 1); /* by a thread that was stopped there */
    cr_assert(!block(session, &event, VT_EVENT_ALLOC, 0, 512, 100));
    cr_assert(!block(session, &event, VT_EVENT_FREE, 0, 512, 0));
    cr_assert_eq(session->ring.header->counters.dropped, 2);
    atomic_store(&session->blocks_lock.busy, 0);
    cr_assert(!block(session, &event, VT_EVENT_FREE, 0, 512, 0)); /* not known, which is no loss */
    cr_assert_eq(session->ring.header->counters.dropped, 2);
}

Test(live, sums_are_those_of_a_plain_list)
{
    enum { ROUNDS = 400000, PLACES = 100000 };
    struct vt_session *session = make_session();
    uint64_t *bytes = calloc(PLACES, sizeof *bytes), sum[2] = {0}, peak[2] = {0};
    for (uint64_t i = 0; i < ROUNDS; i++) {
        uint64_t place = scramble(i) % PLACES, device = place & 1;
        struct vt_event event = {.layer = VT_LAYER_DRIVER, .address = (place + 1) << 9, .device_index = -1};
        if (bytes[place]) {
            event.kind = VT_EVENT_FREE;
            vt_live_driver(session, &event);
            cr_assert_eq(event.bytes, bytes[place]);
            cr_assert_eq(event.device_index, (int)device);
            sum[device] -= bytes[place];
            bytes[place] = 0;
        } else {
            bytes[place] = event.bytes = 512 + scramble(i) % 100000;
            event.kind = VT_EVENT_ALLOC;
            event.device_index = (int8_t)device;
            vt_live_driver(session, &event);
            sum[device] += bytes[place];
            peak[device] = sum[device] > peak[device] ? sum[device] : peak[device];
        }
        cr_assert_eq(session->ring.header->counters.live[device].driver_bytes, sum[device]);
    }
    for (int device = 0; device < 2; device++)
        cr_assert_eq(session->ring.header->counters.live[device].driver_peak_bytes, peak[device]);
}
