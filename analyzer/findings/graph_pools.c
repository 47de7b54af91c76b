/* Private pools: memory that a framework took while it captured CUDA graphs. Only these graphs use it, for
 * what they compute with lies at fixed addresses. */
#include "findings/graph_pools.h"

#include <stdlib.h>

#include "attribute/attribute.h"
#include "base/allocate.h"
#include "base/index.h"
#include "base/sort.h"
#include "report/report.h"

struct capture {
    uint32_t first_event, last_event;
    uint64_t stream;
    uint32_t pool; /* an earlier capture of the same pool, or itself */
};

struct executable {
    uint32_t capture;         /* VT_NEVER = made by other means */
    uint32_t made, destroyed; /* events; VT_NEVER = not */
    uint32_t launches;
};

struct finder {
    const struct vt_report *report;
    int device_index;
    uint32_t event; /* after which pools are examined */
    struct capture *captures;
    size_t capture_count, capture_capacity;
    struct executable *executables;
    size_t executable_count, executable_capacity;
    struct vt_index graphs, current; /* graph → capture; handle → the executable that has it now */
    uint32_t *segment_captures;      /* by allocation; VT_NEVER = of no pool */
};

static void end_capture(struct finder *finder, const struct vt_event *event, uint32_t index)
{
    for (size_t i = finder->capture_count; i-- > 0;) {
        struct capture *capture = &finder->captures[i];
        if (capture->stream != event->address || capture->last_event != VT_NEVER)
            continue;
        capture->last_event = index;
        if (event->detail)
            vt_index_put(&finder->graphs, event->detail, (uint32_t)i);
        return;
    }
}

static void read_event(struct finder *finder, uint32_t index)
{
    const struct vt_event *event = &finder->report->trace->events[index];
    const struct capture capture = {index, VT_NEVER, event->address, (uint32_t)finder->capture_count};
    uint32_t at = vt_index_get(&finder->current, event->address);
    switch (event->kind) {
    case VT_EVENT_CAPTURE:
        VT_APPEND(finder->captures, finder->capture_count, finder->capture_capacity, capture);
        return;
    case VT_EVENT_CAPTURE_END:
        end_capture(finder, event, index);
        return;
    case VT_EVENT_GRAPH:
        VT_APPEND(finder->executables, finder->executable_count, finder->executable_capacity,
                  (struct executable){.capture = vt_index_get(&finder->graphs, event->detail),
                                      .made = index,
                                      .destroyed = VT_NEVER});
        vt_index_put(&finder->current, event->address, (uint32_t)finder->executable_count - 1);
        return;
    case VT_EVENT_GRAPH_LAUNCH:
        if (at != VT_INDEX_NONE && index <= finder->event)
            finder->executables[at].launches++;
        return;
    case VT_EVENT_GRAPH_DESTROY:
        if (at != VT_INDEX_NONE)
            finder->executables[at].destroyed = index;
        return;
    default:
        return;
    }
}

/* The capture in which an allocation was made by the thread that captures, or by autograd's; VT_NEVER = none.
 */
static uint32_t capture_of(const struct finder *finder, uint32_t index)
{
    const struct vt_attribution *attribution = finder->report->attribution;
    const struct vt_trace *trace = attribution->trace;
    const struct vt_allocation *allocation = &attribution->replay->allocations[index];
    for (size_t i = finder->capture_count; i-- > 0;) {
        const struct capture *capture = &finder->captures[i];
        uint32_t thread = trace->stacks[trace->events[capture->first_event].stack_id].thread_id;
        if (capture->first_event > allocation->alloc_event || capture->last_event < allocation->alloc_event)
            continue;
        if (trace->stacks[allocation->stack_id].thread_id == thread ||
            attribution->labels[index].phase == VT_PHASE_BACKWARD)
            return (uint32_t)i;
    }
    return VT_NEVER;
}

static uint32_t pool_of(struct finder *finder, uint32_t capture)
{
    while (finder->captures[capture].pool != capture)
        capture = finder->captures[capture].pool = finder->captures[finder->captures[capture].pool].pool;
    return capture;
}

/* A segment is of the pool of what was captured into it; captures that share a segment share a pool. */
static void join_segment(struct finder *finder, uint32_t segment, uint32_t capture)
{
    uint32_t *known = &finder->segment_captures[segment];
    if (*known == VT_NEVER) {
        *known = capture;
        return;
    }
    uint32_t first = pool_of(finder, *known), other = pool_of(finder, capture);
    finder->captures[first > other ? first : other].pool = first < other ? first : other;
}

