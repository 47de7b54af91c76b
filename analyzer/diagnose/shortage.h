/* What running out of memory was about. */
#ifndef VT_SHORTAGE_H
#define VT_SHORTAGE_H

#include "report/report.h"

/* Of the refusal that the report shows; all zero unless a device's `at` is that refusal. -ENOMEM. */
int vt_shortage_find(const struct vt_report *report, struct vt_shortage *shortage);

#endif
