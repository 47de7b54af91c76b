/* What a report asks of a thinned trace. */
#ifndef VT_NEEDS_H
#define VT_NEEDS_H

#include "report/report.h"
#include "trace/survey.h"

/* The events (numbered as in the file) that a report with these options needs in full, where a thinned
 * trace lacks some. */
#define VT_NEEDS 8u
struct vt_needs {
    struct vt_window items[VT_NEEDS];
    size_t count;
};
void vt_report_needs(const struct vt_attribution *attribution, const struct vt_report_options *options,
                     struct vt_needs *needs);

#endif
