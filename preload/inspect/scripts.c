#include "inspect/scripts.h"

#include <stdint.h>

#include "inspect/script_functions.h"
#include "stacks/python_read.h"

typedef void object; /* PyObject */

static const struct vt_python_api *const python = &vt_python_api;

/* ---- what stays, also in a forked child ---- */

/* One text, so that an audit hook sees one compilation; each class body is the code of one file. */
static const char source[] = "class inspect:\n LAUNCH = ("
#define X(name) "b'" #name "', "
#include "launch.def"
#undef X
                             ")\n"
#include "inspect.py.inc" /* made at build time */
                             "class census:\n"
#include "census.py.inc"
                             "class arrays:\n"
#include "arrays.py.inc"
    ;

enum { FILES = 3 };
static object *codes;             /* of the whole source */
static object *file_codes[FILES]; /* constants of `codes` */

enum { MEMORIES = 5 };
static const char *const memory_names[MEMORIES] = {"roots", "root_holders", "optimizers", "optimizer_holders",
                                                   "written"};
static object *memory[MEMORIES];

static bool is_held_by_one(const object *any)
{
    return vt_int_at(any, 0) == 1;
}

/* Hides objects that we keep from Python's garbage collector. A weak reference may be one that the host made:
 * Python has one for each object. */
static void hide_memory(void)
{
    for (int i = 0; i < MEMORIES && memory[i]; i++) {
        python->PyObject_GC_UnTrack(memory[i]);
        for (intptr_t k = 0; k < python->PyList_Size(memory[i]); k++) {
            object *item =
                python->PyList_GetItem(memory[i], k); /* a weak reference, None, text, or a number */
            if (python->PyObject_IS_GC(item) && is_held_by_one(item))
                python->PyObject_GC_UnTrack(item);
        }
    }
}

/* The same for the constants of code, and of the code in them. */
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

static bool compile(void)
{
    if (codes)
        return true;
    codes = python->Py_CompileString(source, "<vramtrace>", VT_PYTHON_FILE_INPUT);
    object *constants = codes ? python->PyObject_GetAttrString(codes, "co_consts") : NULL;
    if (!constants) {
        vt_python_drop(codes);
        codes = NULL;
        return false;
    }
    int files = 0;
    for (intptr_t i = 0; files < FILES && i < python->PyTuple_Size(constants); i++) {
        object *constant = python->PyTuple_GetItem(constants, i);
        if (vt_has_type(vt_python_known()->layout, constant, python->PyCode_Type))
            file_codes[files++] = constant;
    }
    vt_python_drop(constants);
    hide_constants(codes);
    return true;
}

/* ---- one inspection ---- */

static bool give(object *globals, const char *name, object *value)
{
    return value && python->PyDict_SetItemString(globals, name, value) == 0;
}

static bool give_own(object *globals, const char *name, object *value)
{
    bool given = give(globals, name, value);
    vt_python_drop(value);
    return given;
}

/* What all files are given. */
static bool fill_globals(object *globals)
{
    bool filled = give(globals, "__builtins__", python->PyEval_GetBuiltins()) &&
                  give(globals, "sys", python->PyDict_GetItemString(python->PyImport_GetModuleDict(), "sys"));
#define X(name, symbol) filled = filled && give(globals, #name, python->symbol);
    VT_PYTHON_TYPES(X)
#undef X
    for (int i = 0; filled && i < VT_SCRIPT_FUNCTIONS; i++)
        filled = give_own(globals, vt_script_functions[i].name,
                          python->PyCFunction_NewEx(&vt_script_functions[i], NULL, NULL));
    for (int i = 0; filled && i < MEMORIES; i++) {
        if (!memory[i])
            memory[i] = python->PyList_New(0);
        filled = give(globals, memory_names[i], memory[i]);
    }
    return filled;
}

static bool run(object *code, object *globals)
{
    object *result = python->PyEval_EvalCode(code, globals, globals);
    vt_python_drop(result);
    return result != NULL;
}

/* Of one file to another: what its dict of that name has. */
static bool hand_on(object *from, const char *name, object *to)
{
    return python->PyDict_Update(to, python->PyDict_GetItemString(from, name)) == 0;
}

bool vt_scripts_run(struct vt_scripts *code, bool *is_refused)
{
    *code = (struct vt_scripts){python->PyDict_New(), python->PyDict_New(), python->PyDict_New()};
    if (!code->inspect || !code->census || !code->arrays)
        return false;
    *is_refused = !compile();
    return !*is_refused && fill_globals(code->inspect) && fill_globals(code->census) &&
           fill_globals(code->arrays) && run(file_codes[0], code->inspect) &&
           hand_on(code->inspect, "FOR_OTHERS", code->census) &&
           hand_on(code->inspect, "FOR_OTHERS", code->arrays) && run(file_codes[2], code->arrays) &&
           hand_on(code->arrays, "FOR_INSPECT", code->inspect) &&
           hand_on(code->arrays, "FOR_CENSUS", code->census) && run(file_codes[1], code->census) &&
           give(code->inspect, "take_census", python->PyDict_GetItemString(code->census, "take_census"));
}

void vt_scripts_end(struct vt_scripts *code)
{
    object *const dicts[] = {code->inspect, code->census, code->arrays};
    for (size_t i = 0; i < sizeof dicts / sizeof *dicts; i++)
        if (dicts[i])
            python->PyDict_Clear(dicts[i]); /* its functions hold it */
    vt_python_drop(code->inspect);
    vt_python_drop(code->census);
    vt_python_drop(code->arrays);
    hide_memory();
}
