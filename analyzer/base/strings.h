/* A table of texts, each of them once and with a number. */
#ifndef VT_STRINGS_H
#define VT_STRINGS_H

#include <stdbool.h>

#include "base/arena.h"
#include "base/index.h"

struct vt_strings {
    struct vt_arena arena;
    struct vt_index index;
    const char **items; /* by number; valid UTF-8 without control characters but tab and newline */
    size_t count, capacity;
};

/* The number of a text, from 0 on; NULL is "". *is_new (may be NULL): it was not there before. */
uint32_t vt_strings_find(struct vt_strings *strings, const char *text, bool *is_new);
uint32_t vt_strings_find_bytes(struct vt_strings *strings, const char *text, size_t bytes, bool *is_new);
void vt_strings_free(struct vt_strings *strings);

#endif
