/* What running out of memory was about. */
#ifndef VT_FINDINGS_OOM_H
#define VT_FINDINGS_OOM_H

struct vt_report;
struct vt_shortage;

/* For the failed request that the report shows; all zero unless a device's `at` is that request. */
struct vt_shortage vt_shortage_find(const struct vt_report *report);

#endif
