/* What stays of a run of events, against a model that keeps all. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "format/past.h"
#include "record/digest.h"

enum { PASSES = 2048, SEGMENTS = 64, BLOCKS_EACH = 16, EVENTS = 200000 };
#define SEGMENT_BYTES (UINT64_C(2) << 20)

/* The process: segments with blocks in them, both of which come and go. */
struct model {
    struct {
        uint64_t made_ns; /* 0 = not there */
        uint64_t blocks_ns[BLOCKS_EACH];
    } segments[SEGMENTS];
    uint64_t state, t_ns;
    struct vt_event *events;
    size_t count, frees;
};

static unsigned below(struct model *model, unsigned limit)
{
    model->state = model->state * UINT64_C(6364136223846793005) + 1442695040888963407;
    return (unsigned)(model->state >> 33) % limit;
}

static void add(struct model *model, uint8_t kind, uint8_t layer, uint64_t address, uint64_t bytes)
{
    model->t_ns += 1000;
    model->events[model->count++] = (struct vt_event){.kind = kind,
                                                      .layer = layer,
                                                      .address = address,
                                                      .bytes = bytes,
                                                      .t_ns = model->t_ns,
                                                      .stack_id = 1 + below(model, 9),
                                                      .sequence = model->count / 500 % 2 + 2,
                                                      .thread_id = 7};
}

static uint64_t address_of(unsigned segment, unsigned block)
{
    return (UINT64_C(1) << 40) + segment * SEGMENT_BYTES + block * (SEGMENT_BYTES / BLOCKS_EACH);
}

static void step(struct model *model)
{
    const unsigned segment = below(model, SEGMENTS), block = below(model, BLOCKS_EACH);
    bool empty = true;
    for (unsigned i = 0; i < BLOCKS_EACH; i++)
        empty &= !model->segments[segment].blocks_ns[i];
    if (!model->segments[segment].made_ns) {
        add(model, VT_EVENT_ALLOC, VT_LAYER_DRIVER, address_of(segment, 0), SEGMENT_BYTES);
        model->segments[segment].made_ns = model->t_ns;
    } else if (model->segments[segment].blocks_ns[block]) {
        add(model, VT_EVENT_FREE, VT_LAYER_FRAMEWORK, address_of(segment, block), 512);
        model->segments[segment].blocks_ns[block] = 0;
    } else if (empty && below(model, 3) == 0) {
        add(model, VT_EVENT_FREE, VT_LAYER_DRIVER, address_of(segment, 0), 0);
        if (below(model, 4) == 0)
            add(model, VT_EVENT_FREE_FAILED, VT_LAYER_DRIVER, address_of(segment, 0), 0);
        else
            model->segments[segment].made_ns = 0;
    } else if (below(model, 40) != 0) {
        add(model, VT_EVENT_ALLOC, VT_LAYER_FRAMEWORK, address_of(segment, block), 512);
        model->segments[segment].blocks_ns[block] = model->t_ns;
    } else {
        static const uint8_t kinds[] = {VT_EVENT_NODE, VT_EVENT_POOL, VT_EVENT_RANGE_PUSH, VT_EVENT_RANGE_POP,
                                        VT_EVENT_MARK, VT_EVENT_OOM,  VT_EVENT_MEMORY_INFO};
        add(model, kinds[below(model, sizeof kinds)], VT_LAYER_NONE, 0, 0);
    }
}

static struct model *make_model(uint64_t seed)
{
    struct model *model = calloc(1, sizeof *model);
    model->state = seed;
    model->events = malloc((EVENTS + 2) * sizeof *model->events);
    while (model->count < EVENTS)
        step(model);
    return model;
}

static void free_model(struct model *model)
{
    free(model->events);
    free(model);
}

/* What is alive after the events; each block must lie in a segment that is alive. */
static void replay(const struct vt_event *events, size_t count, struct model *result)
{
    for (size_t i = 0; i < count; i++) {
        const struct vt_event *event = &events[i];
        const uint64_t offset = event->address - address_of(0, 0);
        const unsigned segment = (unsigned)(offset / SEGMENT_BYTES),
                       block = (unsigned)(offset % SEGMENT_BYTES / (SEGMENT_BYTES / BLOCKS_EACH));
        static uint64_t freed_ns[SEGMENTS];
        if (event->kind == VT_EVENT_FREE_FAILED) {
            result->segments[segment].made_ns = freed_ns[segment];
            continue;
        }
        if (event->kind != VT_EVENT_ALLOC && event->kind != VT_EVENT_FREE)
            continue;
        const bool makes = event->kind == VT_EVENT_ALLOC;
        uint64_t *alive = event->layer == VT_LAYER_DRIVER ? &result->segments[segment].made_ns
                                                          : &result->segments[segment].blocks_ns[block];
        cr_assert_eq(*alive != 0, !makes, "event %zu of %zu", i, count);
        if (event->layer == VT_LAYER_FRAMEWORK)
            cr_assert(result->segments[segment].made_ns, "event %zu: a block without memory", i);
        else
            freed_ns[segment] = *alive;
        *alive = makes ? event->t_ns : 0;
    }
}

