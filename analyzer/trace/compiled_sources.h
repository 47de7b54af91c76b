/* The user's lines behind code that a compiler generated. */
#ifndef VT_TRACE_COMPILED_SOURCES_H
#define VT_TRACE_COMPILED_SOURCES_H

#include <stdbool.h>
#include <stdint.h>

struct vt_compiled_line;
struct vt_trace;

/* Adds the source of a generated line; `where` is a traceback's text. Both texts live as
 * long as the trace. False if `where` makes no sense. */
bool vt_compiled_source_add(struct vt_trace *trace, const char *file, uint32_t line, const char *where);
void vt_compiled_source_finish(struct vt_trace *trace);
/* NULL if the line is not generated code. */
const struct vt_compiled_line *vt_compiled_source_find(const struct vt_trace *trace, const char *file,
                                                       int32_t line);

#endif
