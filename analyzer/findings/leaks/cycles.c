/* Reference cycles: what only Python's collector freed, as the trace marks it. It runs once enough objects
 * were made, in the middle of anything, and frees at once what several steps left. */
#include "findings/leaks/cycles.h"

#include "base/allocate.h"
#include "findings/leaks/finder.h"
#include "findings/leaks/lines.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

struct freed {
    uint32_t class, step;
    uint64_t bytes;
};

/* What one run of the collector freed: frees that follow each other, of its thread. */
struct burst {
    uint32_t step; /* that it is in */
    struct freed *items;
    size_t count, capacity;
};

static int compare_freed(const void *a, const void *b)
{
    const struct freed *left = a, *right = b;
    return 2 * vt_order(left->class, right->class) + vt_order(left->step, right->step);
}

static void gather(const struct vt_leak_finder *finder, uint32_t event, struct burst *burst)
{
    const struct vt_replay *replay = finder->replay;
    for (uint32_t i = replay->first_freed[event]; i != VT_NEVER; i = replay->next_freed[i]) {
        uint32_t step = vt_leak_step_of(finder, replay->allocations[i].alloc_event);
        if (finder->class_of[i] == VT_NO_CLASS || step == 0)
            continue;
        if (finder->requests.step_of && !vt_leak_is_over(&finder->requests, i, event))
            step = burst->step;
        VT_APPEND(burst->items, burst->count, burst->capacity,
                  (struct freed){finder->class_of[i], step, replay->allocations[i].bytes});
    }
}

/* Adds what one run freed of one class: items[0] to items[count - 1], by step. */
static void add_class(const struct burst *burst, const struct freed *items, size_t count,
                      struct vt_leak_class *class)
{
    uint64_t bytes = 0;
    uint32_t steps = 0, last_step = 0;
    for (size_t i = 0; i < count && items[i].step < burst->step; i++) { /* its own step may be incomplete */
        bytes += items[i].bytes;
        steps += steps == 0 || items[i].step != last_step;
        last_step = items[i].step;
    }
    if (class->bursts++ == 0)
        class->burst_first_step = items[0].step;
    class->burst_last_step = items[count - 1].step;
    class->burst_bytes += bytes;
    class->burst_steps += steps;
    if (bytes > class->most_bytes) {
        class->most_bytes = bytes;
        class->most_blocks = count;
    }
}

static void add_burst(const struct vt_leak_finder *finder, struct burst *burst)
{
    if (burst->count > 1)
        qsort(burst->items, burst->count, sizeof *burst->items, compare_freed);
    for (size_t i = 0, end; i < burst->count; i = end) {
        for (end = i + 1; end < burst->count && burst->items[end].class == burst->items[i].class; end++)
            ;
        add_class(burst, burst->items + i, end - i, &finder->classes[burst->items[i].class]);
    }
    burst->count = 0;
}

static void read_bursts(struct vt_leak_finder *finder)
{
    const struct vt_trace *trace = finder->trace;
    struct burst burst = {0};
    for (uint32_t event = 0; event < finder->last_border; event++) {
        if (!(trace->events[event].flags & VT_FLAG_COLLECTOR) || trace->events[event].kind != VT_EVENT_FREE) {
            if (!finder->requests.step_of || trace->events[event].kind != VT_EVENT_FREE)
                add_burst(finder, &burst); /* another thread may free in between */
            continue;
        }
        burst.step = burst.count ? burst.step : vt_span_at(finder->attribution, event)->step;
        gather(finder, event, &burst);
    }
    add_burst(finder, &burst);
    free(burst.items);
}

/* Bytes of a class that outlived the step in which they were made, and were freed. */
static uint64_t outlived(const struct vt_leak_finder *finder, const struct vt_leak_class *class)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < class->count; i++) {
        uint32_t index = finder->order[class->first + i];
        const struct vt_allocation *allocation = &finder->replay->allocations[index];
        if (allocation->free_event < finder->last_border &&
            vt_leak_step_of(finder, allocation->free_event) >
                vt_leak_step_of(finder, allocation->alloc_event))
            bytes += allocation->bytes;
    }
    return bytes;
}

static bool is_collected(const struct vt_leak_finder *finder, const struct vt_leak_class *class)
{
    return class->burst_steps >= VT_LEAK_BIRTHS && class->burst_bytes * 2 >= outlived(finder, class);
}

static uint8_t category_of(const struct vt_leak_finder *finder, const struct vt_leak_class *class)
{
    return finder->attribution->labels[finder->order[class->first + class->count / 2]].category;
}

void vt_leak_cycles_find(struct vt_leak_finder *finder)
{
    struct vt_leak *leak = NULL;
    const struct vt_leak_class *largest = NULL;
    uint32_t bursts = 0;
    read_bursts(finder);
    for (size_t i = 0; i < finder->class_count; i++) {
        struct vt_leak_class *class = &finder->classes[i];
        if (!is_collected(finder, class))
            continue;
        if (!leak)
            leak = vt_leak_add(finder, VT_LEAK_CYCLE);
        const struct vt_allocation *sample = &finder->replay->allocations[finder->order[class->first]];
        class->stack_id = sample->stack_id;
        class->bytes_per_step = class->burst_bytes / class->burst_steps;
        vt_leak_add_part(finder, leak, class, class->most_bytes, class->most_blocks,
                         category_of(finder, class));
        bursts = class->bursts > bursts ? class->bursts : bursts;
        if (largest && class->bytes_per_step <= largest->bytes_per_step)
            continue;
        largest = class;
        leak->first_step = class->burst_first_step;
        leak->last_step = class->burst_last_step;
        leak->stack_id = class->stack_id;
        leak->module = vt_label_of(finder->attribution, sample)->module;
    }
    if (!leak)
        return;
    vt_leak_add_lines(finder, leak, largest->stack_id, VT_LEAK_LINES);
    snprintf(leak->why, sizeof leak->why,
             "Memory of earlier steps was freed in bulk, %" PRIu32 " time%s, by Python's garbage collector.",
             bursts, bursts == 1 ? "" : "s");
}
