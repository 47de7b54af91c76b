/* Private to the reader: libraries that were unloaded and loaded again. */
#ifndef VT_TRACE_RELOADS_H
#define VT_TRACE_RELOADS_H

#include <stdbool.h>

struct vt_trace;

/* Gives the code of a library that was loaded several times the addresses of the first time, in stacks and
 * symbols, so that equal code has equal addresses. Libraries are the same if their path and build id are.
 * False if there is nothing to do. */
bool vt_reloads_join(struct vt_trace *trace);

#endif
