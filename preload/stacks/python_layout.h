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
    uint16_t code_local_count;      /* of local_names */
    uint16_t code_local_names;      /* tuple */
    uint16_t code_local_kinds;      /* bytes, one per local; from 3.11 */
    uint16_t code_cell_names;       /* tuple; before 3.11 */
    uint16_t code_free_names;       /* as that */
    uint16_t code_cell_to_argument; /* Py_ssize_t *, before 3.11 */
    uint16_t code_file_name;
    uint16_t code_name;
    uint16_t code_qualified_name; /* from 3.11 */
    uint16_t code_line_table;
    uint16_t code_version; /* from 3.12: a number that no other code object of the interpreter had */
    uint16_t code_first_traceable;
    uint16_t code_instructions;

    uint16_t type_cached_keys; /* of a class: the names of its objects' values; from 3.11 */

    uint16_t unicode_ascii_bytes;   /* header before the characters of an ASCII string */
    uint16_t unicode_compact_bytes; /* the same for other strings */

    /* tp_basicsize of the types: what tells a layout that is not this one. */
    uint16_t code_basic_bytes;
    uint16_t frame_basic_bytes;
    uint16_t unicode_basic_bytes;
};

/* Generated from each version's headers once, then kept honest by tests/python/offsets.c, which compiles
 * against every Python installed and compares. A patch release that moves something is caught at run time.
 * In the header, so that a walk made for one version has the offsets as constants. */
