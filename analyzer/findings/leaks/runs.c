/* What a leak kept of a run, and what became of the rest of it. Leaks may be many and runs long, so each
 * question about a run is answered without walking it. */
#include "findings/leaks/runs.h"

#include <stdlib.h>

#include "base/allocate.h"

/* A backward pass that makes nodes itself (create_graph=True) extends the graph. */
static bool makes_nodes(const struct vt_trace *trace, const struct vt_span *span)
{
    for (uint32_t i = span->first_event; i <= span->last_event; i++)
        if (trace->events[i].kind == VT_EVENT_NODE && trace->events[i].detail != 0)
            return true;
    return false;
}

static bool is_pass(const struct vt_leak_span *own, const struct vt_span *span)
{
    return span->phase == VT_PHASE_OPTIMIZER || (span->phase == VT_PHASE_BACKWARD && !own->makes_nodes);
}

/* Whether a run may extend from a span to the next one. In training, runs cross the borders of steps. */
static bool goes_on(const struct vt_leak_finder *finder, const struct vt_span *span,
                    const struct vt_span *next)
{
    return finder->ran.count > 0 || span->step == next->step;
}

static void read_spans(struct vt_leak_runs *runs)
{
    const struct vt_leak_finder *finder = runs->finder;
    const struct vt_span *spans = finder->attribution->spans;
    size_t count = finder->attribution->span_count;
    struct vt_leak_span *own = runs->spans = vt_allocate_zeros(count + 1, sizeof *own);
    for (size_t i = 0; i < count; i++) {
        own[i].makes_nodes = makes_nodes(finder->trace, &spans[i]);
        own[i].pass = is_pass(&own[i], &spans[i]);
        bool on = i > 0 && goes_on(finder, &spans[i - 1], &spans[i]);
        own[i].phase_first =
            on && spans[i - 1].phase == spans[i].phase ? own[i - 1].phase_first : (uint32_t)i;
        own[i].other_first = on && !own[i - 1].pass ? own[i - 1].other_first : (uint32_t)i;
    }
    for (size_t i = count; i-- > 0;) {
        bool on = i + 1 < count && goes_on(finder, &spans[i], &spans[i + 1]);
        own[i].phase_last = on && spans[i + 1].phase == spans[i].phase ? own[i + 1].phase_last : (uint32_t)i;
        own[i].other_last = on && !own[i + 1].pass ? own[i + 1].other_last : (uint32_t)i;
    }
}

static bool freed_by_engine(const struct vt_leak_finder *finder, const struct vt_allocation *allocation)
{
    const struct vt_trace *trace = finder->trace;
    if (allocation->free_event == VT_NEVER)
        return false;
    uint32_t stack_id = trace->events[allocation->free_event].stack_id;
    return stack_id > 0 && stack_id < trace->stack_count &&
           vt_index_get(&finder->engine, trace->stacks[stack_id].thread_id) != VT_INDEX_NONE;
}

/* Part of a graph, and not kept: released by the engine, or gone without it. */
static bool is_released(const struct vt_leak_finder *finder, uint32_t index, bool *gone)
{
    const struct vt_allocation *allocation = &finder->replay->allocations[index];
    bool of_graph = finder->made_node[allocation->alloc_event] && !vt_leak_is_kept(finder, index);
    bool released = of_graph && freed_by_engine(finder, allocation);
    *gone = of_graph && !released && allocation->free_event != allocation->alloc_event;
    return released;
}

bool vt_leak_is_input(const struct vt_leak_finder *finder, const struct vt_allocation *allocation)
{
    const struct vt_stack_traits *site = vt_stack_traits_of(finder->attribution, allocation->stack_id);
    const struct vt_label *label = vt_label_of(finder->attribution, allocation);
    const bool is_value = label->category == VT_CATEGORY_OTHER && !finder->made_node[allocation->alloc_event];
    return (label->category == VT_CATEGORY_INPUT || is_value || (site->traits & VT_TRAIT(INPUT_OPERATOR))) &&
           label->phase != VT_PHASE_BACKWARD;
}

