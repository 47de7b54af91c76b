/* Every byte of a GPU in one row: the process's own, its context, other processes, and what nothing
 * explains. */
#include "findings/gpu_accounting.h"

#include <stdlib.h>
#include <string.h>

#include "attribute/attribute.h"
#include "base/index.h"
#include "findings/gpu_advice.h"
#include "findings/gpu_history.h"
#include "report/report.h"
#include "trace/frameworks.h"

#define KIND_CATEGORY "category"
#define KIND_LIBRARY "library"
#define KIND_CACHED "cached"
#define KIND_CONTEXT VT_SILENT_CONTEXT
#define KIND_PROCESS "process"
#define KIND_TOGETHER "context_and_processes"
#define KIND_UNLISTED "unlisted"
#define KIND_UNEXPLAINED "unexplained"
#define KIND_GRAPH_MEMORY "graph_memory"

struct maker {
    const struct vt_gpu_history *history;
    struct vt_measured_moment moment;
    struct vt_gpu_table *table;
    size_t capacity, told_capacity;
    uint64_t foreign_bytes; /* of other processes, mapped here */
    int64_t silent_bytes;   /* of calls that are rows of their own */
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
static void add_bytes(struct maker *maker, const char *kind, const char *name, int64_t bytes)
{
    struct vt_gpu_table *table = maker->table;
    struct vt_gpu_row *row = find_row(maker, kind, name);
    const struct vt_gpu_row made = {.kind = kind, .name = name, .bytes = bytes, .known = true};

    if (row)
        row->bytes = (int64_t)((uint64_t)row->bytes + (uint64_t)bytes); /* a damaged trace's may wrap */
    else if (bytes)
        VT_APPEND(table->rows, table->row_count, maker->capacity, made);
}

/* Adds to what is reported beside the rows. */
static void add_beside(struct maker *maker, const struct vt_gpu_row *row)
{
    struct vt_gpu_table *table = maker->table;

    VT_APPEND(table->told, table->told_count, maker->told_capacity, *row);
}

static void add_bytes_beside(struct maker *maker, const char *kind, uint64_t bytes)
{
    const struct vt_gpu_row row = {.kind = kind, .bytes = (int64_t)bytes, .known = true};

    if (bytes && bytes != UINT64_MAX)
        add_beside(maker, &row);
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
static void add_libraries(struct maker *maker, uint64_t categories[VT_CATEGORY_COUNT])
{
    const struct vt_attribution *attribution = maker->history->report->attribution;
    const struct vt_replay *replay = attribution->replay;

    for (size_t i = 0; i < replay->allocation_count; i++) {
        const struct vt_allocation *allocation = &replay->allocations[i];
        const char *path, *name;

        if (allocation->device_index != maker->history->device_index ||
            (allocation->kind != VT_ALLOCATION_DRIVER && allocation->kind != VT_ALLOCATION_POOLED &&
             allocation->kind != VT_ALLOCATION_GRAPH) ||
            !vt_alive_at(allocation, maker->table->event_index))
            continue;
        if (allocation->kind == VT_ALLOCATION_GRAPH) {
            categories[attribution->labels[i].category] -= allocation->bytes;
            add_bytes(maker, KIND_GRAPH_MEMORY, NULL, (int64_t)allocation->bytes);
            continue;
        }
        if (allocation->flags & VT_FLAG_FOREIGN)
            maker->foreign_bytes += allocation->bytes;
        path = vt_allocation_own_bytes(allocation) ? vt_cuda_caller(attribution->trace, allocation->stack_id)
                                                   : NULL;
        name = path ? vt_cuda_library(path) : NULL;
        if (!name || !may_be_its_own(attribution->labels[i].category))
            continue;
        categories[attribution->labels[i].category] -= allocation->bytes;
        add_bytes(maker, KIND_LIBRARY, name, (int64_t)allocation->bytes);
    }
}

/* What calls took without an allocation. */
static void add_silents(struct maker *maker)
{
    struct vt_silents silents =
        vt_gpu_silents(maker->history, maker->moment.era, maker->moment.state->event_index);

    for (size_t i = 0; i < silents.count; i++) {
        const struct vt_silent *silent = &silents.items[i];
        struct vt_gpu_row *row;

        add_bytes(maker, silent->kind, silent->name, silent->bytes);
        row = silent->of_module ? find_row(maker, silent->kind, silent->name) : NULL;
        if (row)
            row->module_bytes += silent->bytes;
    }
    maker->silent_bytes = silents.bytes;
    free(silents.items);
}

static void add_own(struct maker *maker)
{
    const struct vt_state *state = maker->moment.state;
    uint64_t categories[VT_CATEGORY_COUNT];

    memcpy(categories, state->categories, sizeof categories);
    add_libraries(maker, categories);
    for (unsigned c = 0; c < VT_CATEGORY_COUNT; c++)
        if (c != VT_CATEGORY_CONTEXT && c != VT_CATEGORY_HOST_PINNED)
            add_bytes(maker, c == VT_CATEGORY_CACHED ? KIND_CACHED : KIND_CATEGORY,
                      c == VT_CATEGORY_CACHED ? NULL : vt_category_name(c), (int64_t)categories[c]);
    add_bytes(maker, KIND_CATEGORY, NULL, (int64_t)state->unseen_bytes);
    add_silents(maker);
}

/* ---- Contexts and other processes ---- */

/* Other processes have rows. Where it is not known which of them is this one, they are reported beside the
 * rows, and so is a process whose bytes are not reported. */
static void add_processes(struct maker *maker)
{
    const struct vt_gpu_reading *reading = maker->moment.reading;
    const struct vt_trace_gpu_use *use = reading->use;
    const bool known = maker->table->processes_known;

    for (uint32_t i = 0; use && i < use->process_count; i++) {
        const struct vt_trace_gpu_process *process = &use->processes[i];
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
            add_beside(maker, &row);
    }
}

/* The part of the unexplained bytes that NVML charges this process with, beyond its rows. */
static void find_own_unexplained(struct maker *maker)
{
    struct vt_gpu_table *table = maker->table;
    int64_t sum = 0;

    for (size_t i = 0; i < table->row_count; i++)
        sum += strcmp(table->rows[i].kind, KIND_PROCESS) ? table->rows[i].bytes : 0;
    table->own_unexplained_bytes =
        (int64_t)vt_nvml_self_bytes(maker->moment.reading) + table->moved_bytes - sum;
}

/* How much more this process held at the moment than when the bytes in use were reported. */
static int64_t find_moved(const struct maker *maker, uint64_t context_bytes)
{
    const struct vt_measured_moment *moment = &maker->moment;
    const struct vt_gpu_reading *reading = moment->reading;
    const int64_t own_bytes = (int64_t)(moment->state->driver_bytes - moment->state->context_bytes);

    if (!vt_gpu_contexts_differ(moment))
        return (int64_t)(moment->state->driver_bytes - reading->own_bytes - reading->context_bytes);
    return moment->own_known ? own_bytes + (int64_t)context_bytes + maker->silent_bytes -
                                   (int64_t)vt_nvml_self_bytes(reading)
                             : own_bytes - (int64_t)reading->own_bytes;
}

static void add_rest(struct maker *maker)
{
    struct vt_gpu_table *table = maker->table;
    const struct vt_measured_moment *moment = &maker->moment;
    const uint64_t context_bytes = moment->own_known ? vt_gpu_context_at(maker->history, moment) : 0,
                   returned_bytes = vt_gpu_returned_bytes(maker->history, moment);
    int64_t sum = 0;

    table->moved_bytes = find_moved(maker, context_bytes);
    if (vt_gpu_same_own(moment)) {
        table->returned_bytes = returned_bytes;
        add_bytes(maker, KIND_CACHED, NULL, -(int64_t)returned_bytes);
    } else if (!vt_gpu_contexts_differ(moment)) {
        table->moved_bytes += (int64_t)returned_bytes;
    }
    table->device_bytes = moment->reading->used_bytes + (uint64_t)table->moved_bytes;
    if (moment->own_known) {
        add_bytes(maker, KIND_CONTEXT, NULL, (int64_t)context_bytes);
        find_own_unexplained(maker);
        add_bytes(maker, KIND_UNLISTED, NULL, (int64_t)vt_nvml_unlisted_bytes(moment->reading));
    } else {
        add_bytes(maker, KIND_TOGETHER, NULL, (int64_t)moment->state->context_bytes - maker->silent_bytes);
    }
    add_processes(maker);
    for (size_t i = 0; i < table->row_count; i++)
        sum += table->rows[i].bytes;
    /* also where it is 0: that is worth saying */
    const struct vt_gpu_row row = {
        .kind = KIND_UNEXPLAINED, .bytes = (int64_t)table->device_bytes - sum, .known = true};
    VT_APPEND(table->rows, table->row_count, maker->capacity, row);
}

/* ---- The table of a moment ---- */

static void bound_modules(struct vt_gpu_table *table)
{
    for (size_t i = 0; i < table->row_count; i++) {
        struct vt_gpu_row *row = &table->rows[i];

        row->module_bytes = row->module_bytes > row->bytes ? row->bytes : row->module_bytes;
        row->module_bytes = row->module_bytes > 0 ? row->module_bytes : 0;
    }
}

static void make_table(const struct vt_gpu_history *history, struct vt_measured_moment moment,
                       struct vt_gpu_table *table)
{
    const struct vt_state *state = moment.state;
    const struct vt_gpu_reading *reading = moment.reading;
    struct maker maker = {.history = history, .moment = moment, .table = table};

    /* nobody reported the bytes of a GPU that the process did not use */
    if (!reading || !state->present ||
        (!state->driver_bytes && !moment.own_known && vt_gpu_contexts_differ(&moment)))
        return;
    *table = (struct vt_gpu_table){.present = true,
                                   .event_index = state->event_index,
                                   .t_ns = state->t_ns,
                                   .source = reading->use ? "nvml" : "driver",
                                   .measured_ns = reading->begin_ns,
                                   .steady = reading->steady,
                                   .nested = reading->use && reading->use->flags & VT_GPU_NESTED,
                                   .processes = vt_nvml_self_processes(&history->own, reading),
                                   .processes_known = moment.own_known,
                                   .total_bytes = reading->total_bytes};
    add_own(&maker);
    add_rest(&maker);
    add_bytes_beside(&maker, "foreign", maker.foreign_bytes);
    add_bytes_beside(&maker, "host", state->host_pinned_bytes);
    add_bytes_beside(&maker, "reserved", reading->use ? reading->use->reserved_bytes : 0);
    bound_modules(table);
    vt_gpu_advise(history->report, table);
}

void vt_gpu_account(const struct vt_report *report, struct vt_device_report *device)
{
    struct vt_gpu_history history = vt_gpu_history_read(report, device->index);

    device->context_levels = vt_gpu_context_levels(&history);
    make_table(&history, vt_gpu_measure_moment(&history, &device->shown->state, false), &device->card);
    make_table(&history, vt_gpu_measure_moment(&history, &device->last_read, true), &device->last_card);
    vt_gpu_history_free(&history);
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
