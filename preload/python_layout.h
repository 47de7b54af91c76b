/* Where CPython keeps what a stack walk reads: one table per minor version, and the interpreter of this
 * process once its layout is known to be one of them.
 *
 * Nothing here takes the GIL, allocates, or calls into the interpreter, except for symbol lookups,
 * Py_GetVersion (before 3.11) and PyGILState_GetThisThreadState. Threads: any.
 *
 * A version without a table, a build with another object header (free-threaded, Py_TRACE_REFS) and a layout
 * that contradicts its table are declined: no frames, and vt_python_unsupported_minor says so. */
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

/* Byte offsets in the interpreter's structs, x86-64 and aarch64 alike. 0 in a field that this version lacks
 * (no field used here lies at offset 0, except those named _current_frame and frame_code). */
struct vt_python_layout {
    uint8_t minor;
    uint8_t chain;             /* enum vt_python_chain */
    uint8_t instruction_scale; /* chain of objects: bytes per unit of f_lasti */
    uint8_t owner_generator;   /* value of the frame's owner, or VT_NO_OWNER */
    uint8_t owner_c_stack;

    uint16_t thread_frame; /* thread state: the frame, or the cframe */
    uint16_t thread_thread_id;
    uint16_t cframe_current_frame;

    uint16_t frame_code;
    uint16_t frame_previous;
    uint16_t frame_instruction; /* a pointer into the code; chain of objects: int f_lasti */
    uint16_t frame_owner;
    uint16_t frame_locals;

    uint16_t code_argument_count;
    uint16_t code_first_line;
    uint16_t code_local_count; /* of local_names */
    uint16_t code_local_names; /* tuple */
    uint16_t code_local_kinds; /* bytes, one per local; from 3.11 */
    uint16_t code_cell_names;  /* tuple; before 3.11 */
    uint16_t code_cell_to_argument; /* Py_ssize_t *, before 3.11 */
    uint16_t code_file_name;
    uint16_t code_name;
    uint16_t code_qualified_name; /* from 3.11 */
    uint16_t code_line_table;
    uint16_t code_version; /* from 3.12: a number that no other code object of the interpreter had */
    uint16_t code_first_traceable;
    uint16_t code_instructions;

    uint16_t unicode_ascii_bytes;   /* header before the characters of an ASCII string */
    uint16_t unicode_compact_bytes; /* the same for other strings */

    /* tp_basicsize of the types: what tells a layout that is not this one. */
    uint16_t code_basic_bytes;
    uint16_t frame_basic_bytes;
    uint16_t unicode_basic_bytes;
};

/* The same in every version that has a table; a build with another object header is declined. */
enum {
    VT_OBJECT_TYPE = 8,
    VT_VAR_OBJECT_SIZE = 16,
    VT_TUPLE_ITEMS = 24,
    VT_CELL_CONTENTS = 16,
    VT_BYTES_DATA = 32,
    VT_UNICODE_LENGTH = 16,
    VT_UNICODE_HASH = 24,
    VT_UNICODE_STATE = 32,
    VT_TYPE_BASIC_SIZE = 32,
};

/* An interpreter whose layout is known. Never changes once published. */
struct vt_python {
    struct vt_python_layout layout;
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

/* The tables, in order of minor version. */
extern const struct vt_python_layout vt_python_layouts[];
extern const unsigned vt_python_layout_count;

/* Looks for an interpreter if none was found so far. It need not be called: the first walk does, and later
 * walks try again, ever more rarely, in case Python is loaded into a running process. It takes the loader's
 * lock, so it is best called once before locks of the host are held. */
void vt_python_look_up(void);

/* The thread state of the calling thread and, in *python, the interpreter; NULL if there is no Python, if it
 * is declined, or if it ends. */
const char *vt_python_current_thread(const struct vt_python **python);

/* The interpreter, NULL until a walk found its layout to be known. */
const struct vt_python *vt_python_known(void);

/* True once an interpreter was found, whether its frames can be read or not. */
bool vt_python_loaded(void);

/* PY_VERSION_HEX of the interpreter found; 0 while there is none. */
uint32_t vt_python_hex_version(void);

/* 0, or the minor version of an interpreter found whose frames are not recorded. */
int vt_python_unsupported_minor(void);

#endif
