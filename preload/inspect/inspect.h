/* Inspections of the live Python objects that hold tensors. A session is given this when it is made. */
#ifndef VT_INSPECT_H
#define VT_INSPECT_H

#include "record/inspector.h"

extern const struct vt_inspector vt_inspector;

#endif
