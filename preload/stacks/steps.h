/* How the caller is found from each return address, remembered for all threads.
 *
 * One word for each return address, so that threads share them without a lock: how to find the caller's stack
 * pointer (the CFA), base pointer and return address. Index and tag together are the hashed address. Threads:
 * any. */
#ifndef VT_STEPS_H
#define VT_STEPS_H

#include <stdatomic.h>

#include "hash.h"
#include "stacks/unwind_rules.h"

#if defined __x86_64__
enum { VT_ADDRESS_BITS = 47, VT_TAG_BITS = 33, VT_CFA_BITS = 16, VT_CFA_UNIT = 8 };
#else /* Linux loads libraries at its upper end of 48 bits; stack pointers are multiples of 16 */
enum { VT_ADDRESS_BITS = 48, VT_TAG_BITS = 34, VT_CFA_BITS = 15, VT_CFA_UNIT = 16 };
#endif
enum {
    VT_PAIR_BITS = VT_ADDRESS_BITS - VT_TAG_BITS, /* two words for each index, so that two addresses with the
                                                     same index do not evict each other */
    VT_BASE_BITS = 13,
    VT_KIND_SHIFT = VT_BASE_BITS + VT_CFA_BITS,
    VT_TAG_SHIFT = 64 - VT_TAG_BITS,
};

/* On x86-64 the return address is below the CFA. On AArch64 it is above the saved base pointer: a frame
 * record. */
enum vt_step_kind {
    VT_STEP_OTHER = 0,      /* cfa: enum vt_other_step */
    VT_STEP_FROM_STACK = 1, /* CFA = stack pointer + cfa */
    VT_STEP_FROM_BASE = 2,  /* CFA = base pointer + cfa */
#if defined __x86_64__
    VT_STEP_FROM_MEMORY = 3, /* CFA = the word at base pointer + cfa: functions that align their stack */
#else
    VT_STEP_WITHOUT_BASE = 3, /* CFA = stack pointer + cfa; the base pointer is the same, and `base` tells
                                 where the return address is */
#endif
};
enum vt_other_step { VT_OTHER_UNKNOWN = 0, VT_OTHER_END = 1, VT_OTHER_FULL = 2 /* needs more registers */ };
/* Else: saved that many words below the CFA. */
enum { VT_BASE_SAME = 0, VT_BASE_AT_ITSELF = (1 << VT_BASE_BITS) - 1 };

extern _Atomic uint64_t vt_steps[1 << VT_PAIR_BITS][2];

struct vt_step_place {
    _Atomic uint64_t *pair;
    uint64_t tag;
};

static inline struct vt_step_place vt_step_place_of(uintptr_t address)
{
    uint64_t scrambled = vt_hash(address) & ((UINT64_C(1) << VT_ADDRESS_BITS) - 1);
    return (struct vt_step_place){vt_steps[scrambled >> VT_TAG_BITS], scrambled << VT_TAG_SHIFT};
}

/* Reads the tables, and remembers what they say. */
uint64_t vt_step_find(uintptr_t address);

static inline uint64_t vt_step_from(uintptr_t address)
{
    const uint64_t tag_mask = ~UINT64_C(0) << VT_TAG_SHIFT;
    struct vt_step_place place = vt_step_place_of(address);
    for (int i = 0; i < 2; i++) {
        uint64_t step = atomic_load_explicit(&place.pair[i], memory_order_relaxed);
        if (__builtin_expect(((step ^ place.tag) & tag_mask) == 0 && step << VT_TAG_BITS != 0, 1))
            return step & ~tag_mask;
    }
    return vt_step_find(address);
}

static inline int64_t vt_step_cfa(uint64_t step)
{
    return ((int64_t)(step << (64 - VT_KIND_SHIFT)) >> (64 - VT_CFA_BITS)) * VT_CFA_UNIT;
}

static inline bool vt_step_is_full(uint64_t step)
{
    return (step >> VT_BASE_BITS & ((1 << VT_CFA_BITS) - 1)) == VT_OTHER_FULL;
}

/* A library may be elsewhere now. */
void vt_steps_forget(void);

#endif
