/* Rows of a comparison that are merged into one for a place. */
#ifndef VT_DIFF_NAMES_H
#define VT_DIFF_NAMES_H

#include "report/diff.h"

/* Sets how far the sides are apart. */
void vt_diff_measure(struct vt_diff_row *row);
/* Rows of modules or owners that are on one side only become one for the outermost place that the other side
 * lacks. `a` and `b` are all the groups of each side. */
void vt_diff_collapse(struct vt_diff_rows *rows, enum vt_by by, const struct vt_groups *a,
                      const struct vt_groups *b);

#endif
