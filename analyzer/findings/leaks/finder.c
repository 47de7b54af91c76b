/* What all parts of the search for leaks share. */
#include "findings/leaks/finder.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/allocate.h"

/* ---- Steps ---- */

static void find_borders(struct vt_leak_finder *finder)
{
    const struct vt_attribution *attribution = finder->attribution;
    finder->borders = vt_allocate_zeros(finder->step_count + 1, sizeof *finder->borders);
    for (size_t i = 0; i < attribution->span_count; i++)
        if (attribution->spans[i].step <= finder->step_count)
            finder->borders[attribution->spans[i].step] = attribution->spans[i].last_event;
    finder->last_border = finder->borders[finder->step_count - 1];
}

uint32_t vt_leak_step_of(const struct vt_leak_finder *finder, uint32_t event)
{
    if (event == VT_NEVER)
        return VT_NEVER;
    return finder->requests.step_of ? finder->requests.step_of[event]
                                    : vt_span_at(finder->attribution, event)->step;
}

bool vt_leak_is_kept(const struct vt_leak_finder *finder, uint32_t index)
{
    const struct vt_allocation *allocation = &finder->replay->allocations[index];
    return allocation->alloc_event <= finder->last_border && allocation->free_event > finder->last_border &&
           !vt_leak_is_passing(finder, index);
}

uint32_t vt_leak_of(const struct vt_leak_finder *finder, uint32_t allocation)
{
    uint32_t class = finder->class_of[allocation];
    return class == VT_NO_CLASS ? VT_NO_CLASS : finder->classes[class].group;
}

bool vt_leak_is_held(const struct vt_leak_finder *finder, uint32_t number, uint32_t allocation)
{
    const struct vt_leak *leak = &finder->leaks->items[number];
    return leak->rebuilt || leak->verdict == VT_LEAK_CYCLE || vt_leak_is_kept(finder, allocation);
}

/* ---- Classes ---- */

/* Objects and threads are left out: a module that each step creates again is the same code. Lines replace
 * instructions, since the interpreter uses other instructions for a call once it has specialized it. */
static void key_stacks(struct vt_leak_finder *finder)
{
    const struct vt_trace *trace = finder->trace;
    finder->code_keys = vt_allocate_zeros(trace->stack_count + 1, sizeof *finder->code_keys);
    finder->operator_keys = vt_allocate_zeros(trace->stack_count + 1, sizeof *finder->operator_keys);
    for (size_t id = 0; id < trace->stack_count; id++) {
        const struct vt_trace_stack *stack = &trace->stacks[id];
        const char *operator= vt_operator_of(finder->attribution, (uint32_t)id);
        uint64_t key = 0;
        for (uint32_t i = 0; i < stack->python_count; i++)
            key = vt_mix(key, vt_trace_line_key(trace, &stack->python[i]));
        for (uint32_t i = 0; stack->python_count == 0 && i < stack->native_count; i++)
            key = vt_mix(key, stack->native[i]);
        finder->code_keys[id] = key;
        finder->operator_keys[id] = operator? vt_hash_bytes(operator, strlen(operator), VT_HASH_START) : 0;
    }
}

/* A line that uses a math library makes results and, now and then, workspaces: they live by other rules. */
static uint64_t class_key(const struct vt_leak_finder *finder, const struct vt_allocation *allocation)
{
    const bool is_workspace = vt_label_of(finder->attribution, allocation)->category == VT_CATEGORY_WORKSPACE;
    uint64_t key = vt_mix(finder->code_keys[allocation->stack_id], allocation->kind * 2u + is_workspace);
    key = vt_mix(key, finder->operator_keys[allocation->stack_id]);
    return vt_mix(key, finder->code_keys[vt_label_of(finder->attribution, allocation)->forward_stack_id]);
}

static bool is_watched(const struct vt_leak_finder *finder, const struct vt_allocation *allocation)
{
    const struct vt_label *label = vt_label_of(finder->attribution, allocation);
    if ((allocation->flags & VT_FLAG_FOREIGN) || vt_is_container(allocation) ||
        allocation->stack_id >= finder->trace->stack_count ||
        label->forward_stack_id >= finder->trace->stack_count)
        return false;
    if (allocation->kind == VT_ALLOCATION_HOST)
        return finder->reports_host;
    return allocation->device_index == finder->device_index &&
           (allocation->kind == VT_ALLOCATION_BLOCK || allocation->kind == VT_ALLOCATION_DRIVER ||
            allocation->kind == VT_ALLOCATION_POOLED);
}

