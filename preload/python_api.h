/* The interpreter's functions that a look at live objects calls: exported, and the same in all versions whose
 * frames we read. void * stands for PyObject *. */
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
    X(int, Py_AddPendingCall, (int (*)(void *), void *))                                                     \
    X(void *, Py_CompileString, (const char *, const char *, int))                                           \
    X(void, Py_DecRef, (void *))                                                                             \
    X(void, Py_IncRef, (void *))                                                                             \
    X(void *, PyBool_FromLong, (long))                                                                       \
    X(void *, PyCFunction_NewEx, (struct vt_python_method *, void *, void *))                                \
    X(void *, PyContext_CopyCurrent, (void))                                                                 \
    X(void *, PyDict_GetItemString, (void *, const char *))                                                  \
    X(void *, PyDict_New, (void))                                                                            \
    X(int, PyDict_SetItemString, (void *, const char *, void *))                                             \
    X(void, PyErr_Clear, (void))                                                                             \
    X(void, PyErr_Fetch, (void **, void **, void **))                                                        \
    X(void, PyErr_GetExcInfo, (void **, void **, void **))                                                   \
    X(void, PyErr_Restore, (void *, void *, void *))                                                         \
    X(void *, PyEval_EvalCode, (void *, void *, void *))                                                     \
    X(void *, PyEval_GetBuiltins, (void))                                                                    \
    X(void, PyEval_RestoreThread, (void *))                                                                  \
    X(void *, PyEval_SaveThread, (void))                                                                     \
    X(int, PyGILState_Ensure, (void))                                                                        \
    X(void, PyGILState_Release, (int))                                                                       \
    X(int, PyList_Append, (void *, void *))                                                                  \
    X(void *, PyList_GetItem, (void *, intptr_t))                                                            \
    X(void *, PyList_New, (intptr_t))                                                                        \
    X(intptr_t, PyList_Size, (void *))                                                                       \
    X(unsigned long, PyLong_AsUnsignedLong, (void *))                                                        \
    X(void *, PyLong_FromUnsignedLong, (unsigned long))                                                      \
    X(void *, PyLong_FromVoidPtr, (void *))                                                                  \
    X(void *, PyObject_CallFunctionObjArgs, (void *, ...))                                                   \
    X(void *, PyObject_Str, (void *))                                                                        \
    X(int, PySet_Contains, (void *, void *))                                                                 \
    X(void *, PyTuple_GetItem, (void *, intptr_t))                                                           \
    X(void *, PyTuple_Pack, (intptr_t, ...))                                                                 \
    X(intptr_t, PyTuple_Size, (void *))                                                                      \
    X(const char *, PyUnicode_AsUTF8AndSize, (void *, intptr_t *))

struct vt_python_api {
#define X(result, name, parameters) result(*name) parameters;
    VT_PYTHON_FUNCTIONS(X)
#undef X
    void *none; /* Py_None */
    /* From 3.11 on, all or none of them. */
    void *(*PyThreadState_Get)(void);
    void (*PyThreadState_EnterTracing)(void *);
    void (*PyThreadState_LeaveTracing)(void *);
};

/* Fills `api` from `scope`, for dlsym. False if something that it must have is not there. */
bool vt_python_api_find(struct vt_python_api *api, void *scope);

#endif
