#include "base/sort.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/allocate.h"
#include "base/index.h"

struct keyed {
    uint64_t key;
    size_t item;
};

/* Up to so many are sorted by insertion: counting digits would take longer. */
#define FEW 32

static void insert_each(struct keyed *keyed, size_t count)
{
    for (size_t i = 1; i < count; i++) {
        struct keyed own = keyed[i];
        size_t at = i;
        for (; at > 0 && keyed[at - 1].key > own.key; at--)
            keyed[at] = keyed[at - 1];
        keyed[at] = own;
    }
}

/* By the byte of the keys at `shift`. */
static void sort_by_digit(const struct keyed *from, struct keyed *to, size_t count, unsigned shift)
{
    size_t places[256] = {0}, next = 0;
    for (size_t i = 0; i < count; i++)
        places[from[i].key >> shift & 0xff]++;
    for (size_t digit = 0; digit < 256; digit++) {
        size_t own = places[digit];
        places[digit] = next;
        next += own;
    }
    for (size_t i = 0; i < count; i++)
        to[places[from[i].key >> shift & 0xff]++] = from[i];
}

/* Returns which of the two arrays has the result. */
static struct keyed *sort_keyed(struct keyed *keyed, struct keyed *spare, size_t count, uint64_t varying)
{
    if (count <= FEW) {
        insert_each(keyed, count);
        return keyed;
    }
    for (unsigned shift = 0; shift < 64; shift += 8) {
        if (!(varying >> shift & 0xff))
            continue;
        sort_by_digit(keyed, spare, count, shift);
        struct keyed *sorted = spare;
        spare = keyed;
        keyed = sorted;
    }
    return keyed;
}

void vt_sort_by_key(void *items, size_t count, size_t item_bytes, uint64_t (*key)(const void *item))
{
    uint64_t varying = 0, last = 0;
    bool sorted = true;
    char *all = items;
    if (count < 2)
        return;
    struct keyed *keyed = vt_resize(NULL, count, 2 * sizeof *keyed + item_bytes);
    for (size_t i = 0; i < count; i++) {
        keyed[i] = (struct keyed){key(all + i * item_bytes), i};
        varying |= keyed[i].key ^ keyed[0].key;
        sorted &= keyed[i].key >= last;
        last = keyed[i].key;
    }
    if (!sorted) {
        const struct keyed *order = sort_keyed(keyed, keyed + count, count, varying);
        char *copy = (char *)(keyed + 2 * count);
        for (size_t i = 0; i < count; i++)
            memcpy(copy + i * item_bytes, all + order[i].item * item_bytes, item_bytes);
        memcpy(all, copy, count * item_bytes);
    }
    free(keyed);
}

static int compare_numbers(const void *left, const void *right)
{
    return vt_order(*(const uint64_t *)left, *(const uint64_t *)right);
}

void vt_sort_numbers(uint64_t *numbers, size_t count)
{
    vt_sort(numbers, count, sizeof *numbers, compare_numbers);
}

uint64_t vt_median(uint64_t *numbers, size_t count)
{
    vt_sort_numbers(numbers, count);
    return count ? numbers[(count - 1) / 2] : 0;
}
