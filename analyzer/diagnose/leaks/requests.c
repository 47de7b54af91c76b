/* Requests of a server that several threads handle. How they take turns is up to the system: at the border of
 * a step others are in the middle of requests, for as long as they do not run. So what a request keeps is
 * judged when it is over, and in the order in which requests are over.
 *
 * A step begins with the call of a model, so its thread may make what this call needs, such as its input,
 * while it counts as in the request before. A request is over when its thread begins the next but one: by
 * then all is freed that one request needs. Of a thread that handles too few for that, such as one made for a
 * single request, its last event tells. */
#include "diagnose/leaks/requests.h"

#include <stdlib.h>

#include "base/allocate.h"
#include "base/sort.h"

#define ENDED_BY 2u /* so many requests of its thread later one is over */

/* A thread that begins steps. */
struct worker {
    uint32_t first_step;       /* that it begins */
    uint32_t latest[ENDED_BY]; /* those that it began last, the latest first */
    uint32_t count;            /* so far */
    uint32_t last_event;
};

/* The event with which a request is over. */
struct end {
    uint32_t event, step;
};

struct search {
    const struct vt_attribution *attribution;
    struct vt_leak_requests *requests;
    uint32_t last_border;
    struct worker *workers;
    size_t worker_count, worker_capacity;
};

uint32_t vt_leak_thread_of(const struct vt_trace *trace, uint32_t event)
{
    uint32_t stack_id = trace->events[event].stack_id;
    return stack_id < trace->stack_count ? trace->stacks[stack_id].thread_id : 0;
}

static struct worker *worker_at(struct search *search, uint32_t event)
{
    uint32_t number =
        vt_index_get(&search->requests->threads, vt_leak_thread_of(search->attribution->trace, event));
    return number == VT_INDEX_NONE ? NULL : &search->workers[number];
}

static bool goes_backward(const struct vt_attribution *attribution)
{
    for (size_t i = 0; i < attribution->span_count; i++)
        if (attribution->spans[i].phase == VT_PHASE_BACKWARD ||
            attribution->spans[i].phase == VT_PHASE_OPTIMIZER)
            return true;
    return false;
}

static bool begins_step(const struct vt_attribution *attribution, size_t span)
{
    return attribution->spans[span].step != (span > 0 ? attribution->spans[span - 1].step : 0);
}

static void list_workers(struct search *search)
{
    const struct vt_attribution *attribution = search->attribution;
    for (size_t i = 0; i < attribution->span_count; i++) {
        const struct vt_span *span = &attribution->spans[i];
        if (!begins_step(attribution, i))
            continue;
        struct worker *worker = worker_at(search, span->first_event);
        if (!worker) {
            vt_index_put(&search->requests->threads, vt_leak_thread_of(attribution->trace, span->first_event),
                         (uint32_t)search->worker_count);
            VT_APPEND(search->workers, search->worker_count, search->worker_capacity,
                      (struct worker){.first_step = span->step});
            worker = &search->workers[search->worker_count - 1];
        }
        search->requests->busy_threads += worker->count++ == 1;
    }
}

static void begin_request(struct search *search, struct worker *worker, uint32_t event, uint32_t step)
{
    if (worker->count >= ENDED_BY)
        search->requests->over_at[worker->latest[ENDED_BY - 1]] = event;
    for (uint32_t i = ENDED_BY - 1; i > 0; i--)
        worker->latest[i] = worker->latest[i - 1];
    worker->latest[0] = step;
    worker->count++;
}

static void read_events(struct search *search)
{
    const struct vt_attribution *attribution = search->attribution;
    struct vt_leak_requests *requests = search->requests;
    for (size_t i = 0; i < search->worker_count; i++)
        search->workers[i].count = 0;
    for (size_t i = 0; i < attribution->span_count; i++) {
        const struct vt_span *span = &attribution->spans[i];
        for (uint32_t event = span->first_event; event <= span->last_event; event++) {
            struct worker *worker = worker_at(search, event);
            requests->step_of[event] = span->step;
            if (!worker)
                continue;
            worker->last_event = event;
            if (event == span->first_event && begins_step(attribution, i))
                begin_request(search, worker, event, span->step);
            if (span->step > 0)
                requests->step_of[event] = worker->count > 0 ? worker->latest[0] : worker->first_step;
        }
    }
}

static void end_short_lives(struct search *search)
{
    for (size_t i = 0; i < search->worker_count; i++) {
        const struct worker *worker = &search->workers[i];
        for (uint32_t k = 0; k < worker->count && worker->count <= ENDED_BY; k++)
            search->requests->over_at[worker->latest[k]] = worker->last_event;
    }
}

static int compare_ends(const void *a, const void *b)
{
    const struct end *left = a, *right = b;
    return 2 * vt_order(left->event, right->event) + vt_order(left->step, right->step);
}

