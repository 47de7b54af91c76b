/* Sections of the comparison's text. */
#ifndef VT_DIFF_TEXT_H
#define VT_DIFF_TEXT_H

#include "view/text/text.h"
#include "view/text/views.h"

/* Rows whose names differ in numbers only, and that changed alike, as one; then the row without a name. */
void vt_diff_folded(struct vt_print *print, const struct vt_diff_rows *rows, enum vt_by by,
                    const char *nameless, size_t most);

/* "activation +148.00 KiB, gradient +64.00 KiB": the largest changes first; the name alone where one category
 * changed. */
void vt_diff_categories_cell(struct vt_table *table, const uint64_t a[VT_CATEGORY_COUNT],
                             const uint64_t b[VT_CATEGORY_COUNT]);

#endif
