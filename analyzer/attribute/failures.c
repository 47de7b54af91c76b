/* A framework asks the driver several times and frees its cache in between before it gives up. A refusal by
 * the driver is then only an attempt; the next events of the thread show its outcome. */
#include "attribute/failures.h"

#include <stdlib.h>
#include <string.h>

#include "base/allocate.h"
#include "trace/frameworks.h"

#define DRIVER_OUT_OF_MEMORY 2u /* CUDA_ERROR_OUT_OF_MEMORY and cudaErrorMemoryAllocation */
#define LOOK_AHEAD 65536u       /* events */
#define OBJECTS 8

struct finder {
    const struct vt_trace *trace;
    bool framework;               /* a framework recorded its blocks */
    const char *objects[OBJECTS]; /* libraries that requested its segments */
    int object_count;
};

static bool is_failure(const struct vt_event *event)
{
    return event->kind == VT_EVENT_OOM ||
           (event->kind == VT_EVENT_ALLOC_FAILED && event->detail == DRIVER_OUT_OF_MEMORY);
}

static void find_framework(const struct vt_replay *replay, struct finder *finder)
{
    uint32_t last_stack = 0;
    for (size_t i = 0; i < replay->allocation_count; i++) {
        const struct vt_allocation *allocation = &replay->allocations[i];
        const char *object;
        bool known = false;
        finder->framework |= allocation->kind == VT_ALLOCATION_BLOCK;
        if (allocation->kind != VT_ALLOCATION_SEGMENT || allocation->stack_id == last_stack ||
            finder->object_count == OBJECTS)
            continue;
        last_stack = allocation->stack_id;
        object = vt_cuda_caller(finder->trace, allocation->stack_id);
        for (int k = 0; k < finder->object_count; k++)
            known |= object && !strcmp(finder->objects[k], object);
        if (object && !known)
            finder->objects[finder->object_count++] = object;
    }
}

static bool is_frameworks(const struct finder *finder, const struct vt_event *event)
{
    const char *object = finder->framework ? vt_cuda_caller(finder->trace, event->stack_id) : NULL;
    for (int k = 0; object && k < finder->object_count; k++)
        if (!strcmp(finder->objects[k], object))
            return true;
    return finder->framework && (!object || !finder->object_count);
}

/* A framework without segments may ask once more from another place of its own, for the same line of the
 * program: TensorFlow's asynchronous allocator does. A program that tries again does so from where it was. */
static bool asks_again(const struct vt_trace *trace, const struct vt_event *failed,
                       const struct vt_event *again)
{
    const struct vt_trace_stack *a = &trace->stacks[failed->stack_id], *b = &trace->stacks[again->stack_id];
    bool differs = false;
    if (failed->bytes != again->bytes || failed->device_index != again->device_index ||
        a->native_count != b->native_count || a->python_count != b->python_count)
        return false;
    if (a->python_count && memcmp(a->python, b->python, a->python_count * sizeof *a->python) != 0)
        return false;
    for (uint32_t i = 0; i < a->native_count; i++) {
        const struct vt_trace_symbol *from = vt_trace_symbol(trace, a->native[i]),
                                     *to = vt_trace_symbol(trace, b->native[i]);
        if (a->native[i] == b->native[i])
            continue;
        if (!from || !to || strcmp(from->module, to->module) ||
            !(vt_object_kinds(from->module) & VT_OBJECT_FRAMEWORK))
            return false;
        differs = true;
    }
    return differs;
}

/* The outcome of a request that the driver refused at event `index`. *next: the next attempt, or the event by
 * which the framework gave up. */
static enum vt_failure_outcome outcome_of(const struct finder *finder, size_t index, size_t *next)
{
    const struct vt_trace *trace = finder->trace;
    const struct vt_event *failed = &trace->events[index];
    bool frameworks = is_frameworks(finder, failed);
    uint32_t thread_id = trace->stacks[failed->stack_id].thread_id;
    for (size_t i = index + 1; i < trace->event_count && i - index < LOOK_AHEAD; i++) {
        const struct vt_event *event = &trace->events[i];
        if (trace->stacks[event->stack_id].thread_id != thread_id)
            continue;
        if (is_failure(event) && (frameworks || asks_again(trace, failed, event))) {
            *next = i;
            return VT_FAILURE_REPEATED;
        }
        if (is_failure(event) || (event->layer == VT_LAYER_FRAMEWORK && event->kind == VT_EVENT_ALLOC))
            return frameworks ? VT_FAILURE_SURVIVED : VT_FAILURE_FINAL;
        if ((event->kind == VT_EVENT_ALLOC || event->kind == VT_EVENT_HANDLE_CREATE) && !frameworks)
            return event->bytes == failed->bytes ? VT_FAILURE_SURVIVED : VT_FAILURE_FINAL;
    }
    return VT_FAILURE_FINAL;
}

void vt_failures_find(const struct vt_replay *replay, struct vt_failures *failures)
{
    const struct vt_trace *trace = replay->trace;
    struct finder finder = {.trace = trace};
    size_t count = 0;
    for (size_t i = 0; i < trace->rare_event_count; i++)
        count += is_failure(&trace->events[trace->rare_events[i]]);
    *failures = (struct vt_failures){0};
    if (count == 0)
        return;
    struct vt_failure *before = /* by event: attempts for it */
        vt_allocate_zeros(trace->event_count + 1, sizeof *before);
    failures->items = vt_allocate_zeros(count, sizeof *failures->items);
    find_framework(replay, &finder);
    for (size_t k = 0; k < trace->rare_event_count; k++) {
        const size_t i = trace->rare_events[k];
        struct vt_failure *failure = &failures->items[failures->count];
        bool by_driver = trace->events[i].kind == VT_EVENT_ALLOC_FAILED;
        size_t next = 0;
        if (!is_failure(&trace->events[i]))
            continue;
        failures->count++;
        *failure = before[i];
        failure->event_index = (uint32_t)i;
        if (by_driver && (!failure->tries++ || trace->events[i].bytes < failure->tried_bytes))
            failure->tried_bytes = trace->events[i].bytes;
        if (by_driver)
            failure->outcome = (uint8_t)outcome_of(&finder, i, &next);
        if (failure->outcome == VT_FAILURE_REPEATED)
            before[next] = (struct vt_failure){.tries = failure->tries, .tried_bytes = failure->tried_bytes};
    }
    free(before);
}

void vt_failures_free(struct vt_failures *failures)
{
    free(failures->items);
    *failures = (struct vt_failures){0};
}
