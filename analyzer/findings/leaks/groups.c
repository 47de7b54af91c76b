/* Puts classes that grow together into one leak, with a verdict: code that keeps something in the same steps,
 * held by one graph or made in one place of the step. One step represents all: the last in which the leader
 * grew, except the trace's last. */
#include "findings/leaks/groups.h"

#include "base/allocate.h"
#include "base/sort.h"
#include "findings/leaks/lines.h"
#include "findings/leaks/runs.h"
#include "trace/frameworks.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool near(uint32_t a, uint32_t b, uint32_t by)
{
    return a > b ? a - b <= by : b - a <= by;
}

static bool same_pattern(const struct vt_leak_class *a, const struct vt_leak_class *b)
{
    return a->kind == b->kind && near(a->first_birth, b->first_birth, 1) &&
           near(a->last_birth, b->last_birth, 1) && near(a->births, b->births, 1 + a->births / 10);
}

static uint32_t period(const struct vt_leak_class *class)
{
    uint32_t births = class->births > 1 ? class->births - 1 : 1;
    return (class->last_birth - class->first_birth + births / 2) / births;
}

/* The step that represents a class: the last in which it grew, except the trace's last step, whose blocks may
 * be in use. */
static uint32_t sample_step(const struct vt_leak_finder *finder, const struct vt_leak_class *class)
{
    uint32_t step = class->since;
    for (uint32_t i = 0; i < class->count; i++) {
        uint32_t index = finder->order[class->first + i];
        uint32_t made = vt_leak_step_of(finder, finder->replay->allocations[index].alloc_event);
        if (made > step && made + 1 < finder->step_count && vt_leak_is_kept(finder, index) &&
            vt_leak_is_judged(finder, index))
            step = made;
    }
    return step;
}

static const struct vt_allocation *allocation_of(const struct vt_leak_finder *finder,
                                                 const struct vt_leak_block *block)
{
    return &finder->replay->allocations[block->allocation];
}

/* ---- Verdicts ---- */

/* A hook: a function of the script that a module calls and that is not its forward, or that the engine calls
 * and that is not the backward of a Function. */
static bool made_by_hook(const struct vt_leak_finder *finder, uint32_t index)
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

static const struct vt_allocation *largest(const struct vt_leak_finder *finder,
                                           const struct vt_leak_block *blocks, size_t count)
{
    const struct vt_allocation *best = allocation_of(finder, &blocks[0]);
    for (size_t i = 1; i < count; i++)
        if (allocation_of(finder, &blocks[i])->bytes > best->bytes)
            best = allocation_of(finder, &blocks[i]);
    return best;
}

/* Made by a backward pass that makes a graph: each holds its parameter by that graph, and the parameter holds
 * it. */
static bool is_gradient_with_graph(const struct vt_leak_runs *runs, const struct vt_leak_block *block)
{
    const struct vt_attribution *attribution = runs->finder->attribution;
    const struct vt_span *span = vt_span_at(attribution, allocation_of(runs->finder, block)->alloc_event);
    return attribution->labels[block->allocation].category == VT_CATEGORY_GRADIENT &&
           span->phase == VT_PHASE_BACKWARD && runs->spans[span - attribution->spans].makes_nodes;
}

static enum vt_leak_verdict verdict_of(const struct vt_leak_finder *finder, const struct vt_leak_run *run,
                                       const struct vt_allocation *holding, bool graph, uint32_t every)
{
    if (holding->kind == VT_ALLOCATION_HOST)
        return VT_LEAK_HOST_PINNED;
    if (holding->kind == VT_ALLOCATION_DRIVER)
        return VT_LEAK_DRIVER;
    if (made_by_hook(finder, (uint32_t)(holding - finder->replay->allocations)))
        return VT_LEAK_HOOK;
    if (!graph)
        return VT_LEAK_TENSOR;
    if (run->reached)
        return VT_LEAK_REUSED_GRAPH;
    bool trains = finder->ran.count > 0;
    return !trains || every > 1 || is_evaluation(finder, holding) ? VT_LEAK_EVALUATION : VT_LEAK_GRAPH;
}

