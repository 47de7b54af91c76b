/* A hash map from 64-bit keys to 32-bit values, searches in sorted arrays, and growing arrays. Keys come from
 * an untrusted file, so the hash is seeded per map. Keys are never removed. */
#ifndef VT_INDEX_H
#define VT_INDEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/hash.h"

#define VT_INDEX_NONE UINT32_MAX

struct vt_index_slot {
    uint64_t key;
    uint32_t value; /* VT_INDEX_NONE = empty */
};

struct vt_index {
    struct vt_index_slot *slots;
    uint64_t seed;
    size_t capacity; /* 0 or a power of two */
    size_t count;
};

void vt_index_free(struct vt_index *index);
void vt_index_grow(struct vt_index *index);

static inline size_t vt_index_place(const struct vt_index *index, uint64_t key)
{
    return (size_t)(vt_mix(index->seed, key) >> 24) & (index->capacity - 1);
}

/* Value of a key, VT_INDEX_NONE if it is not there. */
static inline uint32_t vt_index_get(const struct vt_index *index, uint64_t key)
{
    if (index->capacity == 0)
        return VT_INDEX_NONE;
    for (size_t i = vt_index_place(index, key);; i = (i + 1) & (index->capacity - 1)) {
        const struct vt_index_slot *slot = &index->slots[i];
        if (slot->value == VT_INDEX_NONE || slot->key == key)
            return slot->value;
    }
}

/* Prefetches what vt_index_get will read. */
static inline void vt_index_prefetch(const struct vt_index *index, uint64_t key)
{
    if (index->capacity > 0)
        __builtin_prefetch(&index->slots[vt_index_place(index, key)]);
}

/* Sets a key's value (not VT_INDEX_NONE), replacing what it had. */
static inline void vt_index_put(struct vt_index *index, uint64_t key, uint32_t value)
{
    if (index->count * 2 >= index->capacity)
        vt_index_grow(index);
    for (size_t i = vt_index_place(index, key);; i = (i + 1) & (index->capacity - 1)) {
        struct vt_index_slot *slot = &index->slots[i];
        if (slot->value == VT_INDEX_NONE)
            index->count++;
        else if (slot->key != key)
            continue;
        slot->key = key;
        slot->value = value;
        return;
    }
}

static inline bool vt_index_has(const struct vt_index *index, uint64_t key)
{
    return vt_index_get(index, key) != VT_INDEX_NONE;
}

/* Sets a key's value if it has none. Returns the one that it has then. */
static inline uint32_t vt_index_add(struct vt_index *index, uint64_t key, uint32_t value)
{
    uint32_t known = vt_index_get(index, key);

    if (known != VT_INDEX_NONE)
        return known;
    vt_index_put(index, key, value);
    return value;
}

/* -1, 0 or 1, as comparators return. With two keys, the first of which decides: 2 * vt_order(a, b) +
 * vt_order(c, d). */
static inline int vt_order(uint64_t left, uint64_t right)
{
    return (left > right) - (left < right);
}

/* By how much two numbers differ. */
static inline uint64_t vt_distance(uint64_t left, uint64_t right)
{
    return left > right ? left - right : right - left;
}

/* vt_order of numbers that may be negative. */
static inline int vt_order_signed(int64_t left, int64_t right)
{
    return (left > right) - (left < right);
}

/* Of `count` ascending numbers: the index of the first above `value`, `count` if there is none. */
static inline size_t vt_count_up_to(const uint32_t *numbers, size_t count, uint32_t value)
{
    size_t low = 0;
    while (low < count) {
        size_t middle = low + (count - low) / 2;
        if (numbers[middle] <= value)
            low = middle + 1;
        else
            count = middle;
    }
    return low;
}

/* Of `count` sorted items: the index of the first that is not before the key, `count` if there is none. */
static inline size_t vt_lower_bound(const void *items, size_t count, size_t item_bytes, const void *key,
                                    int (*compare)(const void *item, const void *key))
{
    size_t low = 0;
    while (low < count) {
        size_t middle = low + (count - low) / 2;
        if (compare((const char *)items + middle * item_bytes, key) < 0)
            low = middle + 1;
        else
            count = middle;
    }
    return low;
}

/* Grows the array at *items by doubling until it holds `needed` items. */
void vt_reserve(void *items, size_t *capacity, size_t needed, size_t item_bytes);

/* Appends the item that comes last to a growable array. */
#define VT_APPEND(items, count, capacity, ...)                                                               \
    (vt_reserve(&(items), &(capacity), (count) + 1, sizeof *(items)), (items)[(count)++] = (__VA_ARGS__))

#endif
