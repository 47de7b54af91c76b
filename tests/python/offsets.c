/* Compares the layout table with the headers of the Python it is compiled against (private ones included).
 * 3.13: also the places of _Py_DebugOffsets that the product reads. Prints "N passed, M failed". */
#include <stddef.h>
#define Py_BUILD_CORE
#include <Python.h>
#include <frameobject.h>
#if PY_VERSION_HEX >= 0x030b0000
#include <internal/pycore_frame.h>
#endif
#include <internal/pycore_code.h>
#include <internal/pycore_gc.h>
#if PY_VERSION_HEX >= 0x030b0000
#include <internal/pycore_dict.h>
#endif
#include <internal/pycore_runtime.h>
#include <stdio.h>

#include "stacks/python_layout.h"

static int passed, failed;

static void check(const char *what, size_t table, size_t header)
{
    if (table == header) {
        passed++;
        return;
    }
    failed++;
    printf("FAILED %s: the table has %zu, the headers %zu\n", what, table, header);
}

#define OFFSET(field, type, member) check(#field, layout->field, offsetof(type, member))
#define SIZE(field, value) check(#field, layout->field, value)
#define ABSENT(field) check(#field, layout->field, 0)

#if PY_VERSION_HEX < 0x030b0000
static void check_frames(const struct vt_python_layout *layout)
{
    SIZE(chain, VT_CHAIN_OBJECTS);
    SIZE(instruction_scale, PY_MINOR_VERSION == 9 ? 1 : 2);
    OFFSET(thread_frame, PyThreadState, frame);
    OFFSET(frame_code, PyFrameObject, f_code);
    OFFSET(frame_previous, PyFrameObject, f_back);
    OFFSET(frame_instruction, PyFrameObject, f_lasti);
    OFFSET(frame_locals, PyFrameObject, f_localsplus);
    OFFSET(generator_frame, PyGenObject, gi_frame);
    ABSENT(frame_owner);
    SIZE(frame_basic_bytes, sizeof(PyFrameObject));

    OFFSET(code_local_count, PyCodeObject, co_nlocals);
    OFFSET(code_local_names, PyCodeObject, co_varnames);
    OFFSET(code_cell_names, PyCodeObject, co_cellvars);
    OFFSET(code_free_names, PyCodeObject, co_freevars);
    ABSENT(type_cached_keys);
    OFFSET(code_cell_to_argument, PyCodeObject, co_cell2arg);
#if PY_VERSION_HEX < 0x030a0000
    OFFSET(code_line_table, PyCodeObject, co_lnotab);
#else
    OFFSET(code_line_table, PyCodeObject, co_linetable);
#endif
    ABSENT(code_local_kinds);
    ABSENT(code_qualified_name);
    ABSENT(code_version);
    ABSENT(code_first_traceable);
    ABSENT(code_instructions);
    SIZE(code_basic_bytes, sizeof(PyCodeObject));
}
#else
static void check_frames(const struct vt_python_layout *layout)
{
#if PY_VERSION_HEX < 0x030d0000
    SIZE(chain, VT_CHAIN_CFRAME);
    OFFSET(thread_frame, PyThreadState, cframe);
    OFFSET(cframe_current_frame, _PyCFrame, current_frame);
    OFFSET(frame_code, _PyInterpreterFrame, f_code);
    OFFSET(frame_instruction, _PyInterpreterFrame, prev_instr);
#else
    SIZE(chain, VT_CHAIN_DIRECT);
    OFFSET(thread_frame, PyThreadState, current_frame);
    OFFSET(frame_code, _PyInterpreterFrame, f_executable);
    OFFSET(frame_instruction, _PyInterpreterFrame, instr_ptr);
#endif
    OFFSET(frame_previous, _PyInterpreterFrame, previous);
    OFFSET(frame_owner, _PyInterpreterFrame, owner);
    OFFSET(frame_locals, _PyInterpreterFrame, localsplus);
    SIZE(owner_generator, FRAME_OWNED_BY_GENERATOR);
    OFFSET(generator_frame, PyGenObject, gi_iframe);
    check("generator's state", VT_GENERATOR_STATE,
          (int)offsetof(PyGenObject, gi_frame_state) - (int)offsetof(PyGenObject, gi_iframe));
    check("a suspended generator", 1, FRAME_SUSPENDED < 0 && FRAME_EXECUTING == 0);
#if PY_VERSION_HEX >= 0x030c0000
    SIZE(owner_c_stack, FRAME_OWNED_BY_CSTACK);
    OFFSET(code_version, PyCodeObject, co_version);
#else
    SIZE(owner_c_stack, VT_NO_OWNER);
    ABSENT(code_version);
#endif
    SIZE(frame_basic_bytes,
         offsetof(PyFrameObject, _f_frame_data) + offsetof(_PyInterpreterFrame, localsplus));

    OFFSET(code_local_count, PyCodeObject, co_nlocalsplus);
    OFFSET(code_local_names, PyCodeObject, co_localsplusnames);
    OFFSET(code_local_kinds, PyCodeObject, co_localspluskinds);
    OFFSET(code_qualified_name, PyCodeObject, co_qualname);
    OFFSET(code_line_table, PyCodeObject, co_linetable);
    OFFSET(code_first_traceable, PyCodeObject, _co_firsttraceable);
    OFFSET(code_instructions, PyCodeObject, co_code_adaptive);
    SIZE(code_basic_bytes, offsetof(PyCodeObject, co_code_adaptive));
    check("CO_FAST_CELL", 0x40, CO_FAST_CELL);
    OFFSET(type_cached_keys, PyHeapTypeObject, ht_cached_keys);
    check("keys' index bits", 9, offsetof(PyDictKeysObject, dk_log2_index_bytes)); /* inspect/methods.c */
    check("keys' kind", 10, offsetof(PyDictKeysObject, dk_kind));
    check("keys' count", 24, offsetof(PyDictKeysObject, dk_nentries));
    check("keys' indices", 32, offsetof(PyDictKeysObject, dk_indices));
    check("keys' entry", 16, sizeof(PyDictUnicodeEntry));
    check("split keys", 2, DICT_KEYS_SPLIT);
    check("values", PY_MINOR_VERSION < 13 ? 0 : 8, offsetof(PyDictValues, values));
}
#endif