/* Whether its framework would show a graph that keeps it. */
static bool shows_nodes(const struct vt_leak_finder *finder, const struct vt_allocation *block)
{
    if (finder->trace->stacks[block->stack_id].native_count == 0)
        return !(block->flags & VT_FLAG_UNCOUNTED);
    return vt_shows_kind(finder->trace, block->stack_id, VT_OBJECT_NODES);
}

/* Names the library that asked the driver; the framework's own code has no other remedy. */
static const char *library_of(const struct vt_leak_finder *finder, const struct vt_allocation *holding)
{
    const char *path = vt_cuda_caller(finder->trace, holding->stack_id);
    return path ? vt_cuda_library(path) : NULL;
}

static void explain(const struct vt_leak_finder *finder, const struct vt_leak_run *run, size_t count,
                    uint32_t every, const struct vt_allocation *holding, struct vt_leak *leak)
{
    char made[128], often[48] = "", by[96];
    const char *cause = "", *library = NULL;
    snprintf(made, sizeof made, "%zu %s%s from step %" PRIu32 " %s still alive in step %" PRIu32, count,
             holding->kind == VT_ALLOCATION_BLOCK ? "tensor" : "allocation", count == 1 ? "" : "s", run->step,
             count == 1 ? "is" : "are", finder->step_count);
    if (every > 1)
        snprintf(often, sizeof often, "; this repeats every %" PRIu32 " steps", every);
    switch (leak->verdict) {
    case VT_LEAK_GRAPH:
    case VT_LEAK_EVALUATION:
        cause = run->ran > 0 ? ": part of a forward graph that no backward pass reached"
                             : ": a full forward graph without a backward pass";
        break;
    case VT_LEAK_CREATE_GRAPH:
        cause = ", with gradients of a backward pass that made a graph (create_graph=True)";
        break;
    case VT_LEAK_REUSED_GRAPH:
        cause = ": backward ran through their graph and released nothing";
        break;
    case VT_LEAK_HOOK:
        cause = run->phase == VT_PHASE_BACKWARD ? ", created in a function that backward calls"
                                                : ", created in a module's hook";
        break;
    case VT_LEAK_TENSOR:
        if (run->graph_count > 0 && run->released > 0)
            cause = "; backward released the rest of their graph";
        else if (run->graph_count > 0 && run->dropped > 0)
            cause = "; the rest of their graph was released";
        else if (run->graph_count == 0 && shows_nodes(finder, holding))
            cause = ", created without a graph";
        break;
    case VT_LEAK_DRIVER:
        library = library_of(finder, holding);
        if (library) {
            snprintf(by, sizeof by, ", allocated by %.64s itself", library);
            cause = by;
            snprintf(leak->remedy, sizeof leak->remedy, "%s", vt_text_library_growth);
        }
        break;
    default:
        break;
    }
    snprintf(leak->why, sizeof leak->why, "%s%s%s.", made, cause, often);
}

/* Sets verdict, evidence and lines of a leak whose blocks of that run are `blocks` (at least one). `every` =
 * steps from one growth to the next. */
static void judge(const struct vt_leak_runs *runs, const struct vt_leak_run *run,
                  const struct vt_leak_block *blocks, size_t count, bool graph, uint32_t every,
                  struct vt_leak *leak)
{
    const struct vt_leak_finder *finder = runs->finder;
    const struct vt_allocation *holding = largest(finder, blocks, count);
    for (size_t i = 0; i < count && graph; i++)
        if (blocks[i].in_graph &&
            (run->reached || !vt_leak_was_run(finder, allocation_of(finder, &blocks[i]))))
            holding = allocation_of(finder, &blocks[i]); /* the last: its node holds all before */
    const struct vt_label *label = vt_label_of(finder->attribution, holding);
    bool with_graph = false;
    for (size_t i = 0; i < count && !with_graph; i++)
        with_graph = is_gradient_with_graph(runs, &blocks[i]);
    vt_leak_set_verdict(leak,
                        with_graph ? VT_LEAK_CREATE_GRAPH : verdict_of(finder, run, holding, graph, every));
    leak->stack_id = holding->stack_id;
    leak->owner = label->owner;
    leak->module = label->module;
    explain(finder, run, count, every, holding, leak);
    if (label->forward_stack_id)
        vt_leak_add_lines(finder, leak, label->forward_stack_id, VT_LEAK_LINES);
    vt_leak_add_lines(finder, leak, holding->stack_id, 1);
    /* an operator that allocates nothing (an addition in place) may be what uses the graph's result */
    uint32_t next = graph ? runs->next_node[run->last_graph + 1] : VT_NEVER;
    if (next <= run->last_event && next != VT_NEVER)
        vt_leak_add_lines(finder, leak, finder->trace->events[next].stack_id, 1);
    vt_leak_add_lines(finder, leak, holding->stack_id, graph ? VT_LEAK_LINES : 2);
    for (size_t i = 0; i < count; i++)
        vt_leak_add_lines(finder, leak, allocation_of(finder, &blocks[i])->stack_id, 1);
    vt_leak_add_lines(finder, leak, holding->stack_id, VT_LEAK_LINES);
}

