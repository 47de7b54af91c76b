/* What each training step of a device did with its memory, and which steps stand out. */
#ifndef VT_STEPS_H
#define VT_STEPS_H

#include "report/report.h"

/* -ENOMEM. */
int vt_steps_make(const struct vt_report *report, int device_index, struct vt_steps *steps);

#endif
