/* Advice: what would have lowered the peak of a device. */
#ifndef VT_DIAGNOSE_ADVICE_H
#define VT_DIAGNOSE_ADVICE_H

struct vt_report;
struct vt_advices;

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

#endif
