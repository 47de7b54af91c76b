#include "replay/graph_nodes.h"

#include "base/allocate.h"

#define MOST_NODES 4096u /* that are searched: with more, all memory is of the launches */
#define LAUNCH_AHEAD 16u /* events: a launch is recorded after the growth that it made */

/* Captured nodes get their graph at the end of the capture; those made by hand come with it. */
void vt_graph_nodes_add(struct vt_build *build, const struct vt_event *event)
{
    if (build->node_count < MOST_NODES)
        VT_APPEND(build->nodes, build->node_count, build->node_capacity,
                  (struct vt_build_node){.stack_id = event->stack_id,
                                         .thread_id = event->thread_id,
                                         .graph = build->captures ? 0 : event->detail,
                                         .device_index = event->device_index,
                                         .bytes = event->bytes});
}

/* At the end of a capture its thread's nodes get a graph, and where that becomes executable, they do. A
 * graph's address may be that of an earlier one. */
void vt_graph_nodes_capture(struct vt_build *build, const struct vt_event *event)
{
    const bool ends = event->kind == VT_EVENT_CAPTURE_END;
    build->captures += event->kind == VT_EVENT_CAPTURE;
    build->captures -= ends && build->captures;
    for (size_t i = 0; i < build->node_count; i++) {
        struct vt_build_node *node = &build->nodes[i];
        if (ends && !node->graph && node->thread_id == event->thread_id)
            node->graph = event->detail;
        else if (ends && node->graph == event->detail)
            node->graph = 1; /* gone */
        else if (event->kind == VT_EVENT_GRAPH && node->graph == event->detail && !node->executable)
            node->executable = event->address;
        else if (event->kind == VT_EVENT_GRAPH && node->executable == event->address)
            node->executable = 1;
    }
}

/* The executable graph that the thread of the event launches next; 0 = not known. */
static uint64_t launched_by(const struct vt_build *build, const struct vt_event *event)
{
    const struct vt_trace *trace = build->replay->trace;
    for (uint32_t i = build->event_index + 1;
         i < trace->event_count && i <= build->event_index + LAUNCH_AHEAD; i++)
        if (trace->events[i].thread_id == event->thread_id)
            return trace->events[i].kind == VT_EVENT_GRAPH_LAUNCH ? trace->events[i].address : 0;
    return 0;
}

static bool is_of(const struct vt_build_node *node, int device_index, uint64_t executable)
{
    return node->device_index == device_index && node->executable == executable && node->bytes;
}

static void grow_from(struct vt_build *build, int device_index, uint64_t bytes, uint32_t stack_id)
{
    struct vt_usage_growth *growth = &vt_build_device(build, device_index)->graph;
    const size_t count = growth->made.count;
    vt_build_set_growth(build, VT_ALLOCATION_GRAPH, device_index, growth->bytes + bytes);
    if (growth->made.count > count)
        vt_build_allocation(build, growth->made.items[count])->stack_id = stack_id;
}

/* From here on the bytes of the graph's nodes are known. */
static void divide(struct vt_build *build, int device_index, uint64_t executable, uint64_t more)
{
    uint64_t sum = 0;
    uint32_t stack_id = 0;
    bool several = false;
    for (size_t i = 0; i < build->node_count; i++) {
        const struct vt_build_node *node = &build->nodes[i];
        if (!is_of(node, device_index, executable))
            continue;
        several |= sum && node->stack_id != stack_id;
        stack_id = node->stack_id;
        sum += node->bytes;
    }
    for (size_t i = 0; i < build->node_count; i++) {
        struct vt_build_node *node = &build->nodes[i];
        if (!is_of(node, device_index, executable))
            continue;
        if (several && sum == more)
            grow_from(build, device_index, node->bytes, node->stack_id);
        node->bytes = 0;
    }
    if (sum && !several)
        grow_from(build, device_index, more, stack_id);
}

void vt_graph_nodes_grow(struct vt_build *build, const struct vt_event *event)
{
    const uint64_t before = vt_build_device(build, event->device_index)->graph.bytes;
    const uint64_t executable =
        event->total_bytes > before && build->node_count && build->node_count < MOST_NODES
            ? launched_by(build, event)
            : 0;
    if (executable > 1)
        divide(build, event->device_index, executable, event->total_bytes - before);
    vt_build_set_growth(build, VT_ALLOCATION_GRAPH, event->device_index, event->total_bytes);
}
