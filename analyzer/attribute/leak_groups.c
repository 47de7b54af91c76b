/* One leak is one entry: code that keeps something in the same steps, held by one graph or made in one place
 * of the step. One step stands for all: the one before the last in which the cluster grew. */
#include "attribute/leaks_private.h"

#include <errno.h>
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

/* ---- Runs of a step ---- */

static int compare_event(const void *allocation, const void *event)
{
    uint32_t made = ((const struct vt_allocation *)allocation)->alloc_event, at = *(const uint32_t *)event;
    return (made > at) - (made < at);
}

static size_t first_at(const struct vt_leak_finder *finder, uint32_t event)
{
    const struct vt_replay *replay = finder->replay;
    return vt_lower_bound(replay->allocations, replay->allocation_count, sizeof *replay->allocations, &event,
                          compare_event);
}

/* A backward pass that makes nodes itself (create_graph=True) goes on with the graph. */
static bool makes_nodes(const struct vt_leak_finder *finder, const struct vt_span *span)
{
    const struct vt_event *events = finder->trace->events;
    for (uint32_t i = span->first_event; i <= span->last_event; i++)
        if (events[i].kind == VT_EVENT_NODE && events[i].detail != 0)
            return true;
    return false;
}

static bool is_pass(const struct vt_leak_finder *finder, const struct vt_span *span)
{
    return span->phase == VT_PHASE_OPTIMIZER ||
           (span->phase == VT_PHASE_BACKWARD && !makes_nodes(finder, span));
}

/* Where the run that `event` is in begins and ends; a step's border is none for it. */
static void set_run(const struct vt_leak_finder *finder, uint32_t event, struct vt_leak_run *run)
{
    const struct vt_attribution *attribution = finder->attribution;
    const struct vt_span *span = vt_span_at(attribution, event), *first = span, *last = span;
    const struct vt_span *end = attribution->spans + attribution->span_count;
    bool trains = finder->ran.count > 0, pass = is_pass(finder, span);
    while (first > attribution->spans && (trains || first[-1].step == span->step) &&
           (pass ? first[-1].phase == span->phase : !is_pass(finder, &first[-1])))
        first--;
    while (last + 1 < end && (trains || last[1].step == span->step) &&
           (pass ? last[1].phase == span->phase : !is_pass(finder, &last[1])))
        last++;
    *run = (struct vt_leak_run){.step = span->step,
                                .first_event = first->first_event,
                                .last_event = last->last_event,
                                .phase = span->phase};
}

/* The step that stands for a class: the last in which it grew but the very last, whose blocks may be in use.
 */
static uint32_t sample_step(const struct vt_leak_finder *finder, const struct vt_leak_class *class)
{
    uint32_t step = class->since;
    for (uint32_t i = 0; i < class->count; i++) {
        uint32_t index = finder->order[class->first + i];
        uint32_t made = finder->replay->allocations[index].step;
        if (made > step && made + 1 < finder->step_count && vt_leak_is_kept(finder, index))
            step = made;
    }
    return step;
}

/* ---- Clusters ---- */

struct cluster {
    struct vt_leak_finder *finder;
    const struct vt_leak_class *leader;
    uint8_t *member; /* by class */
    struct vt_leak_block *blocks;
    size_t count, capacity;
};

static bool in_graph(const struct vt_leak_finder *finder, const struct vt_allocation *allocation)
{
    const struct vt_span *span = vt_span_at(finder->attribution, allocation->alloc_event);
    if (span->phase == VT_PHASE_BACKWARD)
        return makes_nodes(finder, span);
    return finder->made_node[allocation->alloc_event];
}

/* What the cluster kept of the runs that the step is made of. */
static int collect(struct cluster *cluster, uint32_t step)
{
    const struct vt_leak_finder *finder = cluster->finder;
    const struct vt_replay *replay = finder->replay;
    struct vt_leak_run first, last;
    set_run(finder, finder->borders[step - 1] + 1, &first);
    set_run(finder, finder->borders[step], &last);
    cluster->count = 0;
    for (size_t i = first_at(finder, first.first_event);
         i < replay->allocation_count && replay->allocations[i].alloc_event <= last.last_event; i++) {
        uint32_t class = finder->class_of[i];
        if (class == VT_NO_CLASS || !cluster->member[class] || !vt_leak_is_kept(finder, (uint32_t)i))
            continue;
        int error =
            vt_reserve(&cluster->blocks, &cluster->capacity, cluster->count + 1, sizeof *cluster->blocks);
        if (error)
            return error;
        bool input = vt_leak_is_input(finder, &replay->allocations[i]);
        cluster->blocks[cluster->count++] =
            (struct vt_leak_block){.allocation = (uint32_t)i,
                                   .in_graph = !input && in_graph(finder, &replay->allocations[i]),
                                   .input = input,
                                   .hook = vt_leak_made_by_hook(finder, (uint32_t)i)};
    }
    return 0;
}