static void classify(struct vt_leak_finder *finder)
{
    const struct vt_replay *replay = finder->replay;
    struct vt_index index = {0};

    finder->class_of = vt_allocate((replay->allocation_count + 1) * sizeof *finder->class_of);
    finder->order = vt_allocate((replay->allocation_count + 1) * sizeof *finder->order);
    for (size_t i = 0; i < replay->allocation_count; i++) {
        const struct vt_allocation *allocation = &replay->allocations[i];
        finder->class_of[i] = VT_NO_CLASS;
        if (!is_watched(finder, allocation))
            continue;
        uint64_t key = class_key(finder, allocation);
        uint32_t number = vt_index_get(&index, key);
        if (number == VT_INDEX_NONE) {
            number = (uint32_t)finder->class_count;
            vt_index_put(&index, key, number);
            VT_APPEND(finder->classes, finder->class_count, finder->class_capacity,
                      (struct vt_leak_class){.kind = allocation->kind, .group = VT_NO_CLASS});
        }
        finder->class_of[i] = number;
        finder->classes[number].count++;
    }
    vt_index_free(&index);
}

/* Counts the steps from which a class keeps something. `counted`: by step, the last class + 1 that was. */
static void count_births(struct vt_leak_finder *finder, uint32_t number, uint32_t *counted)
{
    struct vt_leak_class *class = &finder->classes[number];
    for (uint32_t i = 0; i < class->count; i++) {
        uint32_t index = finder->order[class->first + i];
        const struct vt_allocation *allocation = &finder->replay->allocations[index];
        uint32_t step = vt_leak_step_of(finder, allocation->alloc_event);
        if (step == 0 || !vt_leak_is_kept(finder, index) || !vt_leak_is_judged(finder, index))
            continue;
        if (class->births == 0 || step < class->first_birth)
            class->first_birth = step;
        class->births += counted[step] != number + 1;
        counted[step] = number + 1;
        class->last_birth = step > class->last_birth ? step : class->last_birth;
        class->stack_id = allocation->stack_id;
    }
}

static void sort_by_class(struct vt_leak_finder *finder)
{
    uint32_t *counted = vt_allocate_zeros((size_t)finder->step_count + 1, sizeof *counted), first = 0;
    for (size_t i = 0; i < finder->class_count; i++) {
        finder->classes[i].first = first;
        first += finder->classes[i].count;
        finder->classes[i].count = 0;
    }
    for (uint32_t i = 0; i < finder->replay->allocation_count; i++) {
        if (finder->class_of[i] == VT_NO_CLASS)
            continue;
        struct vt_leak_class *class = &finder->classes[finder->class_of[i]];
        finder->order[class->first + class->count++] = i;
    }
    for (uint32_t i = 0; i < finder->class_count; i++)
        count_births(finder, i, counted);
    free(counted);
}

/* ---- Nodes ---- */

struct thread_state {
    uint64_t sequence, call;
};

/* The call that a stack is in. */
static uint64_t call_of(const struct vt_leak_finder *finder, uint32_t stack_id)
{
    const struct vt_trace_stack *stack = &finder->trace->stacks[stack_id];
    uint32_t offset = stack->python_count > 0 ? (uint32_t)stack->python[0].instruction_offset : 0;
    return vt_mix(finder->code_keys[stack_id], offset);
}

/* The first event with a node's number comes from the call that made the node; so do the next ones from the
 * same place. (Later ones come from operators without a node.) */
