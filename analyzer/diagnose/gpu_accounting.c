/* Every byte of a GPU in one row: the process's own, its context, other processes, and what nothing
 * explains. */
#include "diagnose/gpu_accounting.h"

#include <stdlib.h>
#include <string.h>

#include "attribute/attribute.h"
#include "base/index.h"
#include "diagnose/driver_overhead.h"
#include "diagnose/gpu_advice.h"
#include "diagnose/nvml_self.h"
#include "report/gpu_readings.h"
#include "report/report.h"
#include "trace/frameworks.h"

#define KIND_CATEGORY "category"
#define KIND_LIBRARY "library"
#define KIND_CACHED "cached"
#define KIND_CONTEXT VT_SILENT_CONTEXT
#define KIND_PROCESS "process"
#define KIND_TOGETHER "context_and_processes"
#define KIND_UNEXPLAINED "unexplained"
#define KIND_GRAPH_MEMORY "graph_memory"

#define BEST_QUALITY 3u
#define FIRST_READINGS 64u /* steady ones that report a context, and as many others */

struct maker {
    const struct vt_report *report;
    const struct vt_gpu_readings *readings;
    const struct vt_silent_events *silent_events;
    int device_index;
    struct vt_gpu_table *table;
    size_t capacity, told_capacity;
    struct vt_nvml_self own;
    uint64_t spare_bytes; /* free parts of pools at the moment of the table */
};

static struct vt_gpu_row *find_row(const struct maker *maker, const char *kind, const char *name)
{
    for (size_t i = 0; i < maker->table->row_count; i++) {
        struct vt_gpu_row *row = &maker->table->rows[i];

        if (!strcmp(row->kind, kind) && !row->pid &&
            (row->name && name ? !strcmp(row->name, name) : row->name == name))
            return row;
    }
    return NULL;
}

/* Adds to the row of that kind and name. */
static void add(struct maker *maker, const char *kind, const char *name, int64_t bytes)
{
    struct vt_gpu_table *table = maker->table;
    struct vt_gpu_row *row = find_row(maker, kind, name);
    const struct vt_gpu_row made = {.kind = kind, .name = name, .bytes = bytes, .known = true};

    if (row)
        row->bytes += bytes;
    else if (bytes)
        VT_APPEND(table->rows, table->row_count, maker->capacity, made);
}

/* Adds to what is reported beside the rows. */
static void tell(struct maker *maker, const struct vt_gpu_row *row)
{
    struct vt_gpu_table *table = maker->table;

    VT_APPEND(table->told, table->told_count, maker->told_capacity, *row);
}

static void tell_bytes(struct maker *maker, const char *kind, uint64_t bytes)
{
    const struct vt_gpu_row row = {.kind = kind, .bytes = (int64_t)bytes, .known = true};

    if (bytes && bytes != UINT64_MAX)
        tell(maker, &row);
}

/* ---- What this process has ---- */

/* What a library took for the program has the program's categories: the weights that ONNX Runtime runs. */
static bool may_be_its_own(uint8_t category)
{
    return category == VT_CATEGORY_UNKNOWN || category == VT_CATEGORY_WORKSPACE ||
           category == VT_CATEGORY_COMMUNICATION;
}

/* Memory that a library allocated itself, memory of graphs' nodes, and memory of other processes that is
 * mapped here. */
static void add_libraries(struct maker *maker, uint64_t categories[VT_CATEGORY_COUNT],
                          uint64_t *foreign_bytes)
{
    const struct vt_attribution *attribution = maker->report->attribution;
    const struct vt_replay *replay = attribution->replay;

    *foreign_bytes = 0;
    for (size_t i = 0; i < replay->allocation_count; i++) {
        const struct vt_allocation *allocation = &replay->allocations[i];
        const char *path, *name;

        if (allocation->device_index != maker->device_index ||
            (allocation->kind != VT_ALLOCATION_DRIVER && allocation->kind != VT_ALLOCATION_POOLED &&
             allocation->kind != VT_ALLOCATION_GRAPH) ||
            !vt_alive_at(allocation, maker->table->event_index))
            continue;
        if (allocation->kind == VT_ALLOCATION_GRAPH) {
            categories[attribution->labels[i].category] -= allocation->bytes;
            add(maker, KIND_GRAPH_MEMORY, NULL, (int64_t)allocation->bytes);
            continue;
        }
        if (allocation->flags & VT_FLAG_FOREIGN)
            *foreign_bytes += allocation->bytes;
        path = vt_allocation_own_bytes(allocation)
                   ? vt_cuda_caller(maker->report->trace, allocation->stack_id)
                   : NULL;
        name = path ? vt_cuda_library(path) : NULL;
        if (!name || !may_be_its_own(attribution->labels[i].category))
            continue;
        categories[attribution->labels[i].category] -= allocation->bytes;
        add(maker, KIND_LIBRARY, name, (int64_t)allocation->bytes);
    }
}

