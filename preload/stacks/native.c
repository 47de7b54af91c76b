#include "stacks/native.h"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <stdatomic.h>
#include <string.h>

#include "hash.h"
#include "stacks/python_layout.h"
#include "stacks/steps.h"
#include "stacks/unloads.h"
#include "stacks/unwind.h"

static _Atomic bool enabled;

/* The interpreter's evaluation function, [start, end). Published by storing start. */
static _Atomic uintptr_t interpreter_start, interpreter_end;
/* Return address in the loop of autograd's engine: its callers are the same in all backward passes. */
static _Atomic uintptr_t engine_loop;
#define ENGINE_LOOP "_ZN5torch8autograd6Engine11thread_mainE"
/* Raised when any of these, or a remembered step below, may have changed: earlier walks are then void. */
static _Atomic uint32_t generation = 1;

static void void_recent_walks(void)
{
    atomic_fetch_add_explicit(&generation, 1, memory_order_release);
}

void vt_native_start(bool wanted)
{
    vt_unwind_start();
    atomic_store(&enabled, wanted);
}

void vt_native_find_interpreter(void)
{
    static bool searched;
    Dl_info information;
    ElfW(Sym) *symbol = NULL;
    if (searched || !vt_python_loaded())
        return;
    searched = true;
    void *evaluate = dlsym(RTLD_DEFAULT, "_PyEval_EvalFrameDefault");
    if (!evaluate || !dladdr1(evaluate, &information, (void **)&symbol, RTLD_DL_SYMENT) || !symbol)
        return;
    atomic_store_explicit(&interpreter_end, (uintptr_t)evaluate + symbol->st_size, memory_order_relaxed);
    atomic_store_explicit(&interpreter_start, (uintptr_t)evaluate, memory_order_release);
    void_recent_walks();
}

void vt_native_note_symbol(uint64_t return_address, const char *linkage_name)
{
    if (strncmp(linkage_name, ENGINE_LOOP, sizeof ENGINE_LOOP - 1) != 0)
        return;
    atomic_store_explicit(&engine_loop, return_address, memory_order_relaxed);
    void_recent_walks();
}

/* ---- the result ---- */

/* Our own frames are left out, also in the middle (a runtime wrapper above a driver's). They are recognised
 * by address, since inlining changes their number. */
extern const char __ehdr_start __attribute__((visibility("hidden")));
extern const char _end __attribute__((visibility("hidden")));

struct walk {
    uint64_t *addresses; /* NULL: only their hash is wanted */
    size_t count;
    uint64_t hash;
    uintptr_t interpreter_start, interpreter_bytes, engine_loop, entry_frame;
    uintptr_t unloads_start, unloads_bytes;
    uint32_t generation;
    bool truncated;
};

/* False at the end of the walk. */
static inline __attribute__((always_inline)) bool take_address(struct walk *walk, uintptr_t address)
{
    const uintptr_t own_start = (uintptr_t)&__ehdr_start, own_end = (uintptr_t)&_end;
    if (address - walk->interpreter_start < walk->interpreter_bytes || address == walk->engine_loop)
        return false;
    if (address - own_start < own_end - own_start)
        return true;
    if (__builtin_expect(walk->count == VT_NATIVE_DEPTH, 0)) {
        walk->truncated = true;
        return false;
    }
    uint64_t marked = address;
    if (__builtin_expect(address - walk->unloads_start < walk->unloads_bytes, 0))
        marked = vt_unloads_mark(address);
    if (walk->addresses)
        walk->addresses[walk->count] = marked;
    walk->count++;
    walk->hash = vt_hash_add(walk->hash, marked);
    return true;
}

/* Recognises the interpreter also where its symbol does not cover it (parts placed elsewhere by the
 * compiler, or one function for each instruction): it is the frame around the entry frame. That frame was
 * taken already, so it is dropped. */
static inline bool ends_at_interpreter(struct walk *walk, uintptr_t stack, uintptr_t cfa, uint64_t hash)
{
    if (__builtin_expect(walk->entry_frame - stack >= cfa - stack || walk->count == 0, 1))
        return false;
    walk->count--;
    walk->hash = hash;
    return true;
}

void vt_native_forget(void)
{
    vt_unwind_forget();
    vt_steps_forget();
    void_recent_walks();
}

