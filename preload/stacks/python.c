#include "stacks/python.h"

#include <stdatomic.h>

#include "hash.h"
#include "stacks/python_read.h"

/* ---- self ---- */

/* Where each code object keeps its `self` is found out once and kept in a small direct-mapped table, one word
 * each, so that threads share it without a lock: the upper bits of the code's identity, then the note
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

static __attribute__((noinline)) uint64_t read_self(const struct vt_python *python, const char *locals,
                                                    uint64_t note)
{
    const struct vt_python_layout *layout = python->layout;
    const char *value = vt_reference_at(layout, locals, (note & SELF_NOTE_MASK) >> VT_SELF_KIND_BITS << 3);
    if ((note & VT_SELF_KIND_MASK) == VT_SELF_PLAIN)
        return (uintptr_t)value;
    return vt_has_type(layout, value, python->cell_type) ? vt_word_at(value, layout->cell_contents) : 0;
}

/* ---- which code it is ---- */

static inline uint64_t rotate(uint64_t value, unsigned bits)
{
    return value << bits | value >> (64 - bits);
}

/* Samples a string: its address, length, and hash (known for names, which are interned), else its first and
 * last 8 bytes. A compact string is never smaller than header + 8; another kind gives only its address. If a
 * hash becomes known later, its code object counts as two. */
static inline __attribute__((always_inline)) uint64_t sample_text(const struct vt_python_layout *layout,
                                                                  const char *text)
{
    uint64_t sample = (uintptr_t)text;
    uint64_t hash = vt_word_at(text, layout->unicode_hash);
    uint64_t length = vt_word_at(text, layout->unicode_length);
    if (hash != UINT64_MAX)
        return sample + hash + rotate(length, 48);
    unsigned bits = vt_unicode_bits_at(layout, text);
    if (__builtin_expect((bits & VT_UNICODE_COMPACT) == 0, 0))
        return sample;
    const char *data =
        text + ((bits & VT_UNICODE_ASCII) != 0 ? layout->unicode_ascii_bytes : layout->unicode_compact_bytes);
    uint64_t tail = vt_word_at(data, length > 8 ? length - 8 : 0);
    return (sample + rotate(length, 48)) ^ (vt_word_at(data, 0) + rotate(tail, 29)) * VT_HASH_4;
}

/* The address of a code object that dies is used again, so more than the address must identify it. From 3.12
 * on that is its version number, which no other code object gets. Before, samples of its description: name,
 * file, first line, line table. If all these are the same, two code objects pass for one. */
static inline __attribute__((always_inline)) uint64_t guard_by_contents(const struct vt_python_layout *layout,
                                                                        const char *code)
{
    unsigned name = layout->code_qualified_name != 0 ? layout->code_qualified_name : layout->code_name;
    const char *table = vt_pointer_at(code, layout->code_line_table);
    uint64_t table_bytes = vt_word_at(table, layout->object_size);
    uint64_t guard = (uint32_t)vt_int_at(code, layout->code_first_line) + (table_bytes << 32);
    guard += sample_text(layout, vt_pointer_at(code, name));
    guard ^= rotate(sample_text(layout, vt_pointer_at(code, layout->code_file_name)), 17);
    guard += rotate((uintptr_t)table, 41);
    if (table_bytes >= 8)
        guard ^= (vt_word_at(table, layout->bytes_data) +
                  rotate(vt_word_at(table, layout->bytes_data + table_bytes - 8), 29)) *
                 VT_HASH_4;
    return guard;
}

/* ---- frames ---- */

enum { FRAME_OWNER_MAXIMUM = 4 };

enum frame_state { FRAME_READABLE, FRAME_SKIPPED, FRAME_ENTRY, FRAME_UNREADABLE };

struct frame {
    const char *code, *locals;
    int32_t instruction_offset;
};

static inline __attribute__((always_inline)) const char *first_frame(const struct vt_python_layout *layout,
                                                                     const char *thread)
{
    const char *first = vt_pointer_at(thread, layout->thread_frame);
    if (layout->chain == VT_CHAIN_CFRAME)
        first = vt_is_plausible(first) ? vt_pointer_at(first, layout->cframe_current_frame) : NULL;
    return first;
}

