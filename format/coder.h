/* Bits to bytes and back: a range coder whose probabilities adapt (format.h, "Events of a chain"). One set
 * of functions for both directions: each takes a value, and when reading ignores it and returns the value
 * read. Nothing here fails: past the end of the input there are zeros, and a writer's caller provides enough
 * room. */
#ifndef VT_CODER_H
#define VT_CODER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define VT_INLINE static inline __attribute__((always_inline))

/* Two streams in one buffer: bits with a chance from its start, plain bits backwards from its end. */
struct vt_coder {
    uint64_t low, range; /* when reading, low is how far the input lies inside the range */
    uint64_t plain;      /* plain_bits low bits, not written yet or already read */
    unsigned plain_bits;
    union {
        uint8_t *out; /* writing: the next byte */
        const uint8_t *in;
    };
    union {
        uint8_t *plain_out; /* writing: just past the next byte, going backwards */
        const uint8_t *plain_in;
    };
    const uint8_t *start, *end; /* reading */
};

/* How likely a bit is 1, in the upper 22 bits; in the lower 10 how many bits that was learned from. */
typedef uint32_t vt_chance;
enum {
    VT_CHANCE_COUNT_BITS = 10,
    VT_CHANCE_BITS = 12, /* of the chance, when coding */
    VT_CHANCE_LEARNED = 60,
    VT_NUMBER_CHANCES = 128, /* of vt_code_number */
};
#define VT_CHANCE_EVEN (UINT32_C(1) << 31)

/* 65536 / (n + 1.5): how far a chance learned from n bits moves. */
extern const uint16_t vt_chance_steps[VT_CHANCE_LEARNED + 1];

/* `out` to `end` must have room for everything that is written. */
VT_INLINE void vt_coder_write(struct vt_coder *coder, uint8_t *out, uint8_t *end)
{
    *coder = (struct vt_coder){.range = UINT64_MAX, .out = out, .plain_out = end};
}

VT_INLINE void vt_coder_refill(struct vt_coder *coder)
{
    uint32_t word = 0;
    if (coder->end - coder->in >= 4) {
        memcpy(&word, coder->in, 4);
        word = __builtin_bswap32(word);
        coder->in += 4;
    } else {
        for (unsigned shift = 24; coder->in < coder->end; shift -= 8)
            word |= (uint32_t)*coder->in++ << shift;
    }
    coder->low = coder->low << 32 | word;
}

VT_INLINE void vt_coder_read(struct vt_coder *coder, const uint8_t *in, const uint8_t *end)
{
    *coder = (struct vt_coder){.range = UINT64_MAX, .in = in, .plain_in = end, .start = in, .end = end};
    vt_coder_refill(coder);
    vt_coder_refill(coder);
}

/* Adds to the number whose leading bytes have been written; carries into them. */
VT_INLINE void vt_coder_raise(struct vt_coder *coder, uint64_t by)
{
    coder->low += by;
    if (coder->low < by)
        for (uint8_t *at = coder->out - 1; ++*at == 0; at--)
            ;
}

VT_INLINE void vt_coder_settle(struct vt_coder *coder, bool reading)
{
    while (coder->range >> 32 == 0) {
        coder->range <<= 32;
        if (reading) {
            vt_coder_refill(coder);
            continue;
        }
        const uint32_t word = __builtin_bswap32((uint32_t)(coder->low >> 32));
        memcpy(coder->out, &word, 4);
        coder->out += 4;
        coder->low <<= 32;
    }
}

/* Ends both streams: writes the fewest bytes that lie in the range whatever follows, then moves the plain
 * bits, which end at `end`, next to them. If the result would end before `least`, zeros go in between.
 * Returns the end. */
static inline uint8_t *vt_coder_end(struct vt_coder *coder, const uint8_t *end, const uint8_t *least)
{
    uint64_t mask = UINT64_MAX, raise;
    do {
        mask >>= 8;
        raise = (0 - coder->low) & mask;
    } while (raise + mask >= coder->range);
    vt_coder_raise(coder, raise);
    for (; mask != UINT64_MAX; mask = mask << 8 | 0xff, coder->low <<= 8)
        *coder->out++ = (uint8_t)(coder->low >> 56);
    if (coder->plain_bits)
        *--coder->plain_out = (uint8_t)coder->plain;
    const size_t bytes = (size_t)(end - coder->plain_out);
    while (coder->out + bytes < least)
        *coder->out++ = 0;
    memmove(coder->out, coder->plain_out, bytes);
    return coder->out + bytes;
}

