/* Memory of graphs' allocation nodes. Their addresses are fixed from the start, but the device gives bytes
 * only at a launch; they stay in the device's pool for graphs until a trim. The pool's bytes are recorded
 * when they change. Threads: any. */
#ifndef VT_GRAPH_MEMORY_H
#define VT_GRAPH_MEMORY_H

#include "hooks/driver.h"

/* A graph gets an allocation node on this device. */
void vt_graph_node_made(int8_t device_index);
/* Whether any graph has had such a node. */
bool vt_graphs_have_memory(void);

/* Like struct vt_bracket: what the graph pools took is recorded as theirs, the rest as the call's. */
struct vt_graph_bracket {
    struct vt_bracket bracket;
    uint64_t reserved_bytes; /* of the bracket's device, before the call */
};
struct vt_graph_bracket vt_graph_bracket_open(void);
void vt_graph_bracket_close(const struct vt_graph_bracket *bracket, enum vt_function function);

#endif
