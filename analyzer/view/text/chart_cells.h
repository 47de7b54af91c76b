/* Lays a chart out in cells. chart_axis.c draws what is below the bars, chart.c the rest. */
#ifndef VT_VIEW_TEXT_CHART_CELLS_H
#define VT_VIEW_TEXT_CHART_CELLS_H

#include "view/text/chart.h"

#define VT_CHART_MARGIN 8 /* columns before the cells */
#define VT_CHART_CUT SIZE_MAX

/* Cells without a cut between them: a stretch of time, or a whole axis. */
struct vt_chart_run {
    const struct vt_stretch *first, *last; /* of the timeline's */
    int cell, cells;
};

struct vt_chart {
    const struct vt_report *report;
    const struct vt_device_report *device;
    const struct vt_view_style *style;
    int columns; /* cells of a row */
    int rows;
    enum vt_chart_size size;
    struct vt_scale scale;
    bool single;            /* one category only */
    size_t *source;         /* column of the timeline that each cell shows; VT_CHART_CUT = none */
    uint64_t *driver_bytes; /* by cell: the most in its part of the axis */
    struct vt_chart_run *runs;
    size_t run_count;
    FILE *stream;
};

/* Makes the runs: each stretch of an axis of time gets whole cells, with one between two of them for the cut;
 * other axes are one run. */
void vt_chart_lay_out(struct vt_chart *chart);
/* Finds for each cell the timeline's column with the most in use, and the most that the driver had given. */
void vt_chart_choose_sources(struct vt_chart *chart);
/* The cell of an event at that time; -1 = it is not in the timeline's range. */
int vt_chart_cell(const struct vt_chart *chart, uint32_t event_index, uint64_t t_ns);
/* Decimals that multiples of a round step need. */
int vt_chart_decimals(double step);

/* Signs in a row that vt_chart_put_row prints as UTF-8. */
#define VT_CHART_ARROW '\x01'
#define VT_CHART_CROSS '\x02'
#define VT_CHART_BAR '\x03'
/* Writes `text` into the row if its place is free. */
bool vt_chart_place(char *row, int columns, int column, const char *text);
void vt_chart_put_row(FILE *stream, const char *row, int columns);

#endif
