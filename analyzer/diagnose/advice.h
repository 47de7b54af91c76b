/* Advice: what would have lowered the peak, by what the trace itself shows.
 *
 * Each piece says which bytes would not have been there, and when; the peak is then found anew over the whole
 * trace, since another moment may become the largest. */
#ifndef VT_ADVICE_H
#define VT_ADVICE_H

#include "report/report.h"

/* Of one device. None under 1 % of the peak. -ENOMEM. */
int vt_advice_find(const struct vt_report *report, int device_index, struct vt_advices *advices);

#endif