/* ---- Clusters ---- */

/* An allocation that a class kept, and the key of the class's pattern. */
struct kept {
    uint64_t key;
    uint32_t allocation;
};

struct cluster {
    struct vt_leak_finder *finder;
    struct vt_leak_runs runs;
    const struct vt_leak_class *leader;
    struct kept *kept; /* of all classes that grow, by key, then in order */
    size_t kept_count;
    struct vt_leak_block *blocks;
    size_t count, capacity;
};

/* Equal for classes of one kind with equal first and last births. */
static uint64_t pattern_key(uint8_t kind, uint32_t first_birth, uint32_t last_birth)
{
    return ((uint64_t)first_birth << 32 | last_birth) * 8 + kind;
}

static int compare_kept(const void *a, const void *b)
{
    const struct kept *left = a, *right = b;
    return 2 * vt_order(left->key, right->key) + vt_order(left->allocation, right->allocation);
}

static void list_kept(struct cluster *cluster)
{
    const struct vt_leak_finder *finder = cluster->finder;
    size_t capacity = 0;
    for (size_t i = 0; i < finder->class_count; i++) {
        const struct vt_leak_class *class = &finder->classes[i];
        for (uint32_t k = 0; class->grows && class->group == VT_NO_CLASS && k < class->count; k++) {
            uint32_t allocation = finder->order[class->first + k];
            if (vt_leak_is_kept(finder, allocation))
                VT_APPEND(cluster->kept, cluster->kept_count, capacity,
                          (struct kept){pattern_key(class->kind, class->first_birth, class->last_birth),
                                        allocation});
        }
    }
    if (cluster->kept_count > 1)
        qsort(cluster->kept, cluster->kept_count, sizeof *cluster->kept, compare_kept);
}

static bool is_member(const struct cluster *cluster, const struct vt_leak_class *class)
{
    return class->grows && class->group == VT_NO_CLASS && same_pattern(cluster->leader, class);
}

/* Adds what classes of one pattern kept of the allocations [first, end). */
static void collect_pattern(struct cluster *cluster, uint64_t key, uint32_t first, uint32_t end)
{
    const struct vt_leak_finder *finder = cluster->finder;
    const struct kept wanted = {key, first};
    for (size_t i = vt_lower_bound(cluster->kept, cluster->kept_count, sizeof wanted, &wanted, compare_kept);
         i < cluster->kept_count && cluster->kept[i].key == key && cluster->kept[i].allocation < end; i++) {
        uint32_t index = cluster->kept[i].allocation;
        const struct vt_allocation *allocation = &finder->replay->allocations[index];
        if (!is_member(cluster, &finder->classes[finder->class_of[index]]))
            continue;
        bool input = vt_leak_is_input(finder, allocation);
        VT_APPEND(cluster->blocks, cluster->count, cluster->capacity,
                  (struct vt_leak_block){.allocation = index,
                                         .in_graph = !input && vt_leak_in_graph(&cluster->runs, allocation),
                                         .input = input,
                                         .hook = made_by_hook(finder, index)});
    }
}

static int compare_blocks(const void *a, const void *b)
{
    const struct vt_leak_block *left = a, *right = b;
    return vt_order(left->allocation, right->allocation);
}

