/* The picture of a device's memory over time, as text. */
#ifndef VT_CHART_H
#define VT_CHART_H

#include "report/report.h"
#include "view/text/print.h"

/* A scale from 0 on with round steps: `steps` of `step`, in `rows` rows. */
struct vt_scale {
    double step; /* in bytes */
    int steps, rows_per_step;
    const char *unit;
    double unit_bytes;
};
struct vt_scale vt_scale_for(uint64_t max_bytes, int rows);

/* Small: bars, and one row of steps, else of time. Usual: with the driver's bytes, the peak, and both rows.
 * Large: with phases. */
enum vt_chart_size { VT_CHART_SMALL, VT_CHART_USUAL, VT_CHART_LARGE };

/* Draws `device` in `columns` by about `rows` cells, as lines with colour marks. NULL with nothing to show;
 * the caller frees it. */
char *vt_chart_draw(const struct vt_report *report, const struct vt_device_report *device,
                    const struct vt_view_style *style, int columns, int rows, enum vt_chart_size size);
/* True if one category is all that a device's picture shows: then its fill need not tell it apart. */
bool vt_single_category(const struct vt_device_report *device);

#endif
