#include "record/intern.h"

#include <errno.h>
#include <stddef.h>

#include "memory.h"

/* How many entries are tried in the first level, starting at the hash's; twice as many in each further
 * level. */
enum { WINDOW = 8 };

static size_t level_entries(const struct vt_intern *table, int level)
{
    return (size_t)1 << (table->first_bits + (unsigned)level * VT_INTERN_LEVEL_SHIFT);
}

static size_t hashes_bytes(const struct vt_intern *table)
{
    return vt_intern_hashed(table) * sizeof *table->hashes;
}

static struct vt_intern_entry *make_level(struct vt_intern *table, int level)
{
    size_t bytes = level_entries(table, level) * sizeof(struct vt_intern_entry);
    void *memory = vt_memory_make(bytes);
    struct vt_intern_entry *there = NULL;
    if (!memory)
        return NULL;
    if (atomic_compare_exchange_strong(&table->levels[level], &there, memory))
        return memory;
    vt_memory_free(memory, bytes); /* another thread was first */
    return there;
}

int vt_intern_make(struct vt_intern *table, unsigned first_bits)
{
    table->first_bits = first_bits;
    atomic_init(&table->next_id, 1);
    table->hashes = vt_memory_make(hashes_bytes(table));
    return table->hashes && make_level(table, 0) ? 0 : -ENOMEM;
}

void vt_intern_free(struct vt_intern *table)
{
    for (int level = 0; level < VT_INTERN_LEVELS; level++) {
        struct vt_intern_entry *entries = atomic_load(&table->levels[level]);
        vt_memory_free(entries, level_entries(table, level) * sizeof *entries);
        atomic_store(&table->levels[level], NULL);
    }
    vt_memory_free(table->hashes, hashes_bytes(table));
    table->hashes = NULL;
}

void vt_intern_replace_memory(struct vt_intern *table)
{
    vt_replace_memory(table->hashes, hashes_bytes(table));
    for (int level = 0; level < VT_INTERN_LEVELS; level++)
        vt_replace_memory(atomic_load(&table->levels[level]),
                          level_entries(table, level) * sizeof(struct vt_intern_entry));
}

/* The entry of `hash` in one level, claimed if it is new; NULL if all its places are taken. */
static struct vt_intern_entry *find_in(struct vt_intern_entry *entries, uint64_t mask, int level,
                                       uint64_t hash)
{
    /* Each level uses other bits of the hash, so that entries that collide in one do not collide in the
     * next. */
    const uint64_t place = hash >> level * 8;
    for (uint64_t i = 0; i < (uint64_t)WINDOW << level; i++) {
        struct vt_intern_entry *entry = &entries[(place + i) & mask];
        uint64_t there = atomic_load_explicit(&entry->hash, memory_order_relaxed);
        if (there == 0 && atomic_compare_exchange_strong(&entry->hash, &there, hash))
            return entry;
        if (there == hash)
            return entry;
    }
    return NULL;
}

struct vt_intern_entry *vt_intern_slow(struct vt_intern *table, uint64_t hash)
{
    for (int level = 0; level < VT_INTERN_LEVELS; level++) {
        struct vt_intern_entry *entries = atomic_load_explicit(&table->levels[level], memory_order_acquire);
        if (!entries && !(entries = make_level(table, level)))
            return NULL;
        struct vt_intern_entry *found = find_in(entries, level_entries(table, level) - 1, level, hash);
        if (found)
            return found;
    }
    return NULL;
}

void vt_intern_publish(struct vt_intern *table, struct vt_intern_entry *entry, uint32_t id)
{
    const uint64_t hash = atomic_load_explicit(&entry->hash, memory_order_relaxed);
    atomic_store_explicit(&entry->id, id, memory_order_release);
    if (id < vt_intern_hashed(table))
        atomic_store_explicit(&table->hashes[id], hash, memory_order_release);
}
