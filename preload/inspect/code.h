/* inspect.py, census.py and arrays.py: their code, what they are given, and what is remembered between
 * inspections. One inspection at a time, under the GIL, once vt_python_api_find has succeeded. void * stands
 * for PyObject *.
 */
#ifndef VT_INSPECT_CODE_H
#define VT_INSPECT_CODE_H

#include "inspect/python_api.h"

/* The namespaces that the files were run in, made for one inspection: dicts. */
struct vt_inspect_code {
    void *inspect, *census, *arrays;
};

/* Runs all files. False if an exception is set. `is_refused` then says that the code could not even be
 * compiled, which an audit hook of the host may forbid: another attempt would show there again. */
bool vt_inspect_code_make(struct vt_inspect_code *code, bool *is_refused);

/* Frees all that, also where vt_inspect_code_make failed. What stays (the code, weak references, text) is in
 * no list of the collector. */
void vt_inspect_code_end(struct vt_inspect_code *code);

/* methods.c: the functions that all files call. */
enum { VT_INSPECT_METHODS = 13 };
extern struct vt_python_method vt_inspect_methods[VT_INSPECT_METHODS] __attribute__((visibility("hidden")));

/* Appends file, function, name and value in turn to a list: a vt_python_local_visit (stacks/python.h). */
struct vt_python_local;
bool vt_inspect_add_variable(void *variables, const struct vt_python_local *local);

#endif
