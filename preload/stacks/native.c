#include "stacks/native.h"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <stdatomic.h>
#include <string.h>

#include "hash.h"
#include "stacks/python_layout.h"
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

#if defined __x86_64__

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

/* ---- remembered steps ----
 *
 * One word for each return address, so that threads share them without a lock: how to find the caller's
 * stack pointer (the CFA) and base pointer, in words of 8 bytes. Index and tag together are the hashed
 * address. */
enum {
    ADDRESS_BITS = 47,
    TAG_BITS = 33,
    PAIR_BITS = ADDRESS_BITS - TAG_BITS, /* two words for each index, so that two addresses with the same
                                            index do not evict each other */
    BASE_BITS = 13,
    CFA_BITS = 16,
    KIND_SHIFT = BASE_BITS + CFA_BITS,
    TAG_SHIFT = 64 - TAG_BITS,
};
enum step_kind {
    STEP_OTHER = 0,       /* cfa: enum other_step */
    STEP_FROM_STACK = 1,  /* CFA = stack pointer + cfa */
    STEP_FROM_BASE = 2,   /* CFA = base pointer + cfa */
    STEP_FROM_MEMORY = 3, /* CFA = the word at base pointer + cfa: functions that align their stack */
};
enum other_step { OTHER_UNKNOWN = 0, OTHER_END = 1, OTHER_FULL = 2 /* needs more registers */ };
enum { BASE_SAME = 0, BASE_AT_ITSELF = (1 << BASE_BITS) - 1 /* else: saved that many words below the CFA */ };

static _Atomic uint64_t steps[1 << PAIR_BITS][2];

struct place {
    _Atomic uint64_t *pair;
    uint64_t tag;
};

static inline struct place place_of(uintptr_t address)
{
    uint64_t scrambled = vt_hash(address) & ((UINT64_C(1) << ADDRESS_BITS) - 1);
    return (struct place){steps[scrambled >> TAG_BITS], scrambled << TAG_SHIFT};
}

void vt_native_forget(void)
{
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++)
        for (int j = 0; j < 2; j++)
            if (atomic_load_explicit(&steps[i][j], memory_order_relaxed))
                atomic_store_explicit(&steps[i][j], 0, memory_order_relaxed);
    void_recent_walks();
}

static uint64_t pack_step(enum step_kind kind, int64_t cfa, uint64_t base)
{
    return (uint64_t)kind << KIND_SHIFT | ((uint64_t)cfa & ((1 << CFA_BITS) - 1)) << BASE_BITS | base;
}

enum { OP_RBP_OFFSET = 0x70 + VT_REGISTER_RBP, OP_DEREFERENCE = 0x06 };

/* Parses "base pointer + offset"; *rest is what follows. */
static bool is_base_offset(const struct vt_rule *rule, int64_t *offset, struct vt_cursor *rest)
{
    *rest = (struct vt_cursor){rule->expression, rule->expression + rule->offset, false};
    const bool is_base = vt_read_uint(rest, 1) == OP_RBP_OFFSET;
    *offset = vt_read_sleb(rest);
    return is_base && !rest->failed;
}

static bool pack_base(const struct vt_rule *rule, uint64_t *base)
{
    struct vt_cursor rest;
    int64_t offset;
    if (rule->kind == VT_RULE_SAME) {
        *base = BASE_SAME;
        return true;
    }
    if (rule->kind == VT_RULE_AT_OFFSET && rule->offset < 0 && rule->offset % 8 == 0 &&
        rule->offset / -8 < BASE_AT_ITSELF) {
        *base = (uint64_t)(rule->offset / -8);
        return true;
    }
    *base = BASE_AT_ITSELF;
    return rule->kind == VT_RULE_AT_EXPRESSION && is_base_offset(rule, &offset, &rest) && offset == 0 &&
           rest.at == rest.end;
}