/* Slower, with all registers, for stacks with a frame that needs them. */
__attribute__((noinline)) static void walk_full(struct walk *walk)
{
    struct vt_unwind_frame frame = {0};
    VT_UNWIND_HERE(&frame);
    struct vt_stack_bounds bounds = vt_stack_bounds_of(frame.registers[VT_REGISTER_STACK]);
    uintptr_t stack = frame.registers[VT_REGISTER_STACK];
    uint64_t before = walk->hash, hash = before;
    /* An interrupted frame may be on a lower stack than the handler's: it is not around the entry frame. */
    while (vt_unwind_step(&frame, &bounds) &&
           (frame.registers[VT_REGISTER_STACK] <= stack ||
            !ends_at_interpreter(walk, stack, frame.registers[VT_REGISTER_STACK], before)) &&
           take_address(walk, frame.registers[VT_REGISTER_RETURN])) {
        stack = frame.registers[VT_REGISTER_STACK];
        before = hash;
        hash = walk->hash;
    }
}

/* ---- walks made lately ---- */

/* Which words a walk read. More than VT_RECENT_WORDS are counted, not kept. */
struct notes {
    struct vt_recent_walk *walk;
    uint32_t words;
    bool far; /* a word was too far from the start, or not aligned */
};

/* Notes that a walk depends on the word at `slot`. */
static inline __attribute__((always_inline)) void note_word(struct notes *notes, uintptr_t slot)
{
    if (!notes)
        return;
    const uintptr_t offset = slot - notes->walk->start;
    notes->walk->offsets[notes->words < VT_RECENT_WORDS ? notes->words : VT_RECENT_WORDS - 1] =
        (uint16_t)(offset / 8);
    notes->far |= offset % 8 != 0 || offset / 8 > UINT16_MAX;
    notes->words++;
}

enum { LANES = 4 }; /* so that multiplications need not wait for each other */

static inline __attribute__((always_inline, no_sanitize("address", "thread"))) uint64_t
hash_words(const struct vt_recent_walk *walk)
{
    const volatile uint64_t *start = (const volatile uint64_t *)walk->start;
    uint64_t lanes[LANES] = {VT_HASH_1, VT_HASH_2, VT_HASH_3, VT_HASH_4};
    for (uint32_t i = 0; i < walk->words; i += LANES)
        for (uint32_t lane = 0; lane < LANES; lane++)
            lanes[lane] = (lanes[lane] + start[walk->offsets[i + lane]]) * VT_HASH_5;
    return vt_hash_add(vt_hash_add(lanes[0], lanes[1]), vt_hash_add(lanes[2], lanes[3]));
}

/* False if the walk cannot be kept. */
static bool finish_notes(struct notes *notes)
{
    struct vt_recent_walk *walk = notes->walk;
    if (notes->far || notes->words > VT_RECENT_WORDS)
        return false;
    _Static_assert(VT_RECENT_WORDS % LANES == 0, "whole lanes");
    while (notes->words % LANES)
        walk->offsets[notes->words++] = walk->offsets[0];
    walk->words = (uint16_t)notes->words;
    walk->words_hash = hash_words(walk);
    return true;
}

/* Where a walk is. The base pointer is the word at `base_slot`. */
struct position {
    uintptr_t stack, base, base_slot, address;
};

#if defined __x86_64__
static inline __attribute__((always_inline)) bool find_cfa(uint64_t step, const struct position *at,
                                                           struct vt_stack_bounds *bounds,
                                                           struct notes *notes, uintptr_t *cfa)
{
    const uintptr_t offset = (uintptr_t)vt_step_cfa(step);
    if (step >> VT_KIND_SHIFT == VT_STEP_FROM_STACK) {
        *cfa = at->stack + offset;
        return true;
    }
    note_word(notes, at->base_slot);
    *cfa = at->base + offset;
    if (step >> VT_KIND_SHIFT == VT_STEP_FROM_BASE)
        return true;
    note_word(notes, at->base + offset);
    return vt_stack_read(bounds, at->base + offset, cfa);
}