static void check_debug_offsets(void)
{
#if PY_VERSION_HEX >= 0x030d0000
    const struct {
        const char *name;
        size_t index;
        size_t offset;
    } places[] = {
        {"version", 1, offsetof(_Py_DebugOffsets, version)},
        {"free_threaded", 2, offsetof(_Py_DebugOffsets, free_threaded)},
        {"current_frame", 23, offsetof(_Py_DebugOffsets, thread_state.current_frame)},
        {"thread_id", 24, offsetof(_Py_DebugOffsets, thread_state.thread_id)},
        {"previous", 29, offsetof(_Py_DebugOffsets, interpreter_frame.previous)},
        {"executable", 30, offsetof(_Py_DebugOffsets, interpreter_frame.executable)},
        {"instr_ptr", 31, offsetof(_Py_DebugOffsets, interpreter_frame.instr_ptr)},
        {"localsplus", 32, offsetof(_Py_DebugOffsets, interpreter_frame.localsplus)},
        {"owner", 33, offsetof(_Py_DebugOffsets, interpreter_frame.owner)},
        {"filename", 35, offsetof(_Py_DebugOffsets, code_object.filename)},
        {"name", 36, offsetof(_Py_DebugOffsets, code_object.name)},
        {"qualname", 37, offsetof(_Py_DebugOffsets, code_object.qualname)},
        {"linetable", 38, offsetof(_Py_DebugOffsets, code_object.linetable)},
        {"firstlineno", 39, offsetof(_Py_DebugOffsets, code_object.firstlineno)},
        {"argcount", 40, offsetof(_Py_DebugOffsets, code_object.argcount)},
        {"localsplusnames", 41, offsetof(_Py_DebugOffsets, code_object.localsplusnames)},
        {"localspluskinds", 42, offsetof(_Py_DebugOffsets, code_object.localspluskinds)},
        {"co_code_adaptive", 43, offsetof(_Py_DebugOffsets, code_object.co_code_adaptive)},
        {"ob_type", 45, offsetof(_Py_DebugOffsets, pyobject.ob_type)},
    };
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++)
        check(places[i].name, places[i].index * 8, places[i].offset);
    check("debug_offsets", 0, offsetof(_PyRuntimeState, debug_offsets));
