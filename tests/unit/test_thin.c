/* Thinning: what is alive at each event of a window, and which windows are chosen, against a plain replay of
 * all events. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "trace/thin.h"

#define EVENTS 6000
#define ADDRESSES 40
#define DEVICES 2

static uint64_t random_state = 88172645463325252u;

static uint32_t random_below(uint32_t limit)
{
    random_state ^= random_state << 13, random_state ^= random_state >> 7, random_state ^= random_state << 17;
    return (uint32_t)(random_state >> 33) % limit;
}

/* Blocks of one size come and go; now and then something else happens, and a free is lost. t_ns is the
 * event's number. */
static void make_events(struct vt_event *events, size_t count)
{
    bool alive[ADDRESSES] = {false};
    for (size_t i = 0; i < count; i++) {
        uint32_t address = random_below(ADDRESSES);
        events[i] = (struct vt_event){.t_ns = i, .layer = VT_LAYER_FRAMEWORK, .stack_id = 1, .bytes = 512};
        if (random_below(50) == 0) {
            events[i].kind = VT_EVENT_MARK;
            events[i].layer = VT_LAYER_NONE;
            continue;
        }
        events[i].kind = alive[address] && random_below(200) ? VT_EVENT_FREE : VT_EVENT_ALLOC;
        events[i].address = (address + 1) * 4096;
        events[i].bytes = events[i].kind == VT_EVENT_ALLOC ? 512 * (1 + random_below(9)) : 0;
        events[i].device_index = (int8_t)(address % DEVICES);
        events[i].detail = events[i].total_bytes = 1;
        alive[address] = events[i].kind == VT_EVENT_ALLOC;
    }
}

/* By address: number of the event that made the block there + 1. */
static void replay(uint64_t *alive, const struct vt_event *event)
{
    if (event->layer == VT_LAYER_FRAMEWORK)
        alive[event->address / 4096 - 1] = event->kind == VT_EVENT_ALLOC ? event->t_ns + 1 : 0;
}

/* What blocks have on each device. */
struct totals {
    uint64_t bytes[ADDRESSES], after[DEVICES], between[DEVICES];
};

static void add_up(struct totals *totals, const struct vt_event *event)
{
    if (event->layer != VT_LAYER_FRAMEWORK)
        return;
    uint64_t *bytes = &totals->bytes[event->address / 4096 - 1];
    totals->after[event->device_index] += event->bytes - *bytes;
    *bytes = event->bytes;
}

static size_t make_windows(struct vt_window *windows, uint64_t count)
{
    size_t made = 0;
    for (uint64_t at = random_below(200); at < count; at += random_below(600) + 1) {
        windows[made] = (struct vt_window){at, at + 1 + random_below(2) * random_below(100)};
        at = windows[made++].end + 1;
    }
    return made;
}

static bool is_inside(const struct vt_window *windows, size_t count, uint64_t event)
{
    for (size_t i = 0; i < count; i++)
        if (event >= windows[i].first && event < windows[i].end)
            return true;
    return false;
}

Test(thin, windows_are_complete)
{
    static struct vt_event events[EVENTS];
    static struct vt_window windows[EVENTS];
    for (int round = 0; round < 30; round++) {
        uint64_t all[ADDRESSES] = {0}, kept[ADDRESSES] = {0};
        struct totals totals = {0};
        make_events(events, EVENTS);
        struct vt_thinner thinner = {.windows = windows, .window_count = make_windows(windows, EVENTS)};
        const size_t window_count = thinner.window_count;
        for (size_t i = 0; i < EVENTS; i += 1000) /* in any portions */
            cr_assert_eq(vt_thin_take(&thinner, events + i, 1000), 0);
        vt_thin_end(&thinner);
        size_t next = 0, gap = 0;
        for (uint64_t i = 0; i < EVENTS; i++) {
            bool inside = is_inside(windows, window_count, i);
            uint64_t *between = &totals.between[events[i].device_index];
            replay(all, &events[i]);
            add_up(&totals, &events[i]);
            if (next == thinner.count || thinner.numbers[next] != i) {
                cr_assert(!inside, "an event of a window is missing");
                cr_assert_neq(events[i].kind, VT_EVENT_MARK, "not a block");
                if (totals.after[events[i].device_index] > *between)
                    *between = totals.after[events[i].device_index];
                continue;
            }
            if (events[i].kind != VT_EVENT_MARK) {
                cr_assert_eq(thinner.bytes[next].after, totals.after[events[i].device_index]);
                cr_assert_eq(thinner.bytes[next].between, *between, "event %d", (int)i);
                *between = 0;
            }
            const struct vt_event *own = &thinner.events[next];
            cr_assert_eq(own->t_ns, i, "its number is its own");
            replay(kept, own);
            cr_assert_eq(vt_is_in_window(thinner.gaps, thinner.gap_count, (uint32_t)next, &gap), inside);
            cr_assert(!inside || !memcmp(all, kept, sizeof all), "event %d", (int)i);
            cr_assert_eq(own->total_bytes, inside && own->kind != VT_EVENT_MARK, "counts of all blocks");
            next++;
        }
        cr_assert_eq(next, thinner.count);
        cr_assert_eq(thinner.count + thinner.omitted_events, EVENTS);
        cr_assert_eq(thinner.omitted_events, 2 * thinner.omitted_blocks);
        cr_assert_gt(thinner.omitted_events, EVENTS / 4);
        vt_thin_free(&thinner);
        free(thinner.events);
        free(thinner.numbers);
        free(thinner.bytes);
        free(thinner.gaps);
    }
}

