/* Explains why memory has its category (--explain). */
#ifndef VT_REPORT_EXPLANATIONS_H
#define VT_REPORT_EXPLANATIONS_H

struct vt_report;
struct vt_device_report;

/* Explains `what`, which must outlive the report, at device->shown. */
void vt_explain(const struct vt_report *report, const char *what, struct vt_device_report *device);

#endif