/* The calls of an era up to an event. */
static struct vt_silents find_silents(const struct maker *maker, uint32_t era, uint32_t event_index)
{
    return vt_silents_find(maker->report->trace, maker->silent_events, maker->device_index,
                           maker->readings->era_starts[era], event_index);
}

/* Returns the bytes of all. */
static int64_t add_silent(struct maker *maker, uint32_t era, uint32_t event_index)
{
    struct vt_silents silents = find_silents(maker, era, event_index);

    for (size_t i = 0; i < silents.count; i++) {
        const struct vt_silent *silent = &silents.items[i];
        struct vt_gpu_row *row;

        add(maker, silent->kind, silent->name, silent->bytes);
        row = silent->of_module ? find_row(maker, silent->kind, silent->name) : NULL;
        if (row)
            row->module_bytes += silent->bytes;
    }
    free(silents.items);
    return silents.bytes;
}

/* Free parts of pools after an event. */
static uint64_t spare_at(const struct maker *maker, uint32_t event_index)
{
    const struct vt_replay *replay = maker->report->attribution->replay;
    int64_t bytes = 0;

    for (size_t i = 0; i < replay->allocation_count; i++)
        if (replay->allocations[i].device_index == maker->device_index &&
            vt_alive_at(&replay->allocations[i], event_index))
            bytes += vt_spare_change(&replay->allocations[i]);
    return bytes > 0 ? (uint64_t)bytes : 0;
}

static void add_own(struct maker *maker, const struct vt_state *state, uint32_t era, uint64_t *foreign_bytes,
                    int64_t *silent_bytes)
{
    uint64_t categories[VT_CATEGORY_COUNT];

    memcpy(categories, state->categories, sizeof categories);
    add_libraries(maker, categories, foreign_bytes);
    for (unsigned c = 0; c < VT_CATEGORY_COUNT; c++)
        if (c != VT_CATEGORY_CONTEXT && c != VT_CATEGORY_HOST_PINNED)
            add(maker, c == VT_CATEGORY_CACHED ? KIND_CACHED : KIND_CATEGORY,
                c == VT_CATEGORY_CACHED ? NULL : vt_category_name(c), (int64_t)categories[c]);
    add(maker, KIND_CATEGORY, NULL, (int64_t)state->unseen_bytes);
    *silent_bytes = add_silent(maker, era, state->event_index);
}

/* ---- Contexts and other processes ---- */

static bool tells_own(const struct maker *maker, const struct vt_gpu_reading *reading)
{
    return vt_nvml_self_told(&maker->own, reading);
}

/* What NVML charged this process with beyond what was known at that reading. An allocation is recorded after
 * it was made, and a free before: on a busy machine that may be long, so it is at most too much. */
static int64_t context_by(struct maker *maker, const struct vt_gpu_reading *reading)
{
    const struct vt_silents silents = find_silents(maker, reading->era, reading->event_index);
    const int64_t before_bytes = (int64_t)reading->context_bytes - silents.bytes,
                  bytes = (int64_t)(vt_nvml_self_bytes(reading) - reading->own_bytes) - silents.bytes;

    free(silents.items);
    /* what was in use on the GPU before the first allocation, once that was read */
    return before_bytes > 0 && before_bytes < bytes ? before_bytes : bytes;
}

/* How much a reading says about a context: one from before it was made says nothing, and one during a
 * change of this process's memory says too much. */
static unsigned quality_of(const struct vt_gpu_reading *reading)
{
    return 2 * (reading->context_bytes > 0) + reading->steady;
}

/* The least that one of the era's first readings reports, among the best ones. Where pools have free parts
 * it may be too little, so it counts only until a reading without free parts is found. */
