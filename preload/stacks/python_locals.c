#include "stacks/python_locals.h"

#include "stacks/python_read.h"

enum { LOCALS_MAXIMUM = 4096, STEPS_PER_FRAME = 4 };

struct visit {
    const struct vt_python *python;
    vt_python_local_visit *visit;
    void *context;
    const char *file, *function; /* of the frame */
};

/* Visits slots and their names, a tuple. `kinds` has flags for each slot; NULL: all slots are cells, or none
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
            !visit->visit(visit->context,
                          &(struct vt_python_local){visit->file, visit->function, name, value}))
            return false;
    }
    return true;
}

static bool visit_frame(struct visit *visit, const struct vt_interpreter_frame *frame)
{
    const struct vt_python_layout *layout = visit->python->layout;
    const char *code = frame->code, *locals = frame->locals;
    const char *names = vt_pointer_at(code, layout->code_local_names);
    visit->function =
        vt_pointer_at(code, layout->code_qualified_name ? layout->code_qualified_name : layout->code_name);
    visit->file = vt_pointer_at(code, layout->code_file_name);
    if (!vt_has_type(layout, visit->function, visit->python->unicode_type) ||
        !vt_has_type(layout, visit->file, visit->python->unicode_type))
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

/* False if nothing can be read. Where cells cannot be read, the chain may also contain frames whose locals
 * are being freed. */
static bool begin_visit(struct visit *visit)
{
    return vt_python_current_thread(&visit->python) && visit->python->cells_readable;
}

static void visit_at(struct visit *visit, const char *at)
{
    struct vt_interpreter_frame frame;
    if (vt_is_plausible(at) &&
        vt_read_frame(visit->python, visit->python->layout, at, &frame) == VT_FRAME_READABLE)
        visit_frame(visit, &frame);
}

void vt_python_visit_locals(const void *thread, size_t frames, vt_python_local_visit function, void *context)
{
    struct visit visit = {.visit = function, .context = context};
    if (!begin_visit(&visit))
        return;
    const struct vt_python_layout *layout = visit.python->layout;
    const char *at = vt_first_frame(layout, thread);
    for (size_t bound = frames * STEPS_PER_FRAME; frames && bound && vt_is_plausible(at);
         bound--, at = vt_pointer_at(at, layout->frame_previous)) {
        struct vt_interpreter_frame frame;
        enum vt_frame_state state = vt_read_frame(visit.python, layout, at, &frame);
        if (state == VT_FRAME_SKIPPED || state == VT_FRAME_ENTRY)
            continue;
        if (state == VT_FRAME_UNREADABLE || !visit_frame(&visit, &frame))
            return;
        frames--;
    }
}

void vt_python_visit_frame(const void *frame_object, vt_python_local_visit function, void *context)
{
    struct visit visit = {.visit = function, .context = context};
    if (begin_visit(&visit))
        visit_at(&visit, visit.python->layout->chain == VT_CHAIN_OBJECTS
                             ? frame_object
                             : vt_pointer_at(frame_object, visit.python->layout->frame_object_frame));
}

void vt_python_visit_generator(const void *generator, vt_python_local_visit function, void *context)
{
    struct visit visit = {.visit = function, .context = context};
    if (!begin_visit(&visit))
        return;
    const struct vt_python_layout *layout = visit.python->layout;
    const char *at = (const char *)generator + layout->generator_frame;
    if (layout->chain == VT_CHAIN_OBJECTS)
        at = vt_pointer_at(at, 0); /* NULL once it has ended */
    else if ((signed char)at[VT_GENERATOR_STATE] >= (signed char)layout->generator_running)
        return;
    visit_at(&visit, at);
}
