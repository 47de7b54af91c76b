/* Places: what people call the code that allocated something. One for each stack, resolved on first use. */
#ifndef VT_PLACES_H
#define VT_PLACES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/frame.h"

/* The frame of a stack that matters to a user. Lives as long as the report. */
struct vt_place {
    const char *name; /* "model.py:141 forward"; without a file "main (program)" */
    struct vt_frame frame;
};

struct vt_trace;
struct vt_places; /* of one trace; by one thread at a time */
struct vt_places *vt_places_make(const struct vt_trace *trace);
void vt_places_free(struct vt_places *places);
/* NULL = the stack has no frame. */
const struct vt_place *vt_place_of(struct vt_places *places, uint32_t stack_id);
/* Names a frame. */
void vt_place_set(struct vt_places *places, const struct vt_frame *frame, struct vt_place *place);
/* A copy that lives as long as the places. */
const char *vt_places_text(struct vt_places *places, const char *text);

struct vt_stack_name {
    uint64_t hash;    /* of its lines: the same for stacks that are the same to a person */
    const char *text; /* folded */
};
const struct vt_stack_name *vt_stack_name_of(struct vt_places *places, uint32_t stack_id);

/* A path as a person names it: relative to the trace's working folder; else, in an installed package, from
 * the package's name on; else the last two parts. */
const char *vt_short_path(const struct vt_trace *trace, const char *path);

/* Frames of a stack, innermost first. Returns their number; writes at most `capacity`. */
size_t vt_stack_frames(struct vt_places *places, uint32_t stack_id, struct vt_frame *frames, size_t capacity);

/* The source line of a place, without indentation, if its file is here and older than the trace; else "",
 * also for NULL. The caller frees it. */
char *vt_source_line(const struct vt_places *places, const struct vt_place *place);

/* Whether it is between an operator and the driver, where nobody looks for a cause. */
bool vt_frame_is_plumbing(const struct vt_frame *frame);

#endif
