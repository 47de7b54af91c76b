/* `vramtrace top` as text. */
#ifndef VT_VIEW_TOP_PAGE_H
#define VT_VIEW_TOP_PAGE_H

#include <stdio.h>

#include "report/top.h"
#include "view/text/style.h"

/* Prints a page: about the machine, its GPUs, then a line of titles and one for each row, none longer than
 * the style's width. *title_line: the number of that line, from 0 (may be NULL). `marked`: the title that is
 * marked as what the rows are sorted by. */
void vt_top_text(const struct vt_top *top, const struct vt_view_style *style, enum vt_top_key marked,
                 int *title_line, FILE *out);

#endif
