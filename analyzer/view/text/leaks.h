/* Leaks in the views that show more than them. */
#ifndef VT_VIEW_LEAKS_H
#define VT_VIEW_LEAKS_H

#include "view/json/json.h"
#include "view/text/text.h"

/* A sentence for each of the largest; "No leak in 412 steps." */
void vt_text_leaks(struct vt_print *print, const struct vt_report *report,
                   const struct vt_device_report *device);
/* Adds "leaks" to a device. */
void vt_json_leaks(cJSON *device, const struct vt_report *report, const struct vt_leaks *leaks);

#endif
