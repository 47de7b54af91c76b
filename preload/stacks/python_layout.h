/* The layout of CPython's structs: a table for each minor version and kind of build, and this process's
 * interpreter, once its layout is proven to match one.
 *
 * Nothing here takes the GIL, allocates, or calls into the interpreter, except for symbol lookups,
 * Py_GetVersion (before 3.11) and PyGILState_GetThisThreadState. Threads: any.
 *
 * A version without a table, a build with another object header (Py_TRACE_REFS), and a layout that
 * contradicts its table are declined: no frames, and vt_python_unsupported_minor returns the version. */
#ifndef VT_PYTHON_LAYOUT_H
#define VT_PYTHON_LAYOUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum vt_python_chain {
    VT_CHAIN_OBJECTS = 1, /* 3.9, 3.10: PyFrameObject, from the thread state */
    VT_CHAIN_CFRAME = 2,  /* 3.11, 3.12: interpreter frames, from a struct on the C stack */
    VT_CHAIN_DIRECT = 3,  /* from 3.13: interpreter frames, from the thread state */
};

#define VT_NO_OWNER 0xffu /* no frame has this owner */

/* A table for each minor version, with the fields of layouts.def. It is in the header so that a walk
 * compiled for one version has its offsets as constants. */
struct vt_python_layout {
#define VT_LAYOUT(field, ...) uint16_t field;
#include "stacks/layouts.def"
};

static const struct vt_python_layout vt_python_layouts[] __attribute__((unused)) = {
#define VT_LAYOUT(field, v9, v10, v11, v12, v13, v14, v15, v13t, v14t, v15t)                                 \
    [0].field = v9, [1].field = v10, [2].field = v11, [3].field = v12, [4].field = v13, [5].field = v14,     \
    [6].field = v15, [7].field = v13t, [8].field = v14t, [9].field = v15t,
#include "stacks/layouts.def"
};
#define VT_PYTHON_LAYOUTS (sizeof vt_python_layouts / sizeof vt_python_layouts[0])

enum { VT_GENERATOR_STATE = -5 }; /* from 3.11 on, relative to a generator's frame; a char */

/* NULL if there is no such table. */
static inline const struct vt_python_layout *vt_python_find_layout(unsigned minor, bool is_free_threaded)
{
    for (size_t i = 0; i < VT_PYTHON_LAYOUTS; i++)
        if (vt_python_layouts[i].minor == minor && vt_python_layouts[i].free_threaded == is_free_threaded)
            return &vt_python_layouts[i];
    return NULL;
}

/* Flags in a string's state, from unicode_kind_bit on, and in code_local_kinds. */
enum { VT_UNICODE_WIDTH = 7, VT_UNICODE_COMPACT = 8, VT_UNICODE_ASCII = 16 };
enum { VT_LOCAL_IS_CELL = 0x40, VT_LOCAL_IS_FREE = 0x80 };

/* An interpreter whose layout is known. Constant once published. */
struct vt_python {
    const struct vt_python_layout *layout;
    uint32_t hex_version;
    bool cells_readable;
    void *code_type;
    const void *cell_type;
    const void *unicode_type;
    const void *bytes_type;
    const void *tuple_type;
    const char *(*thread_state)(void); /* PyGILState_GetThisThreadState */
    int (*is_finalizing)(void);
};

/* Looks for an interpreter if none was found yet. Call from one thread at a time that holds no lock of the
 * host: it takes the loader's lock, and leaves its failures in dlerror. */
void vt_python_look_up(void);

/* The calling thread's thread state and, in *python, the interpreter. NULL if there is no Python, if it is
 * declined, or if it is ending. */
const char *vt_python_current_thread(const struct vt_python **python);

/* The interpreter; NULL until a walk has proven its layout. */
const struct vt_python *vt_python_known(void);

/* A number that grows with the death of each code object. While it stays the same, a code object that was
 * seen at an address still is the one there. 0 = deaths are not counted. */
uint64_t vt_python_code_deaths(const struct vt_python *python);

/* The dlsym handle for its symbols, once vt_python_loaded. */
void *vt_python_scope(void);

/* True while an interpreter whose layout is known is ending, and after. */
bool vt_python_is_finalizing(void);

/* True once an interpreter was found, whether or not its frames can be read. */
bool vt_python_loaded(void);

/* PY_VERSION_HEX of the interpreter; 0 while none was found. */
uint32_t vt_python_hex_version(void);

/* True for a free-threaded interpreter (no GIL) whose frames can be read. */
bool vt_python_is_free_threaded(void);

/* The minor version of an interpreter whose frames are not recorded; 0 = none. */
int vt_python_unsupported_minor(void);

#endif
