/* What the code of each stack does, for thinning (trace/thin.h). */
#ifndef VT_STACK_KINDS_H
#define VT_STACK_KINDS_H

#include "trace/thin.h"
#include "trace/trace.h"

/* By stack id: enum vt_stack_kind, from the built-in rules. The caller frees them. 0 or -errno. */
int vt_stack_kinds_find(const struct vt_trace *trace, uint8_t **kinds);

#endif
