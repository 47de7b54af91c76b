/* Things that are kept once and have a number: texts, and rows of a few words. Running out of memory shows in
 * `failed`, which stays set; the numbers are then 0. */
#ifndef VT_INTERN_H
#define VT_INTERN_H

#include <stdbool.h>

#include "base/index.h"

/* Texts, which must outlive it and not change. Number 0 is "". */
struct vt_texts {
    const char **items;
    size_t count, capacity;
    struct vt_index by_address, by_content;
    bool failed;
};
/* NULL is "". */
uint32_t vt_text_number(struct vt_texts *texts, const char *text);
void vt_texts_free(struct vt_texts *texts);

/* Rows of `width` words each, which the caller sets. Numbers begin with 0. */
struct vt_word_rows {
    size_t width;
    uint64_t *words; /* width * count */
    size_t count, capacity;
    struct vt_index by_content;
    bool failed;
};
uint32_t vt_row_number(struct vt_word_rows *rows, const uint64_t *words);
static inline const uint64_t *vt_row_words(const struct vt_word_rows *rows, size_t number)
{
    return rows->words + number * rows->width;
}
void vt_word_rows_free(struct vt_word_rows *rows);

#endif
