#include "stacks/python.h"

#include <stdatomic.h>

#include "hash.h"
#include "stacks/python_code.h"
#include "stacks/python_read.h"

/* ---- self ---- */

/* Where each code object keeps `self` is found once and kept in a small direct-mapped table. Each entry is
 * one word, so that threads share it without a lock: the upper bits of the code's identity, then the note
 * (python_read.h). */
enum { SELF_TABLE_BITS = 12 };
#define SELF_NOTE_MASK ((UINT64_C(1) << VT_SELF_NOTE_BITS) - 1)

static _Atomic uint64_t self_table[1 << SELF_TABLE_BITS];

static __attribute__((noinline)) uint64_t remember_self(const struct vt_python *python, const char *code,
                                                        uint64_t identity)
{
    uint64_t note = vt_python_self_note(python, code);
    atomic_store_explicit(&self_table[identity >> (64 - SELF_TABLE_BITS)],
                          (identity & ~SELF_NOTE_MASK) | note, memory_order_relaxed);
    return note;
}

static __attribute__((noinline)) uint64_t read_cell(const struct vt_python *python, const char *cell)
{
    const struct vt_python_layout *layout = python->layout;
    return vt_has_type(layout, cell, python->cell_type) ? vt_word_at(cell, layout->cell_contents) : 0;
}

static inline __attribute__((always_inline)) uint64_t self_of(const struct vt_python *python,
                                                              const struct vt_python_layout *layout,
                                                              const char *locals, uint64_t note)
{
    if ((note & VT_SELF_KIND_MASK) == VT_SELF_NONE)
        return 0;
    const char *value = vt_reference_at(layout, locals, note >> VT_SELF_KIND_BITS << 3);
    return __builtin_expect((note & VT_SELF_KIND_MASK) == VT_SELF_PLAIN, 1) ? (uintptr_t)value
                                                                            : read_cell(python, value);
}

/* ---- which code it is ---- */

static inline uint64_t rotate(uint64_t value, unsigned bits)
{
    return value << bits | value >> (64 - bits);
}

/* Samples a string: its length, and its first and last 8 bytes as if it were ASCII (other strings have a
 * longer header, and more bytes). Only a compact string is sure to have them. Each sample of a sum has its
 * own multiplier. */
static inline __attribute__((always_inline)) uint64_t sample_text(const struct vt_python_layout *layout,
                                                                  const char *text)
{
    const uint64_t length = vt_word_at(text, layout->unicode_length);
    const char *data = text + layout->unicode_ascii_bytes;
    if (__builtin_expect((vt_unicode_bits_at(layout, text) & VT_UNICODE_COMPACT) == 0, 0))
        return length;
    return length * 0x5bd1e995 + vt_word_at(data, 0) * 0x45d9f3b5 +
           vt_word_at(data + length, -8) * 0x3a8f057d;
}

/* The address of a dead code object is reused, so the address is not enough to identify one. From 3.12 on
 * there is a version number that no other code object gets. Before that, samples of name, file, first line
 * and line table are used: if all are the same, two code objects count as one. Interned names have a hash;
 * if a hash becomes known later, its code object counts as a second one. */
static inline __attribute__((always_inline)) uint64_t guard_by_contents(const struct vt_python_layout *layout,
                                                                        const char *code)
{
    const char *name =
        vt_pointer_at(code, layout->code_qualified_name ? layout->code_qualified_name : layout->code_name);
    const char *file = vt_pointer_at(code, layout->code_file_name);
    const char *table = vt_pointer_at(code, layout->code_line_table);
    const uint64_t hash = vt_word_at(name, layout->unicode_hash),
                   table_bytes = vt_word_at(table, layout->object_size);
    uint64_t guard = (uint64_t)vt_int_at(code, layout->code_first_line) * 0x2c1b3c6d;
    guard += (uintptr_t)name * 0x297a2d39 + (uintptr_t)file * 0x6d2b79f5 + (uintptr_t)table * 0x7feb352d;
    guard += hash != UINT64_MAX ? hash : sample_text(layout, name);
    guard += sample_text(layout, file) * VT_HASH_3 + table_bytes * 0x1b873593;
    uint64_t first = vt_word_at(table, layout->bytes_data), last = 0; /* an object's memory has room for it */
    if (__builtin_expect(table_bytes < 8, 0))
        first &= (UINT64_C(1) << table_bytes * 8) - 1;
    else
        last = vt_word_at(table + table_bytes, layout->bytes_data - 8);
    return guard + first * 0x6ac690c5 + last * 0x2e1b2139;
}

