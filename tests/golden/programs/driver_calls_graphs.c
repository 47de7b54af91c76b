/* Graphs: captures, nodes that allocate, and what the device holds for them. */
#include "driver_calls.h"

void capture(void)
{
    CUdeviceptr address;
    CUstream stream;
    CUgraph graph;
    CUgraphExec exec;
    GOOD(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    GOOD(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    GOOD(cuMemAllocAsync(&address, 64 * MIB, stream));
    say_alloc(address, 64 * MIB, 4 | 32);
    say_free(address);
    GOOD(cuMemFreeAsync(address, stream));
    GOOD(cuStreamEndCapture(stream, &graph));
    GOOD(cuGraphInstantiateWithFlags(&exec, graph, 0));
    check_value("stream", (uintptr_t)stream);
    check_value("graph", (uintptr_t)graph);
    check_value("exec", (uintptr_t)exec);
    uint64_t before = device_bytes(0);
    GOOD(cuGraphLaunch(exec, stream));
    check_value("launch", device_bytes(0) - before);
    GOOD(cuGraphLaunch(exec, stream));
    GOOD(cuStreamSynchronize(stream));
    before = device_bytes(0);
    GOOD(cuDeviceGraphMemTrim(0));
    check_value("trim", before - device_bytes(0));
    GOOD(cuGraphExecDestroy(exec));
}

/* After each part: what both devices' pools for graphs hold, and an event by which the test finds the place.
 */
static void tell_graphs(void)
{
    CUdeviceptr place;
    check_value("graphs_0", graph_bytes(0));
    check_value("graphs_1", graph_bytes(other_device));
    GOOD(cuMemAddressReserve(&place, 2 * MIB, 0, 0, 0));
}

void graph_memory(void)
{
    CUDA_MEM_ALLOC_NODE_PARAMS first = {.poolProps = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                                                      .location = {CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}},
                                        .bytesize = 32 * MIB};
    CUgraphNodeParams second = {.type = CU_GRAPH_NODE_TYPE_MEM_ALLOC};
    CUgraphExecUpdateResultInfo information;
    CUgraph graph, other;
    CUgraphExec exec, other_exec;
    CUgraphNode node;
    CUdeviceptr captured;
    CUstream stream;
    GOOD(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    GOOD(cuGraphCreate(&graph, 0));
    GOOD(cuGraphAddMemAllocNode(&node, graph, NULL, 0, &first));
    check_value("cuGraphAddMemAllocNode", first.dptr);
    GOOD(cuGraphAddMemFreeNode(&node, graph, &node, 1, first.dptr));
    second.alloc.poolProps = first.poolProps;
    second.alloc.poolProps.location.id = other_device;
    second.alloc.bytesize = 64 * MIB;
    GOOD(cuGraphAddNode_v2(&node, graph, NULL, NULL, 0, &second));
    check_value("cuGraphAddNode_v2", second.alloc.dptr);
    CUgraphNodeParams last = {.type = CU_GRAPH_NODE_TYPE_MEM_FREE, .free.dptr = second.alloc.dptr};
    GOOD(cuGraphAddNode_v2(&node, graph, NULL, NULL, 0, &last));
    GOOD(cuGraphInstantiateWithFlags(&exec, graph, 0));
    tell_graphs();
    GOOD(cuGraphUpload(exec, stream));
    tell_graphs();
    for (int i = 0; i < 3; i++)
        GOOD(cuGraphLaunch(exec, stream));
    GOOD(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    GOOD(cuMemAllocAsync(&captured, 100 * MIB, stream));
    check_value("cuMemAllocAsync", captured);
    GOOD(cuStreamEndCapture(stream, &other));
    GOOD(cuGraphInstantiateWithFlags(&other_exec, other, 0));
    GOOD(cuGraphExecUpdate_v2(other_exec, other, &information));
    GOOD(cuGraphLaunch(other_exec, stream));
    tell_graphs();
    GOOD(cuMemFreeAsync(captured, stream)); /* what the launch made: it stays in the pool */
    GOOD(cuDeviceGraphMemTrim(0));
    tell_graphs();
    GOOD(cuGraphLaunch(exec, stream)); /* takes it anew */
    tell_graphs();
    GOOD(cuGraphExecDestroy(exec));
    GOOD(cuGraphExecDestroy(other_exec));
    GOOD(cuDeviceGraphMemTrim(0));
    tell_graphs();
}

/* More graphs than fit a small table, each with memory of its own at its first launch. */
void many_graphs(void)
{
    enum { GRAPHS = 6000 };
    static CUgraphExec execs[GRAPHS];
    CUstream stream;
    GOOD(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    uint64_t before = device_bytes(0);
    for (int i = 0; i < GRAPHS; i++) {
        CUdeviceptr address;
        CUgraph graph;
        GOOD(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
        GOOD(cuMemAllocAsync(&address, MIB, stream));
        GOOD(cuStreamEndCapture(stream, &graph));
        GOOD(cuGraphInstantiateWithFlags(&execs[i], graph, 0));
        /* A GPU holds fewer. */
        if (cuGraphLaunch(execs[i], stream) == CUDA_ERROR_OUT_OF_MEMORY)
            break;
    }
    check_value("graphs", device_bytes(0) - before);
}