static const struct vt_python_layout vt_python_layouts[] __attribute__((unused)) = {
    {
        .minor = 9,
        .chain = VT_CHAIN_OBJECTS,
        .instruction_scale = 1,
        .owner_generator = VT_NO_OWNER,
        .owner_c_stack = VT_NO_OWNER,
        .thread_frame = 24,
        .thread_thread_id = 176,
        .frame_code = 32,
        .frame_previous = 24,
        .frame_instruction = 104,
        .frame_locals = 360,
        .code_argument_count = 16,
        .code_first_line = 40,
        .code_local_count = 28,
        .code_local_names = 72,
        .code_cell_names = 88,
        .code_free_names = 80,
        .code_cell_to_argument = 96,
        .code_file_name = 104,
        .code_name = 112,
        .code_line_table = 120,
        .unicode_ascii_bytes = 48,
        .unicode_compact_bytes = 72,
        .code_basic_bytes = 176,
        .frame_basic_bytes = 368,
        .unicode_basic_bytes = 80,
    },
    {
        .minor = 10,
        .chain = VT_CHAIN_OBJECTS,
        .instruction_scale = 2,
        .owner_generator = VT_NO_OWNER,
        .owner_c_stack = VT_NO_OWNER,
        .thread_frame = 24,
        .thread_thread_id = 176,
        .frame_code = 32,
        .frame_previous = 24,
        .frame_instruction = 96,
        .frame_locals = 352,
        .code_argument_count = 16,
        .code_first_line = 40,
        .code_local_count = 28,
        .code_local_names = 72,
        .code_cell_names = 88,
        .code_free_names = 80,
        .code_cell_to_argument = 96,
        .code_file_name = 104,
        .code_name = 112,
        .code_line_table = 120,
        .unicode_ascii_bytes = 48,
        .unicode_compact_bytes = 72,
        .code_basic_bytes = 176,
        .frame_basic_bytes = 360,
        .unicode_basic_bytes = 80,
    },
    {
        .minor = 11,
        .chain = VT_CHAIN_CFRAME,
        .owner_generator = 1,
        .owner_c_stack = VT_NO_OWNER,
        .thread_frame = 56,
        .thread_thread_id = 152,
        .cframe_current_frame = 8,
        .frame_code = 32,
        .frame_previous = 48,
        .frame_instruction = 56,
        .frame_owner = 69,
        .frame_locals = 72,
        .code_argument_count = 56,
        .code_first_line = 72,
        .code_local_count = 76,
        .code_local_names = 96,
        .code_local_kinds = 104,
        .code_file_name = 112,
        .code_name = 120,
        .code_qualified_name = 128,
        .code_line_table = 136,
        .code_first_traceable = 168,
        .code_instructions = 184,
        .type_cached_keys = 872,
        .unicode_ascii_bytes = 48,
        .unicode_compact_bytes = 72,
        .code_basic_bytes = 184,
        .frame_basic_bytes = 120,
        .unicode_basic_bytes = 80,
    },
    {
        .minor = 12,
        .chain = VT_CHAIN_CFRAME,
        .owner_generator = 1,
        .owner_c_stack = 3,
        .thread_frame = 56,
        .thread_thread_id = 136,
        .cframe_current_frame = 0,
        .frame_code = 0,
        .frame_previous = 8,
        .frame_instruction = 56,
        .frame_owner = 70,
        .frame_locals = 72,
        .code_argument_count = 52,
        .code_first_line = 68,
        .code_local_count = 72,
        .code_local_names = 96,
        .code_local_kinds = 104,
        .code_file_name = 112,
        .code_name = 120,
        .code_qualified_name = 128,
        .code_line_table = 136,
        .code_version = 92,
        .code_first_traceable = 176,
        .code_instructions = 192,
        .type_cached_keys = 880,
        .unicode_ascii_bytes = 40,
        .unicode_compact_bytes = 56,
        .code_basic_bytes = 192,
        .frame_basic_bytes = 120,
        .unicode_basic_bytes = 64,
    },
    {
        .minor = 13,
        .chain = VT_CHAIN_DIRECT,
        .owner_generator = 1,
        .owner_c_stack = 3,
        .thread_frame = 72,
        .thread_thread_id = 152,
        .frame_code = 0,
        .frame_previous = 8,
        .frame_instruction = 56,
        .frame_owner = 70,
        .frame_locals = 72,
        .code_argument_count = 52,
        .code_first_line = 68,
        .code_local_count = 72,
        .code_local_names = 96,
        .code_local_kinds = 104,
        .code_file_name = 112,
        .code_name = 120,
        .code_qualified_name = 128,
        .code_line_table = 136,
        .code_version = 92,
        .code_first_traceable = 184,
        .code_instructions = 200,
        .type_cached_keys = 880,
        .unicode_ascii_bytes = 40,
        .unicode_compact_bytes = 56,
        .code_basic_bytes = 200,
        .frame_basic_bytes = 136,
        .unicode_basic_bytes = 64,
    },
};
#define VT_PYTHON_LAYOUTS (sizeof vt_python_layouts / sizeof vt_python_layouts[0])

/* The same in every version that has a table; a build with another object header is declined. */
enum {
    VT_OBJECT_TYPE = 8,
    VT_VAR_OBJECT_SIZE = 16,
    VT_TUPLE_ITEMS = 24,
    VT_CELL_CONTENTS = 16,
    VT_FRAME_OBJECT_FRAME = 24, /* from 3.11: what the frame object stands for */
    VT_BYTES_DATA = 32,
    VT_UNICODE_LENGTH = 16,
    VT_UNICODE_HASH = 24,
    VT_UNICODE_STATE = 32,
    VT_TYPE_BASIC_SIZE = 32,
    VT_TYPE_FLAGS = 168,
    VT_TYPE_TRAVERSE = 184,
};

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

/* Looks for an interpreter if none was found so far. From one thread at a time, and one that holds no lock of the host:
 * it takes the loader's lock, and leaves its failures in dlerror. */
void vt_python_look_up(void);

/* The thread state of the calling thread and, in *python, the interpreter; NULL if there is no Python, if it
 * is declined, or if it ends. */
const char *vt_python_current_thread(const struct vt_python **python);

/* The interpreter, NULL until a walk found its layout to be known. */
const struct vt_python *vt_python_known(void);

/* Where its symbols are to be looked up (for dlsym), once vt_python_loaded. */
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
