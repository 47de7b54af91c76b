/* Which file of a trace a person means. */
#ifndef VT_REPORT_WHICH_FILE_H
#define VT_REPORT_WHICH_FILE_H

#include <stdbool.h>

#include "base/error_text.h"
#include "report/line_table.h"

struct vt_file_search {
    const struct vt_report *report;
    const struct vt_line_item *items;
    size_t count;
    const char *asked;   /* the end of a path, or a path on this machine */
    uint64_t *own_bytes; /* by item */
    bool *allocates;     /* by item: something is its own */
};
/* The item in *file; -EINVAL with the reason, also for several that match. */
int vt_file_find(const struct vt_file_search *search, uint32_t *file, struct vt_error_text reason);

#endif
