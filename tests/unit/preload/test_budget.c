/* How long a program may wait for inspections. */
#include <criterion/criterion.h>

#include "inspect/budget.h"

static const uint64_t second = 1000000000, ms = 1000000;

Test(budget, a_hundredth_of_a_long_life)
{
    cr_assert_eq(vt_budget(20 * second, 0, false, false).all_ns, 200 * ms);
    cr_assert_eq(vt_budget(20 * second, 150 * ms, false, false).all_ns, 50 * ms);
    cr_assert_eq(vt_budget(20 * second, 250 * ms, false, false).all_ns, 0);
}

Test(budget, a_short_life_is_lent_some)
{
    cr_assert_eq(vt_budget(second, 0, false, false).all_ns, 50 * ms);
    cr_assert_eq(vt_budget(9 * second, 0, false, false).all_ns, 100 * ms);
    cr_assert_eq(vt_budget(2 * second, 30 * ms, true, true).all_ns, 170 * ms);
    cr_assert_eq(vt_budget(9 * second, 0, true, true).all_ns, 500 * ms);
    cr_assert_eq(vt_budget(9 * second, 0, true, false).all_ns, 100 * ms);
}

Test(budget, no_long_wait_in_the_longest_life)
{
    const uint64_t day = 86400 * second;
    cr_assert_eq(vt_budget(day, 0, true, true).all_ns, 500 * ms);
    cr_assert_eq(vt_budget(day, 0, true, false).all_ns, 500 * ms);
    cr_assert_eq(vt_budget(day, 0, false, false).census_ns, 500 * ms);
    cr_assert_eq(vt_budget(day, 0, false, false).all_ns,
                 864 * second); /* names of a model as large as that */
}
