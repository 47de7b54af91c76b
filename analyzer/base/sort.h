/* Sorting by a number, in linear time. */
#ifndef VT_SORT_H
#define VT_SORT_H

#include <stddef.h>
#include <stdint.h>

/* Sorts the items by key(item); those of equal keys keep their order. */
void vt_sort_by_key(void *items, size_t count, size_t item_bytes, uint64_t (*key)(const void *item));

#endif
