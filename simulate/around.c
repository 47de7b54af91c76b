/* For the Python side of a dry run: a callable that runs `before`, the real function, and `after`. In C, so
 * that no Python frame of ours is on the stack while the real one allocates: recorded stacks are those of a
 * run without.
 *
 * Python's stable functions, declared here: one library serves every Python. Threads: as Python's, under its
 * lock. */
#include <stddef.h>

typedef struct object object; /* PyObject */
struct method {               /* PyMethodDef */
    const char *name;
    object *(*function)(object *self, object *args, object *kwargs);
    int flags;
    const char *documentation;
};
enum { VARARGS_AND_KEYWORDS = 3 };

object *PyCFunction_NewEx(struct method *method, object *self, object *module);
object *PyObject_Call(object *function, object *args, object *kwargs);
object *PyObject_CallFunctionObjArgs(object *function, ...);
object *PyTuple_GetItem(object *tuple, ptrdiff_t index); /* borrowed */
object *PyTuple_Pack(ptrdiff_t count, ...);
void PyErr_Fetch(object **type, object **value, object **traceback);
void PyErr_Restore(object *type, object *value, object *traceback);
void PyErr_WriteUnraisable(object *where);
ptrdiff_t PyTuple_Size(object *tuple);
void Py_DecRef(object *one);
void Py_IncRef(object *one);
extern object _Py_NoneStruct;

/* self: (before, function, after). before(args, kwargs) gives (args, kwargs) to call the function with, or
 * (result,) that is given back without a call, or None;
 * after(result, args, kwargs) is called in any case, with None if the function raised. */
static object *call(object *self, object *args, object *kwargs)
{
    object *before = PyTuple_GetItem(self, 0), *function = PyTuple_GetItem(self, 1),
           *after = PyTuple_GetItem(self, 2);
    object *type, *value, *traceback, *none = &_Py_NoneStruct;
    object *both = PyObject_CallFunctionObjArgs(before, args, kwargs ? kwargs : none, NULL);
    if (both == NULL)
        return NULL;
    if (both != none && PyTuple_Size(both) == 1) {
        object *instead = PyTuple_GetItem(both, 0);
        Py_IncRef(instead);
        Py_DecRef(both);
        return instead;
    }
    if (both != none) {
        args = PyTuple_GetItem(both, 0);
        kwargs = PyTuple_GetItem(both, 1);
    }
    object *result = PyObject_Call(function, args, kwargs);
    PyErr_Fetch(&type, &value, &traceback);
    object *done =
        PyObject_CallFunctionObjArgs(after, result ? result : none, args, kwargs ? kwargs : none, NULL);
    if (done == NULL)
        PyErr_WriteUnraisable(after);
    else
        Py_DecRef(done);
    PyErr_Restore(type, value, traceback);
    Py_DecRef(both);
    return result;
}

__attribute__((visibility("default"))) object *vramtrace_around(object *before, object *function,
                                                                object *after);

object *vramtrace_around(object *before, object *function, object *after)
{
    static struct method method = {"around", call, VARARGS_AND_KEYWORDS, NULL};
    object *self = PyTuple_Pack(3, before, function, after);
    object *made = self ? PyCFunction_NewEx(&method, self, NULL) : NULL;
    if (self)
        Py_DecRef(self);
    return made;
}