/* What the cluster kept of the allocations [first, end). */
static void collect_kept(struct cluster *cluster, uint32_t first, uint32_t end)
{
    const struct vt_leak_class *leader = cluster->leader;
    cluster->count = 0;
    for (uint32_t i = 0; i < 9; i++) { /* births may be one step off */
        uint64_t key =
            pattern_key(leader->kind, leader->first_birth + i / 3 - 1, leader->last_birth + i % 3 - 1);
        collect_pattern(cluster, key, first, end);
    }
    vt_sort(cluster->blocks, cluster->count, sizeof *cluster->blocks, compare_blocks);
}

static void sum_up(struct vt_leak_finder *finder, struct vt_leak_class *class, struct vt_leak *leak)
{
    uint64_t bytes = 0, blocks = 0;
    uint8_t category = VT_CATEGORY_UNKNOWN;
    for (uint32_t i = 0; i < class->count; i++) {
        uint32_t index = finder->order[class->first + i];
        const struct vt_label *label = &finder->attribution->labels[index];
        uint32_t step = vt_leak_step_of(finder, finder->replay->allocations[index].alloc_event);
        if (!vt_leak_is_kept(finder, index) || step < class->since)
            continue;
        category = blocks == 0 || step + 1 < finder->step_count ? label->category : category;
        bytes += finder->replay->allocations[index].bytes;
        blocks++;
    }
    vt_leak_add_part(finder, leak, class, bytes, blocks, category);
}

/* Adds a leak of those blocks, with their classes. */
static void add_leak(struct cluster *cluster, const struct vt_leak_run *run,
                     const struct vt_leak_block *blocks, size_t count, bool graph)
{
    struct vt_leak_finder *finder = cluster->finder;
    struct vt_leak *leak = NULL;
    for (size_t i = 0; i < count; i++) {
        struct vt_leak_class *class = &finder->classes[finder->class_of[blocks[i].allocation]];
        if (class->group != VT_NO_CLASS)
            continue;
        if (!leak)
            leak = vt_leak_add(finder, VT_LEAK_TENSOR);
        sum_up(finder, class, leak);
    }
    if (!leak)
        return;
    leak->first_step = cluster->leader->since;
    leak->last_step = cluster->leader->last_birth;
    judge(&cluster->runs, run, blocks, count, graph, period(cluster->leader), leak);
}

/* Copies the run's blocks to `sorted`, those that the graph holds first: blocks made before its end, and
 * inputs, which the next step's graph may hold. Returns how many. */
static size_t put_graph_first(const struct vt_leak_finder *finder, const struct vt_leak_run *run,
                              struct vt_leak_block *sorted)
{
    size_t used = 0, count = 0;
    for (int held = 1; held >= 0; held--) {
        for (size_t i = 0; i < run->count; i++) {
            const struct vt_leak_block *block = &run->blocks[i];
            bool before = finder->replay->allocations[block->allocation].alloc_event <= run->last_graph;
            if ((block->input || before) == (held == 1))
                sorted[count++] = *block;
        }
        used = held ? count : used;
    }
    return used;
}

/* Splits what a run kept into leaks: what its graph holds, what hooks made, and the rest. */
static void split_run(struct cluster *cluster, struct vt_leak_run *run)
{
    size_t used = 0;
    vt_leak_judge_run(&cluster->runs, run);
    struct vt_leak_block *sorted = vt_allocate_zeros(run->count + 1, sizeof *sorted);
    struct vt_leak_block *rest = vt_allocate_zeros(run->count + 1, sizeof *rest);
    if (run->retained) {
        used = put_graph_first(cluster->finder, run, sorted);
        add_leak(cluster, run, sorted, used, true);
    } else {
        memcpy(sorted, run->blocks, run->count * sizeof *sorted);
    }
    for (int hook = 1; hook >= 0; hook--) {
        size_t count = 0;
        for (size_t i = used; i < run->count; i++)
            if (sorted[i].hook == (hook == 1))
                rest[count++] = sorted[i];
        add_leak(cluster, run, rest, count, false);
    }
    free(sorted);
    free(rest);
}

