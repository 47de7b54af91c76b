#include "hooks/first_uses.h"

#include "hash.h"

#include <stdatomic.h>
#include <stddef.h>

/* A key is at most PLACES places after its hash's. Programs that capture piece by piece have thousands of
 * graphs. */
#define SIZE 65536u
#define PLACES 8u
static _Atomic uint64_t seen[SIZE];

/* Handles are addresses, often equally spaced: one multiplication would not spread them. */
static inline size_t place_of(uint64_t key)
{
    return vt_hash(vt_hash_spread(key)) >> 48;
}

bool vt_is_first_use(uint64_t key)
{
    const size_t home = place_of(key);
    for (unsigned i = 0; i < PLACES; i++)
        if (atomic_load_explicit(&seen[(home + i) % SIZE], memory_order_relaxed) == key)
            return false;
    for (unsigned i = 0; i < PLACES; i++) {
        uint64_t nobody = 0;
        if (atomic_compare_exchange_strong(&seen[(home + i) % SIZE], &nobody, key))
            return true;
    }
    return false;
}

void vt_forget_use(uint64_t key)
{
    const size_t home = place_of(key);
    for (unsigned i = 0; i < PLACES; i++) {
        uint64_t here = key;
        atomic_compare_exchange_strong(&seen[(home + i) % SIZE], &here, 0);
    }
}
