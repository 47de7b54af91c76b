/* Runs the Python scripts of this folder: their code, what they are given, and what is kept between
 * inspections. One inspection at a time, under the GIL, once vt_python_api_find has succeeded. void * stands
 * for PyObject *. */
#ifndef VT_SCRIPTS_H
#define VT_SCRIPTS_H

#include "inspect/python_api.h"

/* Runs all scripts in `globals`, an empty dict made for one inspection. False if an exception is set.
 * `is_refused` then says that the code could not even be compiled, which an audit hook of the host may
 * forbid: another attempt would be noticed again. */
bool vt_scripts_run(void *globals, bool *is_refused);

/* Frees `globals` (NULL: nothing), also after a failed vt_scripts_run. What stays (the code, weak references,
 * text) is in no list of the garbage collector. */
void vt_scripts_end(void *globals);

#endif
