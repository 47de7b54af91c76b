/* Interning: a lock-free table from the 64-bit hash of some contents to a small id.
 *
 * A thread claims an entry with the hash, and publishes the id once the definition is in the ring. A thread
 * that meets a claimed but unpublished entry writes its own definition under another id: nobody waits.
 *
 * A table has levels, each eight times as large as the one before and made when that is full. What a
 * program's steps repeat is in the first level, on few pages: a TLB miss costs more than everything else
 * here. Threads: any. */
#ifndef VT_INTERN_H
#define VT_INTERN_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct vt_intern_entry {
    _Atomic uint64_t hash; /* with VT_INTERN_MARK; 0 = free */
    _Atomic uint32_t id;   /* 0 = not published */
};

/* Set in every hash, so that none is 0. Not used to choose an entry. */
#define VT_INTERN_MARK (UINT64_C(1) << 63)

enum { VT_INTERN_LEVELS = 4, VT_INTERN_LEVEL_SHIFT = 3 };

struct vt_intern {
    unsigned first_bits; /* the first level has 1 << first_bits entries */
    _Atomic(struct vt_intern_entry *) levels[VT_INTERN_LEVELS]; /* separate mappings, not inherited by fork */
    _Atomic uint32_t next_id;
    _Atomic uint64_t *hashes; /* of the first ids, by id; 0 = not published */
};

/* Returns 0 or -ENOMEM. Memory comes from the kernel. */
int vt_intern_make(struct vt_intern *table, unsigned first_bits);
void vt_intern_free(struct vt_intern *table);
/* In a forked child (memory.h). */
void vt_intern_replace_memory(struct vt_intern *table);

/* Gives the entry its id, after its definition is in the ring. */
void vt_intern_publish(struct vt_intern *table, struct vt_intern_entry *entry, uint32_t id);

/* Ids below this have their hash in `hashes`. */
static inline uint32_t vt_intern_hashed(const struct vt_intern *table)
{
    return UINT32_C(16) << table->first_bits;
}

/* Whether `hash` has this id; false if that is not known. A program that repeats itself needs consecutive
 * ids: checking the next one reads memory in order, while vt_intern_find jumps around. */
static inline bool vt_intern_is(const struct vt_intern *table, uint64_t hash, uint32_t id)
{
    return id < vt_intern_hashed(table) &&
           atomic_load_explicit(&table->hashes[id], memory_order_acquire) == hash;
}

/* The entry of `hash`, claimed if it is new; NULL if there is no room. */
struct vt_intern_entry *vt_intern_slow(struct vt_intern *table, uint64_t hash);

static inline struct vt_intern_entry *vt_intern_find(struct vt_intern *table, uint64_t hash)
{
    struct vt_intern_entry *first = atomic_load_explicit(&table->levels[0], memory_order_relaxed);
    struct vt_intern_entry *entry = &first[hash & ((UINT64_C(1) << table->first_bits) - 1)];
    if (__builtin_expect(atomic_load_explicit(&entry->hash, memory_order_relaxed) == hash, 1))
        return entry;
    return vt_intern_slow(table, hash);
}

#endif
