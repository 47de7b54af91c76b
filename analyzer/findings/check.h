/* Measures a trace against limits. */
#ifndef VT_CHECK_H
#define VT_CHECK_H

#include "base/amount.h"
#include "report/checks.h"
#include "report/report.h"

struct vt_limits {
    struct vt_amount max_peak, max_unknown, max_cached, max_leak;
    struct vt_amount tolerance; /* of the baseline */
    bool allow_lost, allow_unjudged;
};

/* `baseline` NULL = none. Both reports are of all devices that are to be checked; the first has its leaks.
 * The checks do not need the reports any more. */
void vt_check_make(const struct vt_report *report, const struct vt_report *baseline,
                   const struct vt_limits *limits, struct vt_checks *checks);
void vt_check_free(struct vt_checks *checks);

#endif
