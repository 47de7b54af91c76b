/* What repeats and what does not: series of bytes at the ends of steps. */
#include <criterion/criterion.h>

#include "findings/leaks/growth.h"

#define STEPS 30u

static uint64_t series[STEPS];

/* Whether it repeats, told by all steps or by those only in which it changes. */
static bool repeats(struct vt_growth *growth)
{
    struct vt_leak_change all[STEPS], changes[STEPS];
    struct vt_growth same;
    size_t count = 0;
    for (uint32_t step = 0; step < STEPS; step++) {
        all[step] = (struct vt_leak_change){step, series[step]};
        if (step == 0 ? series[step] != 0 : series[step] != series[step - 1])
            changes[count++] = all[step];
    }
    bool repeats = vt_growth_repeats(all, STEPS, 1, STEPS - 1, 1, growth);
    cr_assert_eq(vt_growth_repeats(changes, count, 1, STEPS - 1, 1, &same), repeats);
    cr_assert(!repeats || (growth->first_step == same.first_step && growth->last_step == same.last_step &&
                           growth->records == same.records && growth->bytes_per_step == same.bytes_per_step));
    return repeats;
}

Test(growth, each_step_on_top_of_what_is_always_there)
{
    struct vt_growth growth;
    for (uint32_t step = 0; step < STEPS; step++)
        series[step] = 1000 + 64 * step;
    cr_assert(repeats(&growth));
    cr_assert_eq(growth.bytes_per_step, 64);
    cr_assert_eq(growth.last_step, STEPS - 1);
}

Test(growth, a_block_that_lives_at_the_end_only)
{
    struct vt_growth growth;
    for (uint32_t step = 0; step < STEPS; step++)
        series[step] = 1000 * step + (step == STEPS - 1 ? 3000 : 0);
    cr_assert(repeats(&growth));
    cr_assert_lt(growth.bytes_per_step, 1025);
}

Test(growth, every_fifth_step)
{
    struct vt_growth growth;
    for (uint32_t step = 0; step < STEPS; step++)
        series[step] = 1000 * (step / 5);
    cr_assert(repeats(&growth));
    cr_assert_eq(growth.bytes_per_step, 200);
}

Test(growth, begins_late)
{
    struct vt_growth growth;
    for (uint32_t step = 0; step < STEPS; step++)
        series[step] = step == 0 ? 0 : step < 15 ? 500 : 500 + 10 * (step - 14);
    cr_assert(repeats(&growth));
    cr_assert_eq(growth.first_step, 15);
    cr_assert_eq(growth.bytes_per_step, 10);
}

Test(growth, steps_at_one_time_end_when_they_end)
{
    struct vt_leak_change all[STEPS];
    struct vt_growth growth;
    for (uint32_t step = 0; step < STEPS;
         step++) /* the last two keep nothing: others kept what they would have */
        all[step] = (struct vt_leak_change){step, 64 * (step < STEPS - 3 ? step : STEPS - 1)};
    cr_assert_not(vt_growth_repeats(all, STEPS, 1, STEPS - 1, 1, &growth));
    cr_assert(vt_growth_repeats(all, STEPS, 1, STEPS - 1, 4, &growth));
}

Test(growth, stops_when_a_buffer_is_full)
{
    struct vt_growth growth;
    for (uint32_t full = 4; full < STEPS - 2; full++) {
        for (uint32_t step = 0; step < STEPS; step++)
            series[step] = 64 * (step < full ? step : full);
        cr_assert_not(repeats(&growth), "full after %u", full);
    }
}

Test(growth, slows_down_as_a_cache_fills)
{
    struct vt_growth growth;
    static const uint8_t new_lengths[] = {1, 2, 3, 4, 6, 9, 13, 19, 27};
    for (uint32_t step = 0, known = 0; step < STEPS; step++) {
        known += known < sizeof new_lengths && new_lengths[known] == step;
        series[step] = 100 * known;
    }
    cr_assert_not(repeats(&growth));
}

Test(growth, is_cleared_and_fills_again)
{
    struct vt_growth growth;
    for (uint32_t step = 0; step < STEPS; step++)
        series[step] = 64 * (step % 10 + 1);
    cr_assert_not(repeats(&growth));
}

Test(growth, varies)
{
    struct vt_growth growth;
    uint32_t random = 12345, accused = 0;
    for (uint32_t run = 0; run < 10000; run++) {
        for (uint32_t step = 0; step < STEPS; step++) {
            random = random * 1664525u + 1013904223u;
            series[step] = random >> 16;
        }
        accused += repeats(&growth);
    }
    cr_assert_leq(accused, 5, "%u", accused); /* beside this, something must be kept of four steps */
}
