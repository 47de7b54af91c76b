/* What the peak would have been. */
#include <criterion/criterion.h>

#include "findings/whatif.h"

#define EVENTS 8
#define HUGE (UINT64_C(3) << 61)

static struct vt_event events[EVENTS];
static struct vt_trace trace = {.events = events, .event_count = EVENTS};

static struct vt_allocation block(uint32_t alloc_event, uint32_t free_event, uint64_t bytes)
{
    return (struct vt_allocation){
        .kind = VT_ALLOCATION_BLOCK, .alloc_event = alloc_event, .free_event = free_event, .bytes = bytes};
}

Test(whatif, tells_the_peak_and_what_it_would_be)
{
    struct vt_allocation blocks[] = {block(0, VT_NEVER, 100), block(1, 5, 1000), block(2, 4, 500)};
    struct vt_replay replay = {.trace = &trace, .allocations = blocks, .allocation_count = 3};
    struct vt_whatif whatif;
    vt_whatif_make(&replay, 0, &whatif);
    cr_assert_eq(whatif.peak_bytes, 1600);
    cr_assert_eq(whatif.peak_event, 2);
    vt_whatif_less(&whatif, NULL, 1, 5, 1000);
    cr_assert_eq(vt_whatif_saves(&whatif), 1000);
    vt_whatif_less(&whatif, NULL, 1, 3, 1000); /* but not at 3, before the last is freed */
    cr_assert_eq(vt_whatif_saves(&whatif), 0);
    vt_whatif_less(&whatif, NULL, 0, VT_NEVER, 50);
    vt_whatif_less(&whatif, NULL, 2, 3, 0 - UINT64_C(20)); /* more */
    cr_assert_eq(vt_whatif_saves(&whatif), 30);
    const struct vt_saving *savings = whatif.savings.items; /* from an event on */
    cr_assert_eq(whatif.savings.count, 3);
    cr_assert(savings[0].event == 0 && savings[0].bytes == 50);
    cr_assert(savings[1].event == 2 && savings[1].bytes == 30);
    cr_assert(savings[2].event == 3 && savings[2].bytes == 50);
    vt_whatif_free(&whatif);
}

/* Sizes that no device has: any answer will do, but there is one. (This test is built so that a signed
 * overflow ends it.) */
Test(whatif, sums_may_overflow)
{
    struct vt_allocation blocks[] = {block(0, VT_NEVER, HUGE), block(1, 5, HUGE), block(2, 4, HUGE),
                                     block(3, 6, HUGE)};
    struct vt_replay replay = {.trace = &trace, .allocations = blocks, .allocation_count = 4};
    struct vt_whatif whatif;
    vt_whatif_make(&replay, 0, &whatif);
    for (uint32_t i = 0; i < EVENTS; i++)
        vt_whatif_less(&whatif, NULL, i, VT_NEVER, HUGE);
    for (uint32_t i = 0; i < EVENTS; i++)
        vt_whatif_less(&whatif, NULL, i, i + 1, 0 - HUGE);
    vt_whatif_saves(&whatif);
    vt_whatif_free(&whatif);
}
