#include "inspect/methods.h"

#include <string.h>

#include "clock.h"
#include "inspect/collected.h"
#include "inspect/attributes.h"
#include "stacks/python.h"
#include "stacks/python_layout.h"

typedef void object; /* PyObject */

static const struct vt_python_api *python;

void vt_inspect_methods_start(const struct vt_python_api *api)
{
    python = api;
}

/* time's clock may be another's by now: tests of programs stop it. */
static object *now_ns(object *self, object *arguments)
{
    (void)self, (void)arguments;
    return python->PyLong_FromUnsignedLong(vt_clock_ns(CLOCK_MONOTONIC));
}

/* The builtin of that name raises an audit event. */
static object *id(object *self, object *any)
{
    (void)self;
    return python->PyLong_FromVoidPtr(any);
}

static int append(object *referent, void *list)
{
    return python->PyList_Append(list, referent);
}

/* referents(object): a list, as by gc.get_referents. */
static object *referents(object *self, object *any)
{
    object *list = python->PyList_New(0);
    (void)self;
    if (list && vt_collected_visit_referents(any, append, list)) {
        python->Py_DecRef(list);
        list = NULL;
    }
    return list;
}

/* own_attributes(object): a dict, or None. */
static object *own_attributes(object *self, object *any)
{
    (void)self;
    return vt_python_attributes(python, any);
}

bool vt_inspect_add_variable(void *variables, const void *function, const void *name, const void *value)
{
    return python->PyList_Append(variables, (object *)function) == 0 &&
           python->PyList_Append(variables, (object *)name) == 0 &&
           python->PyList_Append(variables, (object *)value) == 0;
}

/* frame_variables(frame): function, name and value of each in turn. */
static object *frame_variables(object *self, object *frame)
{
    object *variables = python->PyList_New(0);
    (void)self;
    if (variables)
        vt_python_visit_frame(frame, vt_inspect_add_variable, variables);
    return variables;
}

static object *pointer_at(const object *base, size_t offset)
{
    object *pointer;
    memcpy(&pointer, (const char *)base + offset, sizeof pointer);
    return pointer;
}

/* Gives up the reference to what it appends. */
static bool append_own(object *list, object *item)
{
    bool done = item && python->PyList_Append(list, item) == 0;
    if (item)
        python->Py_DecRef(item);
    return done;
}

static bool append_or_none(object *list, object *borrowed)
{
    return python->PyList_Append(list, borrowed ? borrowed : python->none) == 0;
}

static bool append_names(object *parts, object *code, object *closure)
{
    const struct vt_python_layout *layout = vt_python_known()->layout;
    object *names = pointer_at(code, layout->code_local_names);
    int arguments;
    memcpy(&arguments, (const char *)code + layout->code_argument_count, sizeof arguments);
    if (!append_own(parts, python->PyTuple_GetSlice(names, 0, arguments)))
        return false;
    if (layout->code_free_names)
        return append_or_none(parts, pointer_at(code, layout->code_free_names));
    intptr_t all = python->PyTuple_Size(names), free = closure ? python->PyTuple_Size(closure) : 0;
    return append_own(parts, python->PyTuple_GetSlice(names, all - free, all));
}

/* function_parts(function): names of its arguments and of its closure's cells, the closure, its defaults,
 * those by name, its attributes; each of the last four may be None. Asking the function raises audit events,
 * and makes what it lacks. */
static object *function_parts(object *self, object *function)
{
    object *parts = python->PyList_New(0), *closure = python->PyFunction_GetClosure(function);
    object **dict = python->_PyObject_GetDictPtr(function);
    (void)self;
    if (parts && append_names(parts, python->PyFunction_GetCode(function), closure) &&
        append_or_none(parts, closure) && append_or_none(parts, python->PyFunction_GetDefaults(function)) &&
        append_or_none(parts, python->PyFunction_GetKwDefaults(function)) &&
        append_or_none(parts, dict ? *dict : NULL))
        return parts;
    if (parts)
        python->Py_DecRef(parts);
    return NULL;
}

/* find_unreached(class, seen, plain, generations, deadline_ns, unreached, holders): collected.h. False where
 * it came to its deadline. */
static object *find_unreached(object *self, object *arguments)
{
    enum { ARGUMENTS = 7 };
    object *given[ARGUMENTS];
    (void)self;
    for (int i = 0; i < ARGUMENTS; i++)
        if (!(given[i] = python->PyTuple_GetItem(arguments, i)))
            return NULL;
    int done = vt_collected_find_unreached(
        &(struct vt_collected_search){.class = given[0],
                                      .seen = given[1],
                                      .plain = given[2],
                                      .generations = (int)python->PyLong_AsUnsignedLong(given[3]),
                                      .deadline_ns = python->PyLong_AsUnsignedLong(given[4]),
                                      .unreached = given[5],
                                      .holders = given[6]});
    return done < 0 ? NULL : python->PyBool_FromLong(done);
}

struct vt_python_method vt_inspect_methods[VT_INSPECT_METHODS] = {
    {"now_ns", now_ns, VT_PYTHON_NO_ARGUMENTS, NULL},
    {"id", id, VT_PYTHON_ONE_ARGUMENT, NULL},
    {"referents", referents, VT_PYTHON_ONE_ARGUMENT, NULL},
    {"own_attributes", own_attributes, VT_PYTHON_ONE_ARGUMENT, NULL},
    {"frame_variables", frame_variables, VT_PYTHON_ONE_ARGUMENT, NULL},
    {"function_parts", function_parts, VT_PYTHON_ONE_ARGUMENT, NULL},
    {"find_unreached", find_unreached, VT_PYTHON_ARGUMENTS, NULL},
};