static uint64_t step_of_row(const struct vt_unwind_row *row)
{
    const uint64_t full = pack_step(STEP_OTHER, OTHER_FULL, 0);
    const struct vt_rule *rsp = &row->registers[VT_REGISTER_RSP],
                         *address = &row->registers[VT_REGISTER_RETURN];
    uint64_t base;
    int64_t cfa = row->cfa.offset;
    struct vt_cursor rest;
    enum step_kind kind = STEP_OTHER;
    if (address->kind == VT_RULE_UNDEFINED)
        return pack_step(STEP_OTHER, OTHER_END, 0);
    if (row->signal_frame || rsp->kind != VT_RULE_SAME || address->kind != VT_RULE_AT_OFFSET ||
        address->offset != -8 || !pack_base(&row->registers[VT_REGISTER_RBP], &base))
        return full;
    if (row->cfa.kind == VT_RULE_OFFSET)
        kind = row->cfa_register == VT_REGISTER_RSP   ? STEP_FROM_STACK
               : row->cfa_register == VT_REGISTER_RBP ? STEP_FROM_BASE
                                                      : STEP_OTHER;
    else if (is_base_offset(&row->cfa, &cfa, &rest) && rest.end - rest.at == 1 && *rest.at == OP_DEREFERENCE)
        kind = STEP_FROM_MEMORY;
    int64_t words = cfa / 8;
    if (kind == STEP_OTHER || cfa % 8 || words != (int16_t)words)
        return full;
    return pack_step(kind, words, base);
}

__attribute__((noinline)) static uint64_t find_step(uintptr_t address)
{
    struct vt_unwind_row row;
    uint64_t step =
        vt_unwind_find(address - 1, &row) ? step_of_row(&row) : pack_step(STEP_OTHER, OTHER_END, 0);
    if (address >> ADDRESS_BITS)
        return step;
    struct place place = place_of(address);
    uint64_t before = atomic_exchange_explicit(&place.pair[0], place.tag | step, memory_order_relaxed);
    if (before)
        atomic_store_explicit(&place.pair[1], before, memory_order_relaxed);
    return step;
}

static inline uint64_t step_from(uintptr_t address)
{
    const uint64_t tag_mask = ~UINT64_C(0) << TAG_SHIFT;
    struct place place = place_of(address);
    for (int i = 0; i < 2; i++) {
        uint64_t step = atomic_load_explicit(&place.pair[i], memory_order_relaxed);
        if (__builtin_expect(((step ^ place.tag) & tag_mask) == 0 && step << TAG_BITS != 0, 1))
            return step & ~tag_mask;
    }
    return find_step(address);
}

