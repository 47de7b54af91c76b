/* inspect.py: its code, and what is remembered from look to look. One look at a time, under the GIL. */
#ifndef VT_INSPECT_CODE_H
#define VT_INSPECT_CODE_H

#include "inspect/python_api.h"

/* Before the first call: the interpreter's functions, which stay the caller's. */
void vt_inspect_code_start(const struct vt_python_api *python);

/* The functions of inspect.py, in a dict made for this look. NULL if an exception stands; `is_refused` then
 * says that the code could not even be compiled, which an audit hook of the host's may forbid: to try that
 * again would be seen again. */
void *vt_inspect_make_globals(bool *is_refused);

/* Lets go of all that, NULL too. What stays (the code, weak references, text) is in no list of the
 * collector's. */
void vt_inspect_end_globals(void *globals);

#endif
