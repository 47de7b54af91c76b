/* Local variables, read raw: `frame.f_locals` would leave a dict behind that keeps the objects alive as long
 * as the frame runs. Threads: one that holds the GIL, so that objects stay alive and no frame runs during
 * the visit. */
#ifndef VT_PYTHON_LOCALS_H
#define VT_PYTHON_LOCALS_H

#include <stdbool.h>
#include <stddef.h>

/* One variable; all references are borrowed. A visit that returns false is the last one. */
struct vt_python_local {
    const void *file, *function; /* Python strings; from 3.11 on the function's qualified name */
    const void *name;            /* a Python string */
    const void *value;           /* a Python object */
};
typedef bool vt_python_local_visit(void *context, const struct vt_python_local *local);

/* Visits a thread's variables, given its PyThreadState: innermost frame first, at most `frames` frames. Does
 * nothing if the layout is not known. */
void vt_python_visit_locals(const void *thread, size_t frames, vt_python_local_visit visit, void *context);

/* The same for one frame object, of any thread, whether it runs, waits or has ended. */
void vt_python_visit_frame(const void *frame_object, vt_python_local_visit visit, void *context);

/* The same for a generator, a coroutine or an asynchronous generator that is waiting or has not started;
 * does nothing for one that runs or has ended. */
void vt_python_visit_generator(const void *generator, vt_python_local_visit visit, void *context);

#endif
