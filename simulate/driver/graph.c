/* Graphs, as far as they touch memory: allocation and free nodes have fixed addresses from the start, but
 * physical bytes only from the first upload or launch on, out of the device's graph pool, which keeps them
 * until a trim. */
#include "standin.h"

#include <stdlib.h>

/* Address space of an allocation node: lives as long as a graph or an instance refers to it, and further
 * until what a launch allocated there is freed. */
struct node_memory {
    unsigned references;
    struct standin_range *range;
};

struct CUgraphNode_st {
    CUgraphNodeType type;
    struct node_memory *memory; /* MEM_ALLOC: owned with others */
    CUdeviceptr address;        /* MEM_ALLOC, MEM_FREE */
};

struct CUgraph_st {
    size_t count;
    CUgraphNode *nodes;
};

struct CUgraphExec_st {
    size_t count;
    struct CUgraphNode_st *nodes;
    unsigned long long flags;
};

static CUgraphNode node_add(CUgraph graph, CUgraphNodeType type)
{
    CUgraphNode node = calloc(1, sizeof(*node));
    CUgraphNode *grown = realloc(graph->nodes, (graph->count + 1) * sizeof(*grown));
    if (node == NULL || grown == NULL)
        abort();
    node->type = type;
    graph->nodes = grown;
    graph->nodes[graph->count++] = node;
    return node;
}

static void forget(struct standin_range *range)
{
    standin_unmap((void *)range->start, range->bytes);
    standin_range_remove(range);
}

void standin_graph_memory_freed(struct standin_range *range)
{
    range->live = false;
    standin_pool_unuse(standin_devices[range->device].graph_pool, range->bytes);
    if (range->owner == NULL)
        forget(range);
}

static void memory_unref(struct node_memory *memory)
{
    if (memory == NULL || --memory->references != 0)
        return;
    memory->range->owner = NULL;
    if (!memory->range->live)
        forget(memory->range);
    free(memory);
}

static CUgraphNode add_alloc(CUgraph graph, CUdevice device, size_t bytes)
{
    void *start = standin_map(bytes, STANDIN_GRANULARITY_BYTES, false);
    struct standin_range *range =
        start != NULL ? standin_range_add((uintptr_t)start, bytes, KIND_GRAPH, device) : NULL;
    struct node_memory *memory = calloc(1, sizeof(*memory));
    if (range == NULL || memory == NULL)
        abort();
    memory->references = 1;
    memory->range = range;
    range->owner = memory;
    CUgraphNode node = node_add(graph, CU_GRAPH_NODE_TYPE_MEM_ALLOC);
    node->memory = memory;
    node->address = range->start;
    return node;
}

CUresult standin_graph_allocate(CUgraph graph, CUdevice device, size_t bytes, CUdeviceptr *address)
{
    *address = add_alloc(graph, device, bytes)->address;
    return CUDA_SUCCESS;
}

CUresult standin_graph_free(CUgraph graph, CUdeviceptr address)
{
    REQUIRE(standin_range_at((uintptr_t)address, KIND_GRAPH) != NULL);
    node_add(graph, CU_GRAPH_NODE_TYPE_MEM_FREE)->address = address;
    return CUDA_SUCCESS;
}

void standin_graph_launch(CUstream stream)
{
    CUgraph graph = standin_capturing(stream);
    if (graph != NULL)
        node_add(graph, CU_GRAPH_NODE_TYPE_KERNEL);
}

