/* Two instants side by side: what one has that the other has not. */
#ifndef VT_DIFF_H
#define VT_DIFF_H

#include "report/report.h"

enum vt_diff_kind {
    VT_DIFF_ADDED,   /* B only */
    VT_DIFF_REMOVED, /* A only */
    VT_DIFF_GROWN,
    VT_DIFF_SHRUNK,
    VT_DIFF_MOVED, /* the same bytes in other categories */
    VT_DIFF_KINDS
};

struct vt_diff_side {
    const struct vt_group *group; /* NULL: not on this side, or the row stands for several */
    uint64_t bytes, blocks;
    uint64_t categories[VT_CATEGORY_COUNT];
};

/* What has the same name on both sides, or stands on one side only. */
struct vt_diff_row {
    char *name;
    uint8_t kind;     /* enum vt_diff_kind */
    uint64_t members; /* groups of one side that the row stands for: a new module with all inside it */
    struct vt_diff_side a, b;
};
struct vt_diff_rows {
    struct vt_diff_row *items; /* those that differ, the largest change first */
    size_t count;
};

struct vt_diff_device {
    int index;
    const char *name;
    const struct vt_instant *a, *b;        /* never NULL; of a device that is on one side only, empty */
    struct vt_diff_rows rows[VT_BY_COUNT]; /* by category: with the cache and the context */
    bool differs;
};

struct vt_diff {
    const struct vt_report *a, *b;
    struct vt_diff_device *devices;
    size_t device_count;
};

/* Compares what the reports show (vt_shown_instant), which must have been made with these `groups` (1u <<
 * enum vt_by) and outlive the comparison.
 *
 * Names are matched; where a name has a sibling on one side only, "Block" is "Block#1". Lines are matched by
 * the base name of their file and the function, in order: by their distance from where the
 * function begins, which an edit above it does not change, then by what they hold. */
int vt_diff_make(const struct vt_report *a, const struct vt_report *b, unsigned groups,
                 struct vt_diff **diff);
void vt_diff_free(struct vt_diff *diff);

/* Private to the comparison: rows of modules or owners that are on one side only become one for the
 * outermost that the other side lacks. `other` are all the groups of the other side. */
int vt_diff_collapse(struct vt_diff_rows *rows, enum vt_by by, const struct vt_groups *a,
                     const struct vt_groups *b);
void vt_diff_rows_free(struct vt_diff_rows *rows);

uint64_t vt_diff_change(const struct vt_diff_row *row); /* how far the sides are apart */
const char *vt_diff_kind_name(unsigned kind);           /* "added", "removed", … */

int vt_diff_text(const struct vt_diff *diff, const struct vt_view_style *style, FILE *out);
int vt_diff_json(const struct vt_diff *diff, const struct vt_view_style *style, unsigned groups, FILE *out);

#endif