static void find_segments(struct finder *finder)
{
    const struct vt_replay *replay = finder->report->attribution->replay;
    for (uint32_t i = 0; i < replay->allocation_count; i++)
        finder->segment_captures[i] = VT_NEVER;
    for (uint32_t i = 0; i < replay->allocation_count; i++) {
        const struct vt_allocation *allocation = &replay->allocations[i];
        bool block = allocation->kind == VT_ALLOCATION_BLOCK;
        uint32_t segment = block ? allocation->parent : i;
        if (allocation->device_index != finder->device_index || segment == VT_NEVER ||
            replay->allocations[segment].kind != VT_ALLOCATION_SEGMENT)
            continue;
        uint32_t capture = capture_of(finder, i);
        if (capture != VT_NEVER)
            join_segment(finder, segment, capture);
    }
}

static struct vt_graph_pool *pool_at(struct finder *finder, struct vt_graph_pools *pools, uint32_t capture)
{
    uint32_t first = finder->captures[pool_of(finder, capture)].first_event;
    for (size_t i = 0; i < pools->count; i++)
        if (pools->items[i].first_event == first)
            return &pools->items[i];
    struct vt_graph_pool *pool = &pools->items[pools->count++];
    pool->first_event = first;
    pool->place = vt_place_of(finder->report->places, finder->report->trace->events[first].stack_id);
    return pool;
}

static void fill_pools(struct finder *finder, struct vt_graph_pools *pools)
{
    const struct vt_replay *replay = finder->report->attribution->replay;
    for (uint32_t i = 0; i < replay->allocation_count; i++) {
        const struct vt_allocation *allocation = &replay->allocations[i];
        bool block = allocation->kind == VT_ALLOCATION_BLOCK && allocation->parent != VT_NEVER;
        uint32_t capture = finder->segment_captures[block ? allocation->parent : i];
        if (capture == VT_NEVER || !vt_alive_at(allocation, finder->event))
            continue;
        struct vt_graph_pool *pool = pool_at(finder, pools, capture);
        *(block ? &pool->block_bytes : &pool->bytes) += allocation->bytes;
    }
    for (size_t i = 0; i < finder->executable_count; i++) {
        const struct executable *executable = &finder->executables[i];
        if (executable->capture == VT_NEVER)
            continue;
        uint32_t first = finder->captures[pool_of(finder, executable->capture)].first_event;
        for (size_t k = 0; k < pools->count; k++) {
            struct vt_graph_pool *pool = &pools->items[k];
            if (pool->first_event != first)
                continue;
            pool->launches += executable->launches;
            pool->graphs += executable->made <= finder->event && executable->destroyed > finder->event;
            pool->abandoned_graphs += executable->destroyed <= finder->event;
        }
    }
    for (size_t i = 0; i < pools->count; i++) {
        pools->items[i].abandoned = pools->items[i].graphs == 0 && pools->items[i].abandoned_graphs > 0;
        pools->items[i].free_bytes = pools->items[i].bytes - pools->items[i].block_bytes;
        pools->bytes += pools->items[i].bytes;
        pools->free_bytes += pools->items[i].free_bytes;
    }
}

static int larger_first(const void *a, const void *b)
{
    const struct vt_graph_pool *left = a, *right = b;
    return 2 * vt_order(right->bytes, left->bytes) + vt_order(left->first_event, right->first_event);
}

/* segment_captures: NULL = nothing was captured. */
static void make_finder(struct finder *finder)
{
    const struct vt_trace *trace = finder->report->trace;
    for (size_t i = 0; i < trace->rare_event_count; i++)
        read_event(finder, trace->rare_events[i]);
    if (!finder->capture_count)
        return;
    finder->segment_captures =
        vt_allocate_zeros(finder->report->allocation_count + 1, sizeof *finder->segment_captures);
    find_segments(finder);
}

static void free_finder(struct finder *finder)
{
    vt_index_free(&finder->graphs);
    vt_index_free(&finder->current);
    free(finder->captures);
    free(finder->executables);
    free(finder->segment_captures);
}

struct vt_graph_pools vt_graph_pools_find(const struct vt_report *report, int device_index, uint32_t event)
{
    struct finder finder = {.report = report, .device_index = device_index, .event = event};
    struct vt_graph_pools pools = {0};

    make_finder(&finder);
    if (finder.segment_captures) {
        pools.items = vt_allocate_zeros(finder.capture_count, sizeof *pools.items);
        fill_pools(&finder, &pools);
        vt_sort(pools.items, pools.count, sizeof *pools.items, larger_first);
    }
    free_finder(&finder);
    return pools;
}

void vt_graph_pools_mark(const struct vt_report *report, int device_index, uint32_t event,
                         struct vt_fragmentation *found)
{
    struct finder finder = {.report = report, .device_index = device_index, .event = event};
    make_finder(&finder);
    for (size_t i = 0; i < found->segment_count && finder.segment_captures; i++)
        found->segments[i].captured = finder.segment_captures[found->segments[i].allocation] != VT_NEVER;
    free_finder(&finder);
}
