/* What each training step of a device did with its memory, and which steps stand out. */
#ifndef VT_FINDINGS_STEPS_H
#define VT_FINDINGS_STEPS_H

struct vt_report;
struct vt_steps;

/* The caller frees the items. */
struct vt_steps vt_steps_make(const struct vt_report *report, int device_index);

#endif
