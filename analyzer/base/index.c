#include "base/index.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/allocate.h"

void vt_index_free(struct vt_index *index)
{
    free(index->slots);
    memset(index, 0, sizeof *index);
}

void vt_index_grow(struct vt_index *index)
{
    struct vt_index old = *index;
    size_t capacity = old.capacity ? old.capacity * 2 : 64;
    struct vt_index_slot *slots = vt_resize(NULL, capacity, sizeof *slots);
    for (size_t i = 0; i < capacity; i++)
        slots[i].value = VT_INDEX_NONE;
    /* Without a random seed the map still works; only a hostile file could then make it slow. */
    if (old.capacity == 0 && getrandom(&index->seed, sizeof index->seed, GRND_NONBLOCK) < 0)
        index->seed = (uint64_t)(uintptr_t)slots;
    index->slots = slots;
    index->capacity = capacity;
    for (size_t i = 0; i < old.capacity; i++) {
        if (old.slots[i].value == VT_INDEX_NONE)
            continue;
        size_t place = vt_index_place(index, old.slots[i].key);
        while (slots[place].value != VT_INDEX_NONE)
            place = (place + 1) & (capacity - 1);
        slots[place] = old.slots[i];
    }
    free(old.slots);
}

void vt_reserve(void *items, size_t *capacity, size_t needed, size_t item_bytes)
{
    void *old;
    memcpy(&old, items, sizeof old);
    if (needed <= *capacity)
        return;
    size_t grown = *capacity < 8 ? 16 : *capacity;
    while (grown < needed) {
        if (grown > SIZE_MAX / 2 / item_bytes)
            vt_end_out_of_memory();
        grown *= 2;
    }
    void *larger = vt_resize(old, grown, item_bytes);
    memcpy(items, &larger, sizeof larger);
    *capacity = grown;
}
