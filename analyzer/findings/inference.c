/* What a program that only runs models needs: requests, their caches of keys and values, and how much more
 * fits. */
#include "findings/inference.h"

#include <stdlib.h>

#include "attribute/stack_traits.h"
#include "base/allocate.h"
#include "base/index.h"
#include "base/peak.h"
#include "base/sort.h"
#include "findings/capacity.h"
#include "findings/graph_pools.h"
#include "findings/steps.h"
#include "format/allocator.h"
#include "trace/digest_events.h"

/* True if models were called, and no backward pass ran, as far as that shows: with JAX it does not, but what
 * it leaves may. */
static bool only_runs_models(const struct vt_attribution *attribution)
{
    bool forward = false;

    for (size_t i = 0; i < attribution->span_count; i++) {
        uint8_t phase = attribution->spans[i].phase;

        if (phase == VT_PHASE_BACKWARD || phase == VT_PHASE_OPTIMIZER)
            return false;
        forward |= phase == VT_PHASE_FORWARD || phase == VT_PHASE_EVAL;
    }
    for (size_t i = 0; forward && i < attribution->replay->allocation_count; i++) {
        const struct vt_label *label = &attribution->labels[i];

        if (label->evidence == VT_EVIDENCE_EXACT &&
            (label->category == VT_CATEGORY_GRADIENT || label->category == VT_CATEGORY_OPTIMIZER_STATE))
            return false;
    }
    return forward;
}

static uint64_t cache_bytes(const struct vt_step *step)
{
    return step->end.categories[VT_CATEGORY_KV_CACHE];
}

/* Calls that each find the cache that the one before left. */
struct run {
    size_t begin, end; /* into the steps */
};

/* The growth of the cache from call to call, over the longest run of calls in which none drops a quarter of
 * it: blocks are rounded, so a little less does not end the run. The first call of a run brings a whole
 * prompt and does not count. */
static struct run find_growth(const struct vt_steps *steps, struct vt_inference *inference)
{
    struct run found = {0};
    size_t begin = 0, longest = 0;

    for (size_t i = 0; i < steps->count; i++)
        if (cache_bytes(&steps->items[i]) > inference->cache_bytes)
            inference->cache_bytes = cache_bytes(&steps->items[i]);
    for (size_t i = 1; i <= steps->count; i++) {
        if (i < steps->count && cache_bytes(&steps->items[i]) / 3 >= cache_bytes(&steps->items[i - 1]) / 4)
            continue;
        while (begin < i && cache_bytes(&steps->items[begin]) == 0)
            begin++;
        uint64_t last = cache_bytes(&steps->items[i - 1]),
                 first = begin + 1 < i ? cache_bytes(&steps->items[begin + 1]) : last;
        if (last > first && i - 2 - begin > longest) {
            longest = i - 2 - begin;
            found = (struct run){begin + 1, i};
            inference->cache_bytes_per_call = (last - first) / longest;
            inference->growth_calls = longest;
        }
        begin = i;
    }
    return found;
}

/* Whether nothing of the step is in a digest. Ask in the order of steps, with *next 0 at first. */
static bool is_seen(const struct vt_trace *trace, const struct vt_step *step, size_t *next)
{
    while (*next < trace->gap_count && trace->gaps[*next].end <= step->first_event)
        ++*next;
    return *next == trace->gap_count || trace->gaps[*next].first > step->last_event;
}

static uint64_t above(uint64_t peak, uint64_t before)
{
    return peak > before ? peak - before : 0;
}

/* A step's peak above what was there before it, and above a pool that was laid out in it. */
static uint64_t above_before(const struct vt_steps *steps, size_t at, bool has_pool)
{
    const struct vt_step *step = &steps->items[at];
    const uint64_t cache = at ? cache_bytes(step - 1) : 0,
                   pool = has_pool ? above(step->peak.categories[VT_CATEGORY_KV_CACHE], cache) : 0;

    return above(step->peak.used_bytes, step->before_bytes + pool);
}

/* For each step: its peak above what was there before it. Digests show some of the steps that they are of,
 * and not all of what these needed; how many there were is in the steps' numbers. */
static void find_steps(const struct vt_trace *trace, const struct vt_steps *steps,
                       struct vt_inference *inference)
{
    uint64_t *bytes = vt_allocate((steps->count + 1) * sizeof *bytes);
    uint32_t before = 0;
    size_t count = 0, gap = 0;

