/* Groups what is alive at a moment: by category, module, owner, line and so on. */
#ifndef VT_REPORT_GROUPS_H
#define VT_REPORT_GROUPS_H

#include "report/instant.h"

struct vt_report;

/* Groups and evidence of what is alive on `device_index` just after the moment's event. One grouper serves
 * all moments of a report. `depth`: levels of modules' names, 0 = all. */
struct vt_grouper;
struct vt_grouper *vt_grouper_make(const struct vt_report *report, unsigned depth);
void vt_grouper_free(struct vt_grouper *grouper);
void vt_group_instant(struct vt_grouper *grouper, int device_index, unsigned groups,
                      struct vt_instant *instant);
/* The same of page-locked host memory, by line or stack. Returns its bytes. */
uint64_t vt_group_host_memory(struct vt_grouper *grouper, uint32_t event_index, enum vt_by by,
                              struct vt_groups *groups);

#endif
