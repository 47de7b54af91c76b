/* What inspect.py calls: functions of Python's. */
#ifndef VT_INSPECT_METHODS_H
#define VT_INSPECT_METHODS_H

#include "inspect/python_api.h"

enum { VT_INSPECT_METHODS = 7 };
extern struct vt_python_method vt_inspect_methods[VT_INSPECT_METHODS];

/* Before the first call: the interpreter's functions, which stay the caller's. */
void vt_inspect_methods_start(const struct vt_python_api *python);

bool vt_inspect_add_variable(void *variables, const void *function, const void *name, const void *value);

#endif
