/* The C functions that the scripts call. They read what Python code cannot read
 * unnoticed. Threads: one that holds the GIL, once vt_python_api_find has succeeded. void * stands for
 * PyObject *. */
#ifndef VT_SCRIPT_FUNCTIONS_H
#define VT_SCRIPT_FUNCTIONS_H

#include "inspect/python_api.h"
#include "stacks/python_locals.h"

enum { VT_SCRIPT_FUNCTIONS = 12 };
extern struct vt_python_method vt_script_functions[VT_SCRIPT_FUNCTIONS] __attribute__((visibility("hidden")));

/* A vt_python_local_visit: appends file, function, name and value to the list `variables`. */
bool vt_script_add_variable(void *variables, const struct vt_python_local *local);

#endif
