#include "inspect/scripts.h"

#include <stdint.h>

#include "inspect/script_functions.h"
#include "stacks/python_read.h"

typedef void object; /* PyObject */

static const struct vt_python_api *const python = &vt_python_api;

/* ---- what stays, also in a forked child ---- */

/* One source text, so that an audit hook sees only one compilation. Each class body becomes one script's
 * code object. */
static const char source[] = "class inspect:\n LAUNCH = ("
#define X(name) "b'" #name "', "
#include "launch.def"
#undef X
                             ")\n"
#include "inspect.py.inc"
                             "class census:\n"
#include "census.py.inc"
                             "class arrays:\n"
#include "arrays.py.inc"
    ;

enum { FILES = 3 };
static object *codes;             /* code object of the whole source */
static object *file_codes[FILES]; /* constants in `codes` */

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

/* What all scripts are given. */
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

static bool run_code(object *code, object *globals)
{
    object *result = python->PyEval_EvalCode(code, globals, globals);
    vt_python_drop(result);
    return result != NULL;
}

/* Copies what one script offers others, in its dict of that name, into another script's namespace. */
static bool copy_offered(object *from, const char *name, object *to)
{
    return python->PyDict_Update(to, python->PyDict_GetItemString(from, name)) == 0;
}

bool vt_scripts_run(struct vt_scripts *code, bool *is_refused)
{
    *code = (struct vt_scripts){python->PyDict_New(), python->PyDict_New(), python->PyDict_New()};
    if (!code->inspect || !code->census || !code->arrays)
        return false;
    *is_refused = !compile_scripts();
    return !*is_refused && fill_globals(code->inspect) && fill_globals(code->census) &&
           fill_globals(code->arrays) && run_code(file_codes[0], code->inspect) &&
           copy_offered(code->inspect, "FOR_OTHERS", code->census) &&
           copy_offered(code->inspect, "FOR_OTHERS", code->arrays) && run_code(file_codes[2], code->arrays) &&
           copy_offered(code->arrays, "FOR_INSPECT", code->inspect) &&
           copy_offered(code->arrays, "FOR_CENSUS", code->census) && run_code(file_codes[1], code->census) &&
           set_global(code->inspect, "take_census",
                      python->PyDict_GetItemString(code->census, "take_census"));
}

void vt_scripts_end(struct vt_scripts *code)
{
    object *const dicts[] = {code->inspect, code->census, code->arrays};
    for (size_t i = 0; i < sizeof dicts / sizeof *dicts; i++)
        if (dicts[i])
            python->PyDict_Clear(dicts[i]); /* its functions hold a reference to it */
    vt_python_drop(code->inspect);
    vt_python_drop(code->census);
    vt_python_drop(code->arrays);
    hide_memory();
}
