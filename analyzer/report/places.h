/* Places: what people call the code that allocated something. One for each stack, resolved on first use. */
#ifndef VT_PLACES_H
#define VT_PLACES_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/arena.h"
#include "base/frame.h"

/* The frame that a person would name for a stack. Lives as long as the report. */
struct vt_place {
    const char *name; /* "model.py:141 forward"; without a file "main (program)" */
    struct vt_frame frame;
};

struct vt_places; /* of one trace; by one thread at a time */

/* Frames of a stack, innermost first. Returns their number; writes at most `capacity`. */
size_t vt_stack_frames(struct vt_places *places, uint32_t stack_id, struct vt_frame *frames, size_t capacity);

/* Whether the text of a file could be read. */
enum vt_source_state {
    VT_SOURCE_READ,
    VT_SOURCE_MISSING,
    VT_SOURCE_NEWER,   /* than the trace: its lines may differ */
    VT_SOURCE_REFUSED, /* its name is not that of a source file, or it is too large */
    VT_SOURCE_STATES
};
const char *vt_source_state_name(unsigned state); /* "read", "missing", … */

struct vt_trace;
/* Lines without their ends, as valid UTF-8. */
struct vt_source_text {
    struct vt_arena arena;
    const char **lines;
    size_t count;
    uint8_t state; /* enum vt_source_state; no lines unless READ */
};
/* `source` is all zero before. */
void vt_source_read(const struct vt_trace *trace, const char *path, struct vt_source_text *source);
void vt_source_free(struct vt_source_text *source);

/* The source line of a place, without indentation, if its file is here and older than the trace; else "",
 * also for NULL. The caller frees it. */
char *vt_source_line(const struct vt_places *places, const struct vt_place *place);

#endif