CUresult cuGraphCreate(CUgraph *phGraph, unsigned int flags)
{
    DRIVER_CALL();
    REQUIRE(phGraph != NULL && flags == 0);
    *phGraph = calloc(1, sizeof(**phGraph));
    return *phGraph != NULL ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuGraphDestroy(CUgraph hGraph)
{
    DRIVER_CALL();
    REQUIRE(hGraph != NULL);
    for (size_t i = 0; i < hGraph->count; i++) {
        memory_unref(hGraph->nodes[i]->memory);
        free(hGraph->nodes[i]);
    }
    free(hGraph->nodes);
    free(hGraph);
    return CUDA_SUCCESS;
}

CUresult cuGraphAddMemAllocNode(CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies,
                                size_t numDependencies, CUDA_MEM_ALLOC_NODE_PARAMS *nodeParams)
{
    (void)dependencies;
    (void)numDependencies;
    DRIVER_CALL();
    REQUIRE(phGraphNode != NULL && hGraph != NULL && nodeParams != NULL && nodeParams->bytesize != 0);
    REQUIRE(nodeParams->poolProps.location.type == CU_MEM_LOCATION_TYPE_DEVICE);
    REQUIRE(standin_device_valid(nodeParams->poolProps.location.id));
    *phGraphNode = add_alloc(hGraph, nodeParams->poolProps.location.id, nodeParams->bytesize);
    nodeParams->dptr = (*phGraphNode)->address;
    return CUDA_SUCCESS;
}

CUresult cuGraphAddMemFreeNode(CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies,
                               size_t numDependencies, CUdeviceptr dptr)
{
    (void)dependencies;
    (void)numDependencies;
    DRIVER_CALL();
    REQUIRE(phGraphNode != NULL && hGraph != NULL);
    CUresult result = standin_graph_free(hGraph, dptr);
    if (result == CUDA_SUCCESS)
        *phGraphNode = hGraph->nodes[hGraph->count - 1];
    return result;
}

static CUresult add_by_parameters(CUgraphNode *out, CUgraph graph, CUgraphNodeParams *parameters)
{
    REQUIRE(out != NULL && graph != NULL && parameters != NULL);
    if (parameters->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC) {
        CUDA_MEM_ALLOC_NODE_PARAMS_v2 *alloc = &parameters->alloc;
        REQUIRE(alloc->bytesize != 0 && standin_device_valid(alloc->poolProps.location.id));
        *out = add_alloc(graph, alloc->poolProps.location.id, alloc->bytesize);
        alloc->dptr = (*out)->address;
        return CUDA_SUCCESS;
    }
    if (parameters->type == CU_GRAPH_NODE_TYPE_MEM_FREE)
        return cuGraphAddMemFreeNode(out, graph, NULL, 0, parameters->free.dptr);
    *out = node_add(graph, parameters->type);
    return CUDA_SUCCESS;
}

CUresult cuGraphAddNode(CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies,
                        size_t numDependencies, CUgraphNodeParams *nodeParams)
{
    (void)dependencies;
    (void)numDependencies;
    DRIVER_CALL();
    return add_by_parameters(phGraphNode, hGraph, nodeParams);
}

CUresult cuGraphAddNode_v2(CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies,
                           const CUgraphEdgeData *dependencyData, size_t numDependencies,
                           CUgraphNodeParams *nodeParams)
{
    (void)dependencies;
    (void)dependencyData;
    (void)numDependencies;
    DRIVER_CALL();
    return add_by_parameters(phGraphNode, hGraph, nodeParams);
}

CUresult cuGraphAddEmptyNode(CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies,
                             size_t numDependencies)
{
    (void)dependencies;
    (void)numDependencies;
    DRIVER_CALL();
    REQUIRE(phGraphNode != NULL && hGraph != NULL);
    *phGraphNode = node_add(hGraph, CU_GRAPH_NODE_TYPE_EMPTY);
    return CUDA_SUCCESS;
}

CUresult cuGraphGetNodes(CUgraph hGraph, CUgraphNode *nodes, size_t *numNodes)
{
    DRIVER_CALL();
    REQUIRE(hGraph != NULL && numNodes != NULL);
    for (size_t i = 0; nodes != NULL && i < *numNodes && i < hGraph->count; i++)
        nodes[i] = hGraph->nodes[i];
    *numNodes = hGraph->count;
    return CUDA_SUCCESS;
}

CUresult cuGraphNodeGetType(CUgraphNode hNode, CUgraphNodeType *type)
{
    DRIVER_CALL();
    REQUIRE(hNode != NULL && type != NULL);
    *type = hNode->type;
    return CUDA_SUCCESS;
}

CUresult cuGraphNodeGetDependencies_v2(CUgraphNode hNode, CUgraphNode *dependencies,
                                       CUgraphEdgeData *edgeData, size_t *numDependencies)
{
    (void)dependencies;
    (void)edgeData;
    DRIVER_CALL();
    REQUIRE(hNode != NULL && numDependencies != NULL);
    *numDependencies = 0;
    return CUDA_SUCCESS;
}

CUresult cuGraphDebugDotPrint(CUgraph hGraph, const char *path, unsigned int flags)
{
    (void)flags;
    DRIVER_CALL();
    REQUIRE(hGraph != NULL && path != NULL);
    return CUDA_SUCCESS;
}

/* ---- Instances. */

static CUresult instantiate(CUgraphExec *out, CUgraph graph, unsigned long long flags)
{
    REQUIRE(out != NULL && graph != NULL);
    CUgraphExec instance = calloc(1, sizeof(*instance));
    struct CUgraphNode_st *nodes = calloc(graph->count + 1, sizeof(*nodes));
    if (instance == NULL || nodes == NULL)
        abort();
    for (size_t i = 0; i < graph->count; i++) {
        nodes[i] = *graph->nodes[i];
        if (nodes[i].memory != NULL)
            nodes[i].memory->references++;
    }
    *instance = (struct CUgraphExec_st){graph->count, nodes, flags};
    *out = instance;
    return CUDA_SUCCESS;
}

CUresult cuGraphInstantiateWithFlags(CUgraphExec *phGraphExec, CUgraph hGraph, unsigned long long flags)
{
    DRIVER_CALL();
    return instantiate(phGraphExec, hGraph, flags);
}

CUresult cuGraphInstantiate(CUgraphExec *phGraphExec, CUgraph hGraph, CUgraphNode *phErrorNode,
                            char *logBuffer, size_t bufferSize)
{
    (void)phErrorNode;
    (void)logBuffer;
    (void)bufferSize;
    DRIVER_CALL();
    return instantiate(phGraphExec, hGraph, 0);
}

CUresult cuGraphInstantiate_v2(CUgraphExec *phGraphExec, CUgraph hGraph, CUgraphNode *phErrorNode,
                               char *logBuffer, size_t bufferSize)
{
    (void)phErrorNode;
    (void)logBuffer;
    (void)bufferSize;
    DRIVER_CALL();
    return instantiate(phGraphExec, hGraph, 0);
}

static CUresult upload(CUgraphExec instance);

CUresult cuGraphInstantiateWithParams(CUgraphExec *phGraphExec, CUgraph hGraph,
                                      CUDA_GRAPH_INSTANTIATE_PARAMS *instantiateParams)
{
    DRIVER_CALL();
    REQUIRE(instantiateParams != NULL);
    CUresult result = instantiate(phGraphExec, hGraph, instantiateParams->flags);
    instantiateParams->result_out =
        result == CUDA_SUCCESS ? CUDA_GRAPH_INSTANTIATE_SUCCESS : CUDA_GRAPH_INSTANTIATE_ERROR;
    if (result == CUDA_SUCCESS && (instantiateParams->flags & CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD))
        result = upload(*phGraphExec);
    return result;
}

CUresult cuGraphExecDestroy(CUgraphExec hGraphExec)
{
    DRIVER_CALL();
    REQUIRE(hGraphExec != NULL);
    for (size_t i = 0; i < hGraphExec->count; i++)
        memory_unref(hGraphExec->nodes[i].memory);
    free(hGraphExec->nodes);
    free(hGraphExec);
    return CUDA_SUCCESS;
}

CUresult cuGraphExecUpdate_v2(CUgraphExec hGraphExec, CUgraph hGraph, CUgraphExecUpdateResultInfo *resultInfo)
{
    DRIVER_CALL();
    REQUIRE(hGraphExec != NULL && hGraph != NULL && resultInfo != NULL);
    resultInfo->result = CU_GRAPH_EXEC_UPDATE_SUCCESS;
    return CUDA_SUCCESS;
}

CUresult cuGraphExecUpdate(CUgraphExec hGraphExec, CUgraph hGraph, CUgraphNode *hErrorNode_out,
                           CUgraphExecUpdateResult *updateResult_out)
{
    (void)hErrorNode_out;
    DRIVER_CALL();
    REQUIRE(hGraphExec != NULL && hGraph != NULL && updateResult_out != NULL);
    *updateResult_out = CU_GRAPH_EXEC_UPDATE_SUCCESS;
    return CUDA_SUCCESS;
}

/* Physical bytes for all allocation nodes that have none yet; they stay in the graph pool as reserved. */
static CUresult upload(CUgraphExec instance)
{
    uint64_t bytes[STANDIN_MAXIMUM_DEVICES] = {0};
    for (size_t i = 0; i < instance->count; i++) {
        struct node_memory *memory = instance->nodes[i].memory;
        if (memory != NULL && !memory->range->live)
            bytes[memory->range->device] += memory->range->bytes;
    }
    for (int device = 0; device < standin_settings.devices; device++) {
        CUmemoryPool pool = standin_devices[device].graph_pool;
        CUresult result = bytes[device] != 0 ? standin_pool_reserve(pool, bytes[device]) : CUDA_SUCCESS;
        if (result != CUDA_SUCCESS)
            return result;
        standin_pool_unuse(pool, bytes[device]);
    }
    return CUDA_SUCCESS;
}

CUresult cuGraphUpload(CUgraphExec hGraphExec, CUstream hStream)
{
    (void)hStream;
    CONTEXT_CALL();
    REQUIRE(hGraphExec != NULL);
    return upload(hGraphExec);
}

static CUresult run_node(const struct CUgraphNode_st *node)
{
    if (node->type == CU_GRAPH_NODE_TYPE_MEM_FREE) {
        struct standin_range *range = standin_range_at((uintptr_t)node->address, KIND_GRAPH);
        return range != NULL ? standin_free_range(range) : CUDA_ERROR_INVALID_VALUE;
    }
    if (node->type != CU_GRAPH_NODE_TYPE_MEM_ALLOC)
        return CUDA_SUCCESS;
    struct standin_range *range = node->memory->range;
    CUresult result = standin_pool_reserve(standin_devices[range->device].graph_pool, range->bytes);
    range->live = result == CUDA_SUCCESS;
    return result;
}

CUresult cuGraphLaunch(CUgraphExec hGraphExec, CUstream hStream)
{
    (void)hStream;
    CONTEXT_CALL();
    REQUIRE(hGraphExec != NULL);
    bool free_first = hGraphExec->flags & CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH;
    for (size_t i = 0; i < hGraphExec->count; i++) {
        struct node_memory *memory = hGraphExec->nodes[i].memory;
        if (memory == NULL || !memory->range->live)
            continue;
        REQUIRE(free_first); /* launched again while what it gave is not freed */
        standin_free_range(memory->range);
    }
    CUresult result = upload(hGraphExec);
    for (size_t i = 0; i < hGraphExec->count && result == CUDA_SUCCESS; i++)
        result = run_node(&hGraphExec->nodes[i]);
    return result;
}

/* ---- The graphs' pool. */

CUresult cuDeviceGraphMemTrim(CUdevice device)
{
    DRIVER_CALL();
    if (!standin_device_valid(device))
        return CUDA_ERROR_INVALID_DEVICE;
    return cuMemPoolTrimTo(standin_devices[device].graph_pool, 0);
}

static int pool_attribute(CUgraphMem_attribute attribute)
{
    switch (attribute) {
    case CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT:
        return CU_MEMPOOL_ATTR_USED_MEM_CURRENT;
    case CU_GRAPH_MEM_ATTR_USED_MEM_HIGH:
        return CU_MEMPOOL_ATTR_USED_MEM_HIGH;
    case CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT:
        return CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT;
    case CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH:
        return CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH;
    default:
        return 0;
    }
}

CUresult cuDeviceGetGraphMemAttribute(CUdevice device, CUgraphMem_attribute attr, void *value)
{
    DRIVER_CALL();
    if (!standin_device_valid(device))
        return CUDA_ERROR_INVALID_DEVICE;
    return cuMemPoolGetAttribute(standin_devices[device].graph_pool, pool_attribute(attr), value);
}

CUresult cuDeviceSetGraphMemAttribute(CUdevice device, CUgraphMem_attribute attr, void *value)
{
    DRIVER_CALL();
    if (!standin_device_valid(device))
        return CUDA_ERROR_INVALID_DEVICE;
    return cuMemPoolSetAttribute(standin_devices[device].graph_pool, pool_attribute(attr), value);
}
