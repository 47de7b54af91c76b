/* Runs inspect.py, census.py and arrays.py: their code, what they are given, and what is kept between
 * inspections. One inspection at a time, under the GIL, once vt_python_api_find has succeeded. void * stands
 * for PyObject *. */
#ifndef VT_SCRIPTS_H
#define VT_SCRIPTS_H

#include "inspect/python_api.h"

/* The namespaces that the scripts ran in, made for one inspection; dicts. */
struct vt_scripts {
    void *inspect, *census, *arrays;
};

/* Runs all scripts. False if an exception is set. `is_refused` then says that the code could not even be
 * compiled, which an audit hook of the host may forbid: another attempt would be noticed again. */
bool vt_scripts_run(struct vt_scripts *code, bool *is_refused);

/* Frees everything, also after a failed vt_scripts_run. What stays (the code, weak references, text) is in
 * no list of the garbage collector. */
void vt_scripts_end(struct vt_scripts *code);

#endif
