/* Why memory ran out: failures and their outcome, holes, the peak without some bytes. */
#include <criterion/criterion.h>
#include <stdlib.h>

#include "attribute/failures.h"
#include "findings/advice.h"
#include "findings/fragmentation.h"
#include "findings/whatif.h"
#include "fake.h"

static uint32_t refuse(struct fake *fake, double seconds, uint64_t bytes)
{
    uint32_t event = fake_event(fake, seconds, VT_EVENT_ALLOC_FAILED, VT_LAYER_DRIVER, bytes);

    fake->events[event].detail = 2;
    return event;
}

Test(failures, attempts_of_a_framework)
{
    struct fake *fake = fake_make(10);
    struct vt_failures found;

    fake_alloc(fake, 1, VT_ALLOCATION_SEGMENT, 0, 100 * MIB);
    fake_alloc(fake, 1, VT_ALLOCATION_BLOCK, VT_CATEGORY_ACTIVATION, 60 * MIB);
    refuse(fake, 2, 50 * MIB);
    fake_event(fake, 2.1, VT_EVENT_FREE, VT_LAYER_DRIVER, 0);
    fake_alloc(fake, 2.2, VT_ALLOCATION_SEGMENT, 0, 50 * MIB);
    fake_alloc(fake, 2.3, VT_ALLOCATION_BLOCK, VT_CATEGORY_ACTIVATION, 50 * MIB);
    refuse(fake, 3, 500 * MIB);
    refuse(fake, 3.1, 500 * MIB);
    fake_event(fake, 3.2, VT_EVENT_OOM, VT_LAYER_FRAMEWORK, 500 * MIB);
    fake_event(fake, 4, VT_EVENT_OOM, VT_LAYER_FRAMEWORK, 10 * MIB); /* by a limit of its own */
    vt_failures_find(&fake->replay, &found);
    cr_assert_eq(found.count, 5);
    cr_expect_eq(found.items[0].outcome, VT_FAILURE_SURVIVED);
    cr_expect_eq(found.items[1].outcome, VT_FAILURE_REPEATED);
    cr_expect_eq(found.items[2].outcome, VT_FAILURE_REPEATED);
    cr_expect_eq(found.items[3].outcome, VT_FAILURE_FINAL);
    cr_expect_eq(found.items[3].tries, 2);
    cr_expect_eq(found.items[4].outcome, VT_FAILURE_FINAL);
    cr_expect_eq(found.items[4].tries, 0, "the driver was not asked");
    vt_failures_free(&found);
    fake_free(fake);
}

Test(failures, of_a_program_without_a_framework)
{
    struct fake *fake = fake_make(10);
    struct vt_failures found;

    refuse(fake, 1, 50 * MIB);
    fake_alloc(fake, 2, VT_ALLOCATION_DRIVER, VT_CATEGORY_UNKNOWN, 50 * MIB); /* the same, again */
    refuse(fake, 3, 50 * MIB);
    fake_alloc(fake, 4, VT_ALLOCATION_DRIVER, VT_CATEGORY_UNKNOWN, 20 * MIB); /* less than it wanted */
    refuse(fake, 5, 70 * MIB);
    vt_failures_find(&fake->replay, &found);
    cr_assert_eq(found.count, 3);
    cr_expect_eq(found.items[0].outcome, VT_FAILURE_SURVIVED);
    cr_expect_eq(found.items[1].outcome, VT_FAILURE_FINAL);
    cr_expect_eq(found.items[2].outcome, VT_FAILURE_FINAL);
    vt_failures_free(&found);
    fake_free(fake);
}

static struct vt_allocation *place(struct fake *fake, uint8_t kind, uint64_t address, uint64_t bytes,
                                   uint32_t parent)
{
    struct vt_allocation *allocation = fake_alloc(fake, 1, kind, VT_CATEGORY_ACTIVATION, bytes);

    allocation->address = address;
    allocation->parent = parent;
    return allocation;
}

Test(fragmentation, holes_and_pins)
{
    struct fake *fake = fake_make(10);
    struct vt_fragmentation found;
    struct vt_allocation *brief;

    place(fake, VT_ALLOCATION_SEGMENT, 0x10000000, 20 * MIB, VT_NEVER);
    place(fake, VT_ALLOCATION_BLOCK, 0x10000000 + 2 * MIB, 4 * MIB, 0); /* stays */
    brief = place(fake, VT_ALLOCATION_BLOCK, 0x10000000 + 8 * MIB, 11 * MIB, 0);
    place(fake, VT_ALLOCATION_SEGMENT, 0x20000000, 40 * MIB, VT_NEVER); /* empty */
    fake_event(fake, 2, VT_EVENT_MARK, VT_LAYER_NONE, 0);
    fake_release(fake, 3, brief);
    found = vt_fragmentation_find(&fake->replay, 0, 4);
    cr_expect_eq(found.reserved_bytes, 60 * MIB);
    cr_expect_eq(found.block_bytes, 15 * MIB);
    cr_expect_eq(found.hole_bytes, 45 * MIB);
    cr_expect_eq(found.empty_bytes, 40 * MIB);
    cr_expect_eq(found.kept_bytes, 5 * MIB);
    cr_expect_eq(found.unusable_bytes, 5 * MIB, "no request was under 4 MiB");
    cr_expect_eq(found.largest_hole_bytes, 40 * MIB);
    cr_assert_eq(found.segment_count, 2);
    cr_expect_eq(found.segments[0].hole_count, 3);
    cr_expect_eq(found.segments[0].pin->allocation, 1, "the block that stays longest");
    cr_expect_null(found.segments[1].pin);
    vt_fragmentation_free(&found);
    fake_free(fake);
}

Test(whatif, another_moment_becomes_the_peak)
{
    struct fake *fake = fake_make(10);
    struct vt_allocation *first, *second;
    struct vt_whatif whatif;

    first = fake_alloc(fake, 1, VT_ALLOCATION_BLOCK, VT_CATEGORY_ACTIVATION, 100 * MIB); /* event 0 */
    fake_release(fake, 2, first);
    second = fake_alloc(fake, 3, VT_ALLOCATION_BLOCK, VT_CATEGORY_ACTIVATION, 70 * MIB); /* event 2 */
    fake_release(fake, 4, second);
    vt_whatif_make(&fake->replay, 0, &whatif);
    cr_expect_eq(whatif.peak_bytes, 100 * MIB);
    cr_expect_eq(whatif.peak_event, 0);
    vt_whatif_less(&whatif, NULL, 0, 1, 20 * MIB);
    cr_expect_eq(vt_whatif_saves(&whatif), 20 * MIB);
    vt_whatif_less(&whatif, NULL, 0, 1, 60 * MIB);
    cr_expect_eq(vt_whatif_saves(&whatif), 30 * MIB, "the second is the peak then");
    vt_whatif_less(&whatif, NULL, 2, VT_NEVER, -50 * (int64_t)MIB);
    cr_expect_eq(vt_whatif_saves(&whatif), 0, "higher than before");
    vt_whatif_free(&whatif);
    fake_free(fake);
}

Test(advice, nothing_of_nothing)
{
    struct fake *fake = fake_make(1);
    const struct vt_report_options options = {.device_index = -1};
    struct vt_report *report = fake_report(fake, &options, 0);
    struct vt_advices advices;

    vt_advice_end(vt_advice_begin(report, 0, &advices));
    cr_expect_eq(advices.count, 0);
    free(advices.items);
    fake_free(fake);
}
