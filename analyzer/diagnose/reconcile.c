/* Every byte of a card in one row: the process's own, its context, other processes, and what nothing
 * explains. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "diagnose/finders.h"
#include "report/parts.h"
#include "trace/frameworks.h"

#define KIND_CATEGORY "category"
#define KIND_LIBRARY "library"
#define KIND_CACHED "cached"
#define KIND_CONTEXT "context"
#define KIND_PROCESS "process"
#define KIND_TOGETHER "context_and_processes"
#define KIND_UNEXPLAINED "unexplained"
#define KIND_SETTINGS "settings"
#define KIND_GRAPH_MEMORY "graph_memory"

/* What took memory of the device without an allocation, by the names of functions; the first that fits. */
static const struct {
    const char *beginning, *kind;
} silent_calls[] = {
    {"cuGraph", "graphs"},   {"cuDeviceGraph", "graphs"}, {"cuModule", "modules"}, {"cuLibrary", "modules"},
    {"cuKernel", "modules"}, {"cuFunc", "modules"},       {"cuLaunch", "modules"}, {"", KIND_SETTINGS},
};

struct maker {
    const struct vt_report *report;
    const struct vt_readings *readings;
    int device_index;
    struct vt_card_table *table;
    size_t capacity;
};

/* Adds to the row of that kind and name. */
static int add(struct maker *maker, const char *kind, const char *name, int64_t bytes)
{
    struct vt_card_table *table = maker->table;
    const struct vt_card_row row = {.kind = kind, .name = name, .bytes = bytes};

    for (size_t i = 0; i < table->row_count; i++) {
        struct vt_card_row *known = &table->rows[i];

        if (!strcmp(known->kind, kind) && !known->pid &&
            (known->name && name ? !strcmp(known->name, name) : known->name == name)) {
            known->bytes += bytes;
            return 0;
        }
    }
    return bytes ? VT_APPEND(table->rows, table->row_count, maker->capacity, row) : 0;
}

/* ---- What this process has ---- */

/* Memory that a library asked CUDA for itself, that of graphs' nodes, and that of others which is mapped
 * here. */
static int add_libraries(struct maker *maker, uint64_t categories[VT_CATEGORY_COUNT], uint64_t *foreign_bytes)
{
    const struct vt_attribution *attribution = maker->report->attribution;
    const struct vt_replay *replay = attribution->replay;
    int result = 0;

    *foreign_bytes = 0;
    for (size_t i = 0; !result && i < replay->allocation_count; i++) {
        const struct vt_allocation *allocation = &replay->allocations[i];
        const char *path, *name;

        if (allocation->device_index != maker->device_index ||
            (allocation->kind != VT_ALLOCATION_DRIVER && allocation->kind != VT_ALLOCATION_POOLED &&
             allocation->kind != VT_ALLOCATION_GRAPH) ||
            !vt_alive_at(allocation, maker->table->event_index))
            continue;
        if (allocation->kind == VT_ALLOCATION_GRAPH) {
            categories[attribution->labels[i].category] -= allocation->bytes;
            result = add(maker, KIND_GRAPH_MEMORY, NULL, (int64_t)allocation->bytes);
            continue;
        }
        if (allocation->flags & VT_FLAG_FOREIGN)
            *foreign_bytes += allocation->bytes;
        path = vt_allocation_own_bytes(allocation)
                   ? vt_cuda_caller(maker->report->trace, allocation->stack_id)
                   : NULL;
        name = path ? vt_cuda_library(path) : NULL;
        if (!name)
            continue;
        categories[attribution->labels[i].category] -= allocation->bytes;
        result = add(maker, KIND_LIBRARY, name, (int64_t)allocation->bytes);
    }
    return result;
}

static const char *kind_of_call(const struct vt_trace *trace, const struct vt_event *event)
{
    const char *function = vt_trace_function(trace, trace->stacks[event->stack_id].function);
    size_t i = 0;

    while (function && strncmp(function, silent_calls[i].beginning, strlen(silent_calls[i].beginning)))
        i++;
    return function ? silent_calls[i].kind : KIND_SETTINGS;
}

/* Of modules: whose they are. */
static const char *library_of_call(const struct vt_trace *trace, const struct vt_event *event)
{
    const char *path = vt_cuda_caller(trace, event->stack_id);
    const char *name = path ? vt_cuda_library(path) : NULL, *slash = path ? strrchr(path, '/') : NULL;

    return name ? name : slash ? slash + 1 : path;
}

