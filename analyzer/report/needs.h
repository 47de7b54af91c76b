/* What a report asks of a thinned trace. */
#ifndef VT_NEEDS_H
#define VT_NEEDS_H

#include "report/report.h"
#include "trace/survey.h"

/* Which events, as numbered in the file, a report of these options is about that a thinned trace has not all.
 * Returns 0. */
#define VT_NEEDS 8u
struct vt_needs {
    struct vt_window items[VT_NEEDS];
    size_t count;
};
int vt_report_needs(const struct vt_attribution *attribution, const struct vt_report_options *options,
                    struct vt_needs *needs);

#endif
