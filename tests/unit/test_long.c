/* Long traces, of which some chains are read whole and of the others digests: what is alive at each event of
 * a whole chain, against a plain replay of all events; which chains are chosen; and what damage costs. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "format/checksum.h"
#include "trace/digest_events.h"
#include "trace/reading_plan.h"
#include "trace_builder.h"

enum {
    EVENTS = 30000,
    CHAIN = 200,
    CHUNK = 77,
    MANY = 60000, /* in chains so short that there are digests of level 3, */
    SHORT = 4,
    PEAK = 100, /* and the peaks come before this event */
    ADDRESSES = 40,
    DEVICES = 2,
    TICK_NS = 256,
    FAILED = 9000,
};

static uint64_t random_state = 88172645463325252u;

static uint32_t random_below(uint32_t limit)
{
    random_state ^= random_state << 13, random_state ^= random_state >> 7, random_state ^= random_state << 17;
    return (uint32_t)(random_state >> 33) % limit;
}

/* Blocks come and go; now and then something else happens. t_ns is TICK_NS times the
 * event's number + 1. */
static void make_events(struct vt_event *events, uint32_t count)
{
    uint64_t alive[ADDRESSES] = {0}, total[DEVICES] = {0};
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t address = random_below(ADDRESSES);
        const int device = (int)(address % DEVICES);
        events[i] = (struct vt_event){.t_ns = TICK_NS * (i + 1), .layer = VT_LAYER_FRAMEWORK, .stack_id = 1};
        if (i == FAILED || random_below(50) == 0) {
            events[i].kind = i == FAILED ? VT_EVENT_ALLOC_FAILED : VT_EVENT_MARK;
            events[i].layer = VT_LAYER_NONE;
            events[i].device_index = -1;
            continue;
        }
        const bool frees = alive[address] != 0;
        events[i].kind = frees ? VT_EVENT_FREE : VT_EVENT_ALLOC;
        events[i].address = (address + 1) * 4096;
        events[i].bytes =
            frees ? alive[address] : 512 * (1 + random_below(9) + (count == MANY && i < PEAK ? MANY : 0));
        total[device] += frees ? 0 - events[i].bytes : events[i].bytes - alive[address];
        alive[address] = frees ? 0 : events[i].bytes;
        events[i].device_index = (int8_t)device;
        events[i].detail = 1 << 20;
        events[i].total_bytes = total[device];
    }
}

struct written {
    struct builder *builder;
    const char *path;
    struct vt_event *events;
};

static struct written write_chains(uint32_t count, uint32_t chain)
{
    struct written written = {builder_new(64), NULL, malloc(count * sizeof *written.events)};
    make_events(written.events, count);
    builder_set_chain_events(written.builder, chain);
    builder_stack(written.builder, 7, NULL, 0, NULL, 0);
    for (uint32_t i = 0; i < count; i++) {
        builder_event(written.builder, written.events[i]);
        if (i % CHUNK == CHUNK - 1) { /* most chains have several chunks, of definitions at least */
            builder_string(written.builder, "later");
            builder_end_chunk(written.builder);
        }
    }
    written.path = builder_write(written.builder);
    return written;
}

static struct written write_trace(void)
{
    return write_chains(EVENTS, CHAIN);
}

static void free_written(struct written *written)
{
    builder_free(written->builder);
    free(written->events);
}

static struct vt_trace *open_part(const char *path, uint64_t budget, const struct vt_window *asked,
                                  size_t count)
{
    char error[512];
    struct vt_trace *trace;
    const struct vt_reading reading = {.budget_events = budget, .asked = asked, .asked_count = count};
    cr_assert_eq(vt_trace_open(path, &reading, &trace, error, sizeof error), 0, "%s", error);
    return trace;
}

/* By address: the time when the block there was made. */
static void replay(uint64_t *alive, const struct vt_event *event)
{
    if (event->layer == VT_LAYER_FRAMEWORK && (event->kind == VT_EVENT_ALLOC || event->kind == VT_EVENT_FREE))
        alive[event->address / 4096 - 1] = event->kind == VT_EVENT_ALLOC ? event->t_ns : 0;
}

/* Compares at each event of a whole chain. Returns how many events were there with all that was alive. */
static size_t compare(const struct vt_trace *trace, const struct vt_event *events, uint64_t count)
{
    uint64_t all[ADDRESSES] = {0}, kept[ADDRESSES] = {0};
    size_t next = 0, whole = 0, gap = 0;
    for (uint64_t i = 0; i < count; i++) {
        replay(all, &events[i]);
        while (next < trace->event_count && trace->events[next].t_ns <= events[i].t_ns) {
            const struct vt_event *own = &trace->events[next];
            replay(kept, own);
            if (vt_is_in_window(trace->gaps, trace->gap_count, (uint32_t)next, &gap)) {
                cr_assert_eq(own->t_ns, events[i].t_ns);
                cr_assert_eq(own->total_bytes, events[i].total_bytes);
                cr_assert_eq(vt_trace_event_number(trace, (uint32_t)next), i);
                cr_assert(!memcmp(all, kept, sizeof all), "event %d", (int)i);
                whole++;
            }
            next++;
        }
    }
    cr_assert_eq(next, trace->event_count);
    return whole;
}

