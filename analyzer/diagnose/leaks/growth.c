/* Whether what code keeps grows over and over: series of bytes by step. There may be as many series as lines
 * of code, and each has no more to it than its changes. */
#include "diagnose/leaks/private.h"

#include <errno.h>
#include <stdlib.h>

/* Early records that lie far from the others are of another cause: a buffer made at the start. */
static uint32_t skip_stray_records(const uint32_t *records, uint32_t count)
{
    uint32_t first = 0;
    while (count - first > VT_LEAK_BIRTHS && (records[first + 1] - records[first]) * (count - first - 2) >
                                                 3 * (records[count - 1] - records[first + 1]))
        first++;
    return first;
}

/* How many changes come up to and with a step. */
static size_t changes_up_to(const struct vt_leak_change *series, size_t count, uint32_t step)
{
    size_t low = 0;
    while (low < count) {
        size_t middle = low + (count - low) / 2;
        if (series[middle].step <= step)
            low = middle + 1;
        else
            count = middle;
    }
    return low;
}

static uint64_t bytes_at(const struct vt_leak_change *series, size_t count, uint32_t step)
{
    size_t up_to = changes_up_to(series, count, step);
    return up_to > 0 ? series[up_to - 1].bytes : 0;
}

/* Whether it goes on to the end at the pace of the beginning: what fills a cache slows down and stops. */
static bool goes_on(const struct vt_leak_change *series, size_t changes, const uint32_t *records,
                    uint32_t count, uint32_t to)
{
    uint32_t first = records[0], last = records[count - 1], spread = last - first;
    uint32_t middle = first + (to - first) / 2, early = 0, pause = 2, late = to - (to - first) / 4;
    uint64_t first_bytes = bytes_at(series, changes, first), last_bytes = bytes_at(series, changes, last);
    uint64_t least = first_bytes + (last_bytes - first_bytes) / 2;
    if (2 * spread > pause * (count - 1))
        pause = (2 * spread + count - 2) / (count - 1);
    if (to - last >= pause || bytes_at(series, changes, to) < last_bytes - last_bytes / 10)
        return false;
    if (bytes_at(series, changes, late) < least) /* what varies falls back */
        return false;
    for (size_t i = changes_up_to(series, changes, late); i < changes && series[i].step <= to; i++)
        if (series[i].bytes < least)
            return false;
    for (uint32_t i = 0; i < count; i++)
        early += records[i] <= middle;
    return (count - early) * 2 >= early &&
           last_bytes - bytes_at(series, changes, middle) >= (last_bytes - first_bytes) / 4;
}

int vt_growth_repeats(const struct vt_leak_change *series, size_t changes, uint32_t from, uint32_t to,
                      struct vt_growth *growth, bool *repeats)
{
    uint32_t *records = calloc(changes + 1, sizeof *records), count = 0;
    uint64_t most = 0;
    *repeats = false;
    if (!records)
        return -ENOMEM;
    for (size_t i = 0; i < changes && series[i].step <= to; i++) {
        if (series[i].bytes <= most)
            continue;
        most = series[i].bytes;
        if (series[i].step >= from) /* what was cleared before may be cleared again */
            records[count++] = series[i].step;
    }
    if (count >= VT_LEAK_BIRTHS) {
        uint32_t first = skip_stray_records(records, count);
        const uint32_t *kept = records + first;
        count -= first;
        *growth = (struct vt_growth){.first_step = kept[0],
                                     .last_step = kept[count - 1],
                                     .records = count,
                                     .rise = bytes_at(series, changes, kept[count - 1]) -
                                             bytes_at(series, changes, kept[0])};
        *repeats = goes_on(series, changes, kept, count, to);
    }
    free(records);
    return 0;
}

static int compare_changes(const void *a, const void *b)
{
    const struct vt_leak_change *left = a, *right = b;
    return left->step < right->step ? -1 : left->step > right->step;
}

/* Bytes of a class alive at each step's end. */
int vt_leak_make_series(struct vt_leak_finder *finder, const struct vt_leak_class *class)
{
    size_t count = 0, kept = 0;
    int error = vt_reserve(&finder->series, &finder->series_capacity, (size_t) class->count * 2 + 1,
                           sizeof *finder->series);
    if (error)
        return error;
    struct vt_leak_change *series = finder->series;
    for (uint32_t i = 0; i < class->count; i++) {
        uint32_t index = finder->order[class->first + i];
        const struct vt_allocation *allocation = &finder->replay->allocations[index];
        uint32_t freed = vt_leak_free_step(finder, allocation);
        series[count++] = (struct vt_leak_change){finder->attribution->labels[index].step, allocation->bytes};
        if (freed <= finder->step_count)
            series[count++] = (struct vt_leak_change){freed, 0 - allocation->bytes};
    }
    qsort(series, count, sizeof *series, compare_changes);
    for (size_t i = 0; i < count; i++) {
        uint64_t before = kept > 0 ? series[kept - 1].bytes : 0;
        if (kept > 0 && series[kept - 1].step == series[i].step)
            series[kept - 1].bytes += series[i].bytes;
        else
            series[kept++] = (struct vt_leak_change){series[i].step, before + series[i].bytes};
    }
    finder->series_count = kept;
    return 0;
}