static inline __attribute__((always_inline)) bool move_to_caller(uint64_t step, uintptr_t cfa,
                                                                 struct position *at,
                                                                 struct vt_stack_bounds *bounds,
                                                                 struct notes *notes)
{
    const uint64_t words = step & ((1 << VT_BASE_BITS) - 1);
    if (__builtin_expect(!vt_stack_read(bounds, cfa - 8, &at->address), 0))
        return false;
    note_word(notes, cfa - 8);
    at->stack = cfa;
    if (words == VT_BASE_AT_ITSELF)
        note_word(notes, at->base_slot);
    if (words == VT_BASE_SAME)
        return true;
    at->base_slot = words == VT_BASE_AT_ITSELF ? at->base : cfa - words * 8;
    return vt_stack_read(bounds, at->base_slot, &at->base);
}
#else
static inline __attribute__((always_inline)) bool find_cfa(uint64_t step, const struct position *at,
                                                           struct vt_stack_bounds *bounds,
                                                           struct notes *notes, uintptr_t *cfa)
{
    const bool from_base = step >> VT_KIND_SHIFT == VT_STEP_FROM_BASE;
    (void)bounds;
    if (from_base)
        note_word(notes, at->base_slot);
    *cfa = (from_base ? at->base : at->stack) + (uintptr_t)vt_step_cfa(step);
    return true;
}

static inline __attribute__((always_inline)) bool move_to_caller(uint64_t step, uintptr_t cfa,
                                                                 struct position *at,
                                                                 struct vt_stack_bounds *bounds,
                                                                 struct notes *notes)
{
    const uintptr_t slot = cfa - (step & ((1 << VT_BASE_BITS) - 1)) * 8;
    const bool is_record = step >> VT_KIND_SHIFT != VT_STEP_WITHOUT_BASE;
    const uintptr_t address_slot = is_record ? slot + 8 : slot;
    if (__builtin_expect(!vt_stack_read(bounds, address_slot, &at->address), 0))
        return false;
    note_word(notes, address_slot);
    at->address = vt_without_signature(at->address);
    at->stack = cfa;
    if (!is_record)
        return true;
    at->base_slot = slot;
    return vt_stack_read(bounds, slot, &at->base);
}
#endif

/* False if walk_full is needed. Begins in the caller of the function whose frame record is at `frame`: the
 * caller's base pointer and the address to return to. */
static inline __attribute__((always_inline)) bool
walk_fast(struct walk *walk, const uint64_t *frame, struct vt_stack_bounds *bounds, struct notes *notes)
{
    struct position at = {bounds->low, frame[0], (uintptr_t)frame, vt_without_signature(frame[1])};
    note_word(notes, (uintptr_t)(frame + 1));
    for (uint64_t before = walk->hash; take_address(walk, at.address); before = walk->hash) {
        const uint64_t step = vt_step_from(at.address);
        uintptr_t cfa;
        if (__builtin_expect(step >> VT_KIND_SHIFT == VT_STEP_OTHER, 0))
            return !vt_step_is_full(step);
        if (!find_cfa(step, &at, bounds, notes, &cfa) || __builtin_expect(cfa <= at.stack, 0) ||
            ends_at_interpreter(walk, at.stack, cfa, before) ||
            !move_to_caller(step, cfa, &at, bounds, notes))
            return true;
    }
    return true;
}

/* `stack`: the stack pointer that the caller has after the call. */
static __attribute__((noinline)) void walk_stack(struct walk *walk, const uint64_t *frame, uintptr_t stack)
{
    const struct walk empty = *walk;
    struct vt_stack_bounds bounds = vt_stack_bounds_of(stack);
    if (walk_fast(walk, frame, &bounds, NULL))
        return;
    *walk = empty;
    walk_full(walk);
}

static bool still_holds(const struct vt_recent_walk *made, const struct walk *walk, const uint64_t *frame,
                        const struct vt_stack_bounds *bounds)
{
    return made->start == (uintptr_t)frame && made->words && made->generation == walk->generation &&
           made->entry_frame == walk->entry_frame && made->stack_end == bounds->high &&
           hash_words(made) == made->words_hash;
}

/* The index of a recent walk that is still valid for `frame`: the one that followed the latest walk before,
 * or one in `set`. -1 = none. */
