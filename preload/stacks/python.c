#include "stacks/python.h"

#include <stdatomic.h>
#include <string.h>

/* Foreign memory, read at offsets. */
static inline uint64_t word_at(const char *base, size_t offset)
{
    uint64_t word;
    memcpy(&word, base + offset, sizeof word);
    return word;
}

static inline int32_t int_at(const char *base, size_t offset)
{
    int32_t value;
    memcpy(&value, base + offset, sizeof value);
    return value;
}

static inline const char *pointer_at(const char *base, size_t offset)
{
    return (const char *)(uintptr_t)word_at(base, offset);
}

/* Aligned, in user space, not in the first pages: an object, as far as an address can tell. */
static inline bool plausible(const char *pointer)
{
    uintptr_t address = (uintptr_t)pointer;
    return address >= 65536 && (address & 0xff00000000000007u) == 0;
}

static inline bool has_type(const char *object, const void *type)
{
    return plausible(object) && pointer_at(object, VT_OBJECT_TYPE) == type;
}

/* ---- strings ---- */

struct text {
    const uint8_t *data;
    size_t length;  /* characters */
    unsigned width; /* bytes of a character: 1, 2, 4 */
    bool ascii;
};

#define TEXT_MAXIMUM 65536u

/* Bits of a string's state: 2 of interning, 3 of width, then these. */
#define UNICODE_COMPACT 32u
#define UNICODE_ASCII 64u

static bool read_text(const struct vt_python *python, const char *object, struct text *text)
{
    if (!has_type(object, python->unicode_type))
        return false;
    uint32_t bits = (uint32_t)int_at(object, VT_UNICODE_STATE);
    unsigned width = bits >> 2 & 7;
    bool compact = (bits & UNICODE_COMPACT) != 0;
    uint64_t length = word_at(object, VT_UNICODE_LENGTH);
    if (!compact || (width != 1 && width != 2 && width != 4) || length > TEXT_MAXIMUM)
        return false;
    text->ascii = (bits & UNICODE_ASCII) != 0;
    if (text->ascii && width != 1)
        return false;
    text->width = width;
    text->length = length;
    text->data = (const uint8_t *)object +
                 (text->ascii ? python->layout->unicode_ascii_bytes : python->layout->unicode_compact_bytes);
    return true;
}

static uint32_t character_at(const struct text *text, size_t index)
{
    if (text->width == 1)
        return text->data[index];
    if (text->width == 2) {
        uint16_t character;
        memcpy(&character, text->data + index * 2, sizeof character);
        return character;
    }
    uint32_t character;
    memcpy(&character, text->data + index * 4, sizeof character);
    return character;
}

static bool text_is(const struct text *text, const char *expected)
{
    size_t length = strlen(expected);
    return text->ascii && text->length == length && memcmp(text->data, expected, length) == 0;
}

static bool text_contains(const struct text *text, const char *part)
{
    size_t length = strlen(part);
    for (size_t start = 0; start + length <= text->length; start++) {
        size_t matched = 0;
        while (matched < length && character_at(text, start + matched) == (unsigned char)part[matched])
            matched++;
        if (matched == length)
            return true;
    }
    return false;
}

static size_t encode_utf8(uint32_t character, char encoded[4])
{
    if (character > 0x10ffff || (character >= 0xd800 && character < 0xe000))
        character = 0xfffd; /* a lone surrogate, as in file names that are not UTF-8 */
    if (character < 0x80) {
        encoded[0] = (char)character;
        return 1;
    }
    if (character < 0x800) {
        encoded[0] = (char)(0xc0 | character >> 6);
        encoded[1] = (char)(0x80 | (character & 63));
        return 2;
    }
    if (character < 0x10000) {
        encoded[0] = (char)(0xe0 | character >> 12);
        encoded[1] = (char)(0x80 | (character >> 6 & 63));
        encoded[2] = (char)(0x80 | (character & 63));
        return 3;
    }
    encoded[0] = (char)(0xf0 | character >> 18);
    encoded[1] = (char)(0x80 | (character >> 12 & 63));
    encoded[2] = (char)(0x80 | (character >> 6 & 63));
    encoded[3] = (char)(0x80 | (character & 63));
    return 4;
}

