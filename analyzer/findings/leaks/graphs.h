/* What of each leak an autograd graph keeps. */
#ifndef VT_LEAK_GRAPHS_H
#define VT_LEAK_GRAPHS_H

#include "findings/leaks/finder.h"

/* Sum of blocks alive at an inspection. */
struct vt_leak_hold {
    uint64_t bytes;
    uint32_t first_step, last_step; /* that made them */
};
void vt_leak_hold_add(struct vt_leak_hold *hold, const struct vt_leak_hold *more);

struct vt_leak_graph_part {
    uint32_t leak; /* index */
    struct vt_leak_hold hold;
};
struct vt_leak_graphs;
struct vt_leak_graphs *vt_leak_graphs_make(const struct vt_leak_finder *finder);
void vt_leak_graphs_free(struct vt_leak_graphs *graphs);
/* Selects the moment for vt_leak_graphs_find. Events must ascend. */
void vt_leak_graphs_at(struct vt_leak_graphs *graphs, uint32_t event);
/* Parts of the graph of those nodes: "12-40,52-52". They live until the next call. */
const struct vt_leak_graph_part *vt_leak_graphs_find(struct vt_leak_graphs *graphs, const char *nodes,
                                                     size_t *count);

#endif