/* The first of the instructions that a frame runs. In a free-threaded build each thread has a copy of its
 * own, for which the code object has a list. Another thread may put a longer list in its place: this one may
 * then be read after it was freed (its pages stay), and what it says is only compared. */
static inline __attribute__((always_inline)) uintptr_t
first_instruction(const struct vt_python_layout *layout, const char *frame, const char *code)
{
    int32_t index = layout->code_thread_instructions ? vt_int_at(frame, layout->frame_instructions_index) : 0;
    const char *copies = index > 0 ? vt_pointer_at(code, layout->code_thread_instructions) : NULL;
    if (vt_is_plausible(copies) && (uint64_t)index < vt_word_at(copies, 0))
        return vt_word_at(copies, 8 + (ptrdiff_t)index * 8);
    return (uintptr_t)(code + layout->code_instructions);
}

/* Skips what sys._getframe leaves out: the entry frame for each call from C, and frames
 * that have not reached their first traceable instruction (they are still making their cells, and have no
 * locals yet). */
static inline __attribute__((always_inline)) enum frame_state
read_frame(const struct vt_python *python, const struct vt_python_layout *layout, const char *at,
           struct frame *frame)
{
    unsigned owner = VT_NO_OWNER;
    if (layout->chain != VT_CHAIN_OBJECTS) {
        owner = *(const unsigned char *)(at + layout->frame_owner);
        if (owner >= layout->owner_interpreter && owner <= FRAME_OWNER_MAXIMUM)
            return FRAME_ENTRY;
    }
    const char *code = vt_reference_at(layout, at, layout->frame_code);
    if (__builtin_expect(!vt_has_type(layout, code, python->code_type), 0))
        return FRAME_UNREADABLE;
    int64_t offset;
    if (layout->chain == VT_CHAIN_OBJECTS) {
        offset = vt_int_at(at, layout->frame_instruction);
    } else {
        if (__builtin_expect(owner > FRAME_OWNER_MAXIMUM, 0))
            return FRAME_UNREADABLE;
        offset = (int64_t)(vt_word_at(at, layout->frame_instruction) - first_instruction(layout, at, code));
        if (__builtin_expect(offset < 2 * (int64_t)vt_int_at(code, layout->code_first_traceable), 0) &&
            owner != layout->owner_generator)
            return FRAME_SKIPPED;
    }
    if (__builtin_expect(offset > INT32_MAX / 2, 0))
        return FRAME_UNREADABLE;
    const int32_t scale = layout->chain == VT_CHAIN_OBJECTS ? layout->instruction_scale : 1;
    *frame = (struct frame){code, at + layout->frame_locals, offset < 0 ? -1 : (int32_t)offset * scale};
    return FRAME_READABLE;
}

/* ---- the walk ---- */

struct walk {
    const struct vt_python *python;
    struct vt_raw_python_frame *frames;
    size_t capacity;
    size_t count;
    uint64_t hash;
    uintptr_t entry_frame;
    bool truncated;
    bool unreadable;
};

static inline __attribute__((always_inline)) void
take_frame(struct walk *walk, const struct vt_python_layout *layout, const struct frame *frame)
{
    const char *code = frame->code;
    uint64_t guard = layout->code_version != 0 ? (uint32_t)vt_int_at(code, layout->code_version)
                                               : guard_by_contents(layout, code);
    uint64_t identity = vt_hash((uintptr_t)code) + guard * VT_HASH_2;
    uint64_t note =
        atomic_load_explicit(&self_table[identity >> (64 - SELF_TABLE_BITS)], memory_order_relaxed);
    if (__builtin_expect(((note ^ identity) & ~SELF_NOTE_MASK) != 0, 0))
        note = remember_self(walk->python, code, identity);
    uint64_t self = 0;
    if (__builtin_expect((note & VT_SELF_KIND_MASK) != VT_SELF_NONE, 0))
        self = read_self(walk->python, frame->locals, note);

    walk->frames[walk->count++] = (struct vt_raw_python_frame){code, frame->instruction_offset, self};
    walk->hash = (rotate(walk->hash, 29) ^
                  (identity + (uint32_t)frame->instruction_offset * VT_HASH_3 + rotate(vt_hash(self), 32))) *
                 VT_HASH_5;
}