static void assert_same_alive(const struct model *model, const struct vt_event *events, size_t count)
{
    struct model result = {0};
    replay(events, count, &result);
    cr_assert_eq(memcmp(result.segments, model->segments, sizeof result.segments), 0);
}

Test(digest, what_is_alive_is_there)
{
    for (uint64_t seed = 1; seed < 8; seed++) {
        struct model *model = make_model(seed);
        struct vt_digest digest = {0};
        vt_digest_begin(&digest, PASSES, true);
        for (size_t i = 0; i < model->count; i++)
            cr_assert(vt_digest_take(&digest, &model->events[i], NULL));
        cr_assert(vt_digest_end(&digest));
        assert_same_alive(model, digest.events, digest.count);
        cr_assert_lt(digest.count, model->count / 8);
        const struct vt_event *end = &digest.events[digest.count - 1];
        cr_assert_eq(digest.events[0].kind, VT_EVENT_GAP_BEGIN);
        cr_assert_eq(digest.events[0].t_ns, model->events[0].t_ns);
        cr_assert_eq(end->kind, VT_EVENT_GAP_END);
        size_t shown = 0, landmarks = 0;
        for (size_t i = 0; i < digest.count; i++) {
            shown += digest.events[i].kind == VT_EVENT_RAN;
            landmarks += vt_is_landmark(&digest.events[i]);
        }
        cr_assert_eq(end->detail + digest.count - 2 - landmarks, model->count);
        cr_assert_gt(shown, 100);
        cr_assert_leq(shown, 3 * PASSES + 2);
        cr_assert_eq(end->sequence, EVENTS / 1000);
        vt_digest_free(&digest);
        free_model(model);
    }
}

/* Gaps in a row become one, and so on; what lies between two gaps is whole. Passes that are not shown any
 * more are still counted. */
static void join_digests(size_t passes_maximum)
{
    enum { PARTS = 50 };
    struct model *model = make_model(99);
    struct vt_digest digest = {0};
    size_t count = 0, plain = 0;
    struct vt_event *kept = malloc(2 * EVENTS * sizeof *kept);
    for (size_t part = 0; part < PARTS; part++) {
        const struct vt_event *events = &model->events[part * (EVENTS / PARTS)];
        vt_digest_begin(&digest, passes_maximum, true);
        for (size_t i = 0; i < count; i++)
            cr_assert(vt_digest_take(&digest, &kept[i], NULL));
        for (size_t i = 0; i < EVENTS / PARTS; i++)
            cr_assert(vt_digest_take(&digest, &events[i], NULL));
        cr_assert(vt_digest_end(&digest));
        memcpy(kept, digest.events, digest.count * sizeof *kept);
        count = digest.count;
        plain += EVENTS / PARTS;
        uint64_t omitted = kept[count - 1].detail, there = 0;
        for (size_t i = 1; i + 1 < count; i++)
            there += !vt_is_landmark(&kept[i]);
        cr_assert_eq(omitted + there, plain);
    }
    cr_assert_eq(kept[count - 1].sequence, EVENTS / 1000);
    /* the model may have made two events more, which no part has */
    struct model *again = make_model(99);
    memset(again->segments, 0, sizeof again->segments);
    replay(model->events, EVENTS / PARTS * PARTS, again);
    assert_same_alive(again, kept, count);
    vt_digest_free(&digest);
    free(kept);
    free_model(again);
    free_model(model);
}