    for (size_t i = 0; i < steps->count; before = steps->items[i++].step) {
        const struct vt_step *step = &steps->items[i];

        if (step->step == 0 || !step->peak.present)
            continue;
        inference->steps += step->step - before;
        if (is_seen(trace, step, &gap))
            bytes[count++] = above_before(steps, i, inference->pool_bytes > 0);
    }
    if (count) {
        vt_sort_numbers(bytes, count);
        inference->step_bytes = bytes[count / 2];
        inference->largest_step_bytes = bytes[count - 1];
    }
    free(bytes);
}

/* For each request: the peak of its steps above what was there before the first of them. Not where threads
 * take turns, or where steps were left out. */
static void weigh_requests(const struct vt_requests *requests, const struct vt_steps *steps,
                           struct vt_inference *inference)
{
    uint64_t *bytes = vt_allocate_zeros(requests->count + 1, sizeof *bytes), before = 0;
    size_t number = 0;

    for (size_t i = 0; i < steps->count; i++) {
        const struct vt_step *step = &steps->items[i];
        const size_t begun = vt_count_up_to(requests->begins, requests->count, step->last_event);

        if (begun == 0 || step->step == 0)
            continue;
        if (begun != number)
            before = step->before_bytes;
        number = begun;
        if (above(step->peak.used_bytes, before) > bytes[number - 1])
            bytes[number - 1] = above(step->peak.used_bytes, before);
    }
    vt_sort_numbers(bytes, requests->count);
    inference->request_bytes = bytes[requests->count / 2];
    inference->largest_request_bytes = requests->count ? bytes[requests->count - 1] : 0;
    free(bytes);
}

/* A function of any name may be an evaluation's: it answers requests if it keeps keys and values. */
static void find_requests(const struct vt_attribution *attribution, const struct vt_steps *steps,
                          struct vt_inference *inference)
{
    const struct vt_requests *requests = &attribution->requests;

    inference->forward_passes = requests->passes;
    inference->requests_known =
        requests->are_told && requests->count && (requests->are_named || inference->cache_bytes);
    if (!inference->requests_known)
        return;
    inference->requests = requests->count;
    inference->request_function = requests->function;
    if (inference->threads == 1 && inference->steps == requests->passes)
        weigh_requests(requests, steps, inference);
}

/* What the driver has left when the device is in this state. */
static uint64_t free_at(const struct vt_device_report *device, const struct vt_state *state)
{
    uint64_t used = state->driver_bytes;

    if (device->card_total_bytes) /* other processes use the GPU too */
        used = device->card_total_bytes - device->card_free_bytes + state->driver_bytes -
               device->shown->state.driver_bytes;
    uint64_t total = device->card_total_bytes ? device->card_total_bytes : device->total_bytes;
    return total > used ? total - used : 0;
}

/* Whether the cache grows in most calls. A single one that adds most of it lays out another cache. */
static bool is_steady(const struct vt_step *steps, size_t calls)
{
    uint64_t most = 0;

    for (size_t i = 1; i < calls; i++) {
        uint64_t before = cache_bytes(&steps[i - 1]), after = cache_bytes(&steps[i]);
        most = after > before && after - before > most ? after - before : most;
    }
    return calls > 2 && most <= (cache_bytes(&steps[calls - 1]) - cache_bytes(&steps[0])) / 2;
}

/* The last call of a run may have been cut short, so the one before it is repeated; the last is the first of
 * these. Where the allocator cannot be simulated, the free bytes are divided by the growth. */
