/* Memory that lives as long as the trace: handed out from large pieces, freed all at once. */
#ifndef VT_ARENA_H
#define VT_ARENA_H

#include <stddef.h>

struct vt_arena {
    struct vt_arena_piece *pieces;
    char *next;
    size_t left;
    size_t piece_bytes; /* how much it takes at a time; 0 = the usual */
};

/* 8-byte aligned, not cleared. Never NULL (base/allocate.h). */
void *vt_arena_take(struct vt_arena *arena, size_t bytes);
void vt_arena_free(struct vt_arena *arena);

/* A NUL-terminated copy that is valid UTF-8: bytes that are not, and control characters other than tab and
 * newline (they would reach a terminal), become U+FFFD. */
const char *vt_arena_text(struct vt_arena *arena, const void *text, size_t bytes);

/* The same for the first of several texts in [*at, end), each with a NUL behind it; the last one may lack
 * that. Moves *at to the next text. "" at the end. */
const char *vt_arena_next_text(struct vt_arena *arena, const char **at, const char *end);

#endif
