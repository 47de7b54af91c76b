#include "hooks/graph_memory.h"

#include <stdatomic.h>

enum { MOST_READINGS = 4 };

static _Atomic uint32_t devices_with_nodes; /* one bit each */
static _Atomic uint64_t recorded_bytes[VT_MAX_DEVICES];
static _Atomic unsigned recordings[VT_MAX_DEVICES];

void vt_graph_node_made(int8_t device_index)
{
    if (device_index >= 0)
        atomic_fetch_or_explicit(&devices_with_nodes, UINT32_C(1) << device_index, memory_order_relaxed);
}

static bool has_nodes(int device_index)
{
    return device_index >= 0 &&
           (atomic_load_explicit(&devices_with_nodes, memory_order_relaxed) >> device_index & 1);
}

bool vt_graphs_have_memory(void)
{
    return atomic_load_explicit(&devices_with_nodes, memory_order_relaxed) != 0;
}

/* Call within a query. 0 = not known. */
static uint64_t read_bytes(int device_index, CUgraphMem_attribute attribute)
{
    VT_NEED(get_attribute, cuDeviceGetGraphMemAttribute);
    cuuint64_t bytes = 0;
    bool known = get_attribute != NULL && get_attribute(device_index, attribute, &bytes) == CUDA_SUCCESS;
    return known ? bytes : 0;
}

/* Call within a query. Recorded again if another thread has recorded the pool meanwhile: the later reading
 * may have become the earlier event. */
static void record_pool(int device_index, enum vt_function function)
{
    bool alone = false;
    for (int i = 0; i < MOST_READINGS && !alone; i++) {
        unsigned earlier = atomic_load(&recordings[device_index]);
        uint64_t reserved = read_bytes(device_index, CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT);
        if (i == 0 && atomic_load(&recorded_bytes[device_index]) == reserved)
            return;
        vt_driver_event_within(
            &(struct vt_observation){.function = function,
                                     .kind = VT_EVENT_POOL,
                                     .flags = VT_FLAG_CAPTURED,
                                     .device_index = (int8_t)device_index,
                                     .address = (uint64_t)device_index + 1,
                                     .detail = read_bytes(device_index, CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT),
                                     .total_bytes = reserved},
            true);
        atomic_store(&recorded_bytes[device_index], reserved);
        alone = atomic_fetch_add(&recordings[device_index], 1) == earlier;
    }
}

struct vt_graph_bracket vt_graph_bracket_open(void)
{
    struct vt_graph_bracket made = {.bracket = vt_bracket_open()};
    if (!made.bracket.open || !has_nodes(made.bracket.device_index))
        return made;
    struct vt_query query = vt_query_begin();
    if (query.begun)
        made.reserved_bytes = read_bytes(made.bracket.device_index, CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT);
    vt_query_end(&query);
    return made;
}

void vt_graph_bracket_close(const struct vt_graph_bracket *made, enum vt_function function)
{
    uint64_t reserved = made->reserved_bytes;
    struct vt_query query;
    if (!made->bracket.open)
        return;
    if (has_nodes(made->bracket.device_index)) {
        query = vt_query_begin();
        if (query.begun)
            reserved = read_bytes(made->bracket.device_index, CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT);
        vt_query_end(&query);
    }
    vt_bracket_close_less(&made->bracket, function, reserved - made->reserved_bytes);
    if (!vt_graphs_have_memory())
        return;
    query = vt_query_begin();
    for (int i = 0; query.begun && i < (int)VT_MAX_DEVICES; i++)
        if (has_nodes(i))
            record_pool(i, function);
    vt_query_end(&query);
}

/* ---- nodes made by hand; pool.c has those of a capture ---- */

#define ADD_ALLOCATION(symbol, condition, allocation, free_address, parameters_list, arguments)              \
    VT_HOOK(symbol, parameters_list)                                                                         \
    {                                                                                                        \
        VT_REAL(symbol);                                                                                     \
        CUresult result = real arguments;                                                                    \
        if (result == CUDA_SUCCESS && (condition))                                                           \
            node_made(VT_FUNCTION_##symbol, graph, &(allocation)->poolProps.location,                        \
                      (allocation)->bytesize, (allocation)->dptr);                                           \
        else if (result == CUDA_SUCCESS && (free_address) != 0)                                              \
            free_node_made(VT_FUNCTION_##symbol, free_address);                                              \
        return result;                                                                                       \
    }

static void node_made(enum vt_function function, CUgraph graph, const CUmemLocation *location, uint64_t bytes,
                      CUdeviceptr address)
{
    int8_t device_index = vt_is_on_device(*location) ? (int8_t)location->id : VT_NO_DEVICE;
    vt_graph_node_made(device_index);
    vt_driver_event(&(struct vt_observation){.function = function,
                                             .flags = VT_FLAG_ASYNC | VT_FLAG_CAPTURED,
                                             .device_index = device_index,
                                             .address = address,
                                             .bytes = bytes,
                                             .detail = (uintptr_t)graph});
}

static void free_node_made(enum vt_function function, CUdeviceptr address)
{
    vt_before_free(&(struct vt_observation){.function = function,
                                            .kind = VT_EVENT_FREE,
                                            .flags = VT_FLAG_ASYNC | VT_FLAG_CAPTURED,
                                            .device_index = VT_NO_DEVICE,
                                            .address = address});
}

ADD_ALLOCATION(cuGraphAddMemAllocNode, true, allocation, 0,
               (CUgraphNode * node, CUgraph graph, const CUgraphNode *dependencies, size_t count,
                CUDA_MEM_ALLOC_NODE_PARAMS *allocation),
               (node, graph, dependencies, count, allocation))

#define IS_ALLOCATION (parameters->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC)
#define FREED_ADDRESS (parameters->type == CU_GRAPH_NODE_TYPE_MEM_FREE ? parameters->free.dptr : 0)
ADD_ALLOCATION(cuGraphAddNode, IS_ALLOCATION, &parameters->alloc, FREED_ADDRESS,
               (CUgraphNode * node, CUgraph graph, const CUgraphNode *dependencies, size_t count,
                CUgraphNodeParams *parameters),
               (node, graph, dependencies, count, parameters))
ADD_ALLOCATION(cuGraphAddNode_v2, IS_ALLOCATION, &parameters->alloc, FREED_ADDRESS,
               (CUgraphNode * node, CUgraph graph, const CUgraphNode *dependencies,
                const CUgraphEdgeData *edges, size_t count, CUgraphNodeParams *parameters),
               (node, graph, dependencies, edges, count, parameters))

VT_HOOK(cuGraphAddMemFreeNode, (CUgraphNode * node, CUgraph graph, const CUgraphNode *dependencies,
                                size_t count, CUdeviceptr address))
{
    VT_REAL(cuGraphAddMemFreeNode);
    CUresult result = real(node, graph, dependencies, count, address);
    if (result == CUDA_SUCCESS)
        free_node_made(VT_FUNCTION_cuGraphAddMemFreeNode, address);
    return result;
}
