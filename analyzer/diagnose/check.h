/* A trace against limits. */
#ifndef VT_CHECK_H
#define VT_CHECK_H

#include "base/amount.h"
#include "report/report.h"

struct vt_limits {
    struct vt_amount max_peak, max_unknown, max_cached, max_leak;
    struct vt_amount tolerance; /* of the baseline */
    bool allow_lost;
};

/* One thing that was measured. */
struct vt_checked {
    const char *what; /* "peak", "unknown", "cached", "leak", "lost", "baseline" */
    const char *part; /* of "baseline": "peak" or a category; of "lost": "baseline" or NULL; else NULL */
    int device_index; /* -1 = none */
    uint64_t bytes, limit_bytes;
    bool breached;
    char *text; /* what is wrong, in words; NULL if nothing is */
};

struct vt_checks {
    struct vt_checked *items;
    size_t count;
    size_t breaches;
};

/* `baseline` NULL = none. Both reports are of all devices that are to be checked. -ENOMEM. */
int vt_check_make(const struct vt_report *report, const struct vt_report *baseline,
                  const struct vt_limits *limits, struct vt_checks *checks);
void vt_check_free(struct vt_checks *checks);

#endif
