/* Page-locked host memory: its peak, and who had it. */
#ifndef VT_HOST_MEMORY_H
#define VT_HOST_MEMORY_H

#include "report/groups.h"

struct vt_report;

/* Sets report->host. Lines and stacks are those of the moment shown, which is host memory's own peak without
 * --at. The devices are made before. */
void vt_host_memory_find(struct vt_report *report, struct vt_grouper *grouper);

#endif
