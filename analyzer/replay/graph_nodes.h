/* Allocation nodes of graphs: their memory comes with a launch, but the calls that made the nodes are what
 * the program can change. */
#ifndef VT_GRAPH_NODES_H
#define VT_GRAPH_NODES_H

#include "replay/build.h"

/* A capture begins or ends; an executable graph was made. */
void vt_graph_nodes_capture(struct vt_build *build, const struct vt_event *event);
/* A node was made, of no memory yet. */
void vt_graph_nodes_add(struct vt_build *build, const struct vt_event *event);
/* The device holds `bytes` for nodes. What is more than before is of the lines that made the nodes of the
 * graph that is launched now, if it is certain how much each line has: all nodes come from one stack, or
 * their sizes are exactly these bytes. Else it is of the current event. */
void vt_graph_nodes_grow(struct vt_build *build, const struct vt_event *event);

#endif
