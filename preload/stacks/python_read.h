/* Reads the interpreter's memory at offsets. Shared by the walk (python.c), code objects (python_code.c) and
 * local variables (python_locals.c). Threads: any. */
#ifndef VT_PYTHON_READ_H
#define VT_PYTHON_READ_H

#include <stddef.h>
#include <string.h>

#include "stacks/python_layout.h"

static inline uint64_t vt_word_at(const void *base, ptrdiff_t offset)
{
    uint64_t word;
    memcpy(&word, (const char *)base + offset, sizeof word);
    return word;
}

static inline int32_t vt_int_at(const void *base, ptrdiff_t offset)
{
    int32_t value;
    memcpy(&value, (const char *)base + offset, sizeof value);
    return value;
}

static inline const char *vt_pointer_at(const void *base, ptrdiff_t offset)
{
    return (const char *)(uintptr_t)vt_word_at(base, offset);
}

/* Whether an address could be an object's: aligned, in user space, not in the first pages. */
static inline bool vt_is_plausible(const void *pointer)
{
    uintptr_t address = (uintptr_t)pointer;
    return address >= 65536 && (address & 0xff00000000000007u) == 0;
}

static inline bool vt_has_type(const struct vt_python_layout *layout, const char *object, const void *type)
{
    return vt_is_plausible(object) && vt_pointer_at(object, layout->object_type) == type;
}

/* A frame's reference to an object, without its tag. Other values (a tagged integer) stay implausible. */
static inline const char *vt_reference_at(const struct vt_python_layout *layout, const void *base,
                                          ptrdiff_t offset)
{
    return (const char *)(uintptr_t)(vt_word_at(base, offset) & ~(uint64_t)layout->reference_tag);
}

/* A string's flags and width, VT_UNICODE_*. */
static inline unsigned vt_unicode_bits_at(const struct vt_python_layout *layout, const char *text)
{
    return (unsigned)vt_int_at(text, layout->unicode_state) >> layout->unicode_kind_bit;
}

/* Where frames of a code object keep `self`: the index among the locals, above the kind. */
enum { VT_SELF_NONE = 0, VT_SELF_PLAIN = 1, VT_SELF_CELL = 2 };
enum { VT_SELF_KIND_BITS = 2, VT_SELF_NOTE_BITS = 16, VT_SELF_KIND_MASK = (1 << VT_SELF_KIND_BITS) - 1 };

/* ---- frames ---- */

enum { VT_FRAME_OWNER_MAXIMUM = 4 };

enum vt_frame_state { VT_FRAME_READABLE, VT_FRAME_SKIPPED, VT_FRAME_ENTRY, VT_FRAME_UNREADABLE };

struct vt_interpreter_frame {
    const char *code, *locals;
    int32_t instruction_offset;
};

static inline __attribute__((always_inline)) const char *vt_first_frame(const struct vt_python_layout *layout,
                                                                        const char *thread)
{
    const char *first = vt_pointer_at(thread, layout->thread_frame);
    if (layout->chain == VT_CHAIN_CFRAME)
        first = vt_is_plausible(first) ? vt_pointer_at(first, layout->cframe_current_frame) : NULL;
    return first;
}

/* Address of the first instruction of the code that a frame runs. In a free-threaded build each thread has
 * its own copy, listed by the code object. Another thread may replace that list by a longer one, so it may
 * be read after it was freed (its pages stay); what it says is only compared. */
static inline __attribute__((always_inline)) uintptr_t
vt_first_instruction(const struct vt_python_layout *layout, const char *frame, const char *code)
{
    int32_t index = layout->code_thread_instructions ? vt_int_at(frame, layout->frame_instructions_index) : 0;
    const char *copies = index > 0 ? vt_pointer_at(code, layout->code_thread_instructions) : NULL;
    if (vt_is_plausible(copies) && (uint64_t)index < vt_word_at(copies, 0))
        return vt_word_at(copies, 8 + (ptrdiff_t)index * 8);
    return (uintptr_t)(code + layout->code_instructions);
}

/* Skips what sys._getframe leaves out: entry frames of calls from C, and frames that have not reached their
 * first traceable instruction (they are still making their cells, and have no locals yet). */
static inline __attribute__((always_inline)) enum vt_frame_state
vt_read_frame(const struct vt_python *python, const struct vt_python_layout *layout, const char *at,
              struct vt_interpreter_frame *frame)
{
    unsigned owner = VT_NO_OWNER;
    if (layout->chain != VT_CHAIN_OBJECTS) {
        owner = *(const unsigned char *)(at + layout->frame_owner);
        if (owner >= layout->owner_interpreter && owner <= VT_FRAME_OWNER_MAXIMUM)
            return VT_FRAME_ENTRY;
    }
    const char *code = vt_reference_at(layout, at, layout->frame_code);
    if (__builtin_expect(!vt_has_type(layout, code, python->code_type), 0))
        return VT_FRAME_UNREADABLE;
    int64_t offset;
    if (layout->chain == VT_CHAIN_OBJECTS) {
        offset = vt_int_at(at, layout->frame_instruction);
    } else {
        if (__builtin_expect(owner > VT_FRAME_OWNER_MAXIMUM, 0))
            return VT_FRAME_UNREADABLE;
        offset =
            (int64_t)(vt_word_at(at, layout->frame_instruction) - vt_first_instruction(layout, at, code));
        if (__builtin_expect(offset < 2 * (int64_t)vt_int_at(code, layout->code_first_traceable), 0) &&
            owner != layout->owner_generator)
            return VT_FRAME_SKIPPED;
    }
    if (__builtin_expect(offset > INT32_MAX / 2, 0))
        return VT_FRAME_UNREADABLE;
    const int32_t scale = layout->chain == VT_CHAIN_OBJECTS ? layout->instruction_scale : 1;
    *frame = (struct vt_interpreter_frame){code, at + layout->frame_locals,
                                           offset < 0 ? -1 : (int32_t)offset * scale};
    return VT_FRAME_READABLE;
}

#endif
