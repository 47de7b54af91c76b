/* Graphs and capture. */
#include "runtime.h"

_Static_assert(sizeof(struct cudaMemAllocNodeParams) == sizeof(CUDA_MEM_ALLOC_NODE_PARAMS),
               "the driver's layout");
_Static_assert(sizeof(struct cudaGraphNodeParams) == sizeof(CUgraphNodeParams), "the driver's layout");

#define GRAPH_CALL(name, parameters, call)                                                                   \
    cudaError_t name parameters                                                                              \
    {                                                                                                        \
        RUNTIME_CALL();                                                                                      \
        RECORD(runtime_driver.call);                                                                         \
    }
#define GRAPH_CALL_PTSZ(name, parameters, call)                                                              \
    cudaError_t name##_ptsz parameters;                                                                      \
    GRAPH_CALL(name##_ptsz, parameters, call)

GRAPH_CALL(cudaGraphCreate, (cudaGraph_t * pGraph, unsigned int flags), GraphCreate(pGraph, flags))
GRAPH_CALL(cudaGraphDestroy, (cudaGraph_t graph), GraphDestroy(graph))
GRAPH_CALL(cudaGraphAddEmptyNode,
           (cudaGraphNode_t * pGraphNode, cudaGraph_t graph, const cudaGraphNode_t *pDependencies,
            size_t numDependencies),
           GraphAddEmptyNode(pGraphNode, graph, pDependencies, numDependencies))
GRAPH_CALL(cudaGraphAddMemAllocNode,
           (cudaGraphNode_t * pGraphNode, cudaGraph_t graph, const cudaGraphNode_t *pDependencies,
            size_t numDependencies, struct cudaMemAllocNodeParams *nodeParams),
           GraphAddMemAllocNode(pGraphNode, graph, pDependencies, numDependencies,
                                (CUDA_MEM_ALLOC_NODE_PARAMS *)nodeParams))
GRAPH_CALL(cudaGraphAddMemFreeNode,
           (cudaGraphNode_t * pGraphNode, cudaGraph_t graph, const cudaGraphNode_t *pDependencies,
            size_t numDependencies, void *dptr),
           GraphAddMemFreeNode(pGraphNode, graph, pDependencies, numDependencies, ADDRESS(dptr)))
GRAPH_CALL(cudaGraphAddNode,
           (cudaGraphNode_t * pGraphNode, cudaGraph_t graph, const cudaGraphNode_t *pDependencies,
            const cudaGraphEdgeData *dependencyData, size_t numDependencies,
            struct cudaGraphNodeParams *nodeParams),
           GraphAddNode(pGraphNode, graph, pDependencies, (const CUgraphEdgeData *)dependencyData,
                        numDependencies, (CUgraphNodeParams *)nodeParams))
GRAPH_CALL(cudaGraphGetNodes, (cudaGraph_t graph, cudaGraphNode_t *nodes, size_t *numNodes),
           GraphGetNodes(graph, nodes, numNodes))
GRAPH_CALL(cudaGraphNodeGetDependencies,
           (cudaGraphNode_t node, cudaGraphNode_t *pDependencies, cudaGraphEdgeData *edgeData,
            size_t *pNumDependencies),
           GraphNodeGetDependencies(node, pDependencies, (CUgraphEdgeData *)edgeData, pNumDependencies))
GRAPH_CALL(cudaGraphDebugDotPrint, (cudaGraph_t graph, const char *path, unsigned int flags),
           GraphDebugDotPrint(graph, path, flags))
GRAPH_CALL(cudaGraphInstantiate, (cudaGraphExec_t * pGraphExec, cudaGraph_t graph, unsigned long long flags),
           GraphInstantiateWithFlags(pGraphExec, graph, flags))
GRAPH_CALL(cudaGraphInstantiateWithFlags,
           (cudaGraphExec_t * pGraphExec, cudaGraph_t graph, unsigned long long flags),
           GraphInstantiateWithFlags(pGraphExec, graph, flags))
GRAPH_CALL(cudaGraphInstantiateWithParams,
           (cudaGraphExec_t * pGraphExec, cudaGraph_t graph, cudaGraphInstantiateParams *instantiateParams),
           GraphInstantiateWithParams(pGraphExec, graph, (CUDA_GRAPH_INSTANTIATE_PARAMS *)instantiateParams))
GRAPH_CALL_PTSZ(cudaGraphInstantiateWithParams,
                (cudaGraphExec_t * pGraphExec, cudaGraph_t graph,
                 cudaGraphInstantiateParams *instantiateParams),
                GraphInstantiateWithParams_ptsz(pGraphExec, graph,
                                                (CUDA_GRAPH_INSTANTIATE_PARAMS *)instantiateParams))
GRAPH_CALL(cudaGraphUpload, (cudaGraphExec_t graphExec, cudaStream_t stream), GraphUpload(graphExec, stream))
GRAPH_CALL_PTSZ(cudaGraphUpload, (cudaGraphExec_t graphExec, cudaStream_t stream),
                GraphUpload_ptsz(graphExec, stream))
GRAPH_CALL(cudaGraphLaunch, (cudaGraphExec_t graphExec, cudaStream_t stream), GraphLaunch(graphExec, stream))
GRAPH_CALL_PTSZ(cudaGraphLaunch, (cudaGraphExec_t graphExec, cudaStream_t stream),
                GraphLaunch_ptsz(graphExec, stream))
GRAPH_CALL(cudaGraphExecUpdate,
           (cudaGraphExec_t hGraphExec, cudaGraph_t hGraph, cudaGraphExecUpdateResultInfo *resultInfo),
           GraphExecUpdate(hGraphExec, hGraph, (CUgraphExecUpdateResultInfo *)resultInfo))
GRAPH_CALL(cudaGraphExecDestroy, (cudaGraphExec_t graphExec), GraphExecDestroy(graphExec))
GRAPH_CALL(cudaDeviceGraphMemTrim, (int device), DeviceGraphMemTrim(device))
GRAPH_CALL(cudaDeviceGetGraphMemAttribute, (int device, enum cudaGraphMemAttributeType attr, void *value),
           DeviceGetGraphMemAttribute(device, (CUgraphMem_attribute)attr, value))
GRAPH_CALL(cudaDeviceSetGraphMemAttribute, (int device, enum cudaGraphMemAttributeType attr, void *value),
           DeviceSetGraphMemAttribute(device, (CUgraphMem_attribute)attr, value))

/* ---- Capture. */

GRAPH_CALL(cudaStreamBeginCapture, (cudaStream_t stream, enum cudaStreamCaptureMode mode),
           StreamBeginCapture(stream, (CUstreamCaptureMode)mode))
GRAPH_CALL(cudaStreamBeginCaptureToGraph,
           (cudaStream_t stream, cudaGraph_t graph, const cudaGraphNode_t *dependencies,
            const cudaGraphEdgeData *dependencyData, size_t numDependencies, enum cudaStreamCaptureMode mode),
           StreamBeginCaptureToGraph(stream, graph, dependencies, (const CUgraphEdgeData *)dependencyData,
                                     numDependencies, (CUstreamCaptureMode)mode))
GRAPH_CALL(cudaStreamEndCapture, (cudaStream_t stream, cudaGraph_t *pGraph), StreamEndCapture(stream, pGraph))
GRAPH_CALL(cudaStreamIsCapturing, (cudaStream_t stream, enum cudaStreamCaptureStatus *pCaptureStatus),
           StreamIsCapturing(stream, (CUstreamCaptureStatus *)pCaptureStatus))
GRAPH_CALL(cudaStreamGetCaptureInfo,
           (cudaStream_t stream, enum cudaStreamCaptureStatus *captureStatus_out, unsigned long long *id_out,
            cudaGraph_t *graph_out, const cudaGraphNode_t **dependencies_out,
            const cudaGraphEdgeData **edgeData_out, size_t *numDependencies_out),
           StreamGetCaptureInfo(stream, (CUstreamCaptureStatus *)captureStatus_out, (cuuint64_t *)id_out,
                                graph_out, dependencies_out, (const CUgraphEdgeData **)edgeData_out,
                                numDependencies_out))
GRAPH_CALL(cudaThreadExchangeStreamCaptureMode, (enum cudaStreamCaptureMode * mode),
           ThreadExchangeStreamCaptureMode((CUstreamCaptureMode *)mode))