static void read_nodes(struct vt_leak_finder *finder)
{
    const struct vt_trace *trace = finder->trace;
    struct vt_index threads = {0};
    struct thread_state *states = NULL;
    size_t count = 0, capacity = 0;

    finder->made_node = vt_allocate_zeros(trace->event_count + 1, 1);
    for (size_t i = 0; i < trace->event_count; i++) {
        const struct vt_event *event = &trace->events[i];
        if (event->sequence <= VT_SEQUENCE_NO_NUMBER || event->stack_id >= trace->stack_count)
            continue;
        uint32_t thread_id = trace->stacks[event->stack_id].thread_id;
        if (event->sequence % 2) {
            vt_index_put(&finder->ran, vt_leak_node(event->sequence), 1);
            vt_index_put(&finder->engine, thread_id, 1);
            continue;
        }
        uint32_t number = vt_index_get(&threads, thread_id);
        if (number == VT_INDEX_NONE) {
            number = (uint32_t)count;
            vt_index_put(&threads, thread_id, number);
            VT_APPEND(states, count, capacity, (struct thread_state){0});
        }
        struct thread_state *state = &states[number];
        uint64_t call = call_of(finder, event->stack_id);
        if (event->sequence > state->sequence)
            *state = (struct thread_state){event->sequence, call};
        finder->made_node[i] = event->sequence == state->sequence && state->call == call;
    }
    vt_index_free(&threads);
    free(states);
}

void vt_leak_finder_read(struct vt_leak_finder *finder)
{
    find_borders(finder);
    key_stacks(finder);
    classify(finder);
    finder->requests = vt_leak_requests_find(finder->attribution, finder->last_border, finder->code_keys,
                                             finder->class_of, finder->class_count);
    finder->at_one_time = finder->attribution->concurrent_calls > finder->requests.at_one_time
                              ? finder->attribution->concurrent_calls
                              : finder->requests.at_one_time;
    sort_by_class(finder);
    read_nodes(finder);
}

void vt_leak_finder_free(struct vt_leak_finder *finder)
{
    free(finder->borders);
    vt_leak_requests_free(&finder->requests);
    free(finder->code_keys);
    free(finder->operator_keys);
    free(finder->class_of);
    free(finder->order);
    free(finder->classes);
    free(finder->made_node);
    free(finder->series);
    vt_index_free(&finder->ran);
    vt_index_free(&finder->engine);
}

/* ---- Leaks ---- */

#define VT_TEXT(id, text) const char vt_text_##id[] = text;
#include "findings/findings.def"

void vt_leak_set_verdict(struct vt_leak *leak, enum vt_leak_verdict verdict)
{
    static const struct {
        const char *name, *remedy;
        bool is_leak;
    } verdicts[] = {
#define VT_GROWTH(id, name, is_leak, remedy) {name, remedy, is_leak},
#include "findings/findings.def"
    };

    leak->verdict = (uint8_t)verdict;
    leak->name = verdicts[verdict].name;
    snprintf(leak->remedy, sizeof leak->remedy, "%s", verdicts[verdict].remedy);
    leak->is_leak = verdicts[verdict].is_leak;
}

struct vt_leak *vt_leak_add(struct vt_leak_finder *finder, enum vt_leak_verdict verdict)
{
    struct vt_leaks *leaks = finder->leaks;
    VT_APPEND(leaks->items, leaks->count, finder->leak_capacity,
              (struct vt_leak){.category = VT_CATEGORY_UNKNOWN});
    struct vt_leak *leak = &leaks->items[leaks->count - 1];
    vt_leak_set_verdict(leak, verdict);
    return leak;
}

void vt_leak_add_part(const struct vt_leak_finder *finder, struct vt_leak *leak, struct vt_leak_class *class,
                      uint64_t bytes, uint64_t blocks, uint8_t category)
{
    leak->parts = vt_resize(leak->parts, leak->part_count + 1, sizeof *leak->parts);
    leak->parts[leak->part_count++] =
        (struct vt_leak_part){.stack_id = class->stack_id,
                              .category = category,
                              .bytes_per_step = class->bytes_per_step,
                              .bytes = bytes,
                              .blocks = blocks,
                              .place = vt_place_of(finder->places, class->stack_id),
                              .operator_name = vt_operator_of(finder->attribution, class->stack_id)};
    class->group = (uint32_t)(leak - finder->leaks->items);
    leak->bytes += bytes;
    leak->blocks += blocks;
    leak->bytes_per_step += class->bytes_per_step;
}