/* Takes room from the front of *buffer where the text is not ASCII. */
static void tell_text(const struct vt_python *python, const char *object, char **buffer, size_t *room,
                      const char **told, size_t *told_bytes)
{
    struct text text;
    if (!read_text(python, object, &text)) {
        *told = "?";
        *told_bytes = 1;
        return;
    }
    if (text.ascii) {
        *told = (const char *)text.data;
        *told_bytes = text.length;
        return;
    }
    size_t used = 0;
    for (size_t i = 0; i < text.length; i++) {
        char encoded[4];
        size_t bytes = encode_utf8(character_at(&text, i), encoded);
        if (bytes > *room - used)
            break;
        memcpy(*buffer + used, encoded, bytes);
        used += bytes;
    }
    *told = *buffer;
    *told_bytes = used;
    *buffer += used;
    *room -= used;
}

bool vt_python_describe_code(const void *code, struct vt_python_code_view *view)
{
    const struct vt_python *python = vt_python_known();
    const char *object = code;
    if (python == NULL || !has_type(object, python->code_type))
        return false;
    const struct vt_python_layout *layout = python->layout;
    unsigned name = layout->code_qualified_name != 0 ? layout->code_qualified_name : layout->code_name;
    char *buffer = view->buffer;
    size_t room = view->buffer != NULL ? view->buffer_bytes : 0;
    tell_text(python, pointer_at(object, layout->code_file_name), &buffer, &room, &view->file,
              &view->file_bytes);
    tell_text(python, pointer_at(object, name), &buffer, &room, &view->name, &view->name_bytes);

    view->first_line = int_at(object, layout->code_first_line);
    view->python_minor = layout->minor;
    view->line_table = NULL;
    view->line_table_bytes = 0;
    const char *table = pointer_at(object, layout->code_line_table);
    if (has_type(table, python->bytes_type) && word_at(table, VT_VAR_OBJECT_SIZE) < INT32_MAX) {
        view->line_table = (const uint8_t *)table + VT_BYTES_DATA;
        view->line_table_bytes = word_at(table, VT_VAR_OBJECT_SIZE);
    }
    return true;
}

/* ---- self ---- */

/* What to do about `self` is decided once per code object and kept in a small direct-mapped table, one word
 * each, so that threads can share it without a lock: the upper bits of the code's identity, then the slot
 * among the frame's locals and the kind. */
enum { SELF_NONE = 0, SELF_PLAIN = 1, SELF_CELL = 2 };
#define SELF_KIND_BITS 2
#define SELF_NOTE_BITS 16
#define SELF_NOTE_MASK ((UINT64_C(1) << SELF_NOTE_BITS) - 1)
#define SELF_TABLE_BITS 12
#define SELF_SLOT_MAXIMUM (1u << (SELF_NOTE_BITS - SELF_KIND_BITS))

static _Atomic uint64_t self_table[1u << SELF_TABLE_BITS];

/* Module calls and optimizer steps; all take `self` first. Not any __call__: an object made for one call would make
 * every stack a new one. */
static bool wants_self(const struct vt_python *python, const char *code)
{
    const struct vt_python_layout *layout = python->layout;
    struct text name, file, first;
    if (!read_text(python, pointer_at(code, layout->code_name), &name))
        return false;
    bool step = text_is(&name, "step");
    if (!step && !text_is(&name, "forward") && !text_is(&name, "_call_impl") &&
        !text_is(&name, "_wrapped_call_impl"))
        return false;
    /* torch/optim, and what others call theirs: bitsandbytes/optim, apex/optimizers … */
    if (step && (!read_text(python, pointer_at(code, layout->code_file_name), &file) ||
                 !text_contains(&file, "/optim")))
        return false;

    const char *names = pointer_at(code, layout->code_local_names);
    return int_at(code, layout->code_argument_count) > 0 && has_type(names, python->tuple_type) &&
           (int64_t)word_at(names, VT_VAR_OBJECT_SIZE) > 0 &&
           read_text(python, pointer_at(names, VT_TUPLE_ITEMS), &first) && text_is(&first, "self");
}

