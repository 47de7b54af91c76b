/* Names of stacks, found once for each by one namer. Strings and frames live as long as it. */
#ifndef VT_STACK_NAMES_H
#define VT_STACK_NAMES_H

#include "report/parts.h"

struct vt_stack_namer;
/* On failure too, *namer is to be freed. */
int vt_stack_namer_make(const struct vt_trace *trace, struct vt_stack_namer **namer);
void vt_stack_namer_free(struct vt_stack_namer *namer);

/* vt_trace_user_frame; NULL = the stack has none. */
const struct vt_frame *vt_stack_user_frame(struct vt_stack_namer *namer, uint32_t stack_id);

struct vt_stack_name {
    uint64_t hash; /* of its lines: the same for stacks that are the same to a person */
    char *text;    /* folded; NULL without memory */
};
const struct vt_stack_name *vt_stack_name_of(struct vt_stack_namer *namer, uint32_t stack_id);

#endif
