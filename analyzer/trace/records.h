/* Reads all records of a trace. */
#ifndef VT_TRACE_RECORDS_H
#define VT_TRACE_RECORDS_H

struct vt_trace;

/* All chunks, then what the ring still holds. again: only the events of the same chunks. */
int vt_records_read(struct vt_trace *trace, int file);
int vt_records_read_again(struct vt_trace *trace, int file);

#endif
