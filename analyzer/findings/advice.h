/* Advice: what would have lowered the peak of a device. */
#ifndef VT_FINDINGS_ADVICE_H
#define VT_FINDINGS_ADVICE_H

#include "report/findings.h"

struct vt_report;

/* As far as the trace itself shows it; none under 1 % of the peak.
 *
 * Each piece states which bytes would have been absent, and when. The peak is then computed again over the
 * whole trace, since another moment may become the largest.
 *
 * It is searched while the caller finds leaks. vt_advice_end, once they are in the report, fills in the
 * advice and ends the search. */
struct vt_advice_search;
struct vt_advice_search *vt_advice_begin(const struct vt_report *report, int device_index,
                                         struct vt_advices *advices);
void vt_advice_end(struct vt_advice_search *search);

/* Only what was in empty segments then, if it is 1 % or more: frag reports free bytes beside blocks in use,
 * which no setting is sure to return. */
struct vt_reserved_unused vt_reserved_unused_at(const struct vt_report *report, int device_index,
                                                uint32_t event_index);

#endif
