/* Sorting by a number, the most at one time, and work on other threads. */
#include <criterion/criterion.h>

#include "base/peak.h"
#include "base/sort.h"
#include "base/task.h"

struct item {
    uint64_t key;
    uint32_t order;
};

static uint64_t key_of(const void *item)
{
    return ((const struct item *)item)->key;
}

/* Few and many items, keys of few and of many bytes, equal and ascending ones: ascending after, equal ones in
 * their order. */
Test(sort, stable)
{
    static struct item items[5000];
    static const uint64_t masks[] = {0, 3, 0xff00, 0xfffff, UINT64_MAX, 0xff000000000000ff};
    uint64_t random = 88172645463325252u;
    for (size_t count = 0; count <= 5000; count = count * 3 / 2 + 1)
        for (size_t m = 0; m < sizeof masks / sizeof *masks; m++) {
            uint64_t sum = 0;
            for (uint32_t i = 0; i < count; i++) {
                random ^= random << 13, random ^= random >> 7, random ^= random << 17;
                items[i] = (struct item){m == 5 ? i : random & masks[m], i};
                sum += items[i].key;
            }
            vt_sort_by_key(items, count, sizeof *items, key_of);
            for (size_t i = 0; i < count; i++) {
                sum -= items[i].key;
                cr_assert(i == 0 || items[i - 1].key < items[i].key ||
                          (items[i - 1].key == items[i].key && items[i - 1].order < items[i].order));
            }
            cr_assert_eq(sum, 0);
        }
}

static int count_one(void *context)
{
    ++*(int *)context;
    return 7;
}

Test(task, runs_once)
{
    struct vt_task task = {0};
    int count = 0;
    cr_assert_eq(vt_task_end(&task), 0);
    vt_task_begin(&task, count_one, &count);
    cr_assert_eq(vt_task_end(&task), 7);
    cr_assert_eq(vt_task_end(&task), 7, "the result stays");
    cr_assert_eq(count, 1);
    cr_assert(vt_processors() >= 1 && vt_processors() <= VT_PROCESSORS_MAXIMUM);
}

/* Against the plain sum at each event. One that begins where another ends never adds to it. */
Test(peak, of_amounts_that_come_and_go)
{
    enum { EVENTS = 60, AMOUNTS = 200 };
    uint64_t random = 88172645463325252u;
    for (int round = 0; round < 200; round++) {
        uint64_t there[EVENTS] = {0};
        struct vt_peak peak = {0};
        for (int i = 0; i < AMOUNTS; i++) {
            random ^= random << 13, random ^= random >> 7, random ^= random << 17;
            const uint32_t begin = (uint32_t)(random % EVENTS), length = (uint32_t)(random >> 20 & 15);
            const uint32_t end = length == 15 ? UINT32_MAX : begin + length;
            vt_peak_add(&peak, begin, end, random >> 40);
            for (uint32_t event = begin; event < end && event < EVENTS; event++)
                there[event] += random >> 40;
        }
        const uint32_t last = (uint32_t)(random % EVENTS);
        uint32_t most = 0;
        for (uint32_t event = 0; event <= last; event++)
            most = there[event] > there[most] ? event : most;
        const struct vt_peak_found found = vt_peak_find(&peak, last);
        cr_assert_eq(found.bytes, there[most]);
        cr_assert_eq(found.event, most);
        cr_assert_eq(found.left, there[last]);
    }
}
