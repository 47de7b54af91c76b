/* Prometheus' text exposition format, for a scrape or for node_exporter's textfile collector. */
#ifndef VT_PROMETHEUS_H
#define VT_PROMETHEUS_H

#include <stdio.h>

#include "report/top.h"

/* What has ended is left out. */
void vt_prometheus_write(const struct vt_top *top, FILE *out);

#endif
