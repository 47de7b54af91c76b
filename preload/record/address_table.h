/* A table of addresses, or of other numbers that are not 0, each with what is known of it: open addressing
 * with backward-shift deletion. Grows when three quarters full. Threads: one at a time. Memory comes from the
 * kernel; a forked child does not inherit it (memory.h). */
#ifndef VT_ADDRESS_TABLE_H
#define VT_ADDRESS_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "hash.h"
#include "memory.h"

enum { VT_TABLE_FIRST_BITS = 10, VT_TABLE_GROWTH_BITS = 2, VT_TABLE_MAXIMUM_BITS = 26 };

struct vt_address_entry {
    uint64_t address; /* 0 = free */
    uint64_t bytes : 56;
    uint64_t device : 8;
    uint64_t context; /* the context whose end frees it; 0 = none */
};

/* All zero at first. */
struct vt_address_table {
    struct vt_address_entry *entries; /* NULL until the first entry */
    uint32_t used, bits;              /* 1 << bits entries */
};

static inline size_t vt_table_bytes(unsigned bits)
{
    return sizeof(struct vt_address_entry) << bits;
}

static inline void vt_table_replace_memory(struct vt_address_table *table)
{
    vt_replace_memory(table->entries, vt_table_bytes(table->bits));
}

static inline uint32_t vt_table_home(const struct vt_address_table *table, uint64_t address)
{
    return (uint32_t)(vt_hash(address) >> (64 - table->bits));
}

static inline uint32_t vt_table_next(const struct vt_address_table *table, uint32_t place)
{
    return (place + 1) & ((UINT32_C(1) << table->bits) - 1);
}

static inline void vt_table_insert(struct vt_address_table *table, struct vt_address_entry entry)
{
    uint32_t i = vt_table_home(table, entry.address);
    while (table->entries[i].address)
        i = vt_table_next(table, i);
    table->entries[i] = entry;
    table->used++;
}

/* Makes sure that one more entry fits. False if there is no memory for it. */
static inline bool vt_table_make_room(struct vt_address_table *table)
{
    struct vt_address_table before = {.entries = table->entries, .bits = table->bits};
    size_t count = before.entries ? (size_t)1 << before.bits : 0;
    if (count && table->used < count / 4 * 3)
        return true;
    unsigned bits = before.entries ? before.bits + VT_TABLE_GROWTH_BITS : VT_TABLE_FIRST_BITS;
    void *memory = bits > VT_TABLE_MAXIMUM_BITS ? NULL : vt_memory_make(vt_table_bytes(bits));
    if (!memory)
        return table->used + 1 < count;
    table->entries = memory;
    table->bits = bits;
    table->used = 0;
    for (size_t i = 0; i < count; i++)
        if (before.entries[i].address)
            vt_table_insert(table, before.entries[i]);
    vt_memory_free(before.entries, vt_table_bytes(before.bits));
    return true;
}

static inline struct vt_address_entry *vt_table_find(const struct vt_address_table *table, uint64_t address)
{
    struct vt_address_entry *entries = table->entries;
    if (!entries)
        return NULL;
    uint32_t i = vt_table_home(table, address);
    while (entries[i].address != address) {
        if (!entries[i].address)
            return NULL;
        i = vt_table_next(table, i);
    }
    return &entries[i];
}

static inline bool vt_table_remove(struct vt_address_table *table, uint64_t address,
                                   struct vt_address_entry *found)
{
    struct vt_address_entry *entries = table->entries, *there = vt_table_find(table, address);
    const uint32_t mask = (UINT32_C(1) << table->bits) - 1;
    if (!there)
        return false;
    *found = *there;
    for (uint32_t hole = (uint32_t)(there - entries), at = vt_table_next(table, hole);;
         at = vt_table_next(table, at)) {
        if (!entries[at].address) {
            entries[hole].address = 0;
            break;
        }
        if (((at - vt_table_home(table, entries[at].address)) & mask) >= ((at - hole) & mask)) {
            entries[hole] = entries[at];
            hole = at;
        }
    }
    table->used--;
    return true;
}

#endif
