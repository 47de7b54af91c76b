/* The attributes of a Python object, read raw: object.__dict__ makes a dict, which stays, for an object that
 * has none.
 *
 * Threads: one that holds the GIL, of an interpreter whose layout is known. */
#ifndef VT_PYTHON_ATTRIBUTES_H
#define VT_PYTHON_ATTRIBUTES_H

#include "inspect/python_api.h"

/* A new reference to its dict, or to a copy of what would stand in it; to None if it has no attributes. NULL
 * if an exception stands. */
void *vt_python_attributes(const struct vt_python_api *python, void *object);

#endif
