/* The hash of keys in memory. Files hold no hash of this kind, so it may change. */
#ifndef VT_HASH_H
#define VT_HASH_H

#include <stddef.h>
#include <stdint.h>
#include <xxhash.h>

#define VT_HASH_START UINT64_C(0)

/* Hash of some bytes that come after those of `hash`; VT_HASH_START = after none. */
static inline uint64_t vt_hash_bytes(const void *data, size_t bytes, uint64_t hash)
{
    return XXH3_64bits_withSeed(data, bytes, hash);
}

/* Hash of one more number. The order of numbers matters. */
static inline uint64_t vt_mix(uint64_t hash, uint64_t number)
{
    hash = hash * UINT64_C(0x9e3779b97f4a7c15) + number;
    hash = (hash ^ hash >> 32) * UINT64_C(0xd6e8feb86659fd93);
    return hash ^ hash >> 29;
}

#endif