static uint64_t find_context(struct maker *maker, uint32_t era)
{
    int64_t least = INT64_MAX, bytes;
    unsigned asked[BEST_QUALITY + 1] = {0}, best = 0;
    bool without_spare = false;

    for (size_t i = 0; i < maker->readings->count && asked[BEST_QUALITY] < FIRST_READINGS; i++) {
        const struct vt_gpu_reading *reading = &maker->readings->items[i];
        const unsigned quality = quality_of(reading);

        if (reading->era != era || quality < best || !tells_own(maker, reading) ||
            (quality == best && without_spare && reading->spare_bytes) || asked[quality]++ >= FIRST_READINGS)
            continue;
        bytes = context_by(maker, reading);
        if (bytes < least || quality > best)
            least = bytes;
        without_spare = !reading->spare_bytes || (without_spare && quality == best);
        best = quality;
    }
    return least > 0 && least != INT64_MAX ? (uint64_t)least : 0;
}

/* The era that a moment lies in. */
static uint32_t era_of(const struct maker *maker, const struct vt_state *state)
{
    uint32_t era = 0;

    while (era + 1 < maker->readings->era_count && maker->readings->era_starts[era + 1] <= state->event_index)
        era++;
    return era;
}

/* Some context of the device is alive after an event; where none was seen being made, by its memory. */
static bool has_context(const struct maker *maker, const struct vt_state *state)
{
    return state->context_bytes || vt_silents_alive(maker->report->trace, maker->silent_events,
                                                    maker->device_index, state->event_index);
}

/* Other processes have rows. Where it is not known which of them is this one, they are reported beside the
 * rows, and so is a process whose bytes are not reported. */
static void add_processes(struct maker *maker, const struct vt_gpu_reading *reading)
{
    const struct vt_trace_card_use *use = reading->use;
    const bool known = maker->table->processes_known;

    for (uint32_t i = 0; use && i < use->process_count; i++) {
        const struct vt_trace_card_process *process = &use->processes[i];
        const bool has_bytes = process->bytes <= reading->used_bytes;
        const struct vt_gpu_row row = {.kind = KIND_PROCESS,
                                       .command = process->command[0] ? process->command : NULL,
                                       .pid = process->pid,
                                       .bytes = has_bytes ? (int64_t)process->bytes : 0,
                                       .known = has_bytes};

        if (known && i == use->own)
            continue;
        if (known && has_bytes)
            VT_APPEND(maker->table->rows, maker->table->row_count, maker->capacity, row);
        else
            tell(maker, &row);
    }
}

/* The part of the unexplained bytes that NVML charges this process with, beyond its rows. */
static void find_own_unexplained(struct maker *maker, const struct vt_gpu_reading *reading)
{
    struct vt_gpu_table *table = maker->table;
    int64_t sum = 0;

    for (size_t i = 0; i < table->row_count; i++)
        sum += strcmp(table->rows[i].kind, KIND_PROCESS) ? table->rows[i].bytes : 0;
    table->own_unexplained_bytes = (int64_t)vt_nvml_self_bytes(reading) + table->moved_bytes - sum;
}

/* What this process had beside its own memory at the moment, but for calls that are rows of their own. */
static uint64_t find_moments_context(struct maker *maker, const struct vt_gpu_reading *reading,
                                     const struct vt_state *state)
{
    const uint32_t era = era_of(maker, state);
    uint64_t bytes;

    if (!has_context(maker, state))
        return 0;
    bytes = find_context(maker, era);
    return bytes || era == reading->era ? bytes : find_context(maker, reading->era);
}

/* One of them is from before the process used the device, or from after it had ended its contexts there. */
static bool is_of_other_context(const struct maker *maker, const struct vt_gpu_reading *reading,
                                const struct vt_state *state)
{
    return !reading->context_bytes != !state->context_bytes || reading->era != era_of(maker, state);
}

/* The reading shows the same state as the moment, by everything that this process's own events show. */
static bool has_as_much(const struct maker *maker, const struct vt_gpu_reading *reading,
                        const struct vt_state *state)
{
    return reading->own_bytes == state->driver_bytes - state->context_bytes &&
           reading->context_bytes == state->context_bytes && reading->spare_bytes == maker->spare_bytes;
}

/* What pools had returned to the device by a reading, as NVML reports: they do so when the program waits
 * for the device, and events show it only with their next use. */
static uint64_t find_returned(struct maker *maker, const struct vt_gpu_reading *reading)
{
    struct vt_silents silents;
    int64_t missing;

    if (!reading->spare_bytes || !reading->context_bytes || !maker->table->processes_known)
        return 0;
    silents = find_silents(maker, reading->era, reading->event_index);
    free(silents.items);
    missing =
        (int64_t)(reading->own_bytes + find_context(maker, reading->era) - vt_nvml_self_bytes(reading)) +
        silents.bytes;
    if (missing <= 0)
        return 0;
    return (uint64_t)missing < reading->spare_bytes ? (uint64_t)missing : reading->spare_bytes;
}

