/* Reference cycles: what only the collector frees. It runs once enough objects were made, in the middle of
 * anything, and frees at once what several steps left. A script that clears a list does so at one place.
 * Where the trace marks the collector's frees, nothing has to be guessed. */
#include "diagnose/leaks/cycles.h"

#include "base/allocate.h"
#include "diagnose/leaks/finder.h"
#include "diagnose/leaks/lines.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

struct freed {
    uint32_t class, step;
    uint64_t bytes;
    bool marked; /* by the collector, as recorded */
};

/* Consecutive frees, with the allocations around them. Where several threads handle requests, all of one
 * thread: the collector runs in one, and where others are says nothing about it. */
struct burst {
    uint32_t before, after, step; /* events; the step that it is in */
    bool marks_known;             /* the collector's frees are marked from here on */
    bool at_border;               /* a step ends between them: a loop of one line looks like a single call */
    struct freed *items;
    size_t count, capacity;
};

static int compare_freed(const void *a, const void *b)
{
    const struct freed *left = a, *right = b;
    return 2 * vt_order(left->class, right->class) + vt_order(left->step, right->step);
}

/* Where the script is at an event: its innermost frame, 0 = none. */
static uint64_t script_place(const struct vt_leak_finder *finder, uint32_t event)
{
    return vt_trace_own_line_key(finder->trace, finder->trace->events[event].stack_id);
}

/* An allocation that shows where the script is: not what the framework needs now and then below it. */
static bool is_place(const struct vt_leak_finder *finder, uint32_t event)
{
    const struct vt_event *seen = &finder->trace->events[event];
    return seen->kind == VT_EVENT_ALLOC && (seen->layer == VT_LAYER_FRAMEWORK || !finder->has_blocks);
}

static void gather(const struct vt_leak_finder *finder, uint32_t first, uint32_t last, struct burst *burst)
{
    const struct vt_replay *replay = finder->replay;
    burst->count = 0;
    for (uint32_t event = first; event <= last; event++) {
        for (uint32_t i = replay->first_freed[event]; i != VT_NEVER; i = replay->next_freed[i]) {
            uint32_t step = vt_leak_step_of(finder, replay->allocations[i].alloc_event);
            bool marked = finder->trace->events[event].flags & VT_FLAG_COLLECTOR;
            if (finder->class_of[i] == VT_NO_CLASS || step == 0 || (vt_leak_is_passing(finder, i) && !marked))
                continue;
            if (finder->requests.step_of && !vt_leak_is_over(&finder->requests, i, event))
                step = burst->step;
            VT_APPEND(burst->items, burst->count, burst->capacity,
                      (struct freed){finder->class_of[i], step, replay->allocations[i].bytes, marked});
        }
    }
    if (burst->count > 1)
        qsort(burst->items, burst->count, sizeof *burst->items, compare_freed);
}

/* Adds what one burst freed of one class: items[0] to items[count - 1], by step. */
static void add_burst(const struct vt_leak_finder *finder, const struct burst *burst,
                      const struct freed *items, size_t count, struct vt_leak_class *class)
{
    uint64_t before = script_place(finder, burst->before), after = script_place(finder, burst->after);
    uint64_t bytes = 0, place = vt_mix(before, after);
    bool inside = before != 0 && before == after && !burst->at_border;
    uint32_t steps = 0, last_step = 0;
    bool marked = false;
    for (size_t i = 0; i < count; i++)
        marked |= items[i].marked;
    if (!marked && (burst->marks_known || items[0].step == items[count - 1].step))
        return;
    for (size_t i = 0; i < count && items[i].step < burst->step; i++) { /* its own step may be incomplete */
        if (items[i].marked != marked)
            continue;
        bytes += items[i].bytes;
        steps += steps == 0 || items[i].step != last_step;
        last_step = items[i].step;
    }
    if (steps < 2 && !inside && !marked) /* assigning to a variable frees what an earlier step left in it */
        return;
    if (class->bursts++ == 0)
        class->burst_first_step = items[0].step;
    else
        class->burst_moves += place != class->burst_place;
    class->burst_place = place;
    class->burst_inside |= inside;
    class->burst_marked |= marked;
    class->burst_last_step = items[count - 1].step;
    class->burst_bytes += bytes;
    class->burst_steps += steps;
    if (bytes > class->most_bytes) {
        class->most_bytes = bytes;
        class->most_blocks = count;
    }
}

/* Whose frees belong together. */
static uint32_t party_of(const struct vt_leak_finder *finder, uint32_t event)
{
    return finder->requests.step_of ? vt_leak_thread_of(finder->trace, event) : 0;
}

/* By event, up to the last border: the next that shows where its party is; the last border if there is none.
 */
static uint32_t *find_next_places(const struct vt_leak_finder *finder)
{
    uint32_t *next = vt_allocate(((size_t)finder->last_border + 1) * sizeof *next);
    struct vt_index places = {0}; /* by party */
    for (uint32_t event = finder->last_border + 1; event-- > 0;) {
        uint32_t party = party_of(finder, event), place = vt_index_get(&places, party);
        next[event] = place == VT_INDEX_NONE ? finder->last_border : place;
        if (is_place(finder, event))
            vt_index_put(&places, party, event);
    }
    vt_index_free(&places);
    return next;
}

static void read_burst(const struct vt_leak_finder *finder, uint32_t first, uint32_t last,
                       struct burst *burst)
{
    burst->step = vt_span_at(finder->attribution, first)->step;
    burst->at_border = vt_leak_step_of(finder, burst->before) != vt_leak_step_of(finder, burst->after);
    for (uint32_t i = first; i <= last; i++)
        burst->marks_known |= (finder->trace->events[i].flags & VT_FLAG_COLLECTOR) != 0;
    if (last == first)
        return;
    gather(finder, first, last, burst);
    for (size_t i = 0, end; i < burst->count; i = end) {
        for (end = i + 1; end < burst->count && burst->items[end].class == burst->items[i].class; end++)
            ;
        add_burst(finder, burst, burst->items + i, end - i, &finder->classes[burst->items[i].class]);
    }
}

static void read_bursts(struct vt_leak_finder *finder)
{
    const struct vt_trace *trace = finder->trace;
    struct burst burst = {0};
    struct vt_index places = {0}; /* by party: the last event that shows where it is */
    uint32_t *next_place = find_next_places(finder);

    for (uint32_t event = 0; event < finder->last_border; event++) {
        uint32_t party = party_of(finder, event), last = event;
        if (is_place(finder, event))
            vt_index_put(&places, party, event);
        if (trace->events[event].kind != VT_EVENT_FREE)
            continue;
        while (last < finder->last_border && trace->events[last + 1].kind == VT_EVENT_FREE &&
               party_of(finder, last + 1) == party)
            last++;
        burst.before = vt_index_add(&places, party, 0);
        burst.after = next_place[last];
        read_burst(finder, event, last, &burst);
        event = last;
    }
    vt_index_free(&places);
    free(next_place);
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
    bool moves = class->bursts > 2 && class->burst_moves * 2 > class->bursts - 1;
    return class->burst_steps >= VT_LEAK_BIRTHS && (class->burst_inside || class->burst_marked || moves) &&
           class->burst_bytes * 2 >= outlived(finder, class);
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
             "%" PRIu32 " time%s, memory of earlier steps was freed together, %s.", bursts,
             bursts == 1 ? "" : "s",
             largest->burst_marked ? "by Python's garbage collector"
             : largest->burst_inside
                 ? "in the middle of a call that holds none of it: only Python's collector does that"
                 : "each time at another place: only Python's collector does that");
}