static inline __attribute__((always_inline)) void
walk_frames(struct walk *walk, const struct vt_python_layout *layout, const char *thread)
{
    const char *at = first_frame(layout, thread);
    size_t bound = walk->capacity * 4 + 64;
    for (; at != NULL; at = vt_pointer_at(at, layout->frame_previous)) {
        struct frame frame;
        if (__builtin_expect(!vt_is_plausible(at) || bound-- == 0, 0))
            break;
        enum frame_state state = read_frame(walk->python, layout, at, &frame);
        if (state == FRAME_ENTRY && walk->entry_frame == 0)
            walk->entry_frame = (uintptr_t)at;
        if (state == FRAME_SKIPPED || state == FRAME_ENTRY)
            continue;
        if (__builtin_expect(state == FRAME_UNREADABLE, 0))
            break;
        if (__builtin_expect(walk->count == walk->capacity, 0)) {
            walk->truncated = true;
            return;
        }
        take_frame(walk, layout, &frame);
    }
    walk->unreadable = at != NULL;
}

/* One walk for each table, with its offsets as constants. */
#define WALK(index)                                                                                          \
    static __attribute__((noinline)) void walk_##index(struct walk *walk, const char *thread)                \
    {                                                                                                        \
        struct walk in_registers = *walk; /* what is stored to frames could alias *walk */                   \
        walk_frames(&in_registers, &vt_python_layouts[index], thread);                                       \
        *walk = in_registers;                                                                                \
    }
WALK(0)
WALK(1)
WALK(2)
WALK(3)
WALK(4)
WALK(5)
WALK(6)
WALK(7)
WALK(8)
WALK(9)

static void (*const walks[])(struct walk *, const char *) = {walk_0, walk_1, walk_2, walk_3, walk_4,
                                                             walk_5, walk_6, walk_7, walk_8, walk_9};
_Static_assert(sizeof walks / sizeof *walks == VT_PYTHON_LAYOUTS, "a walk for each table");

size_t vt_python_walk(struct vt_raw_python_frame *frames, size_t capacity, uint64_t *hash, bool *truncated,
                      bool *unreadable, uintptr_t *entry_frame)
{
    *entry_frame = 0;
    *truncated = false;
    *unreadable = false;
    struct walk walk = {.frames = frames, .capacity = capacity, .hash = *hash};
    const char *thread = vt_python_current_thread(&walk.python);
    if (thread == NULL)
        return 0;
    walks[walk.python->layout->index](&walk, thread);
    *hash = walk.hash;
    *truncated = walk.truncated;
    *unreadable = walk.unreadable;
    *entry_frame = walk.entry_frame;
    return walk.count;
}

/* ---- local variables ---- */

enum { LOCALS_MAXIMUM = 4096, STEPS_PER_FRAME = 4 };

struct visit {
    const struct vt_python *python;
    vt_python_local_visit *visit;
    void *context;
    const char *function; /* of the frame */
};

/* Slots and their names, a tuple. `kinds` has flags for each slot; NULL: all slots are cells, or none
 * (`cells`). */
static bool visit_slots(const struct visit *visit, const char *names, const char *slots, const char *kinds,
                        bool cells)
{
    const struct vt_python *python = visit->python;
    const struct vt_python_layout *layout = python->layout;
    if (!vt_has_type(layout, names, python->tuple_type))
        return true;
    int64_t count = (int64_t)(uintptr_t)vt_pointer_at(names, layout->object_size);
    for (int64_t i = 0; i < count && i < LOCALS_MAXIMUM; i++) {
        const char *name = vt_pointer_at(names, layout->tuple_items + (size_t)i * 8);
        const char *value = vt_reference_at(layout, slots, (ptrdiff_t)i * 8);
        bool cell = kinds ? (kinds[i] & (VT_LOCAL_IS_CELL | VT_LOCAL_IS_FREE)) != 0 : cells;
        if (cell)
            value = python->cells_readable && vt_has_type(layout, value, python->cell_type)
                        ? vt_pointer_at(value, layout->cell_contents)
                        : NULL;
        if (vt_is_plausible(value) && vt_has_type(layout, name, python->unicode_type) &&
            !visit->visit(visit->context, visit->function, name, value))
            return false;
    }
    return true;
}