/* How much more this process held at the moment than when the bytes in use were reported. */
static int64_t moved(const struct maker *maker, const struct vt_gpu_reading *reading,
                     const struct vt_state *state, uint64_t context_bytes, int64_t silent_bytes)
{
    const int64_t own_bytes = (int64_t)(state->driver_bytes - state->context_bytes);

    if (!is_of_other_context(maker, reading, state))
        return (int64_t)(state->driver_bytes - reading->own_bytes - reading->context_bytes);
    return maker->table->processes_known
               ? own_bytes + (int64_t)context_bytes + silent_bytes - (int64_t)vt_nvml_self_bytes(reading)
               : own_bytes - (int64_t)reading->own_bytes;
}

static void add_rest(struct maker *maker, const struct vt_gpu_reading *reading, const struct vt_state *state,
                     int64_t silent_bytes)
{
    struct vt_gpu_table *table = maker->table;
    uint64_t context_bytes = table->processes_known ? find_moments_context(maker, reading, state) : 0;
    const uint64_t returned_bytes = find_returned(maker, reading);
    int64_t sum = 0;

    table->moved_bytes = moved(maker, reading, state, context_bytes, silent_bytes);
    if (has_as_much(maker, reading, state)) {
        table->returned_bytes = returned_bytes;
        add(maker, KIND_CACHED, NULL, -(int64_t)returned_bytes);
    } else if (!is_of_other_context(maker, reading, state)) {
        table->moved_bytes += (int64_t)returned_bytes;
    }
    table->device_bytes = reading->used_bytes + (uint64_t)table->moved_bytes;
    if (table->processes_known) {
        add(maker, KIND_CONTEXT, NULL, (int64_t)context_bytes);
        find_own_unexplained(maker, reading);
    } else {
        add(maker, KIND_TOGETHER, NULL, (int64_t)state->context_bytes - silent_bytes);
    }
    add_processes(maker, reading);
    for (size_t i = 0; i < table->row_count; i++)
        sum += table->rows[i].bytes;
    /* also where it is 0: that is worth saying */
    const struct vt_gpu_row row = {
        .kind = KIND_UNEXPLAINED, .bytes = (int64_t)table->device_bytes - sum, .known = true};
    VT_APPEND(table->rows, table->row_count, maker->capacity, row);
}

/* ---- The table of a moment ---- */

static uint64_t distance(const struct vt_gpu_reading *reading, uint64_t t_ns)
{
    return t_ns < reading->begin_ns  ? reading->begin_ns - t_ns
           : t_ns > reading->held_ns ? t_ns - reading->held_ns
                                     : 0;
}

/* 0 = the best: steady, this process had as much, and which process it is was known. */
static unsigned rank_of(const struct maker *maker, const struct vt_gpu_reading *reading,
                        const struct vt_state *state)
{
    const bool equal = has_as_much(maker, reading, state);

    return (reading->steady && equal ? 0 : reading->steady ? 2 : 4) + !tells_own(maker, reading);
}

/* Moved to the moment, more would be in use than the GPU has: then the reading already had memory whose
 * allocation was not yet recorded, and does not belong to the events before it. */
static bool is_too_much(const struct vt_gpu_reading *reading, const struct vt_state *state)
{
    const uint64_t own_bytes = reading->own_bytes + reading->context_bytes;

    return reading->total_bytes && state->driver_bytes > own_bytes &&
           reading->used_bytes + (state->driver_bytes - own_bytes) > reading->total_bytes;
}

static const struct vt_gpu_reading *choose(const struct maker *maker, const struct vt_state *state)
{
    const struct vt_gpu_reading *best = NULL;

    for (size_t i = 0; i < maker->readings->count; i++) {
        const struct vt_gpu_reading *reading = &maker->readings->items[i];
        const unsigned rank = rank_of(maker, reading, state),
                       best_rank = best ? rank_of(maker, best, state) : 0;

        if (is_too_much(reading, state))
            continue;
        if (!best || rank < best_rank ||
            (rank == best_rank && distance(reading, state->t_ns) < distance(best, state->t_ns)))
            best = reading;
    }
    return best;
}

