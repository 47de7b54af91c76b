/* Source files of the traced program: read if they are still what the trace saw. */
#ifndef VT_REPORT_SOURCES_H
#define VT_REPORT_SOURCES_H

#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"

struct vt_trace;

/* Whether the text of a file could be read. */
enum vt_source_state {
    VT_SOURCE_READ,
    VT_SOURCE_MISSING,
    VT_SOURCE_NEWER,   /* than the trace: its lines may differ */
    VT_SOURCE_REFUSED, /* it is no source file, too large, not for who recorded the trace, or hidden */
    VT_SOURCE_STATES
};
const char *vt_source_state_name(unsigned state); /* "read", "missing", … */

/* Lines without their ends, as valid UTF-8. */
struct vt_source_text {
    struct vt_arena arena;
    const char **lines;
    size_t count;
    uint8_t state; /* enum vt_source_state; no lines unless READ */
};
/* `source` is all zero before. */
void vt_source_read(const struct vt_trace *trace, const char *path, struct vt_source_text *source);
/* From now on no source file is read (--no-source). */
void vt_sources_hide(void);
void vt_source_free(struct vt_source_text *source);

#endif