/* ---- the walk ---- */

struct walk {
    const struct vt_python *python;
    struct vt_raw_python_frame *frames; /* NULL: frames are hashed, not stored */
    size_t capacity;
    struct vt_python_stack result;
    uint64_t power; /* of VT_HASH_5; factor of the next frame's part of the hash */
};

static inline __attribute__((always_inline)) uint64_t guard_of(const struct vt_python_layout *layout,
                                                               const char *code)
{
    return layout->code_version != 0 ? (uint32_t)vt_int_at(code, layout->code_version)
                                     : guard_by_contents(layout, code);
}

static inline __attribute__((always_inline)) uint64_t note_of(const struct vt_python *python,
                                                              const char *code, uint64_t identity)
{
    uint64_t note =
        atomic_load_explicit(&self_table[identity >> (64 - SELF_TABLE_BITS)], memory_order_relaxed);
    if (__builtin_expect(((note ^ identity) & ~SELF_NOTE_MASK) != 0, 0))
        note = remember_self(python, code, identity);
    return note & SELF_NOTE_MASK;
}

/* A stack's hash is the sum of its frames' parts, each times a power of one number, so the known hash of the
 * outer frames can simply be added. */
static inline __attribute__((always_inline)) void
take_frame(struct walk *walk, const struct vt_python_layout *layout, const struct vt_interpreter_frame *frame,
           struct vt_recent_frame *noted, uint64_t *own_term)
{
    const uint64_t guard = guard_of(layout, frame->code);
    const uint64_t identity = vt_hash((uintptr_t)frame->code) + guard * VT_HASH_2;
    const uint64_t note = note_of(walk->python, frame->code, identity);
    const uint64_t self = self_of(walk->python, layout, frame->locals, note);
    uint64_t term =
        (identity + (uint32_t)frame->instruction_offset * VT_HASH_3 + rotate(vt_hash(self), 32)) * VT_HASH_4;
    term ^= term >> 32;
    if (walk->frames)
        walk->frames[walk->result.frames] =
            (struct vt_raw_python_frame){frame->code, frame->instruction_offset, self};
    if (noted) {
        noted->guard = guard;
        noted->self = self;
        noted->self_note = (uint16_t)note;
        *own_term = term;
    }
    walk->result.frames++;
    walk->result.hash += term * walk->power;
    walk->power *= VT_HASH_5;
}

/* ---- the latest walk ---- */

static inline __attribute__((always_inline)) uint64_t instruction_at(const struct vt_python_layout *layout,
                                                                     const char *at)
{
    return layout->chain == VT_CHAIN_OBJECTS ? (uint32_t)vt_int_at(at, layout->frame_instruction)
                                             : vt_word_at(at, layout->frame_instruction);
}

static inline __attribute__((always_inline)) unsigned char owner_at(const struct vt_python_layout *layout,
                                                                    const char *at)
{
    return layout->chain == VT_CHAIN_OBJECTS ? 0 : *(const unsigned char *)(at + layout->frame_owner);
}

/* Notes what vt_read_frame and take_frame depend on. */
static inline __attribute__((always_inline)) void note_frame(const struct vt_python_layout *layout,
                                                             const char *at, enum vt_frame_state state,
                                                             struct vt_recent_frame *noted)
{
    noted->at = at;
    noted->previous = vt_pointer_at(at, layout->frame_previous);
    noted->code = vt_pointer_at(at, layout->frame_code);
    noted->instruction = instruction_at(layout, at);
    noted->first_instruction =
        layout->code_thread_instructions && (state == VT_FRAME_READABLE || state == VT_FRAME_SKIPPED)
            ? vt_first_instruction(layout, at, vt_reference_at(layout, at, layout->frame_code))
            : 0;
    noted->owner = owner_at(layout, at);
    noted->state = (uint8_t)state;
    noted->self_note = VT_SELF_NONE;
}