static void find_calls_that_fit(const struct vt_report *report, const struct vt_device_report *device,
                                const struct vt_steps *steps, struct run run, struct vt_inference *inference)
{
    struct vt_capacity fit = {0};
    size_t calls = run.end > run.begin ? run.end - run.begin - 1 : 0;
    const struct vt_step *items = &steps->items[run.begin];

    if (calls)
        fit = vt_capacity_calls(report->attribution, device->index, items, calls,
                                free_at(device, &items[calls - 1].end));
    /* where several sequences take turns, each grows less than all together */
    if (inference->threads > 1 || fit.cache_bytes_per_call > 2 * inference->cache_bytes_per_call ||
        2 * fit.cache_bytes_per_call < inference->cache_bytes_per_call)
        fit.known = fit.known && fit.cache_bytes_per_call == 0;
    if (fit.known ? fit.cache_bytes_per_call == 0 : inference->threads > 1 || !is_steady(items, calls)) {
        inference->cache_bytes_per_call = inference->growth_calls = 0;
        return;
    }
    if (fit.known)
        inference->cache_bytes_per_call = fit.cache_bytes_per_call;
    inference->calls_known = true;
    inference->fit = !fit.known ? "at most" : fit.ended ? "at least" : "simulated";
    inference->calls_that_fit =
        fit.known ? fit.count - (fit.count > 0) : inference->room_bytes / inference->cache_bytes_per_call;
}

struct part {
    uint32_t stack_id;
    uint64_t bytes;
};

static int by_stack(const void *a, const void *b)
{
    const struct part *left = a, *right = b;

    return 2 * vt_order(left->stack_id, right->stack_id) + vt_order(left->bytes, right->bytes);
}

/* The blocks of keys and values that are alive at the moment shown. One place makes blocks of one size,
 * except for what an allocator does not split off. */
static size_t list_cache(const struct vt_report *report, const struct vt_device_report *device,
                         struct part *parts)
{
    const struct vt_replay *replay = report->attribution->replay;
    size_t count = 0;

    for (size_t i = 0; i < replay->allocation_count; i++) {
        const struct vt_allocation *block = &replay->allocations[i];
        if (report->attribution->labels[i].category == VT_CATEGORY_KV_CACHE &&
            block->device_index == device->index && vt_alive_at(block, device->shown->state.event_index))
            parts[count++] = (struct part){block->stack_id, block->bytes};
    }
    vt_sort(parts, count, sizeof *parts, by_stack);
    for (size_t i = 1; i < count; i++)
        if (parts[i].stack_id == parts[i - 1].stack_id && parts[i - 1].bytes > VT_TORCH_SMALL_BYTES &&
            parts[i].bytes - parts[i - 1].bytes <= VT_TORCH_SMALL_BYTES)
            parts[i].bytes = parts[i - 1].bytes;
    return count;
}

/* What is there of a cache, once more. */
static void find_caches_that_fit(const struct vt_report *report, const struct vt_device_report *device,
                                 struct vt_inference *inference)
{
    const struct vt_replay *replay = report->attribution->replay;
    const struct vt_state *state = &device->shown->state;
    struct part *parts = vt_allocate((replay->allocation_count + 1) * sizeof *parts);
    size_t count = list_cache(report, device, parts);
    uint64_t *bytes = vt_allocate((count + 1) * sizeof *bytes);
    struct vt_capacity fit;

    for (size_t i = 0; i < count; i++) {
        bytes[i] = parts[i].bytes;
        inference->copied_bytes += bytes[i];
    }
    fit = vt_capacity_copies(replay, device->index, state->event_index, bytes, count, free_at(device, state));
    inference->caches_known = count > 0;
    if (inference->caches_known) {
        inference->fit = !fit.known ? "at most" : fit.ended ? "at least" : "simulated";
        inference->caches_that_fit = fit.known ? fit.count : inference->room_bytes / inference->cache_bytes;
    }
    free(parts);
    free(bytes);
}

/* Free on the GPU, and in the framework's cache, which it returns to the GPU before it gives up. */
static void find_room(const struct vt_report *report, const struct vt_device_report *device,
                      const struct vt_steps *steps, struct run run, struct vt_inference *inference)
{
    const struct vt_state *state = &device->shown->state;

    inference->room_known = device->card_total_bytes || device->total_bytes > state->driver_bytes;
    if (!inference->room_known)
        return;
    inference->room_bytes = free_at(device, state) + state->categories[VT_CATEGORY_CACHED];
    if (inference->cache_bytes_per_call)
        find_calls_that_fit(report, device, steps, run, inference);
}

/* Keys and values of transformers have the shape sequences x heads x tokens x size, where an inspection saw
 * them; 0 = not seen, or they differ. */