/* The silent calls of an era up to an event, as one sum or with `maker` as rows. */
static int add_silent(struct maker *maker, uint32_t era, uint32_t event_index, bool as_rows, int64_t *sum)
{
    const struct vt_trace *trace = maker->report->trace;
    int result = 0;

    *sum = 0;
    for (size_t i = 0; !result && i < trace->rare_event_count; i++) {
        const uint32_t index = trace->rare_events[i];
        const struct vt_event *event = &trace->events[index];
        const char *kind;

        if (event->kind != VT_EVENT_DELTA || event->device_index != maker->device_index ||
            index < maker->readings->era_starts[era] || index > event_index)
            continue;
        *sum += (int64_t)event->bytes;
        if (!as_rows)
            continue;
        kind = kind_of_call(trace, event);
        result = add(maker, kind, strcmp(kind, "modules") ? NULL : library_of_call(trace, event),
                     (int64_t)event->bytes);
    }
    return result;
}

static int add_own(struct maker *maker, const struct vt_state *state, uint32_t era, uint64_t *foreign_bytes,
                   int64_t *silent_bytes)
{
    uint64_t categories[VT_CATEGORY_COUNT];
    int result;

    memcpy(categories, state->categories, sizeof categories);
    result = add_libraries(maker, categories, foreign_bytes);
    for (unsigned c = 0; !result && c < VT_CATEGORY_COUNT; c++)
        if (c != VT_CATEGORY_CONTEXT && c != VT_CATEGORY_HOST_PINNED)
            result = add(maker, c == VT_CATEGORY_CACHED ? KIND_CACHED : KIND_CATEGORY,
                         c == VT_CATEGORY_CACHED ? NULL : vt_category_name(c), (int64_t)categories[c]);
    result = result ? result : add(maker, KIND_CATEGORY, NULL, (int64_t)state->unseen_bytes);
    return result ? result : add_silent(maker, era, state->event_index, true, silent_bytes);
}

/* ---- Contexts and other processes ---- */

static bool tells_own(const struct vt_reading *reading)
{
    return reading->use && reading->use->flags & VT_CARD_PROCESSES &&
           reading->use->own < reading->use->process_count &&
           reading->use->processes[reading->use->own].bytes >= reading->own_bytes &&
           reading->use->processes[reading->use->own].bytes <= reading->used_bytes;
}

/* The first of an era that tells what this process has: a steady one, if there is any. */
static const struct vt_reading *first_of_own(const struct maker *maker, uint32_t era)
{
    const struct vt_reading *unsteady = NULL;

    for (size_t i = 0; i < maker->readings->count; i++) {
        const struct vt_reading *reading = &maker->readings->items[i];

        if (reading->era != era || !tells_own(reading))
            continue;
        if (reading->steady)
            return reading;
        unsteady = unsteady ? unsteady : reading;
    }
    return unsteady;
}

/* What NVML charged this process with beyond what is known, when it first told in that era. What the card had
 * in use before the first allocation bounds it. */
static int find_context(struct maker *maker, uint32_t era, uint64_t *context_bytes)
{
    const struct vt_reading *first = first_of_own(maker, era);
    int64_t silent_bytes = 0, own_bytes, before_bytes;
    int result;

    *context_bytes = 0;
    if (!first)
        return 0;
    result = add_silent(maker, era, first->event_index, false, &silent_bytes);
    own_bytes = (int64_t)(first->use->processes[first->use->own].bytes - first->own_bytes) - silent_bytes;
    before_bytes = (int64_t)first->context_bytes - silent_bytes;
    if (first->context_bytes && before_bytes < own_bytes)
        own_bytes = before_bytes;
    *context_bytes = own_bytes > 0 ? (uint64_t)own_bytes : 0;
    return result;
}

static int add_processes(struct maker *maker, const struct vt_reading *reading)
{
    const struct vt_trace_card_use *use = reading->use;
    int result = 0;

    for (uint32_t i = 0; !result && i < use->process_count; i++) {
        const struct vt_trace_card_process *process = &use->processes[i];
        const struct vt_card_row row = {.kind = KIND_PROCESS,
                                        .command = process->command[0] ? process->command : NULL,
                                        .pid = process->pid,
                                        .bytes = (int64_t)process->bytes};

        if (i != use->own && process->bytes <= reading->used_bytes)
            result = VT_APPEND(maker->table->rows, maker->table->row_count, maker->capacity, row);
    }
    return result;
}

