/* Out of memory: what was missing, and what would have been freed next. */
#ifndef VT_OOM_H
#define VT_OOM_H

#include "report/report.h"

/* Of the refusal that the report shows; all zero unless a device's `at` is that refusal. -ENOMEM. */
int vt_shortage_find(const struct vt_report *report, struct vt_shortage *shortage);

#endif