/* Before 3.11 an argument that is a cell moves behind the locals; co_cell2arg says which cell it became. */
static uint64_t self_before_3_11(const struct vt_python *python, const char *code)
{
    const struct vt_python_layout *layout = python->layout;
    const char *arguments = pointer_at(code, layout->code_cell_to_argument);
    const char *cells = pointer_at(code, layout->code_cell_names);
    if (arguments == NULL)
        return SELF_PLAIN;
    if (!plausible(arguments) || !has_type(cells, python->tuple_type))
        return SELF_NONE;
    uint64_t locals = (uint64_t)int_at(code, layout->code_local_count);
    uint64_t count = word_at(cells, VT_VAR_OBJECT_SIZE);
    for (uint64_t i = 0; i < count && locals + i < SELF_SLOT_MAXIMUM; i++)
        if (word_at(arguments, i * 8) == 0)
            return SELF_CELL | (locals + i) << SELF_KIND_BITS;
    return SELF_PLAIN;
}

#define LOCAL_IS_CELL 0x40 /* CO_FAST_CELL */

static uint64_t decide_self(const struct vt_python *python, const char *code)
{
    const struct vt_python_layout *layout = python->layout;
    if (!wants_self(python, code))
        return SELF_NONE;
    if (layout->code_local_kinds == 0)
        return self_before_3_11(python, code);
    const char *kinds = pointer_at(code, layout->code_local_kinds);
    if (!has_type(kinds, python->bytes_type) || (int64_t)word_at(kinds, VT_VAR_OBJECT_SIZE) < 1)
        return SELF_NONE;
    return (kinds[VT_BYTES_DATA] & LOCAL_IS_CELL) != 0 ? SELF_CELL : SELF_PLAIN;
}

static __attribute__((noinline)) uint64_t remember_self(const struct vt_python *python, const char *code,
                                                        uint64_t identity)
{
    uint64_t note = decide_self(python, code);
    if ((note & 3) == SELF_CELL && !python->cells_readable)
        note = SELF_NONE;
    atomic_store_explicit(&self_table[identity >> (64 - SELF_TABLE_BITS)],
                          (identity & ~SELF_NOTE_MASK) | note, memory_order_relaxed);
    return note;
}

static __attribute__((noinline)) uint64_t read_self(const struct vt_python *python, const char *locals,
                                                    uint64_t note)
{
    const char *value = pointer_at(locals, (note & SELF_NOTE_MASK) >> SELF_KIND_BITS << 3);
    if ((note & 3) == SELF_PLAIN)
        return (uintptr_t)value;
    return has_type(value, python->cell_type) ? word_at(value, VT_CELL_CONTENTS) : 0;
}

/* ---- the walk ---- */

#define MIX_CODE UINT64_C(0x9e3779b97f4a7c15)
#define MIX_GUARD UINT64_C(0xd6e8feb86659fd93)
#define MIX_OFFSET UINT64_C(0xa0761d6478bd642f)
#define MIX_TEXT UINT64_C(0x8ebc6af09c88c6e3)
#define MIX_STEP UINT64_C(0xe7037ed1a0b428db)

static inline uint64_t rotate(uint64_t value, unsigned bits)
{
    return value << bits | value >> (64 - bits);
}

/* Samples a string: where it lies, its length, and its hash (names are interned, so theirs is known), else
 * its first and last 8 bytes. A compact string is never smaller than header + 8; another kind tells only
 * where it is. A hash that comes to be known later makes one more code object of one, no more. */
