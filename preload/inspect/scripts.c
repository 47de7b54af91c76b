#include "inspect/scripts.h"

#include <stdint.h>

#include "inspect/script_functions.h"
#include "stacks/python_read.h"

typedef void object; /* PyObject */

static const struct vt_python_api *const python = &vt_python_api;

/* ---- what stays, also in a forked child ---- */

/* One source text, so that an audit hook sees only one compilation. */
static const char source[] = "LAUNCH = ("
#define X(name) "b'" #name "', "
#include "launch.def"
#undef X
                             ")\n"
#include "objects.py.inc"
#include "find.py.inc"
#include "inspect.py.inc"
#include "arrays.py.inc"
#include "census.py.inc"
#include "holders.py.inc"
    ;

static object *code; /* of the whole source */

enum { MEMORIES = 5 };
static const char *const memory_names[MEMORIES] = {"roots", "root_holders", "optimizers", "optimizer_holders",
                                                   "written"};
static object *memory[MEMORIES];

static bool is_held_by_one(const object *any)
{
    return vt_int_at(any, 0) == 1;
}

/* Takes objects that stay out of the garbage collector's lists. A weak reference may be the host's own:
 * Python makes only one for each object. */
static void hide_memory(void)
{
    for (int i = 0; i < MEMORIES && memory[i]; i++) {
        python->PyObject_GC_UnTrack(memory[i]);
        for (intptr_t k = 0; k < python->PyList_Size(memory[i]); k++) {
            object *item = python->PyList_GetItem(memory[i], k);
            if (python->PyObject_IS_GC(item) && is_held_by_one(item))
                python->PyObject_GC_UnTrack(item);
        }
    }
}

/* The same for a code object's constants, and the code objects among them. */
static void hide_constants(object *any)
{
    if (vt_has_type(vt_python_known()->layout, any, python->PyCode_Type)) {
        object *constants = python->PyObject_GetAttrString(any, "co_consts");
        if (constants)
            hide_constants(constants);
        vt_python_drop(constants);
    } else if (vt_has_type(vt_python_known()->layout, any, vt_python_known()->tuple_type)) {
        for (intptr_t i = 0; i < python->PyTuple_Size(any); i++)
            hide_constants(python->PyTuple_GetItem(any, i));
    }
    if (python->PyObject_IS_GC(any))
        python->PyObject_GC_UnTrack(any);
}

static bool compile_scripts(void)
{
    if (!code && (code = python->Py_CompileString(source, "<vramtrace>", VT_PYTHON_FILE_INPUT)))
        hide_constants(code);
    return code != NULL;
}

/* ---- one inspection ---- */

static bool set_global(object *globals, const char *name, object *value)
{
    return value && python->PyDict_SetItemString(globals, name, value) == 0;
}

static bool set_global_own(object *globals, const char *name, object *value)
{
    bool given = set_global(globals, name, value);
    vt_python_drop(value);
    return given;
}

/* What the scripts are given. */
static bool fill_globals(object *globals)
{
    bool filled =
        set_global(globals, "__builtins__", python->PyEval_GetBuiltins()) &&
        set_global(globals, "sys", python->PyDict_GetItemString(python->PyImport_GetModuleDict(), "sys"));
#define X(name, symbol) filled = filled && set_global(globals, #name, python->symbol);
    VT_PYTHON_TYPES(X)
#undef X
    for (int i = 0; filled && i < VT_SCRIPT_FUNCTIONS; i++)
        filled = set_global_own(globals, vt_script_functions[i].name,
                                python->PyCFunction_NewEx(&vt_script_functions[i], NULL, NULL));
    for (int i = 0; filled && i < MEMORIES; i++) {
        if (!memory[i])
            memory[i] = python->PyList_New(0);
        filled = set_global(globals, memory_names[i], memory[i]);
    }
    return filled;
}

bool vt_scripts_run(void *globals, bool *is_refused)
{
    *is_refused = !compile_scripts();
    object *result =
        !*is_refused && fill_globals(globals) ? python->PyEval_EvalCode(code, globals, globals) : NULL;
    vt_python_drop(result);
    return result != NULL;
}

void vt_scripts_end(void *globals)
{
    if (globals)
        python->PyDict_Clear(globals); /* its functions hold a reference to it */
    vt_python_drop(globals);
    hide_memory();
}
