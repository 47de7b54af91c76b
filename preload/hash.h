/* Hashes of 64-bit words, for tables in memory and the keys of stacks; none is stored in a trace. Pure
 * functions. */
#ifndef VT_HASH_H
#define VT_HASH_H

#include <stdint.h>

/* Odd numbers with well-mixed bits. In a sum of products each term needs its own multiplier. */
#define VT_HASH_1 UINT64_C(0x9e3779b97f4a7c15)
#define VT_HASH_2 UINT64_C(0xd6e8feb86659fd93)
#define VT_HASH_3 UINT64_C(0xa0761d6478bd642f)
#define VT_HASH_4 UINT64_C(0x8ebc6af09c88c6e3)
#define VT_HASH_5 UINT64_C(0xe7037ed1a0b428db)

/* One multiplication: only the upper bits are well mixed. */
static inline uint64_t vt_hash(uint64_t word)
{
    return word * VT_HASH_1;
}

/* Adds a word to the hash of a sequence. */
static inline uint64_t vt_hash_add(uint64_t hash, uint64_t word)
{
    hash = vt_hash(hash ^ word);
    return hash ^ hash >> 29;
}

/* Every bit of the result depends on every bit of `word`. */
static inline uint64_t vt_hash_spread(uint64_t word)
{
    word = (word ^ word >> 32) * VT_HASH_2;
    return word ^ word >> 32;
}

#endif