static inline uint64_t sample_text(const struct vt_python_layout *layout, const char *text)
{
    uint64_t sample = (uintptr_t)text;
    uint64_t hash = word_at(text, VT_UNICODE_HASH);
    uint64_t length = word_at(text, VT_UNICODE_LENGTH);
    if (hash != UINT64_MAX)
        return sample + hash + rotate(length, 48);
    uint32_t bits = (uint32_t)int_at(text, VT_UNICODE_STATE);
    if (__builtin_expect((bits & UNICODE_COMPACT) == 0, 0))
        return sample;
    const char *data =
        text + ((bits & UNICODE_ASCII) != 0 ? layout->unicode_ascii_bytes : layout->unicode_compact_bytes);
    uint64_t tail = word_at(data, length > 8 ? length - 8 : 0);
    return (sample + rotate(length, 48)) ^ (word_at(data, 0) + rotate(tail, 29)) * MIX_TEXT;
}

/* A code object's address comes back when it dies; what else changes then? From 3.12 on its version number,
 * which is never given twice. Before, something of what a description would tell: name, file, first line,
 * line table. Where all that is sampled here is the same, two code objects pass for one. */
static inline uint64_t guard_by_contents(const struct vt_python_layout *layout, const char *code)
{
    unsigned name = layout->code_qualified_name != 0 ? layout->code_qualified_name : layout->code_name;
    const char *table = pointer_at(code, layout->code_line_table);
    uint64_t table_bytes = word_at(table, VT_VAR_OBJECT_SIZE);
    uint64_t guard = (uint32_t)int_at(code, layout->code_first_line) + (table_bytes << 32);
    guard += sample_text(layout, pointer_at(code, name));
    guard ^= rotate(sample_text(layout, pointer_at(code, layout->code_file_name)), 17);
    guard += rotate((uintptr_t)table, 41);
    if (table_bytes >= 8)
        guard ^=
            (word_at(table, VT_BYTES_DATA) + rotate(word_at(table, VT_BYTES_DATA + table_bytes - 8), 29)) *
            MIX_TEXT;
    return guard;
}

struct walk {
    const struct vt_python *python;
    struct vt_raw_python_frame *frames;
    size_t capacity;
    size_t count;
    uint64_t hash;
    bool truncated;
    bool unreadable;
};

static inline __attribute__((always_inline)) void take_frame(struct walk *walk,
                                                             const struct vt_python_layout *layout,
                                                             const char *code, const char *locals,
                                                             int32_t instruction_offset)
{
    uint64_t guard = layout->code_version != 0 ? (uint32_t)int_at(code, layout->code_version)
                                               : guard_by_contents(layout, code);
    uint64_t identity = (uintptr_t)code * MIX_CODE + guard * MIX_GUARD;
    uint64_t note =
        atomic_load_explicit(&self_table[identity >> (64 - SELF_TABLE_BITS)], memory_order_relaxed);
    if (__builtin_expect(((note ^ identity) & ~SELF_NOTE_MASK) != 0, 0))
        note = remember_self(walk->python, code, identity);
    uint64_t self = 0;
    if (__builtin_expect((note & 3) != SELF_NONE, 0))
        self = read_self(walk->python, locals, note);

    struct vt_raw_python_frame *frame = &walk->frames[walk->count++];
    frame->code = code;
    frame->instruction_offset = instruction_offset;
    frame->self_address = self;
    walk->hash = (rotate(walk->hash, 29) ^
                  (identity + (uint32_t)instruction_offset * MIX_OFFSET + rotate(self * MIX_CODE, 32))) *
                 MIX_STEP;
}

