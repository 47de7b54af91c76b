/* Compares the layout table with the headers of the Python it is compiled against (private ones included).
 * With -DPy_GIL_DISABLED: the table of the free-threaded build, whose headers are the same from 3.13 on. From
 * 3.13 on also the places of _Py_DebugOffsets that the product reads. Prints "N passed, M failed". */
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
#if PY_VERSION_HEX >= 0x030e0000
#include <internal/pycore_debug_offsets.h>
#include <internal/pycore_interpframe.h>
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
#ifdef Py_GIL_DISABLED
#define BUILD " free-threaded"
#else
#define BUILD ""
#endif

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
    SIZE(generator_running, FRAME_EXECUTING);
#if PY_VERSION_HEX >= 0x030c0000
#if PY_VERSION_HEX >= 0x030e0000
    SIZE(owner_interpreter, FRAME_OWNED_BY_INTERPRETER);
#else
    SIZE(owner_interpreter, FRAME_OWNED_BY_CSTACK);
#endif
    OFFSET(code_version, PyCodeObject, co_version);
#else
    SIZE(owner_interpreter, VT_NO_OWNER);
    ABSENT(code_version);
#endif
#if PY_VERSION_HEX >= 0x030e0000
    SIZE(reference_tag, Py_TAG_REFCNT);
#else
    ABSENT(reference_tag);
#endif
#if PY_VERSION_HEX >= 0x030e0000 && defined(Py_GIL_DISABLED)
    OFFSET(frame_instructions_index, _PyInterpreterFrame, tlbc_index);
    OFFSET(code_thread_instructions, PyCodeObject, co_tlbc);
    check("the list's first", 8, offsetof(_PyCodeArray, entries));
#else
    ABSENT(frame_instructions_index);
    ABSENT(code_thread_instructions);
#endif
    OFFSET(frame_object_frame, PyFrameObject, f_frame);
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
    check("keys' index bits", 9, offsetof(PyDictKeysObject, dk_log2_index_bytes)); /* inspect/script_functions.c */
    check("keys' kind", 10, offsetof(PyDictKeysObject, dk_kind));
    check("keys' count", 24, offsetof(PyDictKeysObject, dk_nentries));
    check("keys' indices", 32, offsetof(PyDictKeysObject, dk_indices));
    check("keys' entry", 16, sizeof(PyDictUnicodeEntry));
    check("split keys", 2, DICT_KEYS_SPLIT);
    check("values", PY_MINOR_VERSION < 13 ? 0 : 8, offsetof(PyDictValues, values));
}
#endif

static void check_debug_offsets(const struct vt_python_layout *layout)
{
    (void)layout;
#if PY_VERSION_HEX >= 0x030d0000
#define DEBUG(index, member) check(#member, layout->index, offsetof(_Py_DebugOffsets, member) / 8)
#define DEBUG_NEXT(index, next, member)                                                                      \
    check(#member, layout->index + next, offsetof(_Py_DebugOffsets, member) / 8)
    check("version", 1 * 8, offsetof(_Py_DebugOffsets, version));
    check("free_threaded", 2 * 8, offsetof(_Py_DebugOffsets, free_threaded));
    DEBUG(debug_thread_frame, thread_state.current_frame);
    DEBUG(debug_thread_id, thread_state.thread_id);
    DEBUG(debug_frame, interpreter_frame.previous);
    DEBUG_NEXT(debug_frame, 1, interpreter_frame.executable);
    DEBUG_NEXT(debug_frame, 2, interpreter_frame.instr_ptr);
    DEBUG_NEXT(debug_frame, 3, interpreter_frame.localsplus);
    DEBUG_NEXT(debug_frame, 4, interpreter_frame.owner);
    DEBUG(debug_code, code_object.filename);
    DEBUG_NEXT(debug_code, 1, code_object.name);
    DEBUG_NEXT(debug_code, 2, code_object.qualname);
    DEBUG_NEXT(debug_code, 3, code_object.linetable);
    DEBUG_NEXT(debug_code, 4, code_object.firstlineno);
    DEBUG_NEXT(debug_code, 5, code_object.argcount);
    DEBUG_NEXT(debug_code, 6, code_object.localsplusnames);
    DEBUG_NEXT(debug_code, 7, code_object.localspluskinds);
    DEBUG_NEXT(debug_code, 8, code_object.co_code_adaptive);
    DEBUG(debug_object_type, pyobject.ob_type);
#if PY_VERSION_HEX >= 0x030e0000
    DEBUG_NEXT(debug_frame, 6, interpreter_frame.tlbc_index);
    DEBUG_NEXT(debug_code, 9, code_object.co_tlbc);
#endif
    check("debug_offsets", 0, offsetof(_PyRuntimeState, debug_offsets));
#endif
}

static void check_text_state(const struct vt_python_layout *layout)
{
    PyASCIIObject width = {.state.kind = 7}, compact = {.state.compact = 1}, ascii = {.state.ascii = 1};
    const struct {
        const char *name;
        unsigned flag;
        PyASCIIObject *text;
    } parts[] = {{"width of text", VT_UNICODE_WIDTH, &width},
                 {"compact text", VT_UNICODE_COMPACT, &compact},
                 {"ascii text", VT_UNICODE_ASCII, &ascii}};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        unsigned state = 0;
        memcpy(&state, &parts[i].text->state, sizeof state);
        check(parts[i].name, parts[i].flag << layout->unicode_kind_bit, state);
    }
}

