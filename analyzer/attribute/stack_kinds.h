/* What thinning (trace/thin.h) needs of attribution: what the code of each stack does, and whether steps were
 * found all the same. */
#ifndef VT_STACK_KINDS_H
#define VT_STACK_KINDS_H

#include "attribute/attribute.h"
#include "trace/thin.h"

/* By stack id: enum vt_stack_kind, from the built-in rules. The caller frees them. */
uint8_t *vt_stack_kinds_find(const struct vt_trace *trace);

/* False if there are far fewer steps, or far more, than those that lie in windows let expect: then the trace
 * must be read as a whole. */
bool vt_steps_agree(const struct vt_attribution *attribution);

#endif
