/* Who made each request that failed. */
#ifndef VT_REPORT_OOM_REQUESTERS_H
#define VT_REPORT_OOM_REQUESTERS_H

struct vt_report;

/* Sets who made each failed request. */
void vt_find_askers(struct vt_report *report);

#endif
