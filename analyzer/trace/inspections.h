/* Reads inspections of live Python objects. */
#ifndef VT_TRACE_INSPECTIONS_H
#define VT_TRACE_INSPECTIONS_H

struct vt_trace;

/* Keeps one record, which lives as long as the trace; then, once all events are there, reads
 * all. Returns 0. */
int vt_inspection_add(struct vt_trace *trace, const void *part);
void vt_inspections_read(struct vt_trace *trace);

#endif