static bool is_whole(const struct vt_trace *trace, uint64_t event)
{
    size_t gap = 0;
    for (uint32_t i = 0; i < trace->event_count; i++)
        if (vt_is_in_window(trace->gaps, trace->gap_count, i, &gap) &&
            vt_trace_event_number(trace, i) == event)
            return true;
    return false;
}

Test(long, whole_chains_have_all_that_is_alive)
{
    for (int round = 0; round < 5; round++) {
        struct written written = write_trace();
        for (uint64_t budget = 1; budget < EVENTS * 2; budget *= 4) {
            struct vt_trace *trace = open_part(written.path, budget, NULL, 0);
            const size_t whole = compare(trace, written.events, EVENTS);
            cr_assert_eq(trace->recorded_events, EVENTS);
            cr_assert_eq(whole == EVENTS, budget >= EVENTS);
            cr_assert_eq(trace->gap_count == 0, budget >= EVENTS);
            vt_trace_close(trace);
        }
        free_written(&written);
    }
}

Test(long, what_every_report_needs_is_whole)
{
    struct written written = write_trace();
    const struct vt_window asked = {12345, 12346};
    struct vt_trace *trace = open_part(written.path, 3000, &asked, 1);
    uint64_t needed[] = {0, CHAIN, EVENTS - 1, EVENTS - CHAIN, FAILED, asked.first, 0, 0};
    for (uint64_t device = 0; device < DEVICES; device++) {
        uint64_t *peak = &needed[6 + device];
        for (uint64_t i = 0; i < EVENTS; i++)
            if (written.events[i].layer == VT_LAYER_FRAMEWORK &&
                written.events[i].device_index == (int)device &&
                written.events[i].total_bytes > written.events[*peak].total_bytes)
                *peak = i;
    }
    for (size_t i = 0; i < sizeof needed / sizeof *needed; i++)
        cr_assert(is_whole(trace, needed[i]), "event %d", (int)needed[i]);
    cr_assert_gt(trace->omitted_events, EVENTS / 2);
    vt_trace_close(trace);
    free_written(&written);
}

/* A damaged chain is replaced by its digest: everything after it is right. `offset`: of the damage, in the
 * header of the chain's chunk in this place; SIZE_MAX: in the middle of what is stored. */
static void damage_chains(uint32_t place, size_t offset)
{
    struct written written = write_trace();
    size_t bytes, places = 0;
    uint64_t events = 0; /* of the chain */
    const uint8_t *image = builder_image(written.builder, &bytes);
    uint8_t *damaged = malloc(bytes), *hit = NULL;
    for (uint64_t at = VT_HEADER_BYTES; at < bytes;) {
        const struct vt_chunk_header *head = (const void *)(image + at);
        const uint64_t stored = at + head->header_bytes;
        events = head->level == 0 ? head->events + (head->place ? events : 0) : events;
        if (head->level == 0 && head->place == place && ++places % 20 == 0)
            hit = damaged + (offset == SIZE_MAX ? stored + head->stored_bytes / 2 : at + offset);
        if (head->level == 1 && head->place == 0 && hit) {
            memcpy(damaged, image, bytes);
            *hit ^= 0x55;
            hit = NULL;
            struct vt_trace *trace =
                open_part(builder_write_bytes(written.builder, damaged, bytes), 2 * EVENTS, NULL, 0);
            cr_assert_eq(trace->recorded_events, EVENTS, "place %d, offset %zd, chain %zu", (int)place,
                         offset, places);
            cr_assert(trace->truncated);
            cr_assert_eq(trace->recorded_events, EVENTS);
            cr_assert_eq(trace->gap_count, 1);
            cr_assert_eq(trace->unkept_events, 0);
            cr_assert_eq(compare(trace, written.events, EVENTS), EVENTS - events);
            vt_trace_close(trace);
        }
        at = stored + head->stored_bytes;
    }
    cr_assert_gt(places, 20);
    free(damaged);
    free_written(&written);
}

Test(long, damage_costs_one_chain)
{
    static const size_t offsets[] = {
        SIZE_MAX, offsetof(struct vt_chunk_header, magic), offsetof(struct vt_chunk_header, stored_bytes) + 3,
        offsetof(struct vt_chunk_header, events), offsetof(struct vt_chunk_header, chain)};
    for (size_t i = 0; i < sizeof offsets / sizeof *offsets; i++)
        for (uint32_t place = 0; place < 3; place++)
            damage_chains(place, offsets[i]);
}

/* Where a digest's last event should be is another one, with the right checksum: what follows it is no part
 * of it. */
