/* The variables that launchers set for the process. */
#ifndef VT_TRACE_LAUNCH_H
#define VT_TRACE_LAUNCH_H

struct vt_trace;

/* The first record of launchers' variables; then one variable as an inspection saw it. The first
 * inspection's value replaces the one at the start; its texts must live as long as the trace. Returns 0. */
int vt_launch_add(struct vt_trace *trace, const void *record);
void vt_launch_change(struct vt_trace *trace, const char *name, const char *value);

#endif