static int find_recent(const struct vt_recent_walks *recent, size_t set, const struct walk *walk,
                       const uint64_t *frame, const struct vt_stack_bounds *bounds)
{
    const size_t likely = recent->walks[recent->latest].next;
    if (still_holds(&recent->walks[likely], walk, frame, bounds))
        return (int)likely;
    for (size_t at = set * VT_RECENT_WAYS; at < (set + 1) * VT_RECENT_WAYS; at++)
        if (at != likely && still_holds(&recent->walks[at], walk, frame, bounds))
            return (int)at;
    return -1;
}

static void hash_stack(struct walk *walk, const uint64_t *frame, uintptr_t stack,
                       struct vt_recent_walks *recent)
{
    struct vt_stack_bounds bounds = vt_stack_bounds_of(stack);
    if (!recent || !bounds.end_known) {
        walk_stack(walk, frame, stack);
        return;
    }
    const size_t set = vt_hash((uintptr_t)frame >> 4) >> 32 & (VT_RECENT_SETS - 1);
    const int found = find_recent(recent, set, walk, frame, &bounds);
    const size_t at =
        found >= 0 ? (size_t)found : set * VT_RECENT_WAYS + recent->oldest[set]++ % VT_RECENT_WAYS;
    struct vt_recent_walk *made = &recent->walks[at];
    recent->walks[recent->latest].next = (uint16_t)at;
    recent->latest = (uint16_t)at;
    if (found >= 0) {
        walk->hash = made->hash;
        return;
    }
    struct notes notes = {.walk = made};
    struct walk again = *walk;
    made->stack_end = 0; /* invalid until the rest is stored: a signal handler may jump out of here */
    atomic_signal_fence(memory_order_seq_cst);
    made->words = 0;
    made->start = (uintptr_t)frame;
    const uint64_t unanswered = vt_unwind_unanswered();
    bool whole = walk_fast(walk, frame, &bounds, &notes);
    if (!whole) {
        *walk = again;
        walk_full(walk);
    }
    if (!whole || walk->truncated || vt_unwind_unanswered() != unanswered || !finish_notes(&notes))
        made->words = 0;
    made->generation = walk->generation;
    made->entry_frame = walk->entry_frame;
    made->hash = walk->hash;
    atomic_signal_fence(memory_order_seq_cst);
    made->stack_end = bounds.high;
}

/* The stack pointer that the calling function's caller has after the call. */
#if defined __aarch64__ && !defined __clang__ /* the frame record is at the other end of the frame */
#define STACK_OF_CALLER() ((uintptr_t)__builtin_dwarf_cfa())
#else
#define STACK_OF_CALLER() ((uintptr_t)__builtin_frame_address(0) + 16)
#endif

static struct walk begin_walk(uint64_t *addresses, uintptr_t entry_frame)
{
    struct walk walk = {.addresses = addresses,
                        .entry_frame = entry_frame,
                        .generation = atomic_load_explicit(&generation, memory_order_acquire), /* first */
                        .interpreter_start = atomic_load_explicit(&interpreter_start, memory_order_acquire),
                        .engine_loop = atomic_load_explicit(&engine_loop, memory_order_relaxed),
                        .unloads_start = atomic_load_explicit(&vt_unloads_start, memory_order_acquire)};
    walk.unloads_bytes = atomic_load_explicit(&vt_unloads_bytes, memory_order_relaxed);
    if (walk.interpreter_start)
        walk.interpreter_bytes =
            atomic_load_explicit(&interpreter_end, memory_order_relaxed) - walk.interpreter_start;
    return walk;
}

size_t vt_native_walk(uint64_t addresses[VT_NATIVE_DEPTH], uintptr_t entry_frame, bool *truncated)
{
    if (!atomic_load_explicit(&enabled, memory_order_relaxed))
        return 0;
    const uint64_t unanswered = vt_unwind_unanswered();
    struct walk walk = begin_walk(addresses, entry_frame);
    walk_stack(&walk, __builtin_frame_address(0), STACK_OF_CALLER());
    *truncated = walk.truncated || vt_unwind_unanswered() != unanswered;
    return walk.count;
}

uint64_t vt_native_hash(struct vt_recent_walks *recent, uintptr_t entry_frame)
{
    if (!atomic_load_explicit(&enabled, memory_order_relaxed))
        return 0;
    struct walk walk = begin_walk(NULL, entry_frame);
    hash_stack(&walk, __builtin_frame_address(0), STACK_OF_CALLER(), recent);
    return walk.hash;
}