/* `all_alive`: no code object has died since the frame was noted. */
static inline __attribute__((always_inline)) bool is_same(const struct vt_python *python,
                                                          const struct vt_python_layout *layout,
                                                          const struct vt_recent_frame *noted, bool all_alive)
{
    const char *at = noted->at, *code = vt_reference_at(layout, &noted->code, 0);
    const uint64_t around = (vt_word_at(at, layout->frame_previous) ^ (uintptr_t)noted->previous) |
                            (uint64_t)(owner_at(layout, at) ^ noted->owner);
    const uint64_t within = (vt_word_at(at, layout->frame_code) ^ (uintptr_t)noted->code) |
                            (instruction_at(layout, at) ^ noted->instruction);
    if (__builtin_expect((around | within) != 0, 0))
        return around == 0 && noted->state == VT_FRAME_ENTRY;
    if (__builtin_expect(!all_alive || layout->code_thread_instructions, 0)) {
        if (noted->state == VT_FRAME_ENTRY)
            return true;
        if (layout->code_thread_instructions &&
            vt_first_instruction(layout, at, code) != noted->first_instruction)
            return false;
        if (!all_alive && noted->state == VT_FRAME_READABLE && guard_of(layout, code) != noted->guard)
            return false;
    }
    return (noted->self_note & VT_SELF_KIND_MASK) == VT_SELF_NONE ||
           self_of(python, layout, at + layout->frame_locals, noted->self_note) == noted->self;
}

enum { SEARCHED_FRAMES = 8 };

/* If the frame at `at` and all its callers are known: how many these are, itself included; else 0. *open:
 * how many of the known frames can still match. */
static inline __attribute__((always_inline)) size_t find_known(const struct walk *walk,
                                                               const struct vt_python_layout *layout,
                                                               const struct vt_recent_frames *recent,
                                                               const char *at, size_t *open, bool all_alive)
{
    size_t least = *open > SEARCHED_FRAMES ? *open - SEARCHED_FRAMES : 0;
    for (size_t i = *open; i-- > least;) {
        if (recent->known[i].at != at)
            continue;
        for (size_t k = i + 1; k-- > 0;)
            if (!is_same(walk->python, layout, &recent->known[k], all_alive)) {
                *open = k;
                return 0;
            }
        return i + 1;
    }
    return 0;
}

/* Keeps the first `known` frames, and puts the fresh ones after them. */
static void remember_walk(struct vt_recent_frames *recent, size_t known, size_t fresh, uint64_t deaths)
{
    recent->count = 0;
    atomic_signal_fence(memory_order_seq_cst);
    recent->deaths = deaths;
    if (known + fresh > VT_RECENT_FRAMES)
        fresh = 0;
    for (size_t i = known; fresh-- > 0; i++) {
        struct vt_recent_frame *frame = &recent->known[i];
        struct vt_recent_sum sum = i > 0 ? recent->sums[i - 1] : (struct vt_recent_sum){0};
        *frame = recent->fresh[fresh];
        if (frame->state == VT_FRAME_ENTRY) {
            sum.entry_frame = (uintptr_t)frame->at;
        } else if (frame->state == VT_FRAME_READABLE) {
            sum.hash = recent->terms[fresh] + sum.hash * VT_HASH_5;
            sum.frames++;
        }
        recent->sums[i] = sum;
        known = i + 1;
    }
    atomic_signal_fence(memory_order_seq_cst);
    recent->count = known;
}

/* Adds known frames to a walk. False if there would be too many. */
static bool take_known(struct walk *walk, const struct vt_recent_sum *known)
{
    if (walk->result.frames + known->frames > walk->capacity)
        return false;
    walk->result.frames += known->frames;
    walk->result.hash += known->hash * walk->power;
    if (walk->result.entry_frame == 0)
        walk->result.entry_frame = known->entry_frame;
    return true;
}

