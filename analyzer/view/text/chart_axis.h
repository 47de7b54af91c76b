/* What is below the bars of a chart. */
#ifndef VT_VIEW_TEXT_CHART_AXIS_H
#define VT_VIEW_TEXT_CHART_AXIS_H

struct vt_chart;

/* The zero line with ticks, their numbers, steps and phases, as the chart's size wants. `row` is a buffer. */
void vt_chart_axis(struct vt_chart *chart, char *row);

#endif
