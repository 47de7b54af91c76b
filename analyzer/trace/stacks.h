/* Which stacks are one. */
#ifndef VT_TRACE_STACKS_H
#define VT_TRACE_STACKS_H

struct vt_trace;

/* The recorder cuts stacks at the loop of autograd's engine once it knows that loop. Cuts earlier
 * stacks there too. Then gives events the same id whose stacks are equal now, or differ only in their place
 * (places.h). Needs stack ids in range and all symbols. */
void vt_stacks_join(struct vt_trace *trace);

#endif
