/* Local variables of the calling thread's Python frames, read raw: `frame.f_locals` would leave a dict behind that keeps
 * the objects alive for as long as the frame runs.
 *
 * Threads: the one whose frames they are, holding the GIL, so that objects stay alive while `visit` looks. */
#ifndef VT_PYTHON_LOCALS_H
#define VT_PYTHON_LOCALS_H

#include <stdbool.h>
#include <stddef.h>

/* `function` (the qualified name from 3.11 on) and `name` are Python strings, `value` a Python object; all borrowed.
 * False ends the walk. */
typedef bool vt_python_local_visit(void *context, const void *function, const void *name, const void *value);

/* Innermost frame first, at most `frames` of them. Nothing is visited where the layout is not known. */
void vt_python_visit_locals(size_t frames, vt_python_local_visit visit, void *context);

/* The same for one frame object, of any thread, whether it runs, waits or has ended. */
void vt_python_visit_frame(const void *frame_object, vt_python_local_visit visit, void *context);

#endif