/* Codes one bit by its chance, which adapts. */
VT_INLINE bool vt_code_bit(struct vt_coder *coder, vt_chance *chance, bool bit, bool reading)
{
    const uint32_t now = *chance;
    const unsigned count = now & ((1u << VT_CHANCE_COUNT_BITS) - 1);
    const uint64_t part = (coder->range >> VT_CHANCE_BITS) * (now >> (32 - VT_CHANCE_BITS));
    if (reading)
        bit = coder->low < part;
    const int32_t target = bit ? (1 << 22) - (1 << 10) : 1 << 10,
                  value = (int32_t)(now >> VT_CHANCE_COUNT_BITS);
    *chance = ((uint32_t)(value + (int32_t)(((int64_t)(target - value) * vt_chance_steps[count]) >> 16))
               << VT_CHANCE_COUNT_BITS) |
              (count + (count < VT_CHANCE_LEARNED));
    if (bit) {
        coder->range = part;
    } else {
        coder->range -= part;
        if (reading)
            coder->low -= part;
        else
            vt_coder_raise(coder, part);
    }
    vt_coder_settle(coder, reading);
    return bit;
}

VT_INLINE void vt_coder_refill_plain(struct vt_coder *coder)
{
    uint32_t word;
    if (coder->plain_in - coder->start >= 4) {
        memcpy(&word, coder->plain_in -= 4, 4);
        coder->plain |= (uint64_t)__builtin_bswap32(word) << coder->plain_bits;
        coder->plain_bits += 32;
        return;
    }
    coder->plain |= (uint64_t)(coder->plain_in > coder->start ? *--coder->plain_in : 0) << coder->plain_bits;
    coder->plain_bits += 8;
}

/* The lowest `bits` bits of a value, at most 32; no chances. */
VT_INLINE uint64_t vt_code_plain(struct vt_coder *coder, unsigned bits, uint64_t value, bool reading)
{
    const uint64_t mask = (UINT64_C(1) << bits) - 1;
    if (reading) {
        while (coder->plain_bits < bits)
            vt_coder_refill_plain(coder);
        value = coder->plain & mask;
        coder->plain >>= bits;
        coder->plain_bits -= bits;
        return value;
    }
    coder->plain |= (value & mask) << coder->plain_bits;
    for (coder->plain_bits += bits; coder->plain_bits >= 8; coder->plain_bits -= 8, coder->plain >>= 8)
        *--coder->plain_out = (uint8_t)coder->plain;
    return value & mask;
}

/* `bits` bits, the highest first; each has its own chance, chosen by the bits before it: 1 << bits chances
 * in all. */
VT_INLINE unsigned vt_code_tree(struct vt_coder *coder, vt_chance *chances, unsigned bits, unsigned value,
                                bool reading)
{
    unsigned node = 1;
    for (unsigned i = bits; i-- > 0;)
        node = node << 1 | vt_code_bit(coder, &chances[node], value >> i & 1, reading);
    return node & ((1u << bits) - 1);
}

/* The bits below the highest one of a value of `length` bits, plain. */
VT_INLINE uint64_t vt_code_tail(struct vt_coder *coder, unsigned length, uint64_t value, bool reading)
{
    enum { HALF = 32 };
    uint64_t made = length > 0;
    if (length > HALF + 1) {
        made = made << (length - 1 - HALF) | vt_code_plain(coder, length - 1 - HALF, value >> HALF, reading);
        length = HALF + 1;
    }
    return length > 1 ? made << (length - 1) | vt_code_plain(coder, length - 1, value, reading) : made;
}

VT_INLINE unsigned vt_bit_length(uint64_t value)
{
    return value ? 64 - (unsigned)__builtin_clzll(value) : 0;
}

/* Any number; small ones are cheap. Uses VT_NUMBER_CHANCES chances. Not inline, since it is rarely needed. */
uint64_t vt_code_number(struct vt_coder *coder, vt_chance *chances, uint64_t value, bool reading);
/* The same; small negative numbers (modulo 2^64) are cheap too. */
static inline uint64_t vt_code_difference(struct vt_coder *coder, vt_chance *chances, uint64_t value,
                                          bool reading)
{
    value = vt_code_number(coder, chances, value << 1 ^ (0 - (value >> 63)), reading);
    return value >> 1 ^ (0 - (value & 1));
}

#endif