static void list_ends(struct search *search)
{
    struct vt_leak_requests *requests = search->requests;
    const uint32_t step_count = search->attribution->step_count;
    struct end *ends = vt_allocate((step_count + 1) * sizeof *ends);
    size_t count = 0;
    for (uint32_t step = 1; step <= step_count; step++)
        if (requests->over_at[step] <= search->last_border)
            ends[count++] = (struct end){requests->over_at[step], step};
    vt_sort(ends, count, sizeof *ends, compare_ends);
    requests->ends = vt_allocate((count + 1) * sizeof *requests->ends);
    requests->first_steps = vt_allocate((count + 2) * sizeof *requests->first_steps);
    requests->end_count = count;
    requests->first_steps[count + 1] = step_count;
    for (size_t i = count; i-- > 0;) {
        uint32_t later = requests->first_steps[i + 2];
        requests->ends[i] = ends[i].event;
        requests->first_steps[i + 1] = ends[i].step < later ? ends[i].step : later;
    }
    requests->first_steps[0] = requests->first_steps[1];
    free(ends);
}

static bool is_passing(struct search *search, const struct vt_allocation *allocation)
{
    const struct vt_trace *trace = search->attribution->trace;
    const uint32_t step = search->requests->step_of[allocation->alloc_event];
    if (allocation->free_event == VT_NEVER || step == 0 || !worker_at(search, allocation->alloc_event))
        return false;
    if (search->requests->over_at[step] != VT_NEVER)
        return allocation->free_event <= search->requests->over_at[step];
    return vt_leak_thread_of(trace, allocation->free_event) ==
           vt_leak_thread_of(trace, allocation->alloc_event);
}

/* An inspection holds what other threads let go of until it ends: nobody knows for how long such a block was
 * needed. It counts as one that its request freed. What makes no calls and frees meanwhile is the inspection.
 */
static void pass_inspected(struct search *search, const struct vt_inspection *inspection)
{
    const struct vt_event *events = search->attribution->trace->events;
    const struct vt_replay *replay = search->attribution->replay;
    uint64_t end_ns = events[inspection->event_index].t_ns;
    for (uint32_t event = inspection->event_index;
         event-- > 0 && end_ns - events[event].t_ns <= inspection->duration_ns;)
        for (uint32_t i = replay->first_freed[event]; i != VT_NEVER && !worker_at(search, event);
             i = replay->next_freed[i])
            search->requests->passing[i] = 1;
}

static void list_passing(struct search *search)
{
    const struct vt_replay *replay = search->attribution->replay;
    const struct vt_trace *trace = search->attribution->trace;
    for (size_t i = 0; i < replay->allocation_count; i++)
        search->requests->passing[i] = is_passing(search, &replay->allocations[i]);
    for (size_t i = 0; i < trace->inspection_count; i++)
        pass_inspected(search, &trace->inspections[i]);
}

struct vt_leak_requests vt_leak_requests_find(const struct vt_attribution *attribution, uint32_t last_border)
{
    struct vt_leak_requests requests = {0};
    struct search search = {attribution, &requests, last_border, .workers = NULL};
    if (goes_backward(attribution))
        return requests;
    list_workers(&search);
    if (search.worker_count > 1) {
        requests.step_of = vt_allocate_zeros(attribution->trace->event_count + 1, sizeof *requests.step_of);
        requests.over_at = vt_allocate((attribution->step_count + 1) * sizeof *requests.over_at);
        requests.passing = vt_allocate_zeros(attribution->replay->allocation_count + 1, 1);
        for (uint32_t step = 0; step <= attribution->step_count; step++)
            requests.over_at[step] = VT_NEVER;
        read_events(&search);
        end_short_lives(&search);
        list_ends(&search);
        list_passing(&search);
    } else {
        vt_leak_requests_free(&requests);
    }
    free(search.workers);
    return requests;
}

void vt_leak_requests_free(struct vt_leak_requests *requests)
{
    free(requests->step_of);
    free(requests->over_at);
    free(requests->passing);
    free(requests->ends);
    free(requests->first_steps);
    vt_index_free(&requests->threads);
    *requests = (struct vt_leak_requests){0};
}

uint32_t vt_leak_turn_at(const struct vt_leak_requests *requests, uint32_t event)
{
    return (uint32_t)vt_count_up_to(requests->ends, requests->end_count, event);
}

uint32_t vt_leak_turn_made(const struct vt_leak_requests *requests, const struct vt_attribution *attribution,
                           uint32_t allocation)
{
    const uint32_t event = attribution->replay->allocations[allocation].alloc_event;
    const uint32_t step = requests->step_of[event];
    if (step == 0 || !vt_index_has(&requests->threads, vt_leak_thread_of(attribution->trace, event)))
        return vt_leak_turn_at(requests, event);
    uint32_t end = requests->over_at[step], turn = vt_leak_turn_at(requests, end);
    return turn > 0 && requests->ends[turn - 1] == end ? turn : VT_NEVER;
}

bool vt_leak_is_over(const struct vt_leak_requests *requests, const struct vt_attribution *attribution,
                     uint32_t allocation, uint32_t event)
{
    return vt_leak_turn_made(requests, attribution, allocation) <= vt_leak_turn_at(requests, event);
}