#endif
}

int main(void)
{
    const struct vt_python_layout *layout = NULL;
    for (size_t i = 0; i < VT_PYTHON_LAYOUTS; i++)
        if (vt_python_layouts[i].minor == PY_MINOR_VERSION)
            layout = &vt_python_layouts[i];
    if (layout == NULL) {
        printf("no table for 3.%d\n", PY_MINOR_VERSION);
        return 1;
    }
    check_frames(layout);
    check_debug_offsets();
    OFFSET(thread_thread_id, PyThreadState, thread_id);
    OFFSET(code_argument_count, PyCodeObject, co_argcount);
    OFFSET(code_first_line, PyCodeObject, co_firstlineno);
    OFFSET(code_file_name, PyCodeObject, co_filename);
    OFFSET(code_name, PyCodeObject, co_name);
    SIZE(unicode_ascii_bytes, sizeof(PyASCIIObject));
    SIZE(unicode_compact_bytes, sizeof(PyCompactUnicodeObject));
    SIZE(unicode_basic_bytes, sizeof(PyUnicodeObject));
    check("object type", VT_OBJECT_TYPE, offsetof(PyObject, ob_type));
    check("object size", VT_VAR_OBJECT_SIZE, offsetof(PyVarObject, ob_size));
    check("tuple items", VT_TUPLE_ITEMS, offsetof(PyTupleObject, ob_item));
    check("cell contents", VT_CELL_CONTENTS, offsetof(PyCellObject, ob_ref));
    check("bytes data", VT_BYTES_DATA, offsetof(PyBytesObject, ob_sval));
    check("text length", VT_UNICODE_LENGTH, offsetof(PyASCIIObject, length));
    check("text hash", VT_UNICODE_HASH, offsetof(PyASCIIObject, hash));
    check("text state", VT_UNICODE_STATE, offsetof(PyASCIIObject, state));
    check("type basic size", VT_TYPE_BASIC_SIZE, offsetof(PyTypeObject, tp_basicsize));
    check("collector's link", 16, sizeof(PyGC_Head)); /* collected.c */
    const size_t first = offsetof(struct _gc_runtime_state, generations);
    check("collector's first generation", 72, offsetof(struct _gc_runtime_state, generation0) - first);
    check("collector's statistics", 104, offsetof(struct _gc_runtime_state, generation_stats) - first);
    check("of one generation", 24, sizeof(struct gc_generation_stats));
    check("collector runs", 176, offsetof(struct _gc_runtime_state, collecting) - first);
    check("generation", 24, sizeof(struct gc_generation));
    check("generation's threshold", 16, offsetof(struct gc_generation, threshold));
    check("generation's count", 20, offsetof(struct gc_generation, count));
    check("type flags", VT_TYPE_FLAGS, offsetof(PyTypeObject, tp_flags));
    check("type traverse", VT_TYPE_TRAVERSE, offsetof(PyTypeObject, tp_traverse));
    printf("%-51s %d passed, %d failed\n", "offsets in " PY_VERSION "'s headers", passed, failed);
    return failed != 0;
}