/* Of a free-threaded build nothing is read of it. */
static void check_collector(const struct vt_python_layout *layout)
{
    (void)layout;
#ifndef Py_GIL_DISABLED
    const size_t first = offsetof(struct _gc_runtime_state, generations);
    check("collector's first generation", layout->collector_first,
          offsetof(struct _gc_runtime_state, generation0) - first);
    check("collector's statistics", layout->collector_statistics,
          offsetof(struct _gc_runtime_state, generation_stats) - first);
    check("of one generation", layout->collector_statistics_bytes, sizeof(struct gc_generation_stats));
    check("its collections", layout->collector_collections,
          offsetof(struct gc_generation_stats, collections));
    check("collector runs", layout->collector_runs, offsetof(struct _gc_runtime_state, collecting) - first);
#if PY_VERSION_HEX >= 0x030f0000
    const size_t bytes = sizeof(struct gc_generation_stats);
    check("a young ring's index", 11 * bytes,
          offsetof(struct gc_young_stats_buffer, index)); /* gc_lists.c */
    check("the old rings", 11 * bytes + 8, offsetof(struct gc_stats, old));
    check("an old ring's index", 3 * bytes, offsetof(struct gc_old_stats_buffer, index));
    check("an old ring", 3 * bytes + 8, sizeof(struct gc_old_stats_buffer));
#endif
#endif
}

int main(void)
{
    const struct vt_python_layout *layout = vt_python_find_layout(PY_MINOR_VERSION, BUILD[0] != 0);
    if (layout == NULL) {
        printf("no table for 3.%d%s\n", PY_MINOR_VERSION, BUILD);
        return 1;
    }
    check_frames(layout);
    check_debug_offsets(layout);
    OFFSET(thread_thread_id, PyThreadState, thread_id);
    OFFSET(code_argument_count, PyCodeObject, co_argcount);
    OFFSET(code_first_line, PyCodeObject, co_firstlineno);
    OFFSET(code_file_name, PyCodeObject, co_filename);
    OFFSET(code_name, PyCodeObject, co_name);
    SIZE(unicode_ascii_bytes, sizeof(PyASCIIObject));
    SIZE(unicode_compact_bytes, sizeof(PyCompactUnicodeObject));
    SIZE(unicode_basic_bytes, sizeof(PyUnicodeObject));
    OFFSET(object_type, PyObject, ob_type);
    OFFSET(object_size, PyVarObject, ob_size);
    OFFSET(tuple_items, PyTupleObject, ob_item);
    OFFSET(cell_contents, PyCellObject, ob_ref);
    OFFSET(bytes_data, PyBytesObject, ob_sval);
    OFFSET(unicode_length, PyASCIIObject, length);
    OFFSET(unicode_hash, PyASCIIObject, hash);
    OFFSET(unicode_state, PyASCIIObject, state);
    check_text_state(layout);
    OFFSET(type_basic_bytes, PyTypeObject, tp_basicsize);
    OFFSET(type_deallocate, PyTypeObject, tp_dealloc);
    OFFSET(type_flags, PyTypeObject, tp_flags);
    OFFSET(type_traverse, PyTypeObject, tp_traverse);
    check("collector's link", 16, sizeof(PyGC_Head)); /* gc_lists.c */
    check_collector(layout);
    check("generation", 24, sizeof(struct gc_generation));
    check("generation's threshold", 16, offsetof(struct gc_generation, threshold));
    check("generation's count", 20, offsetof(struct gc_generation, count));
    printf("%-51s %d passed, %d failed\n", "offsets in " PY_VERSION "'s headers" BUILD, passed, failed);
    return failed != 0;
}
