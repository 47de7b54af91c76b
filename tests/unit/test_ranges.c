#include <criterion/criterion.h>
#include <string.h>

#include "base/index.h"
#include "base/ranges.h"

#define PLACES 512

/* Against a plain array: each place holds the start of the range that covers it, plus one. */
Test(ranges, agree_with_an_array)
{
    struct vt_ranges ranges;
    uint32_t root = 0, owner[PLACES] = {0}, random = 12345;
    vt_ranges_init(&ranges);
    for (int round = 0; round < 20000; round++) {
        random = random * 1664525u + 1013904223u;
        uint32_t start = (random >> 8) % PLACES, bytes = (random >> 20) % 16 + 1;
        uint32_t end = start + bytes < PLACES ? start + bytes : PLACES;
        uint32_t covered = 0, first = VT_RANGE_NONE;
        for (uint32_t i = start; i < end; i++) {
            covered += owner[i] != 0;
            if (owner[i] && first == VT_RANGE_NONE)
                first = owner[i] - 1;
        }
        const struct vt_range_node *node = vt_ranges_overlap(&ranges, root, start, end);
        cr_assert_eq(node ? node->value : VT_RANGE_NONE, first);
        cr_assert_eq(vt_ranges_covered(&ranges, root, start, end), covered);
        if (!node) {
            vt_ranges_insert(&ranges, &root, start, end, start);
            for (uint32_t i = start; i < end; i++)
                owner[i] = start + 1;
        } else if (random & 1) {
            uint32_t from = (uint32_t)node->start, to = (uint32_t)node->end;
            vt_ranges_remove(&ranges, &root, from);
            memset(owner + from, 0, (to - from) * sizeof *owner);
        }
    }
    vt_ranges_free(&ranges);
}

Test(ranges, close_each_once)
{
    struct vt_ranges ranges;
    uint32_t root = 0;
    vt_ranges_init(&ranges);
    for (uint32_t i = 0; i < 100; i++)
        vt_ranges_insert(&ranges, &root, i * 10, i * 10 + 10, i);
    uint32_t sum = 0, count = 0, value;
    while ((value = vt_ranges_close_one(&ranges, root, 205, 301)) != VT_RANGE_NONE) {
        sum += value;
        count++;
    }
    cr_assert_eq(count, 11);
    cr_assert_eq(sum, 20 + 21 + 22 + 23 + 24 + 25 + 26 + 27 + 28 + 29 + 30);
    cr_assert_eq(vt_ranges_close_one(&ranges, root, 300, 310), VT_RANGE_NONE);
    cr_assert_eq(vt_ranges_close_one(&ranges, root, 310, 320), 31);
    vt_ranges_free(&ranges);
}

Test(indices, keep_what_was_put)
{
    struct vt_index index = {0};
    cr_assert_eq(vt_index_get(&index, 0), VT_INDEX_NONE);
    for (uint32_t i = 0; i < 100000; i++)
        vt_index_put(&index, (uint64_t)i << 21, i);
    vt_index_put(&index, UINT64_C(7) << 21, 9);
    cr_assert_eq(index.count, 100000);
    cr_assert_eq(vt_index_get(&index, UINT64_C(7) << 21), 9);
    cr_assert_eq(vt_index_get(&index, UINT64_C(99999) << 21), 99999);
    cr_assert_eq(vt_index_get(&index, 1), VT_INDEX_NONE);
    vt_index_free(&index);
}
