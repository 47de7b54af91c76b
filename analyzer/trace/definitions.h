/* Reads the records that define strings, stacks, devices and the like. */
#ifndef VT_TRACE_DEFINITIONS_H
#define VT_TRACE_DEFINITIONS_H

#include <stddef.h>
#include <stdint.h>

struct vt_record_head;
struct vt_trace;

/* Takes a run of definition records. `data` is 8-byte aligned and lives as long as the trace.
 * Stops at a length that makes no sense. Returns 0, or -EBADMSG if any record was bad. */
int vt_definitions_add(struct vt_trace *trace, const uint8_t *data, size_t bytes);
/* Takes one record, all of whose bytes are at `record`. */
int vt_definition_add(struct vt_trace *trace, const struct vt_record_head *record);
void vt_definitions_finish(struct vt_trace *trace);

#endif
