#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "base/intervals.h"

#define PLACES 4096u

static uint32_t next(uint32_t *random)
{
    return *random = *random * 1664525u + 1013904223u;
}

/* Against a plain array: each place holds the start of the interval that covers it, plus one. Sets grow to
 * several levels, shrink to nothing, and grow again. */
Test(intervals, agree_with_an_array)
{
    struct vt_intervals set = {0};
    static uint32_t owner[PLACES];
    uint32_t random = 4711, alive = 0, most = 0;
    for (uint32_t round = 0; round < 400000; round++) {
        bool grows = round / 20000 % 2 == 0;
        uint32_t start = (next(&random) >> 8) % PLACES, bytes = (random >> 20) % 3 + 1, first = 0;
        uint32_t end = start + bytes < PLACES ? start + bytes : PLACES;
        struct vt_interval found = {0};
        for (uint32_t i = start; i < end && !first; i++)
            first = owner[i];
        bool overlaps = vt_intervals_overlap(&set, start, end, &found);
        cr_assert_eq(overlaps, first != 0);
        if (overlaps)
            cr_assert_eq(vt_intervals_insert(&set, start, end, start), -EEXIST);
        if (!overlaps && grows) {
            cr_assert_eq(vt_intervals_insert(&set, start, end, start), 0);
            for (uint32_t i = start; i < end; i++)
                owner[i] = start + 1;
            most = ++alive > most ? alive : most;
        } else if (overlaps) {
            cr_assert_eq(found.start, first - 1);
            cr_assert_eq(found.value, first - 1);
            for (uint32_t i = (uint32_t)found.start; i < found.end; i++)
                cr_assert_eq(owner[i], first);
            vt_intervals_remove(&set, found.start, found.value + 1); /* another's */
            cr_assert(vt_intervals_overlap(&set, start, end, &found));
            if (grows && next(&random) % 8)
                continue;
            vt_intervals_remove(&set, found.start, found.value);
            memset(owner + found.start, 0, (size_t)(found.end - found.start) * sizeof *owner);
            alive--;
        }
    }
    cr_assert_gt(most, 1100); /* more than two levels have */
    vt_intervals_free(&set);
}

/* In order, in reverse, and from both ends. */
Test(intervals, hold_many)
{
    enum { COUNT = 200000 };
    for (int way = 0; way < 3; way++) {
        struct vt_intervals set = {0};
        struct vt_interval found;
        for (uint32_t i = 0; i < COUNT; i++) {
            uint32_t at = way == 0 ? i : way == 1 ? COUNT - 1 - i : i % 2 ? COUNT - 1 - i / 2 : i / 2;
            cr_assert_eq(vt_intervals_insert(&set, at * UINT64_C(10), at * UINT64_C(10) + 5, at), 0);
        }
        for (uint32_t i = 0; i < COUNT; i += 7) {
            cr_assert(vt_intervals_overlap(&set, i * UINT64_C(10) + 4, i * UINT64_C(10) + 100, &found));
            cr_assert_eq(found.value, i);
            cr_assert_not(vt_intervals_overlap(&set, i * UINT64_C(10) + 5, i * UINT64_C(10) + 10, &found));
        }
        for (uint32_t i = 0; i < COUNT; i++)
            vt_intervals_remove(&set, i * UINT64_C(10), i);
        cr_assert_not(vt_intervals_overlap(&set, 0, UINT64_MAX, &found));
        vt_intervals_free(&set);
    }
}