static uint64_t find_sequences(const struct vt_attribution *attribution, int device_index)
{
    uint64_t sequences = 0;

    for (size_t i = 0; i < attribution->held_count; i++) {
        const struct vt_held *held = &attribution->held[i];
        const char *rest = held->holder->shape;
        char *end;
        uint64_t first = strtoull(rest, &end, 10);
        size_t dimensions = 1;

        for (; *rest; rest++)
            dimensions += *rest == 'x';
        if (attribution->labels[held->allocation].category != VT_CATEGORY_KV_CACHE || dimensions != 4 ||
            held->holder->device_index != device_index)
            continue;
        if (first == 0 || (sequences && first != sequences))
            return 0;
        sequences = first;
    }
    return sequences;
}

bool vt_is_of_pool(const struct vt_attribution *attribution, const struct vt_allocation *block)
{
    return vt_label_of(attribution, block)->category == VT_CATEGORY_KV_CACHE &&
           !(vt_stack_traits_of(attribution, block->stack_id)->traits & VT_TRAIT(MODULE));
}

static void find_pool(const struct vt_report *report, const struct vt_device_report *device,
                      struct vt_inference *inference)
{
    const struct vt_attribution *attribution = report->attribution;
    const struct vt_trace_pool *pool = &report->trace->pool;
    struct vt_peak peak = {0};
    uint64_t bytes;

    for (size_t i = 0; i < attribution->replay->allocation_count; i++) {
        const struct vt_allocation *block = &attribution->replay->allocations[i];
        if (block->device_index == device->index && vt_is_of_pool(attribution, block))
            vt_peak_add(&peak, block->alloc_event, block->free_event, block->bytes);
    }
    bytes = vt_peak_find(&peak, VT_NEVER).bytes;
    if (bytes <= inference->cache_bytes / 2 || inference->cache_bytes_per_call)
        return;
    inference->pool_bytes = bytes;
    inference->pool_blocks = pool->blocks;
    inference->pool_tokens = pool->tokens ? pool->tokens : pool->blocks * pool->block_tokens;
    inference->pool_used_blocks = pool->used_blocks;
    inference->longest = pool->longest;
    inference->pool_sequences = pool->longest ? inference->pool_tokens / pool->longest : 0;
}

/* What graphs have for themselves when the last of them is launched. */
static void find_graphs(const struct vt_report *report, int device_index, struct vt_inference *inference)
{
    const struct vt_trace *trace = report->trace;
    uint32_t last = VT_NEVER;

    for (size_t i = trace->rare_event_count; i-- > 0 && last == VT_NEVER;)
        if (trace->events[trace->rare_events[i]].kind == VT_EVENT_GRAPH_LAUNCH)
            last = trace->rare_events[i];
    if (last != VT_NEVER) {
        struct vt_graph_pools pools = vt_graph_pools_find(report, device_index, last);

        inference->graph_bytes = pools.bytes;
        for (size_t i = 0; i < pools.count; i++)
            inference->graphs += pools.items[i].graphs;
        free(pools.items);
    }
}

struct vt_inference vt_inference_find(const struct vt_report *report, const struct vt_device_report *device)
{
    struct vt_inference inference = {0};
    struct vt_steps steps;

    if (!only_runs_models(report->attribution))
        return inference;
    steps = vt_steps_make(report, device->index);
    inference.concurrent = report->attribution->concurrent_calls;
    inference.threads = report->attribution->calling_threads;
    inference.requests_at_once = report->trace->pool.requests;
    find_room(report, device, &steps, find_growth(&steps, &inference), &inference);
    if (inference.cache_bytes)
        find_pool(report, device, &inference);
    find_graphs(report, device->index, &inference);
    find_steps(report->trace, &steps, &inference);
    inference.found = inference.steps > 0;
    find_requests(report->attribution, &steps, &inference);
    free(steps.items); /* of a long trace they are many, as are the blocks of caches that fit */
    if (inference.room_known && inference.cache_bytes && !inference.cache_bytes_per_call &&
        !inference.pool_bytes)
        find_caches_that_fit(report, device, &inference);
    inference.sequences = inference.pool_bytes ? 0 : find_sequences(report->attribution, device->index);
    if (inference.sequences) {
        inference.token_bytes = inference.cache_bytes_per_call / inference.sequences;
        if (inference.threads == 1)
            inference.sequence_bytes = inference.cache_bytes / inference.sequences;
    }
    return inference;
}
