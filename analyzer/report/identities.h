/* What must hold for the blocks of an optimizer, and whether the labels agree with it, in words. */
#ifndef VT_REPORT_IDENTITIES_H
#define VT_REPORT_IDENTITIES_H

#include "report/report.h"

/* *count of them, for the caller to free; never NULL. */
struct vt_report_identity *vt_report_identities_make(const struct vt_attribution *attribution, size_t *count);

#endif
