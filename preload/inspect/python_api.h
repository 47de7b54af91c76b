/* The interpreter's functions that inspections call: exported, and the same in all versions whose frames we
 * read. void * stands for PyObject *. */
#ifndef VT_PYTHON_API_H
#define VT_PYTHON_API_H

#include <stdbool.h>
#include <stdint.h>

/* PyMethodDef. */
struct vt_python_method {
    const char *name;
    void *(*function)(void *, void *);
    int flags;
    const char *documentation;
};
enum { VT_PYTHON_ARGUMENTS = 1, VT_PYTHON_NO_ARGUMENTS = 4, VT_PYTHON_ONE_ARGUMENT = 8 };

enum { VT_PYTHON_FILE_INPUT = 257 }; /* Py_file_input */

#define VT_PYTHON_FUNCTIONS(X)                                                                               \
    X(void **, _PyObject_GetDictPtr, (void *))                                                               \
    X(int, Py_AddPendingCall, (int (*)(void *), void *))                                                     \
    X(void *, Py_CompileString, (const char *, const char *, int))                                           \
    X(void, Py_DecRef, (void *))                                                                             \
    X(void, Py_IncRef, (void *))                                                                             \
    X(void *, PyBool_FromLong, (long))                                                                       \
    X(void *, PyCFunction_NewEx, (struct vt_python_method *, void *, void *))                                \
    X(void *, PyContext_CopyCurrent, (void))                                                                 \
    X(void, PyDict_Clear, (void *))                                                                          \
    X(void *, PyDict_GetItemString, (void *, const char *))                                                  \
    X(void *, PyDict_New, (void))                                                                            \
    X(int, PyDict_SetItem, (void *, void *, void *))                                                         \
    X(int, PyDict_SetItemString, (void *, const char *, void *))                                             \
    X(int, PyDict_Update, (void *, void *))                                                                  \
    X(void, PyErr_Clear, (void))                                                                             \
    X(void, PyErr_Fetch, (void **, void **, void **))                                                        \
    X(void, PyErr_GetExcInfo, (void **, void **, void **))                                                   \
    X(void, PyErr_Restore, (void *, void *, void *))                                                         \
    X(void *, PyEval_EvalCode, (void *, void *, void *))                                                     \
    X(void *, PyEval_GetBuiltins, (void))                                                                    \
    X(void, PyEval_RestoreThread, (void *))                                                                  \
    X(void *, PyEval_SaveThread, (void))                                                                     \
    X(void *, PyFunction_GetClosure, (void *))                                                               \
    X(void *, PyFunction_GetCode, (void *))                                                                  \
    X(void *, PyFunction_GetDefaults, (void *))                                                              \
    X(void *, PyFunction_GetKwDefaults, (void *))                                                            \
    X(int, PyGILState_Ensure, (void))                                                                        \
    X(void, PyGILState_Release, (int))                                                                       \
    X(void *, PyInterpreterState_Head, (void))                                                               \
    X(void *, PyInterpreterState_Next, (void *))                                                             \
    X(void *, PyInterpreterState_ThreadHead, (void *))                                                       \
    X(void *, PyImport_GetModuleDict, (void))                                                                \
    X(int, PyList_Append, (void *, void *))                                                                  \
    X(void *, PyList_GetItem, (void *, intptr_t))                                                            \
    X(void *, PyList_New, (intptr_t))                                                                        \
    X(intptr_t, PyList_Size, (void *))                                                                       \
    X(unsigned long, PyLong_AsUnsignedLong, (void *))                                                        \
    X(void *, PyLong_FromUnsignedLong, (unsigned long))                                                      \
    X(void *, PyLong_FromVoidPtr, (void *))                                                                  \
    X(void *, PyObject_CallFunctionObjArgs, (void *, ...))                                                   \
    X(void, PyObject_GC_Del, (void *))                                                                       \
    X(void, PyObject_GC_UnTrack, (void *))                                                                   \
    X(void *, PyObject_GetAttrString, (void *, const char *))                                                \
    X(int, PyObject_IS_GC, (void *))                                                                         \
    X(void *, PyObject_Str, (void *))                                                                        \
    X(int, PySet_Contains, (void *, void *))                                                                 \
    X(void *, PySlice_New, (void *, void *, void *))                                                         \
    X(void *, PyTuple_New, (intptr_t))                                                                       \
    X(void *, PyTuple_GetItem, (void *, intptr_t))                                                           \
    X(void *, PyTuple_GetSlice, (void *, intptr_t, intptr_t))                                                \
    X(void *, PyThreadState_Get, (void))                                                                     \
    X(uint64_t, PyThreadState_GetID, (void *))                                                               \
    X(void *, PyThreadState_GetInterpreter, (void *))                                                        \
    X(void *, PyThreadState_Next, (void *))                                                                  \
    X(intptr_t, PyTuple_Size, (void *))                                                                      \
    X(const char *, PyUnicode_AsUTF8AndSize, (void *, intptr_t *))

/* Types of the interpreter, and their names in the scripts. */
#define VT_PYTHON_TYPES(X)                                                                                   \
    X(ASYNC_GENERATOR, PyAsyncGen_Type)                                                                      \
    X(CELL, PyCell_Type)                                                                                     \
    X(CODE, PyCode_Type)                                                                                     \
    X(COROUTINE, PyCoro_Type)                                                                                \
    X(FRAME, PyFrame_Type)                                                                                   \
    X(FUNCTION, PyFunction_Type)                                                                             \
    X(GENERATOR, PyGen_Type)                                                                                 \
    X(METHOD, PyMethod_Type)                                                                                 \
    X(MODULE, PyModule_Type)                                                                                 \
    X(TRACEBACK, PyTraceBack_Type)                                                                           \
    X(ref, _PyWeakref_RefType)

struct vt_python_api {
#define X(result, name, parameters) result(*name) parameters;
    VT_PYTHON_FUNCTIONS(X)
#undef X
#define X(name, symbol) void *symbol;
    VT_PYTHON_TYPES(X)
#undef X
    void *none; /* Py_None */
    /* From 3.11 on; both or none. */
    void (*PyThreadState_EnterTracing)(void *);
    void (*PyThreadState_LeaveTracing)(void *);
};

/* Complete and constant once vt_python_api_find has returned true. */
extern struct vt_python_api vt_python_api __attribute__((visibility("hidden")));

/* Writer thread. Looks everything up in `scope`, a handle for dlsym. False if something is missing. */
bool vt_python_api_find(void *scope);

/* Drops a reference; does nothing for NULL. Under the GIL. */
static inline void vt_python_drop(void *object)
{
    if (object)
        vt_python_api.Py_DecRef(object);
}

#endif
