#include "inspect/code.h"

#include <stdint.h>
#include <string.h>

#include "inspect/methods.h"
#include "stacks/python_layout.h"

typedef void object; /* PyObject */

static const char inspect_source[] =
#include "inspect_source.inc" /* inspect.py, made at build time */
    ;

enum { MEMORIES = 4 };
static const char *const memory_names[MEMORIES] = {"roots", "root_holders", "optimizers",
                                                   "optimizer_holders"};

/* These live on in a forked child. */
static const struct vt_python_api *python;
static object *code; /* of inspect.py */
static object *memory[MEMORIES];

void vt_inspect_code_start(const struct vt_python_api *api)
{
    python = api;
}

static void drop(object *object)
{
    if (object)
        python->Py_DecRef(object);
}

static bool give(object *globals, const char *name, object *value)
{
    return value && python->PyDict_SetItemString(globals, name, value) == 0;
}

static bool give_own(object *globals, const char *name, object *value)
{
    bool given = give(globals, name, value);
    drop(value);
    return given;
}

/* What inspect.py is given. */
static bool fill_globals(object *globals)
{
    bool filled = give(globals, "__builtins__", python->PyEval_GetBuiltins()) &&
                  give(globals, "sys", python->PyDict_GetItemString(python->PyImport_GetModuleDict(), "sys"));
#define X(name, symbol) filled = filled && give(globals, #name, python->symbol);
    VT_PYTHON_TYPES(X)
#undef X
    for (int i = 0; filled && i < VT_INSPECT_METHODS; i++)
        filled = give_own(globals, vt_inspect_methods[i].name,
                          python->PyCFunction_NewEx(&vt_inspect_methods[i], NULL, NULL));
    for (int i = 0; filled && i < MEMORIES; i++) {
        if (!memory[i])
            memory[i] = python->PyList_New(0);
        filled = give(globals, memory_names[i], memory[i]);
    }
    return filled;
}

static bool is_held_by_one(const object *any)
{
    int32_t references;
    memcpy(&references, any, sizeof references);
    return references == 1;
}

/* The collector is not to know what stays. A weak reference may be one that the host made: Python has one for
 * each object. */
static void hide_memory(void)
{
    for (int i = 0; i < MEMORIES && memory[i]; i++) {
        python->PyObject_GC_UnTrack(memory[i]);
        for (intptr_t k = 0; k < python->PyList_Size(memory[i]); k++) {
            object *item = python->PyList_GetItem(memory[i], k); /* a weak reference, None, or text */
            if (python->PyObject_IS_GC(item) && is_held_by_one(item))
                python->PyObject_GC_UnTrack(item);
        }
    }
}

static const void *class_of(const object *any)
{
    const void *class;
    memcpy(&class, (const char *)any + VT_OBJECT_TYPE, sizeof class);
    return class;
}

/* The constants of code, and of the code in them, as hide_memory. */
static void hide_constants(object *any)
{
    if (class_of(any) == python->PyCode_Type) {
        object *constants = python->PyObject_GetAttrString(any, "co_consts");
        if (constants)
            hide_constants(constants);
        drop(constants);
    } else if (class_of(any) == vt_python_known()->tuple_type) {
        for (intptr_t i = 0; i < python->PyTuple_Size(any); i++)
            hide_constants(python->PyTuple_GetItem(any, i));
    }
    if (python->PyObject_IS_GC(any))
        python->PyObject_GC_UnTrack(any);
}

object *vt_inspect_make_globals(bool *is_refused)
{
    object *globals = python->PyDict_New(), *result = NULL;
    if (globals && !code) {
        code = python->Py_CompileString(inspect_source, "<vramtrace>", VT_PYTHON_FILE_INPUT);
        *is_refused = !code;
        if (code)
            hide_constants(code);
    }
    if (globals && code && fill_globals(globals))
        result = python->PyEval_EvalCode(code, globals, globals);
    if (!result) {
        drop(globals);
        return NULL;
    }
    drop(result);
    return globals;
}

void vt_inspect_end_globals(object *globals)
{
    if (globals)
        python->PyDict_Clear(globals); /* its functions hold it */
    drop(globals);
    hide_memory();
}