/* Whether the next block of a thread makes a node shows by what the thread did before it. */
Test(digest, each_threads_last_node)
{
    const struct vt_event parts[][2] = {
        {{.kind = VT_EVENT_NODE, .device_index = -1, .thread_id = 7, .stack_id = 70, .sequence = 10},
         {.kind = VT_EVENT_NODE, .device_index = -1, .thread_id = 8, .stack_id = 80, .sequence = 20}},
        {{.kind = VT_EVENT_ALLOC,
          .layer = VT_LAYER_FRAMEWORK,
          .thread_id = 7,
          .stack_id = 71,
          .sequence = 10},
         {.kind = VT_EVENT_FREE, .layer = VT_LAYER_FRAMEWORK, .thread_id = 7, .stack_id = 72}}};
    const struct vt_event expected[][2] = {
        {{.thread_id = 7, .stack_id = 70, .sequence = 10, .total_bytes = 70},
         {.thread_id = 8, .stack_id = 80, .sequence = 20, .total_bytes = 80}},
        {{.thread_id = 7, .stack_id = 71, .sequence = 10}}};
    struct vt_digest digest = {0}, whole = {0};
    vt_digest_begin(&whole, PASSES, true);
    for (size_t part = 0; part < 2; part++) {
        vt_digest_begin(&digest, PASSES, false);
        for (size_t i = 0; i < 2; i++)
            cr_assert(vt_digest_take(&digest, &parts[part][i], NULL));
        cr_assert(vt_digest_end(&digest));
        size_t last = 0;
        for (size_t i = 0; i < digest.count; i++) {
            const struct vt_event *event = &digest.events[i];
            cr_assert(vt_digest_take(&whole, event, NULL));
            if (event->kind != VT_EVENT_LAST)
                continue;
            cr_assert_eq(event->thread_id, expected[part][last].thread_id);
            cr_assert_eq(event->stack_id, expected[part][last].stack_id);
            cr_assert_eq(event->sequence, expected[part][last].sequence);
            cr_assert_eq(event->total_bytes, expected[part][last].total_bytes);
            last++;
        }
        cr_assert_eq(last, 2 - part);
    }
    cr_assert(vt_digest_end(&whole)); /* a digest of both */
    uint64_t node_stacks = 0;
    for (size_t i = 0; i < whole.count; i++)
        node_stacks += whole.events[i].kind == VT_EVENT_LAST ? whole.events[i].total_bytes : 0;
    cr_assert_eq(node_stacks, 80);
    vt_digest_free(&digest);
    vt_digest_free(&whole);
}

Test(digest, digests_of_digests)
{
    join_digests(PASSES);
    join_digests(20);
}

/* RMM beside PyTorch, in another thread: its blocks come in the middle of passes, and between them. */
Test(digest, passes_beside_a_framework_without_them)
{
    enum { STEPS = 1000 };
    struct vt_digest digest = {0};
    vt_digest_begin(&digest, PASSES, true);
    for (uint64_t i = 0; i < STEPS * 8; i++) {
        const uint64_t place = i % 8; /* forward, then backward; every second is the other's */
        const struct vt_event made = {.kind = VT_EVENT_ALLOC,
                                      .layer = VT_LAYER_FRAMEWORK,
                                      .flags = place % 2 ? VT_FLAG_UNCOUNTED : 0,
                                      .address = 4096 + i * 512,
                                      .bytes = 512,
                                      .t_ns = 1000 * i + 1,
                                      .stack_id = 1 + (uint32_t)place,
                                      .sequence = place % 2 ? 0 : 2 + place / 4,
                                      .thread_id = place % 2 ? 8 : 7};
        struct vt_event freed = made;
        freed.kind = VT_EVENT_FREE;
        cr_assert(vt_digest_take(&digest, &made, NULL) && vt_digest_take(&digest, &freed, NULL));
    }
    cr_assert(vt_digest_end(&digest));
    cr_assert_eq(digest.events[digest.count - 1].sequence, STEPS);
    for (size_t i = 0; i < digest.count; i++)
        cr_assert(digest.events[i].kind != VT_EVENT_RAN || !(digest.events[i].flags & VT_FLAG_UNCOUNTED));
    vt_digest_free(&digest);
}

/* Training for a week: what a gap holds does not grow. */
Test(digest, a_long_digest_stays_small)
{
    struct vt_digest digest = {0};
    vt_digest_begin(&digest, PASSES, true);
    for (uint64_t i = 0; i < 3000000; i++) {
        const uint64_t address = 4096 + i / 2 % 64 * 512;
        cr_assert(vt_digest_take(&digest,
                                 &(struct vt_event){.kind = i % 2 ? VT_EVENT_FREE : VT_EVENT_ALLOC,
                                                    .layer = VT_LAYER_FRAMEWORK,
                                                    .address = address,
                                                    .bytes = 512,
                                                    .t_ns = i,
                                                    .stack_id = 3,
                                                    .sequence = i / 100 % 2 + 2,
                                                    .thread_id = 1},
                                 0));
        if (i % 100 == 99)
            cr_assert(vt_digest_take(&digest,
                                     &(struct vt_event){.kind = VT_EVENT_MARK, .detail = 5, .t_ns = i}, 0));
    }
    cr_assert_lt(digest.capacity, 100000);
    cr_assert(vt_digest_end(&digest));
    cr_assert_leq(digest.count, 3 * PASSES + VT_DIGEST_NOTES + 5);
    cr_assert_eq(digest.events[digest.count - 1].sequence, 15000);
    vt_digest_free(&digest);
}

