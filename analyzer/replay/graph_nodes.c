#include "replay/graph_nodes.h"

#include "base/allocate.h"

#define MOST_NODES 4096u /* that are searched: with more, all memory is of the launches */

void vt_graph_nodes_begin(struct vt_build *build, const struct vt_event *event)
{
    (void)event;
    build->captures++;
}

void vt_graph_nodes_add(struct vt_build *build, const struct vt_event *event)
{
    if (build->node_count == MOST_NODES)
        return;
    VT_APPEND(build->nodes, build->node_count, build->node_capacity,
              (struct vt_build_node){.stack_id = event->stack_id,
                                     .capture = build->captures,
                                     .device_index = event->device_index,
                                     .bytes = event->bytes});
}

static bool waits(const struct vt_build_node *node, int device_index)
{
    return node->device_index == device_index && node->bytes;
}

/* The capture whose nodes have as many bytes; VT_NEVER = none, or several have. */
static uint32_t capture_with(const struct vt_build *build, int device_index, uint64_t bytes)
{
    uint32_t found = VT_NEVER;
    for (size_t i = 0, end; i < build->node_count; i = end) {
        const uint32_t capture = build->nodes[i].capture;
        uint64_t sum = 0;
        for (end = i; end < build->node_count && build->nodes[end].capture == capture; end++)
            sum += waits(&build->nodes[end], device_index) ? build->nodes[end].bytes : 0;
        if (sum == bytes && found != VT_NEVER)
            return VT_NEVER;
        found = sum == bytes ? capture : found;
    }
    return found;
}

/* Whether all nodes that wait come from one stack. */
static bool are_of_one_stack(const struct vt_build *build, int device_index, uint32_t *stack_id)
{
    *stack_id = 0;
    for (size_t i = 0; i < build->node_count; i++) {
        if (!waits(&build->nodes[i], device_index))
            continue;
        if (*stack_id && build->nodes[i].stack_id != *stack_id)
            return false;
        *stack_id = build->nodes[i].stack_id;
    }
    return *stack_id != 0;
}

static void grow_from(struct vt_build *build, int device_index, uint64_t bytes, uint32_t stack_id)
{
    struct vt_usage_growth *growth = &vt_build_device(build, device_index)->graph;
    const size_t count = growth->made.count;
    vt_build_set_growth(build, VT_ALLOCATION_GRAPH, device_index, growth->bytes + bytes);
    if (growth->made.count > count)
        vt_build_allocation(build, growth->made.items[count])->stack_id = stack_id;
}

/* Nodes of one stack in one capture, of which the first is at `index`. */
static uint64_t take_nodes(struct vt_build *build, size_t index)
{
    const struct vt_build_node first = build->nodes[index];
    uint64_t bytes = 0;
    for (size_t i = index; i < build->node_count && build->nodes[i].capture == first.capture; i++) {
        struct vt_build_node *node = &build->nodes[i];
        if (node->stack_id != first.stack_id || node->device_index != first.device_index)
            continue;
        bytes += node->bytes;
        node->bytes = 0;
    }
    return bytes;
}

void vt_graph_nodes_grow(struct vt_build *build, int device_index, uint64_t bytes)
{
    const uint64_t before = vt_build_device(build, device_index)->graph.bytes;
    const uint64_t more = bytes > before && build->node_count < MOST_NODES ? bytes - before : 0;
    const uint32_t capture = more ? capture_with(build, device_index, more) : VT_NEVER;
    uint32_t stack_id;
    for (size_t i = 0; i < build->node_count && capture != VT_NEVER; i++)
        if (build->nodes[i].capture == capture && waits(&build->nodes[i], device_index)) {
            stack_id = build->nodes[i].stack_id;
            grow_from(build, device_index, take_nodes(build, i), stack_id);
        }
    if (capture == VT_NEVER && more && are_of_one_stack(build, device_index, &stack_id))
        grow_from(build, device_index, more, stack_id);
    vt_build_set_growth(build, VT_ALLOCATION_GRAPH, device_index, bytes);
}
