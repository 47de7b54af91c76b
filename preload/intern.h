/* Interning: a 64-bit hash of a thing's content to its small id, without locks.
 *
 * An entry is claimed by its hash, and published by its id once the definition stands in the ring. A thread
 * that meets a claimed but unpublished entry writes a definition of its own under another id: nobody waits.
 */
#ifndef VT_INTERN_H
#define VT_INTERN_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct vt_intern_entry {
    _Atomic uint64_t hash; /* 0 = free */
    _Atomic uint32_t id;   /* 0 = not published */
};

/* Entries are first sought among these few at the table's start, so that what a program's steps repeat lies
 * on few pages: a miss of the page tables costs more than all else here. Others lie anywhere. */
enum { VT_INTERN_FRONT = 4096 };

struct vt_intern {
    struct vt_intern_entry *entries; /* a power of two; its own mapping, not inherited by fork */
    uint64_t mask;                   /* VT_INTERN_FRONT - 1 at least */
    _Atomic uint32_t used;
    _Atomic uint32_t next_id;
};

/* Returns 0 or -ENOMEM. Memory is taken from the kernel, as it is touched. */
int vt_intern_make(struct vt_intern *table, unsigned capacity_bits);
void vt_intern_free(struct vt_intern *table);

/* The entry of `hash`, claimed if it was new; NULL if the table is full. */
struct vt_intern_entry *vt_intern_slow(struct vt_intern *table, uint64_t hash);

static inline struct vt_intern_entry *vt_intern_find(struct vt_intern *table, uint64_t hash)
{
    struct vt_intern_entry *entry = &table->entries[hash & (VT_INTERN_FRONT - 1)];
    if (__builtin_expect(atomic_load_explicit(&entry->hash, memory_order_relaxed) == hash, 1))
        return entry;
    return vt_intern_slow(table, hash);
}

#endif