/* The last of the best. */
static const struct vt_gpu_reading *choose_last(const struct maker *maker, const struct vt_state *state)
{
    const struct vt_gpu_reading *last = NULL;

    for (size_t i = 0; i < maker->readings->count; i++) {
        const struct vt_gpu_reading *reading = &maker->readings->items[i];

        if (is_too_much(reading, state))
            continue;
        if (!last || rank_of(maker, reading, state) <= rank_of(maker, last, state))
            last = reading;
    }
    return last;
}

static void bound_modules(struct vt_gpu_table *table)
{
    for (size_t i = 0; i < table->row_count; i++) {
        struct vt_gpu_row *row = &table->rows[i];

        row->module_bytes = row->module_bytes > row->bytes ? row->bytes : row->module_bytes;
        row->module_bytes = row->module_bytes > 0 ? row->module_bytes : 0;
    }
}

static void make_table(const struct maker *of, const struct vt_state *state,
                       const struct vt_gpu_reading *reading, struct vt_gpu_table *table)
{
    struct maker maker = *of;
    int64_t silent_bytes = 0;
    uint64_t foreign_bytes;

    /* nobody reported the bytes of a GPU that the process did not use */
    if (!reading || !state->present ||
        (!state->driver_bytes && !tells_own(of, reading) && is_of_other_context(of, reading, state)))
        return;
    maker.table = table;
    *table = (struct vt_gpu_table){.present = true,
                                   .event_index = state->event_index,
                                   .t_ns = state->t_ns,
                                   .source = reading->use ? "nvml" : "driver",
                                   .measured_ns = reading->begin_ns,
                                   .steady = reading->steady,
                                   .nested = reading->use && reading->use->flags & VT_CARD_NESTED,
                                   .processes = vt_nvml_self_processes(&of->own, reading),
                                   .processes_known = tells_own(of, reading),
                                   .total_bytes = reading->total_bytes};
    add_own(&maker, state, era_of(of, state), &foreign_bytes, &silent_bytes);
    add_rest(&maker, reading, state, silent_bytes);
    tell_bytes(&maker, "foreign", foreign_bytes);
    tell_bytes(&maker, "host", state->host_pinned_bytes);
    tell_bytes(&maker, "reserved", reading->use ? reading->use->reserved_bytes : 0);
    bound_modules(table);
    vt_gpu_advise(maker.report, table);
}

void vt_gpu_account(const struct vt_report *report, struct vt_device_report *device)
{
    const struct vt_state *shown = &device->shown->state, *last = &device->last_read;
    struct vt_gpu_readings readings;
    struct vt_silent_events silent_events = vt_silent_events_find(report->trace);
    struct maker maker = {.report = report,
                          .readings = &readings,
                          .silent_events = &silent_events,
                          .device_index = device->index};

    vt_gpu_readings_find(report, device->index, &readings);
    maker.own = vt_nvml_self_find(&readings);
    vt_context_levels_find(report, device->index, &readings, &silent_events, &device->context_levels);
    maker.spare_bytes = spare_at(&maker, shown->event_index);
    make_table(&maker, shown, choose(&maker, shown), &device->card);
    maker.spare_bytes = spare_at(&maker, last->event_index);
    make_table(&maker, last, choose_last(&maker, last), &device->last_card);
    free(silent_events.items);
    vt_gpu_readings_free(&readings);
}

void vt_gpu_account_oom(struct vt_report *report)
{
    struct vt_oom *refusal = report->refusals + report->shown_refusal;
    const struct vt_device_report *device =
        report->refusal_count ? vt_report_device(report, refusal->device_index) : NULL;
    const struct vt_gpu_table *card;
    uint64_t told_bytes = 0, others_bytes;

    if (!device)
        return;
    card = device->card.present && device->card.processes_known ? &device->card : &device->last_card;
    if (!card->present || !card->processes_known)
        return;
    for (size_t i = 0; i < card->row_count; i++)
        if (!strcmp(card->rows[i].kind, KIND_CONTEXT) && card->rows[i].bytes > 0)
            told_bytes += (uint64_t)card->rows[i].bytes;
    if (told_bytes >= refusal->categories[VT_CATEGORY_CONTEXT])
        return;
    others_bytes = refusal->categories[VT_CATEGORY_CONTEXT] - told_bytes;
    refusal->categories[VT_CATEGORY_CONTEXT] = told_bytes;
    refusal->driver_bytes -= others_bytes;
    refusal->other_bytes += refusal->free_known ? others_bytes : 0;
}
