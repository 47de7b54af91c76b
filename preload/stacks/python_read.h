/* The interpreter's memory, read at offsets; and what the walk (python.c) and the reading of code objects
 * (python_code.c) share. Threads: any. */
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

/* Aligned, in user space, not in the first pages: all that an address says about being an object's. */
static inline bool vt_is_plausible(const void *pointer)
{
    uintptr_t address = (uintptr_t)pointer;
    return address >= 65536 && (address & 0xff00000000000007u) == 0;
}

static inline bool vt_has_type(const struct vt_python_layout *layout, const char *object, const void *type)
{
    return vt_is_plausible(object) && vt_pointer_at(object, layout->object_type) == type;
}

/* A frame's reference to an object, without its tag. What is no reference (a tagged integer) stays
 * implausible. */
static inline const char *vt_reference_at(const struct vt_python_layout *layout, const void *base,
                                          ptrdiff_t offset)
{
    return (const char *)(uintptr_t)(vt_word_at(base, offset) & ~(uint64_t)layout->reference_tag);
}

/* Flags and width of a string, VT_UNICODE_…. */
static inline unsigned vt_unicode_bits_at(const struct vt_python_layout *layout, const char *text)
{
    return (unsigned)vt_int_at(text, layout->unicode_state) >> layout->unicode_kind_bit;
}

/* Where a frame of one code object keeps its `self`: the index among the frame's locals, above the kind. */
enum { VT_SELF_NONE = 0, VT_SELF_PLAIN = 1, VT_SELF_CELL = 2 };
enum { VT_SELF_KIND_BITS = 2, VT_SELF_NOTE_BITS = 16, VT_SELF_KIND_MASK = (1 << VT_SELF_KIND_BITS) - 1 };

/* The note of a code object: VT_SELF_NONE unless it is a module call or an optimizer step whose `self` can be
 * read. */
uint64_t vt_python_self_note(const struct vt_python *python, const char *code);

#endif
