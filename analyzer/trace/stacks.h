/* Cuts stacks as the recorder does. */
#ifndef VT_TRACE_STACKS_H
#define VT_TRACE_STACKS_H

struct vt_trace;

/* The recorder cuts stacks at the loop of autograd's engine once it knows that loop. Cuts earlier
 * stacks there too, and gives events whose stacks are equal then the same id. Needs stack ids in range and
 * all symbols. */
void vt_stacks_end_at_loop(struct vt_trace *trace);

#endif
