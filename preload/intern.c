#include "intern.h"

#include <errno.h>
#include <stddef.h>
#include <sys/mman.h>

int vt_intern_make(struct vt_intern *table, unsigned capacity_bits)
{
    size_t bytes = sizeof(struct vt_intern_entry) << capacity_bits;
    void *memory =
        mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED)
        return -ENOMEM;
    madvise(memory, bytes, MADV_DONTFORK);
    table->entries = memory;
    table->mask = (UINT64_C(1) << capacity_bits) - 1;
    atomic_init(&table->used, 0);
    atomic_init(&table->next_id, 1);
    return 0;
}

void vt_intern_free(struct vt_intern *table)
{
    if (table->entries)
        munmap(table->entries, sizeof(struct vt_intern_entry) * (table->mask + 1));
    table->entries = NULL;
}

struct vt_intern_entry *vt_intern_slow(struct vt_intern *table, uint64_t hash)
{
    uint64_t place = hash & (VT_INTERN_FRONT - 1);
    for (uint64_t i = hash;; place = i++ & table->mask) {
        struct vt_intern_entry *entry = &table->entries[place];
        uint64_t there = atomic_load_explicit(&entry->hash, memory_order_relaxed);
        if (there == hash)
            return entry;
        if (there)
            continue;
        /* Keep a quarter free, so that every search ends. */
        if (atomic_fetch_add_explicit(&table->used, 1, memory_order_relaxed) >
            table->mask - table->mask / 4) {
            atomic_fetch_sub_explicit(&table->used, 1, memory_order_relaxed);
            return NULL;
        }
        if (atomic_compare_exchange_strong(&entry->hash, &there, hash))
            return entry;
        atomic_fetch_sub_explicit(&table->used, 1, memory_order_relaxed);
        if (there == hash)
            return entry;
    }
}
