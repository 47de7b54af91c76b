/* Reads all records of a trace. */
#ifndef VT_TRACE_RECORDS_H
#define VT_TRACE_RECORDS_H

struct vt_trace;

/* All chunks, then what the ring still holds. */
int vt_records_read(struct vt_trace *trace, int file);

#endif
