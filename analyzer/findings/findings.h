/* Fills the findings of a report. */
#ifndef VT_FINDINGS_FINDINGS_H
#define VT_FINDINGS_FINDINGS_H

#include "report/report.h"

enum vt_finding {
    VT_FIND_LEAKS = 1,
    VT_FIND_ADVICE = 2,
    VT_FIND_FRAGMENTATION = 4, /* of what is shown */
    VT_FIND_STEPS = 8,
    VT_FIND_SHORTAGE = 16,    /* of the failed request that is shown */
    VT_FIND_GRAPH_POOLS = 32, /* of what is shown */
    VT_FIND_HOLDERS = 128,    /* of what is shown */
    VT_FIND_CARD = 64,        /* of what is shown, and at the last reading; contexts without memory */
};

/* Finds what is `wanted` (bits of enum vt_finding) for each device of the report, which frees it. */
void vt_diagnose(struct vt_report *report, unsigned wanted);

#endif