static const struct vt_event *find(const struct vt_thinner *thinner, uint64_t number)
{
    for (size_t i = 0; i < thinner->count; i++)
        if (thinner->numbers[i] == number)
            return &thinner->events[i];
    return NULL;
}

/* In a gap, the first block of each kind of code stays, and the first of backward that another thread frees.
 */
Test(thin, passes_stay_recognisable)
{
    static const uint8_t kinds[] = {VT_STACK_OTHER, VT_STACK_FORWARD, VT_STACK_BACKWARD};
    static const struct {
        uint32_t stack, thread, slot;
        bool frees, stays;
    } steps[] = {
        {1, 1, 1, false, true},  {1, 1, 2, false, false}, {1, 1, 2, true, false}, {2, 2, 3, false, true},
        {2, 2, 4, false, false}, {2, 2, 4, true, false},  {2, 2, 5, false, true}, {2, 2, 6, false, false},
        {0, 1, 1, true, true},   {0, 2, 3, true, true},   {0, 1, 5, true, true},  {0, 1, 6, true, false},
    };
    struct vt_thinner thinner = {.kinds = kinds, .kind_count = 3};
    struct vt_window none = {100, 101};
    size_t count = sizeof steps / sizeof *steps;
    thinner.windows = &none;
    thinner.window_count = 1;
    /* sizes are no reason to stay */
    struct vt_event first = {
        .kind = VT_EVENT_ALLOC, .layer = VT_LAYER_FRAMEWORK, .address = 99 * 4096, .bytes = 512};
    for (first.stack_id = 1; first.stack_id <= 2; first.stack_id++) {
        first.address += 4096;
        cr_assert_eq(vt_thin_take(&thinner, &first, 1), 0);
    }
    thinner.devices[0].kind = VT_STACK_OTHER;
    for (size_t i = 0; i < count; i++) {
        struct vt_event event = {.kind = steps[i].frees ? VT_EVENT_FREE : VT_EVENT_ALLOC,
                                 .layer = VT_LAYER_FRAMEWORK,
                                 .address = steps[i].slot * 4096,
                                 .bytes = 512,
                                 .stack_id = steps[i].stack,
                                 .thread_id = steps[i].thread};
        cr_assert_eq(vt_thin_take(&thinner, &event, 1), 0);
    }
    vt_thin_end(&thinner);
    for (size_t i = 0; i < count; i++)
        cr_expect_eq(find(&thinner, i + 2) != NULL, steps[i].stays, "event %zu", i);
    vt_thin_free(&thinner);
    free(thinner.events);
    free(thinner.numbers);
    free(thinner.bytes);
    free(thinner.gaps);
}