static void read_allocations(struct vt_leak_runs *runs)
{
    const struct vt_leak_finder *finder = runs->finder;
    uint32_t count = (uint32_t)finder->replay->allocation_count;
    runs->released = vt_allocate_zeros((size_t)count + 1, sizeof *runs->released);
    runs->gone = vt_allocate_zeros((size_t)count + 1, sizeof *runs->gone);
    runs->next_input = vt_allocate(((size_t)count + 1) * sizeof *runs->next_input);
    for (uint32_t i = 0; i < count; i++) {
        bool gone;
        runs->released[i + 1] = runs->released[i] + is_released(finder, i, &gone);
        runs->gone[i + 1] = runs->gone[i] + gone;
    }
    runs->next_input[count] = count;
    for (uint32_t i = count; i-- > 0;)
        runs->next_input[i] =
            vt_leak_is_input(finder, &finder->replay->allocations[i]) ? i : runs->next_input[i + 1];
}

/* An operator that uses a graph's result shows as a node, unless something else begins before it. */
static void read_events(struct vt_leak_runs *runs)
{
    const struct vt_leak_finder *finder = runs->finder;
    const struct vt_trace *trace = finder->trace;
    uint32_t *next = vt_allocate((trace->event_count + 1) * sizeof *next),
             count = (uint32_t)trace->event_count;
    runs->next_node = next;
    next[count] = VT_NEVER;
    for (uint32_t i = count; i-- > 0;) {
        const struct vt_event *event = &trace->events[i];
        next[i] = next[i + 1];
        if (event->kind == VT_EVENT_ALLOC && !finder->made_node[i])
            next[i] = VT_NEVER;
        else if (event->kind == VT_EVENT_NODE && event->stack_id < trace->stack_count)
            next[i] = i;
    }
}

void vt_leak_runs_read(const struct vt_leak_finder *finder, struct vt_leak_runs *runs)
{
    *runs = (struct vt_leak_runs){.finder = finder};
    read_spans(runs);
    read_allocations(runs);
    read_events(runs);
}

void vt_leak_runs_free(struct vt_leak_runs *runs)
{
    free(runs->spans);
    free(runs->released);
    free(runs->gone);
    free(runs->next_input);
    free(runs->next_node);
    free(runs->frees);
    vt_index_free(&runs->part_index);
}

void vt_leak_run_at(const struct vt_leak_runs *runs, uint32_t event, struct vt_leak_run *run)
{
    const struct vt_attribution *attribution = runs->finder->attribution;
    const struct vt_span *spans = attribution->spans, *span = vt_span_at(attribution, event);
    const struct vt_leak_span *own = &runs->spans[span - spans];
    *run = (struct vt_leak_run){.step = span->step,
                                .first_event =
                                    spans[own->pass ? own->phase_first : own->other_first].first_event,
                                .last_event = spans[own->pass ? own->phase_last : own->other_last].last_event,
                                .phase = span->phase};
}

bool vt_leak_in_graph(const struct vt_leak_runs *runs, const struct vt_allocation *allocation)
{
    const struct vt_attribution *attribution = runs->finder->attribution;
    const struct vt_span *span = vt_span_at(attribution, allocation->alloc_event);
    if (span->phase == VT_PHASE_BACKWARD)
        return runs->spans[span - attribution->spans].makes_nodes;
    return runs->finder->made_node[allocation->alloc_event];
}

bool vt_leak_was_run(const struct vt_leak_finder *finder, const struct vt_allocation *allocation)
{
    return vt_index_get(&finder->ran, vt_leak_node(allocation->sequence)) != VT_INDEX_NONE;
}

/* ---- The rest of a run ---- */

static int compare_event(const void *allocation, const void *event)
{
    return vt_order(((const struct vt_allocation *)allocation)->alloc_event, *(const uint32_t *)event);
}

uint32_t vt_leak_first_at(const struct vt_leak_finder *finder, uint32_t event)
{
    const struct vt_replay *replay = finder->replay;
    return (uint32_t)vt_lower_bound(replay->allocations, replay->allocation_count,
                                    sizeof *replay->allocations, &event, compare_event);
}