Test(long, digest_without_end_ends_with_its_chunks)
{
    struct written written = write_trace();
    size_t bytes, digests = 0;
    const uint8_t *image = builder_image(written.builder, &bytes);
    uint8_t *damaged = malloc(bytes);
    memcpy(damaged, image, bytes);
    for (uint64_t at = VT_HEADER_BYTES; at < bytes;) {
        struct vt_chunk_header *head = (void *)(damaged + at);
        const uint8_t *stored = damaged + at + head->header_bytes;
        if (head->level == 1 && head->events > 10 && ++digests % 3 == 0) {
            head->events -= digests % 2 ? 1 : 7;
            head->checksum = vt_chunk_checksum(head, stored);
        }
        at = (uint64_t)(stored - damaged) + head->stored_bytes;
    }
    struct vt_trace *trace = open_part(builder_write_bytes(written.builder, damaged, bytes), 3000, NULL, 0);
    size_t gap = 0, marks = 0;
    for (uint32_t i = 0; i < trace->event_count; i++) {
        const struct vt_event *event = &trace->events[i];
        const bool whole = vt_is_in_window(trace->gaps, trace->gap_count, i, &gap);
        const uint64_t number = vt_trace_event_number(trace, i);
        cr_assert_eq(whole, !event->head_start);
        cr_assert(!i || number > vt_trace_event_number(trace, i - 1) ||
                  (number == vt_trace_event_number(trace, i - 1) &&
                   (!whole || trace->events[i - 1].head_start)));
        marks += whole && event->kind == VT_EVENT_MARK;
    }
    cr_assert_gt(marks, 10);
    cr_assert_gt(digests, 100);
    vt_trace_close(trace);
    free(damaged);
    free_written(&written);
}

struct chosen {
    size_t digests[VT_DIGEST_LEVELS + 1]; /* that are read, by level; [0]: chains */
    uint64_t events;                      /* that these digests have */
    uint64_t of_events;                   /* that all of them are of */
};

static struct chosen choose(struct vt_reading_plan *plan, uint64_t budget)
{
    struct chosen chosen = {0};
    vt_plan_choose(plan, budget, NULL, 0);
    for (size_t i = 0; i < plan->chain_count; i++)
        if (plan->chains[i].part == VT_PLAN_EVENTS) {
            chosen.digests[plan->chains[i].level]++;
            chosen.events += plan->chains[i].level ? plan->chains[i].stored_events : 0;
            chosen.of_events += plan->chains[i].events;
        }
    vt_plan_free(plan);
    return chosen;
}

static struct chosen choose_of_file(const char *path, uint64_t budget)
{
    struct vt_file_header header;
    struct vt_reading_plan plan = {0};
    FILE *file = fopen(path, "rb");
    cr_assert_eq(fread(&header, sizeof header, 1, file), 1);
    vt_plan_find(&plan, fileno(file), &header);
    const struct chosen chosen = choose(&plan, budget);
    fclose(file);
    return chosen;
}

/* With digests of higher levels, whole chains have all that is alive, too. */
Test(long, digests_of_higher_levels)
{
    struct written written = write_chains(MANY, SHORT);
    for (uint64_t budget = 20; budget < 2 * MANY; budget *= 3) {
        const struct chosen chosen = choose_of_file(written.path, budget);
        struct vt_trace *trace = open_part(written.path, budget, NULL, 0);
        cr_assert_eq(chosen.of_events, MANY);
        cr_assert_eq(chosen.digests[3] > 0, budget < 100, "%d", (int)budget);
        cr_assert_eq(chosen.digests[2] > 0, budget < 2000, "%d", (int)budget);
        cr_assert_eq(trace->recorded_events, MANY);
        cr_assert_gt(compare(trace, written.events, MANY), SHORT * 4);
        vt_trace_close(trace);
    }
    free_written(&written);
}

/* No more of them than need be, since they show less. */
Test(long, too_many_digests)
{
    enum { CHAINS = 1024, LENGTH = 131072, DIGEST = 3000, OF_MANY = 5000, BUDGET = 2000000 };
    struct vt_reading_plan plan = {.events = (uint64_t)CHAINS * LENGTH};
    plan.chains = calloc(3 * CHAINS, sizeof *plan.chains);
    for (uint64_t i = 0; i < CHAINS; i++) {
        struct vt_planned_chain chain = {.id = i, .first_event = i * LENGTH, .events = LENGTH};
        plan.chains[plan.chain_count++] = chain;
        chain.level = 1;
        chain.stored_events = DIGEST;
        plan.chains[plan.chain_count++] = chain;
        if (i % VT_DIGESTS_IN_ONE == VT_DIGESTS_IN_ONE - 1)
            plan.chains[plan.chain_count++] =
                (struct vt_planned_chain){.id = i + 1 - VT_DIGESTS_IN_ONE,
                                          .first_event = (i + 1 - VT_DIGESTS_IN_ONE) * LENGTH,
                                          .events = VT_DIGESTS_IN_ONE * LENGTH,
                                          .level = 2,
                                          .stored_events = OF_MANY};
    }
    const struct chosen chosen = choose(&plan, BUDGET);
    cr_assert_eq(chosen.of_events, (uint64_t)CHAINS * LENGTH);
    cr_assert_leq(chosen.events, BUDGET / 2);
    cr_assert_gt(chosen.events, BUDGET / 2 - VT_DIGESTS_IN_ONE * DIGEST);
    cr_assert_gt(chosen.digests[2], 4);
}
