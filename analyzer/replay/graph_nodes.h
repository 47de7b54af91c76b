/* Allocation nodes of graphs: their memory comes with a launch, but the calls that made the nodes are what
 * the program can change. */
#ifndef VT_GRAPH_NODES_H
#define VT_GRAPH_NODES_H

#include "replay/build.h"

/* A capture begins: the nodes that follow are of another graph. */
void vt_graph_nodes_begin(struct vt_build *build, const struct vt_event *event);
/* A node was made, of no memory yet. */
void vt_graph_nodes_add(struct vt_build *build, const struct vt_event *event);
/* The device holds `bytes` for nodes. What is more than before is of the nodes that must have grown: all that
 * wait come from one stack, or those of one capture have exactly these bytes. Else it is of the current
 * event.
 */
void vt_graph_nodes_grow(struct vt_build *build, int device_index, uint64_t bytes);

#endif
