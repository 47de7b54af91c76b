/* The private pools of CUDA graphs. */
#ifndef VT_FINDINGS_GRAPH_POOLS_H
#define VT_FINDINGS_GRAPH_POOLS_H

#include <stdint.h>

struct vt_fragmentation;
struct vt_graph_pools;
struct vt_report;

/* Those of one device just after an event. */
struct vt_graph_pools vt_graph_pools_find(const struct vt_report *report, int device_index, uint32_t event);
/* Sets vt_segment.captured of a device's segments. */
void vt_graph_pools_mark(const struct vt_report *report, int device_index, uint32_t event,
                         struct vt_fragmentation *found);

#endif
