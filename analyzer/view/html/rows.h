/* Rows of a few words, each kept once and numbered from 0 on. */
#ifndef VT_ROWS_H
#define VT_ROWS_H

#include <stdbool.h>

#include "base/index.h"

struct vt_rows {
    size_t width;    /* words of a row; the caller sets it */
    uint64_t *words; /* width * count */
    size_t count, capacity;
    struct vt_index by_content;
};

/* The number of a row; it is the last of `count` + 1 where the row is new. */
uint32_t vt_rows_find(struct vt_rows *rows, const uint64_t *words);
void vt_rows_free(struct vt_rows *rows);

static inline const uint64_t *vt_row_words(const struct vt_rows *rows, size_t number)
{
    return rows->words + number * rows->width;
}

#endif
