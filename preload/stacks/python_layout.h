/* The layout of CPython's structs: a table for each minor version, and the interpreter of this process once
 * its layout is proven to be one of them.
 *
 * Nothing here takes the GIL, allocates, or calls into the interpreter, except for symbol lookups,
 * Py_GetVersion (before 3.11) and PyGILState_GetThisThreadState. Threads: any.
 *
 * A version without a table, a build with another object header (free-threaded, Py_TRACE_REFS) and a layout
 * that contradicts its table are declined: no frames, and vt_python_unsupported_minor returns the version. */
#ifndef VT_PYTHON_LAYOUT_H
#define VT_PYTHON_LAYOUT_H

#include <stdbool.h>
#include <stdint.h>

enum vt_python_chain {
    VT_CHAIN_OBJECTS = 1, /* 3.9, 3.10: PyFrameObject, from the thread state */
    VT_CHAIN_CFRAME = 2,  /* 3.11, 3.12: interpreter frames, from a struct on the C stack */
    VT_CHAIN_DIRECT = 3,  /* 3.13: interpreter frames, from the thread state */
};

#define VT_NO_OWNER 0xffu /* no frame has this owner */

/* A table for each minor version; layouts.def has the fields. In the header, so that a walk made for one
 * version has its offsets as constants. */
struct vt_python_layout {
#define VT_LAYOUT(field, v9, v10, v11, v12, v13) uint16_t field;
#include "stacks/layouts.def"
};

static const struct vt_python_layout vt_python_layouts[] __attribute__((unused)) = {
#define VT_LAYOUT(field, v9, v10, v11, v12, v13) .field = v9,
    {
#include "stacks/layouts.def"
    },
#define VT_LAYOUT(field, v9, v10, v11, v12, v13) .field = v10,
    {
#include "stacks/layouts.def"
    },
#define VT_LAYOUT(field, v9, v10, v11, v12, v13) .field = v11,
    {
#include "stacks/layouts.def"
    },
#define VT_LAYOUT(field, v9, v10, v11, v12, v13) .field = v12,
    {
#include "stacks/layouts.def"
    },
#define VT_LAYOUT(field, v9, v10, v11, v12, v13) .field = v13,
    {
#include "stacks/layouts.def"
    },
};
enum { VT_PYTHON_FIRST_MINOR = 9 };
#define VT_PYTHON_LAYOUTS (sizeof vt_python_layouts / sizeof vt_python_layouts[0])

/* The same in every version that has a table; a build with another object header is declined. */
enum {
    VT_OBJECT_TYPE = 8,
    VT_VAR_OBJECT_SIZE = 16,
    VT_TUPLE_ITEMS = 24,
    VT_CELL_CONTENTS = 16,
    VT_FRAME_OBJECT_FRAME = 24, /* from 3.11: the interpreter frame */
    VT_GENERATOR_STATE = -5,    /* from 3.11, from its frame: a char, below 0 while it has not begun or waits */
    VT_BYTES_DATA = 32,
    VT_UNICODE_LENGTH = 16,
    VT_UNICODE_HASH = 24,
    VT_UNICODE_STATE = 32,
    VT_TYPE_BASIC_SIZE = 32,
    VT_TYPE_FLAGS = 168,
    VT_TYPE_TRAVERSE = 184,
};

/* Flags: in a string's state, above 2 bits of interning and 3 of width; in code_local_kinds. */
enum { VT_UNICODE_COMPACT = 32, VT_UNICODE_ASCII = 64, VT_LOCAL_IS_CELL = 0x40, VT_LOCAL_IS_FREE = 0x80 };

/* An interpreter whose layout is known. Never changes once published. */
struct vt_python {
    const struct vt_python_layout *layout;
    uint32_t hex_version;
    bool cells_readable;
    const void *code_type;
    const void *cell_type;
    const void *unicode_type;
    const void *bytes_type;
    const void *tuple_type;
    const char *(*thread_state)(void); /* PyGILState_GetThisThreadState */
    int (*is_finalizing)(void);
};

/* Looks for an interpreter if none was found so far. From one thread at a time that holds no lock of the
 * host: it takes the loader's lock, and leaves its failures in dlerror. */
void vt_python_look_up(void);

/* The thread state of the calling thread and, in *python, the interpreter; NULL if there is no Python, if it
 * is declined, or if it ends. */
const char *vt_python_current_thread(const struct vt_python **python);

/* The interpreter; NULL until a walk has proven its layout. */
const struct vt_python *vt_python_known(void);

/* The handle for dlsym of its symbols, once vt_python_loaded. */
void *vt_python_scope(void);

/* True while an interpreter whose layout is known ends, and after. */
bool vt_python_is_finalizing(void);

/* True once an interpreter was found, whether its frames can be read or not. */
bool vt_python_loaded(void);

/* PY_VERSION_HEX of the interpreter found; 0 while there is none. */
uint32_t vt_python_hex_version(void);

/* 0, or the minor version of an interpreter found whose frames are not recorded. */
int vt_python_unsupported_minor(void);

#endif