static inline __attribute__((always_inline)) void walk_frames(struct walk *walk,
                                                              const struct vt_python_layout *layout,
                                                              const char *thread,
                                                              struct vt_recent_frames *recent)
{
    const char *at = vt_first_frame(layout, thread);
    size_t bound = walk->capacity * 4 + 64, fresh = 0, known = 0, open = recent ? recent->count : 0;
    const uint64_t deaths = recent ? vt_python_code_deaths(walk->python) : 0; /* before any code is read */
    const bool all_alive = deaths != 0 && recent->deaths == deaths;
    for (; at != NULL; at = vt_pointer_at(at, layout->frame_previous)) {
        struct vt_interpreter_frame frame = {0};
        if (__builtin_expect(!vt_is_plausible(at) || bound-- == 0, 0))
            break;
        if (open > 0 && (known = find_known(walk, layout, recent, at, &open, all_alive)) > 0 &&
            take_known(walk, &recent->sums[known - 1])) {
            at = NULL;
            break;
        }
        known = 0;
        enum vt_frame_state state = vt_read_frame(walk->python, layout, at, &frame);
        struct vt_recent_frame *noted = recent && fresh < VT_RECENT_FRAMES ? &recent->fresh[fresh] : NULL;
        fresh++;
        if (noted)
            note_frame(layout, at, state, noted);
        if (state == VT_FRAME_ENTRY && walk->result.entry_frame == 0)
            walk->result.entry_frame = (uintptr_t)at;
        if (state == VT_FRAME_SKIPPED || state == VT_FRAME_ENTRY)
            continue;
        if (__builtin_expect(state == VT_FRAME_UNREADABLE, 0))
            break;
        if (__builtin_expect(walk->result.frames == walk->capacity, 0)) {
            walk->result.truncated = true;
            return;
        }
        take_frame(walk, layout, &frame, noted, noted ? &recent->terms[noted - recent->fresh] : NULL);
    }
    walk->result.unreadable = at != NULL;
    if (recent && !walk->result.unreadable && fresh <= VT_RECENT_FRAMES)
        remember_walk(recent, known, fresh, deaths);
}

/* One walk function for each table, with its offsets as constants. */
#define WALK(index)                                                                                          \
    static __attribute__((noinline)) void walk_##index(struct walk *walk, const char *thread)                \
    {                                                                                                        \
        struct walk in_registers = *walk; /* stores to frames could alias *walk */                           \
        walk_frames(&in_registers, &vt_python_layouts[index], thread, NULL);                                 \
        *walk = in_registers;                                                                                \
    }                                                                                                        \
    static __attribute__((noinline)) void hash_##index(struct walk *walk, const char *thread,                \
                                                       struct vt_recent_frames *recent)                      \
    {                                                                                                        \
        struct walk in_registers = *walk;                                                                    \
        in_registers.frames = NULL;                                                                          \
        walk_frames(&in_registers, &vt_python_layouts[index], thread, recent);                               \
        *walk = in_registers;                                                                                \
    }
#define WALKS(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9)
WALKS(WALK)

static const struct {
    void (*store)(struct walk *, const char *thread);
    void (*hash)(struct walk *, const char *thread, struct vt_recent_frames *);
} walks[] = {
#define WALK_ITEM(index) {walk_##index, hash_##index},
    WALKS(WALK_ITEM)};
_Static_assert(sizeof walks / sizeof *walks == VT_PYTHON_LAYOUTS, "a walk for each table");

void vt_python_walk(struct vt_raw_python_frame *frames, size_t capacity, struct vt_python_stack *stack)
{
    struct walk walk = {.frames = frames, .capacity = capacity, .power = 1};
    const char *thread = vt_python_current_thread(&walk.python);
    if (thread != NULL)
        walks[walk.python->layout->index].store(&walk, thread);
    *stack = walk.result;
}

void vt_python_hash(struct vt_recent_frames *recent, size_t capacity, struct vt_python_stack *stack)
{
    struct walk walk = {.capacity = capacity, .power = 1};
    const char *thread = vt_python_current_thread(&walk.python);
    if (thread != NULL)
        walks[walk.python->layout->index].hash(&walk, thread, recent);
    *stack = walk.result;
}
