/* Advice: what would have lowered the peak, as far as the trace itself shows it.
 *
 * Each piece states which bytes would have been absent, and when. The peak is then computed again over the
 * whole trace, since another moment may become the largest. */
#ifndef VT_ADVICE_H
#define VT_ADVICE_H

#include "report/report.h"

/* Of one device. None under 1 % of the peak. -ENOMEM. */
int vt_advice_find(const struct vt_report *report, int device_index, struct vt_advices *advices);

#endif