/* What it kept of the runs that the step is made of. */
static void split_step(struct cluster *cluster, uint32_t step)
{
    struct vt_leak_finder *finder = cluster->finder;
    const struct vt_allocation *allocations = finder->replay->allocations;
    struct vt_leak_run first, last;
    vt_leak_run_at(&cluster->runs, finder->borders[step - 1] + 1, &first);
    vt_leak_run_at(&cluster->runs, finder->borders[step], &last);
    collect_kept(cluster, vt_leak_first_at(finder, first.first_event),
                 vt_leak_first_at(finder, last.last_event + 1));
    for (size_t i = 0; i < cluster->count;) {
        struct vt_leak_run run;
        vt_leak_run_at(&cluster->runs, allocations[cluster->blocks[i].allocation].alloc_event, &run);
        run.blocks = cluster->blocks + i;
        while (i < cluster->count &&
               allocations[cluster->blocks[i].allocation].alloc_event <= run.last_event) {
            i++;
            run.count++;
        }
        split_run(cluster, &run);
    }
}

/* What it kept of a request, which is one run: others' lie in between. */
static void split_request(struct cluster *cluster, uint32_t step)
{
    struct vt_leak_finder *finder = cluster->finder;
    const struct vt_allocation *allocations = finder->replay->allocations;
    const struct vt_leak_request *request = &finder->requests.items[step];
    struct vt_leak_run run;
    size_t count = 0;
    uint32_t border = finder->borders[step]; /* up to which other threads may be in this step */
    collect_kept(cluster, vt_leak_first_at(finder, request->made),
                 vt_leak_first_at(finder, request->over > border ? request->over : border + 1));
    for (size_t i = 0; i < cluster->count; i++)
        if (vt_leak_step_of(finder, allocations[cluster->blocks[i].allocation].alloc_event) == step)
            cluster->blocks[count++] = cluster->blocks[i];
    if (count == 0)
        return;
    vt_leak_run_at(&cluster->runs, request->begun, &run);
    run.blocks = cluster->blocks;
    run.count = count;
    run.first_event = allocations[run.blocks[0].allocation].alloc_event;
    run.last_event = allocations[run.blocks[count - 1].allocation].alloc_event;
    split_run(cluster, &run);
}

/* By what each step adds, the largest first. */
static int compare_classes(const void *a, const void *b, void *classes)
{
    uint32_t left = *(const uint32_t *)a, right = *(const uint32_t *)b;
    uint64_t left_bytes = ((const struct vt_leak_class *)classes)[left].bytes_per_step;
    uint64_t right_bytes = ((const struct vt_leak_class *)classes)[right].bytes_per_step;
    return 2 * vt_order(right_bytes, left_bytes) + vt_order(left, right);
}

static uint32_t *list_leaders(const struct vt_leak_finder *finder, size_t *count)
{
    uint32_t *leaders = vt_allocate((finder->class_count + 1) * sizeof *leaders);
    *count = 0;
    for (uint32_t i = 0; i < finder->class_count; i++)
        if (finder->classes[i].grows && finder->classes[i].group == VT_NO_CLASS)
            leaders[(*count)++] = i;
    if (*count > 1)
        qsort_r(leaders, *count, sizeof *leaders, compare_classes, finder->classes);
    return leaders;
}

void vt_leak_groups_find(struct vt_leak_finder *finder)
{
    struct cluster cluster = {.finder = finder};
    size_t count;
    uint32_t *leaders = list_leaders(finder, &count);
    if (count > 0) {
        vt_leak_runs_read(finder, &cluster.runs);
        list_kept(&cluster);
    }
    for (size_t i = 0; i < count; i++) {
        struct vt_leak_class *leader = &finder->classes[leaders[i]];
        if (leader->group != VT_NO_CLASS)
            continue;
        cluster.leader = leader;
        (finder->requests.step_of ? split_request : split_step)(&cluster, sample_step(finder, leader));
        if (leader->group == VT_NO_CLASS)
            leader->grows = false; /* it kept nothing in the step that represents it */
    }
    vt_leak_runs_free(&cluster.runs);
    free(leaders);
    free(cluster.kept);
    free(cluster.blocks);
}
