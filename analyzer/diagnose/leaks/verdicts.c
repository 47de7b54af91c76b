/* What keeps a leak's blocks alive, as far as stacks, lifetimes and node numbers show it. */
#include "diagnose/leaks/private.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const struct vt_allocation *allocation_of(const struct vt_leak_finder *finder,
                                                 const struct vt_leak_block *block)
{
    return &finder->replay->allocations[block->allocation];
}

/* ---- Names on stacks ---- */

/* A module calls a function of the script that is not its forward, or the engine calls one that is not the
 * backward of a Function: a hook. */
bool vt_leak_made_by_hook(const struct vt_leak_finder *finder, uint32_t index)
{
    const struct vt_attribution *attribution = finder->attribution;
    const struct vt_allocation *allocation = &finder->replay->allocations[index];
    const struct vt_trace_stack *stack = &finder->trace->stacks[allocation->stack_id];
    bool engine = vt_index_get(&finder->engine, stack->thread_id) != VT_INDEX_NONE;
    for (uint32_t i = 0; i < stack->python_count; i++) {
        uint32_t code_id = stack->python[i].code_id;
        if (vt_code_is(attribution, code_id, VT_CODE_CHECKPOINT))
            return false;
        if (vt_trace_code_is_library(finder->trace, code_id) ||
            vt_code_is(attribution, code_id, VT_CODE_FORWARD) ||
            vt_code_is(attribution, code_id, VT_CODE_BACKWARD))
            continue;
        if (engine || (i + 1 < stack->python_count &&
                       vt_code_is(attribution, stack->python[i + 1].code_id, VT_CODE_HOOK_CALLER)))
            return true;
    }
    return false;
}

static bool is_evaluation(const struct vt_leak_finder *finder, const struct vt_allocation *block)
{
    const struct vt_trace_stack *stack = &finder->trace->stacks[block->stack_id];
    for (uint32_t i = 0; i < stack->python_count; i++)
        if (vt_code_is(finder->attribution, stack->python[i].code_id, VT_CODE_EVALUATION) &&
            !vt_trace_code_is_library(finder->trace, stack->python[i].code_id))
            return true;
    return vt_label_of(finder->attribution, block)->phase == VT_PHASE_EVAL;
}

/* ---- Verdicts ---- */

static const struct vt_allocation *largest(const struct vt_leak_finder *finder,
                                           const struct vt_leak_block *blocks, size_t count)
{
    const struct vt_allocation *best = allocation_of(finder, &blocks[0]);
    for (size_t i = 1; i < count; i++)
        if (allocation_of(finder, &blocks[i])->bytes > best->bytes)
            best = allocation_of(finder, &blocks[i]);
    return best;
}

static enum vt_leak_verdict verdict_of(const struct vt_leak_finder *finder, const struct vt_leak_run *run,
                                       const struct vt_allocation *holding, bool graph, uint32_t every)
{
    if (holding->kind == VT_ALLOCATION_HOST)
        return VT_LEAK_HOST_PINNED;
    if (holding->kind == VT_ALLOCATION_DRIVER)
        return VT_LEAK_DRIVER;
    if (vt_leak_made_by_hook(finder, (uint32_t)(holding - finder->replay->allocations)))
        return VT_LEAK_HOOK;
    if (!graph)
        return VT_LEAK_TENSOR;
    if (run->reached)
        return VT_LEAK_REUSED_GRAPH;
    bool trains = finder->ran.count > 0;
    return !trains || every > 1 || is_evaluation(finder, holding) ? VT_LEAK_EVALUATION : VT_LEAK_GRAPH;
}

static void explain(const struct vt_leak_finder *finder, const struct vt_leak_run *run, size_t count,
                    uint32_t every, struct vt_leak *leak)
{
    char made[128], often[48] = "";
    const char *cause = "";
    snprintf(made, sizeof made, "%zu block%s that step %" PRIu32 " made %s alive when step %" PRIu32 " began",
             count, count == 1 ? "" : "s", run->step, count == 1 ? "was" : "were", finder->step_count);
    if (every > 1)
        snprintf(often, sizeof often, "; the same every %" PRIu32 " steps", every);
    switch (leak->verdict) {
    case VT_LEAK_GRAPH:
    case VT_LEAK_EVALUATION:
        cause = run->ran > 0 ? ": a part of their graph that no backward pass reached"
                             : ": the whole graph of a forward that no backward pass reached";
        break;
    case VT_LEAK_REUSED_GRAPH:
        cause = ": backward went through their graph and released nothing of it";
        break;
    case VT_LEAK_HOOK:
        cause = run->phase == VT_PHASE_BACKWARD ? ", made by a function that backward calls"
                                                : ", made by a hook of a module";
        break;
    case VT_LEAK_TENSOR:
        if (run->graph_count > 0 && run->released > 0)
            cause = "; backward released the rest of their graph";
        else if (run->graph_count > 0 && run->dropped > 0)
            cause = "; the rest of their graph was released";
        else if (run->graph_count == 0)
            cause = ", made without a graph";
        break;
    default:
        break;
    }
    snprintf(leak->why, sizeof leak->why, "%s%s%s.", made, cause, often);
}

/* An operator that allocates nothing (an addition in place) may be what takes up the graph's result. */
static void add_next_node(const struct vt_leak_finder *finder, const struct vt_leak_run *run,
                          struct vt_leak *leak)
{
    uint32_t next = finder->runs.next_node[run->last_graph + 1];
    if (next <= run->last_event && next != VT_NEVER)
        vt_leak_add_lines(finder, leak, finder->trace->events[next].stack_id, 1);
}

void vt_leak_judge(const struct vt_leak_finder *finder, const struct vt_leak_run *run,
                   const struct vt_leak_block *blocks, size_t count, bool graph, uint32_t every,
                   struct vt_leak *leak)
{
    const struct vt_allocation *holding = largest(finder, blocks, count);
    for (size_t i = 0; i < count && graph; i++)
        if (blocks[i].in_graph &&
            (run->reached || !vt_leak_was_run(finder, allocation_of(finder, &blocks[i]))))
            holding = allocation_of(finder, &blocks[i]); /* the last: all before hang on its node */
    const struct vt_label *label = vt_label_of(finder->attribution, holding);
    vt_leak_set_verdict(leak, verdict_of(finder, run, holding, graph, every));
    leak->stack_id = holding->stack_id;
    leak->owner = label->owner;
    leak->module = label->module;
    explain(finder, run, count, every, leak);
    if (label->forward_stack_id)
        vt_leak_add_lines(finder, leak, label->forward_stack_id, VT_LEAK_LINES);
    vt_leak_add_lines(finder, leak, holding->stack_id, 1);
    if (graph)
        add_next_node(finder, run, leak);
    vt_leak_add_lines(finder, leak, holding->stack_id, VT_LEAK_LINES);
    for (size_t i = 0; i < count; i++)
        vt_leak_add_lines(finder, leak, allocation_of(finder, &blocks[i])->stack_id, 1);
}