/* A block that stays has the node of one that does not: the maker stays as the node's event. */
Test(thin, makers_of_nodes_stay)
{
    static const struct {
        uint8_t kind;
        uint32_t slot, thread;
        uint64_t sequence;
        bool stays;
    } steps[] = {
        {VT_EVENT_ALLOC, 1, 1, 4, true},  /* left out, but shows node 4, which the next one has */
        {VT_EVENT_ALLOC, 2, 1, 4, true},  /* is never freed */
        {VT_EVENT_ALLOC, 3, 1, 6, false}, /* shows a node that none has that stays */
        {VT_EVENT_NODE, 0, 1, 8, false},   {VT_EVENT_NODE, 0, 1, 10, true},
        {VT_EVENT_ALLOC, 4, 1, 10, true},  {VT_EVENT_ALLOC, 5, 2, 10, true}, /* another thread's own */
        {VT_EVENT_ALLOC, 6, 1, 12, false}, {VT_EVENT_ALLOC, 7, 1, 14, true}, /* what comes next may have it */
        {VT_EVENT_FREE, 1, 1, 0, false},   {VT_EVENT_FREE, 3, 1, 0, false},
        {VT_EVENT_FREE, 6, 1, 0, false},   {VT_EVENT_FREE, 7, 1, 0, false},
    };
    static const uint8_t kinds[] = {VT_STACK_OTHER};
    struct vt_window none = {100, 101};
    struct vt_thinner thinner = {.kinds = kinds, .windows = &none, .window_count = 1};
    size_t count = sizeof steps / sizeof *steps;
    for (size_t i = 0; i < count; i++) {
        bool is_node = steps[i].kind == VT_EVENT_NODE;
        struct vt_event event = {.kind = steps[i].kind,
                                 .layer = is_node ? VT_LAYER_NONE : VT_LAYER_FRAMEWORK,
                                 .address = steps[i].slot * 4096,
                                 .bytes = is_node ? 0 : 512,
                                 .sequence = steps[i].sequence,
                                 .thread_id = steps[i].thread};
        cr_assert_eq(vt_thin_take(&thinner, &event, 1), 0);
    }
    vt_thin_end(&thinner);
    for (size_t i = 0; i < count; i++)
        cr_expect_eq(find(&thinner, i) != NULL, steps[i].stays, "event %zu", i);
    cr_expect_eq(find(&thinner, 0)->kind, VT_EVENT_NODE);
    cr_expect_eq(find(&thinner, 0)->bytes, VT_NODE_OF_BLOCK);
    cr_expect_eq(find(&thinner, 4)->bytes, 0);
    for (size_t i = 0; i < thinner.count; i++)
        cr_expect_eq(thinner.events[i].head_start, 0);
    cr_expect_eq(thinner.count + thinner.omitted_events, count);
    vt_thin_free(&thinner);
    free(thinner.events);
    free(thinner.numbers);
    free(thinner.bytes);
    free(thinner.gaps);
}

/* The peak, the ends, refusals, and the largest moment of each part of the run. */
Test(thin, windows_have_the_peak)
{
    static struct vt_event events[EVENTS];
    for (int round = 0; round < 20; round++) {
        struct vt_survey survey = {.budget = 1000};
        struct vt_window *windows;
        uint64_t alive[ADDRESSES] = {0}, most = 0, peak = 0;
        size_t count, now = 0;
        make_events(events, EVENTS);
        for (size_t i = 0; i < EVENTS; i++) { /* blocks of one size, of one device */
            events[i].device_index = 0;
            events[i].bytes = 512;
        }
        events[3000].kind = VT_EVENT_OOM;
        events[3000].layer = VT_LAYER_NONE;
        vt_survey_reach(&survey, 2);
        vt_survey_take(&survey, events, EVENTS);
        for (uint64_t i = 0; i < EVENTS; i++, now = 0) {
            replay(alive, &events[i]);
            for (size_t k = 0; k < ADDRESSES; k++)
                now += alive[k] != 0;
            peak = now > most ? i : peak;
            most = now > most ? now : most;
        }
        cr_assert_eq(survey.devices[0]->peak_event, peak);
        cr_assert_eq(survey.devices[0]->peak_bytes, most * 512);
        cr_assert_eq(survey.kinds[VT_EVENT_OOM][0], 1);
        count = vt_survey_windows(&survey, NULL, 0, &windows);
        cr_assert(is_inside(windows, count, peak) && is_inside(windows, count, 0));
        cr_assert(is_inside(windows, count, EVENTS - 1) && is_inside(windows, count, 3000));
        for (size_t i = 0; i < count; i++)
            cr_assert(windows[i].first < windows[i].end && windows[i].end <= EVENTS &&
                      (i == 0 || windows[i - 1].end < windows[i].first));
        free(windows);
        vt_survey_free(&survey);
    }
}