static int add_rest(struct maker *maker, const struct vt_reading *reading, const struct vt_state *state,
                    int64_t silent_bytes)
{
    uint64_t context_bytes;
    int64_t sum = 0;
    int result;

    maker->table->processes_known = tells_own(reading);
    if (maker->table->processes_known) {
        result = find_context(maker, reading->era, &context_bytes);
        result = result ? result : add(maker, KIND_CONTEXT, NULL, (int64_t)context_bytes);
        result = result ? result : add_processes(maker, reading);
    } else {
        result = add(maker, KIND_TOGETHER, NULL, (int64_t)state->context_bytes - silent_bytes);
    }
    for (size_t i = 0; i < maker->table->row_count; i++)
        sum += maker->table->rows[i].bytes;
    /* also where it is 0: that is worth saying */
    const struct vt_card_row row = {.kind = KIND_UNEXPLAINED,
                                    .bytes = (int64_t)maker->table->device_bytes - sum};
    return result ? result : VT_APPEND(maker->table->rows, maker->table->row_count, maker->capacity, row);
}

/* ---- The table of a moment ---- */

static uint64_t distance(const struct vt_reading *reading, uint64_t t_ns)
{
    return t_ns < reading->begin_ns ? reading->begin_ns - t_ns
           : t_ns > reading->end_ns ? t_ns - reading->end_ns
                                    : 0;
}

/* 0 = the best: steady, and this process had as much. */
static unsigned rank_of(const struct vt_reading *reading, const struct vt_state *state)
{
    const bool equal = reading->own_bytes == state->driver_bytes - state->context_bytes &&
                       reading->context_bytes == state->context_bytes;

    return reading->steady && equal ? 0 : reading->steady ? 1 : 2;
}

static const struct vt_reading *choose(const struct vt_readings *readings, const struct vt_state *state)
{
    const struct vt_reading *best = NULL;

    for (size_t i = 0; i < readings->count; i++) {
        const struct vt_reading *reading = &readings->items[i];
        const unsigned rank = rank_of(reading, state), best_rank = best ? rank_of(best, state) : 0;

        if (!best || rank < best_rank ||
            (rank == best_rank && distance(reading, state->t_ns) < distance(best, state->t_ns)))
            best = reading;
    }
    return best;
}

/* The last of the best. */
static const struct vt_reading *choose_last(const struct vt_readings *readings, const struct vt_state *state)
{
    const struct vt_reading *last = NULL;

    for (size_t i = 0; i < readings->count; i++)
        if (!last || rank_of(&readings->items[i], state) <= rank_of(last, state))
            last = &readings->items[i];
    return last;
}

static void tell(struct vt_card_table *table, const char *kind, uint64_t bytes)
{
    if (bytes && bytes != UINT64_MAX)
        table->told[table->told_count++] = (struct vt_card_row){.kind = kind, .bytes = (int64_t)bytes};
}

static int make_table(const struct vt_report *report, const struct vt_readings *readings, int device_index,
                      const struct vt_state *state, const struct vt_reading *reading,
                      struct vt_card_table *table)
{
    struct maker maker = {
        .report = report, .readings = readings, .device_index = device_index, .table = table};
    int64_t silent_bytes = 0, moved_bytes;
    uint64_t foreign_bytes;
    int result;

    if (!reading || !state->present)
        return 0;
    moved_bytes = (int64_t)(state->driver_bytes - reading->own_bytes - reading->context_bytes);
    *table = (struct vt_card_table){.present = true,
                                    .event_index = state->event_index,
                                    .t_ns = state->t_ns,
                                    .source = reading->use ? "nvml" : "driver",
                                    .measured_ns = reading->begin_ns,
                                    .steady = reading->steady,
                                    .device_bytes = reading->used_bytes + (uint64_t)moved_bytes,
                                    .moved_bytes = moved_bytes,
                                    .total_bytes = reading->total_bytes};
    result = add_own(&maker, state, reading->era, &foreign_bytes, &silent_bytes);
    result = result ? result : add_rest(&maker, reading, state, silent_bytes);
    tell(table, "foreign", foreign_bytes);
    tell(table, "host", state->host_pinned_bytes);
    tell(table, "reserved", reading->use ? reading->use->reserved_bytes : 0);
    return result;
}

int vt_reconcile(const struct vt_report *report, struct vt_device_report *device)
{
    const struct vt_state *shown = &device->shown->state, *last = &device->last_read;
    struct vt_readings readings;
    int result = vt_readings_find(report, device->index, &readings);

    if (!result)
        result = make_table(report, &readings, device->index, shown, choose(&readings, shown), &device->card);
    if (!result)
        result = make_table(report, &readings, device->index, last, choose_last(&readings, last),
                            &device->last_card);
    vt_readings_free(&readings);
    return result;
}
