/* Matches the groups of two instants. */
#ifndef VT_DIFF_MAKE_H
#define VT_DIFF_MAKE_H

#include "report/diff.h"

/* Compares what the reports show, which must have been made with these `groups` (1u << enum vt_by) and
 * outlive the comparison.
 *
 * Names are matched; where a name has a sibling on one side only, "Block" is "Block#1". Lines are matched by
 * the base name of their file and the function, in order: by their distance from where the
 * function begins, which an edit above it does not change, then by what they hold. */
struct vt_diff *vt_diff_make(const struct vt_report *a, const struct vt_report *b, unsigned groups);
void vt_diff_free(struct vt_diff *diff);

#endif
