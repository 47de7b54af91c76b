#include "stacks/python_locals.h"

#include <stdint.h>
#include <string.h>

#include "stacks/python_layout.h"

enum { LOCALS_MAXIMUM = 4096, FRAMES_PER_FRAME = 4, LOCAL_IS_CELL = 0x40, LOCAL_IS_FREE = 0x80 };

static const char *pointer_at(const char *base, size_t offset)
{
    const char *pointer;
    memcpy(&pointer, base + offset, sizeof pointer);
    return pointer;
}

static int32_t int_at(const char *base, size_t offset)
{
    int32_t value;
    memcpy(&value, base + offset, sizeof value);
    return value;
}

static bool plausible(const char *pointer)
{
    uintptr_t address = (uintptr_t)pointer;
    return address >= 65536 && (address & 0xff00000000000007u) == 0;
}

static bool has_type(const char *object, const void *type)
{
    return plausible(object) && pointer_at(object, VT_OBJECT_TYPE) == type;
}

struct walk {
    const struct vt_python *python;
    vt_python_local_visit *visit;
    void *context;
    const char *function; /* of the frame */
};

/* The names of a tuple stand for the slots from `slot` on. `kinds`: of each, a flag for those that are cells;
 * without it all are if `cells`. */
static bool visit_slots(const struct walk *walk, const char *names, const char *slots, const char *kinds,
                        bool cells)
{
    const struct vt_python *python = walk->python;
    if (!has_type(names, python->tuple_type))
        return true;
    int64_t count = (int64_t)(uintptr_t)pointer_at(names, VT_VAR_OBJECT_SIZE);
    for (int64_t i = 0; i < count && i < LOCALS_MAXIMUM; i++) {
        const char *name = pointer_at(names, VT_TUPLE_ITEMS + (size_t)i * 8);
        const char *value = pointer_at(slots, (size_t)i * 8);
        bool cell = kinds ? (kinds[i] & (LOCAL_IS_CELL | LOCAL_IS_FREE)) != 0 : cells;
        if (cell)
            value = python->cells_readable && has_type(value, python->cell_type)
                        ? pointer_at(value, VT_CELL_CONTENTS)
                        : NULL;
        if (plausible(value) && has_type(name, python->unicode_type) &&
            !walk->visit(walk->context, walk->function, name, value))
            return false;
    }
    return true;
}

static bool visit_frame(struct walk *walk, const char *code, const char *locals)
{
    const struct vt_python_layout *layout = walk->python->layout;
    const char *names = pointer_at(code, layout->code_local_names);
    walk->function =
        pointer_at(code, layout->code_qualified_name ? layout->code_qualified_name : layout->code_name);
    if (!has_type(walk->function, walk->python->unicode_type))
        return true;
    if (layout->code_local_kinds == 0) { /* before 3.11: the locals, then the cells */
        int32_t count = int_at(code, layout->code_local_count);
        return visit_slots(walk, names, locals, NULL, false) &&
               (count < 0 || count > LOCALS_MAXIMUM ||
                visit_slots(walk, pointer_at(code, layout->code_cell_names), locals + (size_t)count * 8, NULL,
                            true));
    }
    const char *kinds = pointer_at(code, layout->code_local_kinds);
    if (!has_type(kinds, walk->python->bytes_type) || !has_type(names, walk->python->tuple_type) ||
        pointer_at(kinds, VT_VAR_OBJECT_SIZE) != pointer_at(names, VT_VAR_OBJECT_SIZE))
        return true;
    return visit_slots(walk, names, locals, kinds + VT_BYTES_DATA, false);
}

/* From 3.11 on: false for one that is still making its cells, and has no locals yet. */
static bool has_locals(const struct vt_python_layout *layout, const char *frame, const char *code)
{
    if (layout->chain == VT_CHAIN_OBJECTS)
        return true;
    int64_t offset = pointer_at(frame, layout->frame_instruction) - (code + layout->code_instructions);
    unsigned owner = *(const unsigned char *)(frame + layout->frame_owner);
    return offset >= 2 * (int64_t)int_at(code, layout->code_first_traceable) ||
           owner == layout->owner_generator;
}

/* The calling thread's state, NULL where nothing can be read. Where cells cannot be, a frame whose locals are
 * being freed is still seen, too. */
static const char *begin(struct walk *walk)
{
    const char *thread = vt_python_current_thread(&walk->python);
    return thread && walk->python->cells_readable ? thread : NULL;
}

/* As the walk of stacks (stack_python.c) goes, which has no time to ask for the version at every step. */
void vt_python_visit_locals(size_t frames, vt_python_local_visit visit, void *context)
{
    struct walk walk = {.visit = visit, .context = context};
    const char *thread = begin(&walk);
    if (!thread)
        return;
    const struct vt_python_layout *layout = walk.python->layout;
    const char *frame = pointer_at(thread, layout->thread_frame);
    if (layout->chain == VT_CHAIN_CFRAME)
        frame = plausible(frame) ? pointer_at(frame, layout->cframe_current_frame) : NULL;
    for (size_t bound = frames * FRAMES_PER_FRAME; frames && bound && plausible(frame);
         bound--, frame = pointer_at(frame, layout->frame_previous)) {
        if (layout->chain != VT_CHAIN_OBJECTS) {
            unsigned owner = *(const unsigned char *)(frame + layout->frame_owner);
            if (owner == layout->owner_c_stack)
                continue;
            if (owner > 3)
                return;
        }
        const char *code = pointer_at(frame, layout->frame_code);
        if (!has_type(code, walk.python->code_type))
            return;
        if (!has_locals(layout, frame, code))
            continue;
        frames--;
        if (!visit_frame(&walk, code, frame + layout->frame_locals))
            return;
    }
}

void vt_python_visit_frame(const void *frame_object, vt_python_local_visit visit, void *context)
{
    struct walk walk = {.visit = visit, .context = context};
    const char *frame = frame_object;
    if (!begin(&walk))
        return;
    const struct vt_python_layout *layout = walk.python->layout;
    if (layout->chain != VT_CHAIN_OBJECTS)
        frame = pointer_at(frame, VT_FRAME_OBJECT_FRAME);
    const char *code = plausible(frame) ? pointer_at(frame, layout->frame_code) : NULL;
    if (has_type(code, walk.python->code_type) && has_locals(layout, frame, code))
        visit_frame(&walk, code, frame + layout->frame_locals);
}
