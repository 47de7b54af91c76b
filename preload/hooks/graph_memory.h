/* Memory that graphs take for themselves, by allocation nodes. It has fixed addresses from the beginning, but
 * the device gives bytes only with a launch; then they stay with the device's pool of such memory until a
 * trim. The pool's bytes are recorded when they change. Threads: any. */
#ifndef VT_GRAPH_MEMORY_H
#define VT_GRAPH_MEMORY_H

#include "hooks/driver.h"

/* A graph gets an allocation node on that device. */
void vt_graph_node_made(int8_t device_index);
/* Whether there has been such a node. */
bool vt_graphs_have_memory(void);

/* As struct vt_bracket: what the pools took is recorded as theirs, the rest as the call's. */
struct vt_graph_bracket {
    struct vt_bracket bracket;
    uint64_t reserved_bytes; /* of the bracket's device, before */
};
struct vt_graph_bracket vt_graph_bracket_open(void);
void vt_graph_bracket_close(const struct vt_graph_bracket *bracket, enum vt_function function);

#endif