static bool visit_frame(struct visit *visit, const struct frame *frame)
{
    const struct vt_python_layout *layout = visit->python->layout;
    const char *code = frame->code, *locals = frame->locals;
    const char *names = vt_pointer_at(code, layout->code_local_names);
    visit->function =
        vt_pointer_at(code, layout->code_qualified_name ? layout->code_qualified_name : layout->code_name);
    if (!vt_has_type(layout, visit->function, visit->python->unicode_type))
        return true;
    if (layout->code_local_kinds == 0) { /* before 3.11: the locals, then the cells */
        int32_t count = vt_int_at(code, layout->code_local_count);
        return visit_slots(visit, names, locals, NULL, false) &&
               (count < 0 || count > LOCALS_MAXIMUM ||
                visit_slots(visit, vt_pointer_at(code, layout->code_cell_names), locals + (size_t)count * 8,
                            NULL, true));
    }
    const char *kinds = vt_pointer_at(code, layout->code_local_kinds);
    if (!vt_has_type(layout, kinds, visit->python->bytes_type) ||
        !vt_has_type(layout, names, visit->python->tuple_type) ||
        vt_pointer_at(kinds, layout->object_size) != vt_pointer_at(names, layout->object_size))
        return true;
    return visit_slots(visit, names, locals, kinds + layout->bytes_data, false);
}

/* False where nothing can be read. Where cells cannot be read, the chain may also hold frames whose locals
 * are being freed. */
static bool begin(struct visit *visit)
{
    return vt_python_current_thread(&visit->python) && visit->python->cells_readable;
}

static void visit_at(struct visit *visit, const char *at)
{
    struct frame frame;
    if (vt_is_plausible(at) && read_frame(visit->python, visit->python->layout, at, &frame) == FRAME_READABLE)
        visit_frame(visit, &frame);
}

void vt_python_visit_locals(const void *thread, size_t frames, vt_python_local_visit function, void *context)
{
    struct visit visit = {.visit = function, .context = context};
    if (!begin(&visit))
        return;
    const struct vt_python_layout *layout = visit.python->layout;
    const char *at = first_frame(layout, thread);
    for (size_t bound = frames * STEPS_PER_FRAME; frames && bound && vt_is_plausible(at);
         bound--, at = vt_pointer_at(at, layout->frame_previous)) {
        struct frame frame;
        enum frame_state state = read_frame(visit.python, layout, at, &frame);
        if (state == FRAME_SKIPPED || state == FRAME_ENTRY)
            continue;
        if (state == FRAME_UNREADABLE || !visit_frame(&visit, &frame))
            return;
        frames--;
    }
}

void vt_python_visit_frame(const void *frame_object, vt_python_local_visit function, void *context)
{
    struct visit visit = {.visit = function, .context = context};
    if (begin(&visit))
        visit_at(&visit, visit.python->layout->chain == VT_CHAIN_OBJECTS
                             ? frame_object
                             : vt_pointer_at(frame_object, visit.python->layout->frame_object_frame));
}

void vt_python_visit_generator(const void *generator, vt_python_local_visit function, void *context)
{
    struct visit visit = {.visit = function, .context = context};
    if (!begin(&visit))
        return;
    const struct vt_python_layout *layout = visit.python->layout;
    const char *at = (const char *)generator + layout->generator_frame;
    if (layout->chain == VT_CHAIN_OBJECTS)
        at = vt_pointer_at(at, 0); /* NULL once it has ended */
    else if ((signed char)at[VT_GENERATOR_STATE] >= (signed char)layout->generator_running)
        return;
    visit_at(&visit, at);
}
