/* Finds the requests that failed for lack of memory. */
#ifndef VT_REPORT_OOM_EVENTS_H
#define VT_REPORT_OOM_EVENTS_H

#include <stdbool.h>
#include <stdint.h>

struct vt_report;
struct vt_trace;
struct vt_oom;

/* What the driver reported as free on the whole GPU within a second of an event, with no change in between;
 * false without such a report. */
bool vt_free_near(const struct vt_trace *trace, uint32_t event_index, int device_index, uint64_t *free_bytes,
                  uint64_t *total_bytes);

/* Fills report->refusals, without what vt_complete_refusal finds. */
void vt_find_refusals(struct vt_report *report);
/* Completes the one that is shown. */
void vt_complete_refusal(const struct vt_report *report, struct vt_oom *refusal);

#endif