static int compare_step(const void *label, const void *step)
{
    return vt_order(((const struct vt_label *)label)->step, *(const uint32_t *)step);
}

static uint32_t first_of_step(const struct vt_leak_finder *finder, uint32_t step)
{
    const struct vt_label *labels = finder->attribution->labels;
    return (uint32_t)vt_lower_bound(labels, finder->replay->allocation_count, sizeof *labels, &step,
                                    compare_step);
}

static int compare_numbers(const void *left, const void *right)
{
    return vt_order(*(const uint32_t *)left, *(const uint32_t *)right);
}

/* The sorted events that freed what is gone of the allocations [first, end); runs->gone has their count. Made
 * once for each part of a run. */
static const uint32_t *frees_of(struct vt_leak_runs *runs, uint32_t first, uint32_t end)
{
    uint64_t key = (uint64_t)first << 32 | end;
    uint32_t at = vt_index_get(&runs->part_index, key);
    if (at == VT_INDEX_NONE) {
        size_t count = runs->gone[end] - runs->gone[first];
        vt_reserve(&runs->frees, &runs->free_capacity, runs->free_count + count, sizeof *runs->frees);
        at = (uint32_t)runs->free_count;
        vt_index_put(&runs->part_index, key, at);
        for (uint32_t i = first; i < end; i++)
            if (runs->gone[i + 1] > runs->gone[i])
                runs->frees[runs->free_count++] = runs->finder->replay->allocations[i].free_event;
        if (count > 1)
            qsort(runs->frees + at, count, sizeof *runs->frees, compare_numbers);
    }
    return runs->frees + at;
}

/* What became of the run's graph except what is kept, up to where another graph begins. */
static void count_rest(struct vt_leak_runs *runs, struct vt_leak_run *run, uint32_t step)
{
    const struct vt_leak_finder *finder = runs->finder;
    uint32_t first = vt_leak_first_at(finder, run->first_event),
             end = vt_leak_first_at(finder, run->last_event + 1);
    uint32_t step_first = first_of_step(finder, step), step_end = first_of_step(finder, step + 1);
    uint32_t input = runs->next_input[vt_leak_first_at(finder, run->last_graph + 1)];
    uint32_t before = vt_leak_first_at(finder, run->last_graph);
    first = first > step_first ? first : step_first;
    end = end < step_end ? end : step_end;
    uint32_t gone = (uint32_t)vt_count_up_to(frees_of(runs, first, end), runs->gone[end] - runs->gone[first],
                                             run->last_graph);
    run->dropped = runs->gone[before] - runs->gone[first] - gone;
    run->released = runs->released[input < end ? input : end] - runs->released[first];
}

/* A graph that is held has everything that it saved. One that was released, by backward or with the
 * variable that held it, lost everything that nothing else keeps. */
void vt_leak_judge_run(struct vt_leak_runs *runs, struct vt_leak_run *run)
{
    const struct vt_leak_finder *finder = runs->finder;
    size_t inputs = 0;
    uint32_t step = run->step; /* of the graph: a run may cross a step's border */
    for (size_t i = 0; i < run->count; i++) {
        const struct vt_allocation *block = &finder->replay->allocations[run->blocks[i].allocation];
        inputs += run->blocks[i].input;
        if (!run->blocks[i].in_graph)
            continue;
        run->graph_count++;
        run->last_graph = block->alloc_event;
        step = vt_label_of(finder->attribution, block)->step;
        run->ran += vt_leak_was_run(finder, block);
    }
    if (run->graph_count == 0)
        return;
    count_rest(runs, run, step);
    /* A graph that backward did not reach may depend on one that it did; a single node that shows nothing in
     * backward proves nothing. */
    size_t unreached = run->graph_count - run->ran;
    run->reached = run->ran > 0 && unreached < 2;
    if (run->graph_count + inputs >= 2)
        run->retained = run->reached ? run->released * 10 <= run->graph_count : run->dropped <= unreached;
}
