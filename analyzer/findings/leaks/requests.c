/* Requests of a server that several threads handle. How these take turns is up to the system: at the border
 * of a step others are in the middle of requests, for as long as they do not run. So what a request keeps is
 * judged when it is over, and in the order in which requests are over.
 *
 * A request is over when its thread begins the next but one: a loop frees what one round made in the next
 * round. Of a thread that handles too few for that, such as one made for a single request, its last event
 * tells. */
#include "findings/leaks/requests.h"

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

struct search {
    const struct vt_attribution *attribution;
    struct vt_leak_requests *requests;
    uint32_t last_border;
    const uint64_t *code_keys; /* by stack */
    const uint32_t *class_of;  /* by allocation */
    size_t class_count;
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

static uint64_t code_at(const struct search *search, uint32_t event)
{
    const struct vt_trace *trace = search->attribution->trace;
    uint32_t stack_id = trace->events[event].stack_id;
    return stack_id < trace->stack_count ? search->code_keys[stack_id] : 0;
}

/* The first step begins with the first forward of any kind, such as a batch or a call to warm up. Its request
 * begins with the code that begins the next one. */
static void begin_first_step(struct search *search)
{
    const struct vt_event *events = search->attribution->trace->events;
    struct vt_leak_request *first = &search->requests->items[1];
    const uint32_t second = search->attribution->step_count > 1 ? first[1].begun : VT_NEVER;
    if (first->begun == VT_NEVER || second == VT_NEVER) /* they began where events were left out */
        return;
    for (uint32_t event = first->begun; event < second; event++)
        if (events[event].kind == VT_EVENT_ALLOC && code_at(search, event) == code_at(search, second)) {
            first->begun = event;
            return;
        }
}

static void find_beginnings(struct search *search)
{
    const struct vt_attribution *attribution = search->attribution;
    struct vt_leak_request *items = search->requests->items;
    for (uint32_t step = 0; step <= attribution->step_count; step++)
        items[step] = (struct vt_leak_request){VT_NEVER, VT_NEVER, VT_NEVER, 0};
    for (size_t i = attribution->span_count; i-- > 0;)
        items[attribution->spans[i].step].begun = attribution->spans[i].first_event;
    begin_first_step(search);
}

static void list_workers(struct search *search)
{
    const struct vt_attribution *attribution = search->attribution;
    for (uint32_t step = 1; step <= attribution->step_count; step++) {
        uint32_t event = search->requests->items[step].begun;
        if (event == VT_NEVER || worker_at(search, event))
            continue;
        vt_index_put(&search->requests->threads, vt_leak_thread_of(attribution->trace, event),
                     (uint32_t)search->worker_count);
        VT_APPEND(search->workers, search->worker_count, search->worker_capacity,
                  (struct worker){.first_step = step});
    }
}

static void begin_request(struct search *search, struct worker *worker, uint32_t event, uint32_t step)
{
    struct vt_leak_request *items = search->requests->items;
    if (worker->count > 0)
        items[worker->latest[0]].next = step;
    if (worker->count >= ENDED_BY)
        items[worker->latest[ENDED_BY - 1]].over = event;
    for (uint32_t i = ENDED_BY - 1; i > 0; i--)
        worker->latest[i] = worker->latest[i - 1];
    worker->latest[0] = step;
    worker->count++;
}

static void read_events(struct search *search)
{
    const struct vt_attribution *attribution = search->attribution;
    struct vt_leak_requests *requests = search->requests;
    for (size_t i = 0; i < attribution->span_count; i++) {
        const struct vt_span *span = &attribution->spans[i];
        for (uint32_t event = span->first_event; event <= span->last_event; event++) {
            struct worker *worker = worker_at(search, event);
            requests->step_of[event] = span->step;
            if (!worker)
                continue;
            worker->last_event = event;
            if (span->step > 0 && event == requests->items[span->step].begun)
                begin_request(search, worker, event, span->step);
            if (span->step > 0)
                requests->step_of[event] = worker->count > 0 ? worker->latest[0] : worker->first_step;
        }
    }
}

/* If most requests have such threads. A thread of a pool that has handled few may be in the middle of one. */
static void end_short_lives(struct search *search)
{
    uint32_t requests = 0;
    for (size_t i = 0; i < search->worker_count; i++)
        requests += search->workers[i].count <= ENDED_BY ? search->workers[i].count : 0;
    for (size_t i = 0; i < search->worker_count && requests * 2 > search->attribution->step_count; i++) {
        const struct worker *worker = &search->workers[i];
        for (uint32_t k = 0; k < worker->count && worker->count <= ENDED_BY; k++)
            search->requests->items[worker->latest[k]].over = worker->last_event;
    }
}

/* Code that threads run before their first call prepares calls, such as the input: what it makes belongs to
 * the call that comes next. One thread alone may set up the program. */
static void find_heads(struct search *search)
{
    const struct vt_replay *replay = search->attribution->replay;
    struct vt_leak_requests *requests = search->requests;
    struct head {
        struct worker *worker; /* that ran it before its first call */
        bool several;
    } *heads = vt_allocate_zeros(search->class_count + 1, sizeof *heads);
    for (int round = 0; round < 2; round++)
        for (size_t i = 0; i < replay->allocation_count; i++) {
            uint32_t event = replay->allocations[i].alloc_event;
            struct worker *worker = worker_at(search, event);
            if (!worker || search->class_of[i] == VT_INDEX_NONE)
                continue;
            struct head *head = &heads[search->class_of[i]];
            bool first = event < requests->items[worker->first_step].begun;
            uint32_t next = first ? worker->first_step : requests->items[requests->step_of[event]].next;
            if (round == 0 && first) {
                head->several |= head->worker && head->worker != worker;
                head->worker = worker;
            } else if (round == 1 && head->several && next > 0) {
                requests->step_of[event] = next;
            }
        }
    free(heads);
}

static void find_first_allocations(struct search *search)
{
    const struct vt_replay *replay = search->attribution->replay;
    for (size_t i = replay->allocation_count; i-- > 0;) {
        uint32_t event = replay->allocations[i].alloc_event;
        search->requests->items[search->requests->step_of[event]].made = event;
    }
}

static int compare_events(const void *a, const void *b)
{
    return vt_order(*(const uint32_t *)a, *(const uint32_t *)b);
}

static void list_ends(struct search *search)
{
    struct vt_leak_requests *requests = search->requests;
    const uint32_t step_count = search->attribution->step_count;
    requests->ends = vt_allocate((step_count + 1) * sizeof *requests->ends);
    for (uint32_t step = 1; step <= step_count; step++)
        if (requests->items[step].over <= search->last_border) {
            requests->ends[requests->end_count++] = requests->items[step].over;
            requests->last_over = step;
        }
    vt_sort(requests->ends, requests->end_count, sizeof *requests->ends, compare_events);
}

/* Threads that are between their first request and their last event at one time. */
static uint32_t count_at_one_time(const struct search *search)
{
    uint32_t *last = vt_allocate(search->worker_count * sizeof *last), most = 0;
    for (size_t i = 0; i < search->worker_count; i++)
        last[i] = search->workers[i].last_event;
    vt_sort(last, search->worker_count, sizeof *last, compare_events);
    for (uint32_t i = 0; i < search->worker_count; i++) { /* they are in the order of their first requests */
        uint32_t begun = search->requests->items[search->workers[i].first_step].begun;
        uint32_t now = i + 1 - (uint32_t)vt_count_up_to(last, search->worker_count, begun);
        most = now > most ? now : most;
    }
    free(last);
    return most;
}

static enum vt_leak_passing passing_of(struct search *search, const struct vt_allocation *allocation)
{
    const struct vt_trace *trace = search->attribution->trace;
    const uint32_t step = search->requests->step_of[allocation->alloc_event];
    if (allocation->free_event == VT_NEVER || step == 0 || !worker_at(search, allocation->alloc_event))
        return VT_LEAK_NOT_PASSING;
    const uint32_t over = search->requests->items[step].over;
    bool same_thread =
        vt_leak_thread_of(trace, allocation->free_event) == vt_leak_thread_of(trace, allocation->alloc_event);
    if (same_thread && (over == VT_NEVER || allocation->free_event <= over))
        return VT_LEAK_USED_UP;
    return over != VT_NEVER && allocation->free_event <= over ? VT_LEAK_TAKEN : VT_LEAK_NOT_PASSING;
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
            search->requests->passing[i] = VT_LEAK_USED_UP;
}

static void list_passing(struct search *search)
{
    const struct vt_replay *replay = search->attribution->replay;
    const struct vt_trace *trace = search->attribution->trace;
    for (size_t i = 0; i < replay->allocation_count; i++)
        search->requests->passing[i] = (uint8_t)passing_of(search, &replay->allocations[i]);
    for (size_t i = 0; i < trace->inspection_count; i++)
        pass_inspected(search, &trace->inspections[i]);
}

struct vt_leak_requests vt_leak_requests_find(const struct vt_attribution *attribution, uint32_t last_border,
                                              const uint64_t *code_keys, const uint32_t *class_of,
                                              size_t class_count)
{
    struct vt_leak_requests requests = {.attribution = attribution};
    struct search search = {.attribution = attribution,
                            .requests = &requests,
                            .last_border = last_border,
                            .code_keys = code_keys,
                            .class_of = class_of,
                            .class_count = class_count};
    if (goes_backward(attribution))
        return requests;
    requests.items = vt_allocate((attribution->step_count + 1) * sizeof *requests.items);
    find_beginnings(&search);
    list_workers(&search);
    if (search.worker_count > 1) {
        requests.step_of = vt_allocate_zeros(attribution->trace->event_count + 1, sizeof *requests.step_of);
        requests.passing = vt_allocate_zeros(attribution->replay->allocation_count + 1, 1);
        read_events(&search);
        find_heads(&search);
        find_first_allocations(&search);
        end_short_lives(&search);
        list_ends(&search);
        requests.at_one_time = count_at_one_time(&search);
        list_passing(&search);
    } else {
        vt_leak_requests_free(&requests);
    }
    free(search.workers);
    return requests;
}

void vt_leak_requests_free(struct vt_leak_requests *requests)
{
    free(requests->items);
    free(requests->step_of);
    free(requests->passing);
    free(requests->ends);
    vt_index_free(&requests->threads);
    *requests = (struct vt_leak_requests){0};
}

/* The request that a thread which begins steps is in; NULL = none. */
static const struct vt_leak_request *request_at(const struct vt_leak_requests *requests, uint32_t event)
{
    const uint32_t step = requests->step_of[event];
    bool begins = vt_index_has(&requests->threads, vt_leak_thread_of(requests->attribution->trace, event));
    return begins && step > 0 ? &requests->items[step] : NULL;
}

uint32_t vt_leak_turn_at(const struct vt_leak_requests *requests, uint32_t event)
{
    return (uint32_t)vt_count_up_to(requests->ends, requests->end_count, event);
}

uint32_t vt_leak_turn_of(const struct vt_leak_requests *requests, uint32_t allocation)
{
    const uint32_t event = requests->attribution->replay->allocations[allocation].alloc_event;
    const struct vt_leak_request *request = request_at(requests, event);
    if (!request)
        return vt_leak_turn_at(requests, event);
    uint32_t turn = vt_leak_turn_at(requests, request->over);
    return turn > 0 && requests->ends[turn - 1] == request->over ? turn : VT_NEVER;
}

bool vt_leak_is_over(const struct vt_leak_requests *requests, uint32_t allocation, uint32_t event)
{
    return vt_leak_turn_of(requests, allocation) <= vt_leak_turn_at(requests, event);
}

/* What a request takes out of a list or cache is its own from then on, and it may be stopped before it does
 * so. So what was there when it began counts as gone then. */
uint32_t vt_leak_gone_at(const struct vt_leak_requests *requests, uint32_t allocation)
{
    const struct vt_allocation *block = &requests->attribution->replay->allocations[allocation];
    const struct vt_leak_request *by =
        block->free_event == VT_NEVER ? NULL : request_at(requests, block->free_event);
    bool was_there = by && block->alloc_event < by->begun && by->begun < block->free_event;
    return was_there ? by->begun : block->free_event;
}