/* What each event's block is made or freed by, among these events; as chunk.c finds it. */
static void find_pairs(const struct vt_event *const *events, size_t count, uint32_t *pairs)
{
    memset(pairs, 0, count * sizeof *pairs);
    for (size_t i = 0; i < count; i++)
        for (size_t k = i;
             events[i]->layer == VT_LAYER_FRAMEWORK && events[i]->kind == VT_EVENT_FREE && k-- > 0;)
            if (events[k]->layer == VT_LAYER_FRAMEWORK && events[k]->address == events[i]->address) {
                if (events[k]->kind == VT_EVENT_ALLOC) {
                    pairs[i] = (uint32_t)k + 1;
                    pairs[k] = (uint32_t)i + 1;
                }
                break;
            }
}

/* Blocks that come and go within a chunk are passed over: the digest is the same. */
Test(digest, in_one_go_as_one_by_one)
{
    enum { CHUNK = 1000 };
    static uint32_t pairs[CHUNK];
    static const struct vt_event *pointers[CHUNK];
    const struct vt_models models = {0};
    for (uint64_t seed = 1; seed < 4; seed++) {
        struct model *model = make_model(seed);
        struct vt_digest single = {0}, all = {0};
        uint64_t total[2] = {0}; /* of two frameworks, one of which does not count */
        for (size_t i = 0; i < model->count; i++) {
            struct vt_event *event = &model->events[i];
            if (event->layer != VT_LAYER_FRAMEWORK)
                continue;
            const size_t which = seed == 3 && event->address / (SEGMENT_BYTES / BLOCKS_EACH) % 5 == 0;
            total[which] += event->kind == VT_EVENT_ALLOC ? event->bytes : 0 - event->bytes;
            event->total_bytes = total[which];
            event->flags = which ? VT_FLAG_UNCOUNTED : 0;
        }
        vt_digest_begin(&single, PASSES, true);
        vt_digest_begin(&all, PASSES, true);
        for (size_t first = 0; first + CHUNK <= model->count; first += CHUNK) {
            for (size_t i = 0; i < CHUNK; i++) {
                pointers[i] = &model->events[first + i];
                cr_assert(vt_digest_take(&single, pointers[i], NULL));
            }
            find_pairs(pointers, CHUNK, pairs);
            cr_assert(vt_digest_take_all(&all, pointers, CHUNK, pairs, &models));
        }
        cr_assert(vt_digest_end(&single) && vt_digest_end(&all));
        cr_assert_eq(single.count, all.count);
        cr_assert_eq(memcmp(single.events, all.events, all.count * sizeof *all.events), 0);
        cr_assert_eq(single.event_count, all.event_count);
        cr_assert_eq(memcmp(single.kinds, all.kinds, sizeof all.kinds), 0);
        cr_assert_eq(memcmp(single.block_peaks, all.block_peaks, sizeof all.block_peaks), 0);
        cr_assert_eq(memcmp(single.driver_peaks, all.driver_peaks, sizeof all.driver_peaks), 0);
        vt_digest_free(&single);
        vt_digest_free(&all);
        free_model(model);
    }
}

/* A process whose events are lost for days: each fourth is missing here. */
Test(digest, losses_do_not_fill_it)
{
    enum { UNMATCHED = 1000 };
    struct vt_digest digest = {0};
    uint64_t state = 1;
    bool alive[128] = {false};
    vt_digest_begin(&digest, PASSES, true);
    digest.unmatched_maximum = UNMATCHED;
    for (uint64_t i = 0; i < 4000000; i++) {
        state = state * UINT64_C(6364136223846793005) + 1442695040888963407;
        const unsigned block = (unsigned)(state >> 40) % 128;
        const struct vt_event event = {.kind = alive[block] ? VT_EVENT_FREE : VT_EVENT_ALLOC,
                                       .layer = VT_LAYER_FRAMEWORK,
                                       .address = 4096 + block * 512,
                                       .bytes = 512,
                                       .t_ns = i,
                                       .stack_id = 3,
                                       .sequence = 2,
                                       .thread_id = 1};
        alive[block] = !alive[block];
        if (state >> 33 & 3)
            cr_assert(vt_digest_take(&digest, &event, NULL), "at event %d", (int)i);
    }
    cr_assert(vt_digest_end(&digest));
    cr_assert_leq(digest.count, 2 * UNMATCHED + 128 + 10);
    vt_digest_free(&digest);
}