/* 3.9, 3.10. */
static inline __attribute__((always_inline)) void
walk_objects(struct walk *walk, const struct vt_python_layout *layout, const char *thread)
{
    const char *frame = pointer_at(thread, layout->thread_frame);
    for (; frame != NULL; frame = pointer_at(frame, layout->frame_previous)) {
        if (__builtin_expect(!plausible(frame), 0))
            break;
        const char *code = pointer_at(frame, layout->frame_code);
        if (__builtin_expect(!has_type(code, walk->python->code_type), 0))
            break;
        if (__builtin_expect(walk->count == walk->capacity, 0)) {
            walk->truncated = true;
            return;
        }
        int32_t offset = int_at(frame, layout->frame_instruction);
        if (__builtin_expect(offset > INT32_MAX / 2, 0))
            break;
        take_frame(walk, layout, code, frame + layout->frame_locals,
                   offset < 0 ? -1 : offset * layout->instruction_scale);
    }
    walk->unreadable = frame != NULL;
}

/* From 3.11 on. What sys._getframe leaves out is left out: the shim that stands on the C stack for each entry
 * from C, and frames that have not come to their first traceable instruction (they are making their cells).
 */
static inline __attribute__((always_inline)) void
walk_interpreter_frames(struct walk *walk, const struct vt_python_layout *layout, const char *thread)
{
    const char *frame = pointer_at(thread, layout->thread_frame);
    if (layout->chain == VT_CHAIN_CFRAME)
        frame = plausible(frame) ? pointer_at(frame, layout->cframe_current_frame) : NULL;
    size_t bound = walk->capacity * 4 + 64;
    for (; frame != NULL; frame = pointer_at(frame, layout->frame_previous)) {
        if (__builtin_expect(!plausible(frame) || bound-- == 0, 0))
            break;
        unsigned owner = *(const unsigned char *)(frame + layout->frame_owner);
        if (owner == layout->owner_c_stack)
            continue;
        const char *code = pointer_at(frame, layout->frame_code);
        if (__builtin_expect(!has_type(code, walk->python->code_type) || owner > 3, 0))
            break;
        int64_t offset = (int64_t)(word_at(frame, layout->frame_instruction) -
                                   (uintptr_t)(code + layout->code_instructions));
        if (__builtin_expect(offset < 2 * (int64_t)int_at(code, layout->code_first_traceable), 0) &&
            owner != layout->owner_generator)
            continue;
        if (__builtin_expect(offset > INT32_MAX / 2, 0))
            break;
        if (__builtin_expect(walk->count == walk->capacity, 0)) {
            walk->truncated = true;
            return;
        }
        take_frame(walk, layout, code, frame + layout->frame_locals, offset < 0 ? -1 : (int32_t)offset);
    }
    walk->unreadable = frame != NULL;
}

/* One walk for each table, with its offsets as constants. */
#define WALK(function, minor_version)                                                                        \
    _Static_assert(minor_version >= 9, "tables begin with 3.9");                                             \
    static __attribute__((noinline)) void walk_3_##minor_version(struct walk *walk, const char *thread)      \
    {                                                                                                        \
        struct walk in_registers = *walk; /* what is stored to frames could alias *walk */                   \
        function(&in_registers, &vt_python_layouts[minor_version - 9], thread);                              \
        *walk = in_registers;                                                                                \
    }
WALK(walk_objects, 9)
WALK(walk_objects, 10)
WALK(walk_interpreter_frames, 11)
WALK(walk_interpreter_frames, 12)
WALK(walk_interpreter_frames, 13)

size_t vt_python_walk(struct vt_raw_python_frame *frames, size_t capacity, uint64_t *hash, bool *truncated,
                      bool *unreadable)
{
    *truncated = false;
    *unreadable = false;
    struct walk walk = {.frames = frames, .capacity = capacity, .hash = *hash};
    const char *thread = vt_python_current_thread(&walk.python);
    if (thread == NULL)
        return 0;
    switch (walk.python->layout->minor) {
    case 9:
        walk_3_9(&walk, thread);
        break;
    case 10:
        walk_3_10(&walk, thread);
        break;
    case 11:
        walk_3_11(&walk, thread);
        break;
    case 12:
        walk_3_12(&walk, thread);
        break;
    case 13:
        walk_3_13(&walk, thread);
        break;
    }
    *hash = walk.hash;
    *truncated = walk.truncated;
    *unreadable = walk.unreadable;
    return walk.count;
}
