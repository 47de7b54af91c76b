/* Sorting. */
#ifndef VT_SORT_H
#define VT_SORT_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

/* As qsort(); of no items `items` may be NULL. */
static inline void vt_sort(void *items, size_t count, size_t item_bytes,
                           int (*compare)(const void *left, const void *right))
{
    if (count > 1)
        qsort(items, count, item_bytes, compare);
}

void vt_sort_numbers(uint64_t *numbers, size_t count);
/* The lower of the middle two, 0 of none. Sorts the numbers. */
uint64_t vt_median(uint64_t *numbers, size_t count);

/* In linear time: sorts the items by key(item); those of equal keys keep their order. */
void vt_sort_by_key(void *items, size_t count, size_t item_bytes, uint64_t (*key)(const void *item));

#endif
