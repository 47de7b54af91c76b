/* Two moments side by side, and how they differ. Filled by findings/diff.c. */
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
static inline const char *vt_diff_kind_name(unsigned kind)
{
    static const char *const names[VT_DIFF_KINDS] = {"added", "removed", "grown", "shrunk", "moved"};

    return kind < VT_DIFF_KINDS ? names[kind] : "unknown";
}

struct vt_diff_side {
    const struct vt_group *group; /* NULL: not on this side, or the row sums up several */
    int32_t line;                 /* by line, 0 = not known */
    uint64_t bytes, blocks;
    uint64_t categories[VT_CATEGORY_COUNT];
};

/* What has the same name on both sides, or is on one side only. */
struct vt_diff_row {
    char *name; /* owned */
    uint8_t kind;
    uint64_t change_bytes; /* how far the sides are apart */
    uint64_t members;      /* groups of one side that the row sums up: a new module and everything in it */
    struct vt_diff_side a, b;
    /* By line, of B where it is there. */
    const struct vt_place *place; /* NULL = not known */
    uint8_t phase;
};
struct vt_diff_rows {
    struct vt_diff_row *items; /* those that differ, the largest change first; NULL = not compared */
    size_t count;
};

struct vt_diff_device {
    int index;
    const char *name;
    /* Empty for a device that is on one side only. They belong to the reports, but events have the numbers
     * of the file. */
    struct vt_instant a, b;
    struct vt_diff_rows rows[VT_BY_COUNT]; /* by category: with the cache and the context */
    bool differs;
};

struct vt_diff {
    const struct vt_report *a, *b;
    struct vt_diff_device *devices;
    size_t device_count;
};

#endif