static int sum_up(struct vt_leak_finder *finder, struct vt_leak_class *class, struct vt_leak *leak)
{
    uint64_t bytes = 0, blocks = 0;
    uint8_t category = VT_CATEGORY_UNKNOWN;
    for (uint32_t i = 0; i < class->count; i++) {
        uint32_t index = finder->order[class->first + i];
        const struct vt_allocation *allocation = &finder->replay->allocations[index];
        if (!vt_leak_is_kept(finder, index) || allocation->step < class->since)
            continue;
        category = blocks == 0 || allocation->step + 1 < finder->step_count ? allocation->category : category;
        bytes += allocation->bytes;
        blocks++;
    }
    class->group = (uint32_t)(leak - finder->leaks->items);
    return vt_leak_add_part(leak, class, bytes, blocks, category);
}

/* A leak of those blocks, and of the classes that they are of. */
static int add_leak(struct cluster *cluster, const struct vt_leak_run *run,
                    const struct vt_leak_block *blocks, size_t count, bool graph)
{
    struct vt_leak_finder *finder = cluster->finder;
    struct vt_leak *leak = NULL;
    int error = 0;
    for (size_t i = 0; i < count && !error; i++) {
        struct vt_leak_class *class = &finder->classes[finder->class_of[blocks[i].allocation]];
        if (class->group != VT_NO_CLASS)
            continue;
        if (!leak)
            leak = vt_leak_add(finder, VT_LEAK_TENSOR);
        error = leak ? sum_up(finder, class, leak) : -ENOMEM;
    }
    if (!leak || error)
        return error;
    leak->first_step = cluster->leader->since;
    leak->last_step = cluster->leader->last_birth;
    vt_leak_judge(finder, run, blocks, count, graph, period(cluster->leader), leak);
    return 0;
}

/* Moves what the graph holds to the front: what was there before its end, and inputs, which the next step's
 * graph may hold. Returns how many. */
static size_t put_graph_first(const struct vt_leak_finder *finder, struct vt_leak_run *run)
{
    size_t used = 0;
    for (size_t i = 0; i < run->count; i++) {
        struct vt_leak_block block = run->blocks[i];
        if (!block.input && finder->replay->allocations[block.allocation].alloc_event > run->last_graph)
            continue;
        memmove(run->blocks + used + 1, run->blocks + used, (i - used) * sizeof block);
        run->blocks[used++] = block;
    }
    return used;
}

/* Splits what a run kept: what its graph holds; then what hooks made, and the rest. */
static int split_run(struct cluster *cluster, struct vt_leak_run *run)
{
    struct vt_leak_finder *finder = cluster->finder;
    size_t used = 0;
    int error = 0;
    vt_leak_judge_run(finder, run);
    if (run->retained) {
        used = put_graph_first(finder, run);
        error = add_leak(cluster, run, run->blocks, used, true);
    }
    struct vt_leak_block *rest = calloc(run->count - used + 1, sizeof *rest);
    if (!rest)
        return -ENOMEM;
    for (int hook = 1; hook >= 0 && !error; hook--) {
        size_t count = 0;
        for (size_t i = used; i < run->count; i++)
            if (run->blocks[i].hook == (hook == 1))
                rest[count++] = run->blocks[i];
        error = add_leak(cluster, run, rest, count, false);
    }
    free(rest);
    return error;
}

static int split_cluster(struct cluster *cluster)
{
    struct vt_leak_finder *finder = cluster->finder;
    const struct vt_allocation *allocations = finder->replay->allocations;
    int error = collect(cluster, sample_step(finder, cluster->leader));
    for (size_t i = 0; i < cluster->count && !error;) {
        struct vt_leak_run run;
        set_run(finder, allocations[cluster->blocks[i].allocation].alloc_event, &run);
        run.blocks = cluster->blocks + i;
        while (i < cluster->count &&
               allocations[cluster->blocks[i].allocation].alloc_event <= run.last_event) {
            i++;
            run.count++;
        }
        error = split_run(cluster, &run);
    }
    return error;
}

static uint32_t largest_class(const struct vt_leak_finder *finder)
{
    uint32_t largest = VT_NO_CLASS;
    for (uint32_t i = 0; i < finder->class_count; i++) {
        const struct vt_leak_class *class = &finder->classes[i];
        if (class->grows && class->group == VT_NO_CLASS &&
            (largest == VT_NO_CLASS || class->bytes_per_step > finder->classes[largest].bytes_per_step))
            largest = i;
    }
    return largest;
}

int vt_leak_groups_find(struct vt_leak_finder *finder)
{
    struct cluster cluster = {.finder = finder, .member = calloc(finder->class_count + 1, 1)};
    int error = cluster.member ? 0 : -ENOMEM;
    for (uint32_t at = 0; !error && (at = largest_class(finder)) != VT_NO_CLASS;) {
        struct vt_leak_class *leader = &finder->classes[at];
        cluster.leader = leader;
        for (size_t i = 0; i < finder->class_count; i++)
            cluster.member[i] = finder->classes[i].grows && finder->classes[i].group == VT_NO_CLASS &&
                                same_pattern(leader, &finder->classes[i]);
        error = split_cluster(&cluster);
        if (!error && leader->group == VT_NO_CLASS)
            leader->grows = false; /* it kept nothing in the step that stands for it */
    }
    free(cluster.member);
    free(cluster.blocks);
    return error;
}
