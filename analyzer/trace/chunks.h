/* Reads and checks chunks of a trace's file. */
#ifndef VT_TRACE_CHUNKS_H
#define VT_TRACE_CHUNKS_H

#include <stddef.h>
#include <stdint.h>

struct vt_trace;

/* Reads chunks of the open file from *offset up to `end`; a later call goes on where the one before
 * it ended. Beyond header.chunks_end one that is not whole ends them, and is no damage. *offset and
 * *ring_position are raised past what was read. */
struct vt_chunk_reader *vt_chunks_begin(struct vt_trace *trace, int file);
int vt_chunks_read(struct vt_chunk_reader *reader, uint64_t end, uint64_t *offset, uint64_t *ring_position);
void vt_chunks_end(struct vt_chunk_reader *reader);
/* Room for more events after those read so far, which the caller counts in tables->raw; and their transfer to
 * the trace: 0, or -E2BIG. */
struct vt_event *vt_raw_events_add(struct vt_trace *trace, size_t more);
int vt_raw_events_take(struct vt_trace *trace, size_t count);

#endif
