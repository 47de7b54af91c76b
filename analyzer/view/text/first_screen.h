/* The first screen of a report: 24 lines for a person. */
#ifndef VT_FIRST_SCREEN_H
#define VT_FIRST_SCREEN_H

#include "view/text/text.h"

/* What was checked and found good, or lost: "✓ no leak in 20 steps · ✓ no out-of-memory error · ✓ nothing
 * lost". What was found has a block of its own. */
void vt_text_status(struct vt_print *print);
/* The peak, or the moment of --at. */
void vt_text_peak(struct vt_print *print, const struct vt_device_report *device);
void vt_text_category_bars(struct vt_print *print, const struct vt_device_report *device, size_t most);
/* All of it, for one device. */
void vt_text_first_screen(struct vt_print *print, const struct vt_device_report *device);

#endif