/* Slower, with all registers, for stacks with a frame that needs them. */
__attribute__((noinline)) static void walk_full(struct walk *walk)
{
    struct vt_unwind_frame frame = {0};
    VT_UNWIND_HERE(&frame);
    struct vt_stack_bounds bounds = vt_stack_bounds_of(frame.registers[VT_REGISTER_RSP]);
    uintptr_t stack = frame.registers[VT_REGISTER_RSP];
    uint64_t before = walk->hash, hash = before;
    /* An interrupted frame may be on a lower stack than the handler's: it is not around the entry frame. */
    while (vt_unwind_step(&frame, &bounds) &&
           (frame.registers[VT_REGISTER_RSP] <= stack ||
            !ends_at_interpreter(walk, stack, frame.registers[VT_REGISTER_RSP], before)) &&
           take_address(walk, frame.registers[VT_REGISTER_RETURN])) {
        stack = frame.registers[VT_REGISTER_RSP];
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
            lanes[lane] = vt_hash_add(lanes[lane], start[walk->offsets[i + lane]]);
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

/* False if walk_full is needed. The base pointer is the word at `base_slot`. */
static inline __attribute__((always_inline)) bool
walk_fast(struct walk *walk, const uint64_t *frame, struct vt_stack_bounds *bounds, struct notes *notes)
{
    /* A frame begins with its caller's base pointer and the address to return to. */
    uintptr_t stack = (uintptr_t)(frame + 2), base = frame[0], base_slot = (uintptr_t)frame,
              address = frame[1];
    note_word(notes, (uintptr_t)(frame + 1));
    for (uint64_t before = walk->hash; take_address(walk, address); before = walk->hash) {
        uint64_t step = step_from(address), value;
        int64_t offset = (int64_t)(int16_t)(step >> BASE_BITS) * 8;
        uintptr_t cfa;
        switch (step >> KIND_SHIFT) {
        case STEP_FROM_STACK:
            cfa = stack + (uintptr_t)offset;
            break;
        case STEP_FROM_BASE:
            note_word(notes, base_slot);
            cfa = base + (uintptr_t)offset;
            break;
        case STEP_FROM_MEMORY:
            if (!vt_stack_read(bounds, base + (uintptr_t)offset, &value))
                return true;
            note_word(notes, base_slot);
            note_word(notes, base + (uintptr_t)offset);
            cfa = value;
            break;
        default:
            return (step >> BASE_BITS & 0xffff) != OTHER_FULL;
        }
        if (__builtin_expect(cfa <= stack, 0) || ends_at_interpreter(walk, stack, cfa, before))
            return true;
        if (__builtin_expect(!vt_stack_read(bounds, cfa - 8, &value), 0))
            return true;
        note_word(notes, cfa - 8);
        uint64_t words = step & ((1 << BASE_BITS) - 1), base_value = base;
        if (words == BASE_AT_ITSELF)
            note_word(notes, base_slot);
        if (words != BASE_SAME) {
            base_slot = words == BASE_AT_ITSELF ? base : cfa - words * 8;
            if (!vt_stack_read(bounds, base_slot, &base_value))
                return true;
        }
        address = value;
        stack = cfa;
        base = base_value;
    }
    return true;
}

static __attribute__((noinline)) void walk_stack(struct walk *walk, const uint64_t *frame)
{
    const struct walk empty = *walk;
    struct vt_stack_bounds bounds = vt_stack_bounds_of((uintptr_t)(frame + 2));
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

static void hash_stack(struct walk *walk, const uint64_t *frame, struct vt_recent_walks *recent)
{
    struct vt_stack_bounds bounds = vt_stack_bounds_of((uintptr_t)(frame + 2));
    if (!recent || !bounds.end_known) {
        walk_stack(walk, frame);
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
    bool whole = walk_fast(walk, frame, &bounds, &notes);
    if (!whole) {
        *walk = again;
        walk_full(walk);
    }
    if (!whole || walk->truncated || !finish_notes(&notes))
        made->words = 0;
    made->generation = walk->generation;
    made->entry_frame = walk->entry_frame;
    made->hash = walk->hash;
    atomic_signal_fence(memory_order_seq_cst);
    made->stack_end = bounds.high;
}

#elif defined __aarch64__

/* This ABI gives every function a frame record: the address of the caller's record, and the return address.
 */
void vt_native_forget(void) {}

static void walk_stack(struct walk *walk, const uint64_t *frame)
{
    struct vt_stack_bounds bounds = vt_stack_bounds_of((uintptr_t)frame);
    uintptr_t at = (uintptr_t)frame;
    uint64_t next, address;
    while (vt_stack_read(&bounds, at, &next) && vt_stack_read(&bounds, at + 8, &address) && address &&
           take_address(walk, address) && next > at)
        at = next;
}

static void hash_stack(struct walk *walk, const uint64_t *frame, struct vt_recent_walks *recent)
{
    (void)recent;
    walk_stack(walk, frame);
}

#else
#error "native stacks: this architecture is not known"
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
    struct walk walk = begin_walk(addresses, entry_frame);
    walk_stack(&walk, __builtin_frame_address(0));
    *truncated = walk.truncated;
    return walk.count;
}

uint64_t vt_native_hash(struct vt_recent_walks *recent, uintptr_t entry_frame)
{
    if (!atomic_load_explicit(&enabled, memory_order_relaxed))
        return 0;
    struct walk walk = begin_walk(NULL, entry_frame);
    hash_stack(&walk, __builtin_frame_address(0), recent);
    return walk.hash;
}
