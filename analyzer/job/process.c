/* What is kept of one trace. */
#include "job/process.h"

#include "attribute/attribute.h"
#include "base/allocate.h"
#include "base/format.h"
#include "base/index.h"
#include "base/sort.h"
#include "job/levels.h"
#include "job/job_maker.h"
#include "job/modules.h"
#include "report/launch_info.h"
#include "report/moments.h"
#include "report/report.h"
#include "trace/processes.h"
#include "trace/trace.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST_STEPS 256u   /* whose beginning is kept */
#define PIECE_BYTES 8192u /* there may be thousands of processes */

static void read_parts(struct vt_arena *arena, const struct vt_groups *groups, struct vt_job_parts *parts)
{
    parts->items = vt_job_take(arena, groups->count, sizeof *parts->items);
    for (size_t i = 0; i < groups->count; i++) {
        const struct vt_group *group = &groups->items[i];
        struct vt_job_part *part = &parts->items[i];

        *part = (struct vt_job_part){.name = vt_job_copy(arena, group->name),
                                     .file = vt_job_copy(arena, group->place ? group->place->frame.file : ""),
                                     .line = group->place ? group->place->frame.line : 0,
                                     .phase = group->phase,
                                     .category = (uint8_t)vt_largest_category(group->categories),
                                     .bytes = group->bytes};
        for (unsigned kind = 0; kind < VT_JOB_NAMED; kind++)
            part->named_bytes[kind] = group->categories[vt_job_named_categories[kind]];
    }
    parts->count = groups->count;
    vt_sort(parts->items, parts->count, sizeof *parts->items, vt_job_compare_parts);
}

/* The process's timeline, without what makes up the bytes. */
static void read_columns(struct vt_arena *arena, const struct vt_timeline *timeline,
                         struct vt_job_device *device)
{
    device->used_bytes = vt_job_take(arena, timeline->columns, sizeof *device->used_bytes);
    device->column_ns =
        vt_job_copy_items(arena, timeline->t_ns, timeline->columns, sizeof *device->column_ns);
    for (size_t i = 0; i < timeline->columns; i++)
        device->used_bytes[i] = vt_used_bytes(timeline->categories[i]);
    device->column_count = timeline->columns;
}

/* A context is measured as the bytes in use on the GPU: that belongs to the GPU, not to one of its users. */
static struct vt_state without_context(struct vt_state state)
{
    state.driver_bytes -= state.context_bytes;
    state.categories[VT_CATEGORY_CONTEXT] = 0;
    state.context_bytes = 0;
    return state;
}

/* What NVML charged this process with beyond its own memory, where it did: its context, code and the like,
 * and memory that was not seen. What a call allocated is known from the bytes in use on the GPU before and
 * after it, which include other processes; NVML's sum does not. */
static void read_context(const struct vt_gpu_table *card, struct vt_job_device *device)
{
    static const char *const kinds[] = {"context", "modules", "graphs", "streams", "settings"};
    int64_t bytes = card->steady ? card->own_unexplained_bytes : 0;

    if (!card->present || !card->processes_known)
        return;
    for (size_t i = 0; i < card->row_count; i++)
        for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
            bytes += strcmp(card->rows[i].kind, kinds[k]) ? 0 : card->rows[i].bytes;
    device->context_known = device->context_told = true;
    device->context_bytes = bytes > 0 ? (uint64_t)bytes : 0;
}

static void read_context_levels(const struct vt_context_levels *levels, struct vt_arena *arena,
                                struct vt_job_device *device)
{
    device->context_levels =
        vt_job_copy_items(arena, levels->items, levels->count, sizeof *device->context_levels);
    for (size_t i = 0; i < levels->count; i++)
        if (!i || levels->items[i].bytes > device->context_bytes)
            device->context_bytes = levels->items[i].bytes;
    device->context_level_count = levels->count;
    if (levels->count)
        device->context_known = device->context_told = true;
}

/* The trace's own number where NVML did not report one. */
static uint32_t nvml_pid_of(const struct vt_trace *trace)
{
    for (size_t i = 0; i < trace->gpu_use_count; i++) {
        const struct vt_trace_gpu_use *use = &trace->gpu_uses[i];

        if (use->flags & VT_GPU_PROCESSES && use->own < use->process_count)
            return use->processes[use->own].pid;
    }
    return trace->header.pid;
}

/* What the trace says about the device itself. */
static void read_gpu(const struct vt_trace *trace, struct vt_arena *arena, struct vt_job_device *device)
{
    const struct vt_trace_device *gpu = vt_trace_device_of(trace, device->index);
    char text[48];

    device->name = "";
    device->nvml_pid = nvml_pid_of(trace);
    if (!gpu)
        return;
    device->total_bytes = gpu->total_bytes;
    device->name = vt_job_copy(arena, gpu->name);
    device->uuid = gpu->has_uuid ? vt_job_copy(arena, vt_format_uuid(gpu->uuid, text)) : NULL;
}

static void read_device(const struct vt_report *report, const struct vt_device_report *from,
                        struct vt_arena *arena, struct vt_job_device *device)
{
    const struct vt_leak *leak = from->leaks.leak_count ? &from->leaks.items[0] : NULL;

    *device = (struct vt_job_device){
        .index = from->index,
        .card = VT_JOB_NONE,
        .peak = without_context(from->peak.state),
        .end = without_context(from->end.state),
        .shown = without_context(from->shown->state),
        .reserved_peak_bytes = from->reserved_peak_bytes,
        .driver_peak_bytes = from->driver_peak_bytes,
        .leaks = from->leaks.leak_count,
        .leaks_judged = from->leaks.judged,
        .leak_bytes_per_step = from->leaks.bytes_per_step,
        .leak_line = vt_job_copy(arena, leak && leak->line_count ? leak->lines[0].name : ""),
    };
    read_gpu(report->trace, arena, device);
    read_parts(arena, &from->shown->groups[VT_BY_MODULE], &device->modules);
    read_parts(arena, &from->shown->groups[VT_BY_LINE], &device->lines);
    read_columns(arena, &from->timeline, device);
    vt_job_read_levels(report, arena, device);
    read_context(&from->last_card, device);
    read_context_levels(&from->context_levels, arena, device);
    vt_job_read_others(report->trace, arena, device);
}

static void read_bare_context(const struct vt_report *report, const struct vt_empty_context *from,
                              struct vt_arena *arena, struct vt_job_device *device)
{
    *device =
        (struct vt_job_device){.index = from->device_index,
                               .card = VT_JOB_NONE,
                               .leak_line = "",
                               .context_told = from->bytes_known,
                               .context_known = from->bytes_known,
                               .context_bytes = from->bytes,
                               .context_ns = from->t_ns,
                               .context_end_ns = from->ended ? from->end_ns : 0,
                               .context_line = vt_job_copy(arena, from->place ? from->place->name : "")};
    read_gpu(report->trace, arena, device);
    vt_job_read_others(report->trace, arena, device);
}

static void read_devices(const struct vt_report *report, struct vt_arena *arena,
                         struct vt_job_process *process)
{
    process->devices =
        vt_job_take(arena, report->device_count + report->bare_context_count, sizeof *process->devices);
    process->device_count = report->device_count;
    process->bare_context_count = report->bare_context_count;
    for (size_t i = 0; i < report->device_count; i++)
        read_device(report, &report->devices[i], arena, &process->devices[i]);
    for (size_t i = 0; i < report->bare_context_count; i++)
        read_bare_context(report, &report->bare_contexts[i], arena,
                          &process->devices[report->device_count + i]);
}

static void read_refusals(const struct vt_report *report, struct vt_arena *arena,
                          struct vt_job_process *process)
{
    process->refusals = vt_job_take(arena, report->listed_refusal_count, sizeof *process->refusals);
    process->refusal_count = report->listed_refusal_count;
    for (size_t i = 0; i < report->listed_refusal_count; i++) {
        const struct vt_oom *from = &report->listed_refusals[i];
        const struct vt_place *place = from->asker_place;
        struct vt_job_refusal *refusal = &process->refusals[i];

        *refusal = (struct vt_job_refusal){.t_ns = from->t_ns,
                                           .asked_bytes = from->asked_bytes,
                                           .free_bytes = from->free_bytes,
                                           .free_known = from->free_known,
                                           .ends_run = from->ends_run,
                                           .device_index = from->device_index,
                                           .step = from->step,
                                           .phase = from->phase,
                                           .asker = vt_job_copy(arena, from->asker),
                                           .line = vt_job_copy(arena, place ? place->name : ""),
                                           .file = vt_job_copy(arena, place ? place->frame.file : ""),
                                           .line_number = place ? place->frame.line : 0};
    }
}

static int compare_parameters(const void *left, const void *right)
{
    const struct vt_job_parameter *a = left, *b = right;
    int order = strcmp(a->name, b->name);

    order = order ? order : strcmp(a->shape, b->shape);
    return order ? order : vt_order(a->bytes, b->bytes);
}

static bool is_parameter(const struct vt_inspection_tensor *tensor)
{
    return tensor->kind == VT_INSPECTION_PARAMETER && tensor->root >= 0;
}

/* Of "256x1024". */
static uint64_t elements_of(const char *shape)
{
    uint64_t count = 1;
    for (char *end; *shape; shape = *end ? end + 1 : end)
        count *= strtoull(shape, &end, 10);
    return count;
}

/* Elements of the tensors of one kind and role. */
static uint64_t count_elements(const struct vt_inspection *inspection, enum vt_inspection_kind kind,
                               const char *role)
{
    uint64_t count = 0;
    for (size_t i = 0; i < inspection->tensor_count; i++) {
        const struct vt_inspection_tensor *tensor = &inspection->tensors[i];
        if (tensor->kind == kind &&
            (kind == VT_INSPECTION_PARAMETER ? tensor->root >= 0 : !strcmp(tensor->role, role)))
            count += elements_of(tensor->shape);
    }
    return count;
}

/* Of the role of the largest state that an inspection saw. */
static uint64_t count_state_elements(const struct vt_inspection *inspection)
{
    const struct vt_inspection_tensor *largest = NULL;
    for (size_t i = 0; i < inspection->tensor_count; i++)
        if (inspection->tensors[i].kind == VT_INSPECTION_OPTIMIZER_STATE &&
            (!largest || inspection->tensors[i].bytes > largest->bytes))
            largest = &inspection->tensors[i];
    return largest ? count_elements(inspection, VT_INSPECTION_OPTIMIZER_STATE, largest->role) : 0;
}

/* From the inspection that saw the most. */
static void read_parameters(const struct vt_trace *trace, struct vt_arena *arena,
                            struct vt_job_process *process)
{
    const struct vt_inspection *most = NULL;
    size_t count = 0;

    for (size_t i = 0; i < trace->inspection_count; i++) {
        const struct vt_inspection *inspection = &trace->inspections[i];
        size_t seen = 0;
        const uint64_t elements = count_elements(inspection, VT_INSPECTION_PARAMETER, ""),
                       state = count_state_elements(inspection);

        if (elements > process->parameter_elements)
            process->parameter_elements = elements;
        if (state > process->state_elements)
            process->state_elements = state;
        for (size_t k = 0; k < inspection->tensor_count; k++)
            seen += is_parameter(&inspection->tensors[k]);
        if (seen > count) {
            most = inspection;
            count = seen;
        }
    }
    process->parameters = vt_job_take(arena, count, sizeof *process->parameters);
    for (size_t k = 0; most && k < most->tensor_count; k++) {
        const struct vt_inspection_tensor *tensor = &most->tensors[k];
        struct vt_job_parameter *parameter = &process->parameters[process->parameter_count];

        if (!is_parameter(tensor))
            continue;
        const char *shard = strstr(tensor->path, ", shard"); /* which one differs from rank to rank */
        const size_t bytes = shard ? (size_t)(shard - tensor->path) : strlen(tensor->path);
        *parameter = (struct vt_job_parameter){.name = vt_arena_text(arena, tensor->path, bytes),
                                               .shape = vt_job_copy(arena, tensor->shape),
                                               .whole_shape = vt_job_copy(arena, tensor->whole_shape),
                                               .bytes = tensor->bytes};
        process->parameter_count++;
    }
    vt_sort(process->parameters, process->parameter_count, sizeof *process->parameters, compare_parameters);
}

static void read_shares(const struct vt_report *report, struct vt_arena *arena,
                        struct vt_job_process *process)
{
    const struct vt_replay *replay = report->attribution->replay;
    const struct vt_event *events = report->trace->events;
    const uint64_t start_ns = report->trace->header.start_monotonic_ns,
                   /* of one that was killed, its last event is not the end */
        last_ns = report->facts.ended ? report->duration_ns : UINT64_MAX;

    process->shares = vt_job_take(arena, replay->share_count, sizeof *process->shares);
    for (size_t i = 0; i < replay->share_count; i++) {
        const struct vt_allocation *allocation = &replay->allocations[replay->shares[i].allocation];
        const struct vt_place *place = vt_place_of(report->places, allocation->stack_id);
        uint64_t begin_ns = events[allocation->alloc_event].t_ns - start_ns;
        struct vt_job_share share = {.identity = replay->shares[i].identity,
                                     .bytes = allocation->bytes,
                                     .begin_ns = begin_ns,
                                     .end_ns = allocation->free_event == VT_NEVER
                                                   ? last_ns
                                                   : events[allocation->free_event].t_ns - start_ns,
                                     .device_index = allocation->device_index,
                                     .is_foreign = allocation->flags & VT_FLAG_FOREIGN,
                                     .line = vt_job_copy(arena, place ? place->name : ""),
                                     .file = vt_job_copy(arena, place ? place->frame.file : ""),
                                     .line_number = place ? place->frame.line : 0};

        process->shares[process->share_count++] = share;
    }
}

static bool any_gathered(const struct vt_attribution *attribution)
{
    for (size_t i = 0; i < attribution->replay->allocation_count; i++)
        if (attribution->labels[i].gathered)
            return true;
    return false;
}

static void read_steps(const struct vt_report *report, struct vt_arena *arena, struct vt_job_process *process)
{
    size_t count = report->step_start_count < MOST_STEPS ? report->step_start_count : MOST_STEPS;

    process->step_ns = vt_job_take(arena, count, sizeof *process->step_ns);
    for (size_t i = 0; i < count; i++)
        process->step_ns[process->step_start_count++] = report->step_starts[i].t_ns;
}

/* A process that was killed was there at NVML's last query, which may be long after its last event. */
static uint64_t last_listed_ns(const struct vt_trace *trace)
{
    uint64_t last_ns = 0;

    for (size_t i = 0; i < trace->gpu_use_count; i++)
        if (trace->gpu_uses[i].begin_ns > last_ns)
            last_ns = trace->gpu_uses[i].begin_ns;
    return vt_since_start(trace, last_ns);
}

static void read_facts(const struct vt_report *report, struct vt_arena *arena, struct vt_job_process *process)
{
    const struct vt_trace *trace = report->trace;
    const struct vt_file_header *header = &trace->header;
    const struct vt_trace_facts *facts = &report->facts;
    uint64_t recorded_ns = vt_since_start(trace, header->end_monotonic_ns);

    process->path = vt_job_copy(arena, facts->path);
    process->command = vt_job_copy(arena, vt_short_command(facts));
    process->host = vt_arena_text(arena, header->host, strnlen(header->host, sizeof header->host));
    process->outcome = vt_job_copy(arena, facts->outcome);
    process->simulated = facts->simulated ? vt_job_copy(arena, facts->simulated) : NULL;
    process->pid = header->pid;
    process->parent_pid = header->parent_pid;
    process->complete = facts->complete;
    process->ended = facts->ended;
    process->start_realtime_ns = header->start_realtime_ns;
    process->end_ns = report->duration_ns > recorded_ns ? report->duration_ns : recorded_ns;
    process->end_ns = last_listed_ns(trace) > process->end_ns ? last_listed_ns(trace) : process->end_ns;
    process->dropped_events = facts->dropped_events;
    process->omitted_events = facts->omitted_events;
    process->event_count = facts->event_count;
    process->step_count = report->step_count;
    process->parent = process->node = process->run = VT_JOB_NONE;
    memcpy(process->boot_id, header->process.boot_id, sizeof process->boot_id);
    memcpy(process->identity, header->identity, sizeof process->identity);
    process->pid_namespace = header->process.pid_namespace;
    process->gathers = any_gathered(report->attribution);
}

/* ---- How it was launched ---- */

static const char *or_empty(const char *text)
{
    return text ? text : "";
}

/* Those that met at one place were launched together, else those that the same variables were set for. */
static const char *key_of(const struct vt_trace *trace, struct vt_arena *arena,
                          const struct vt_launch *launch)
{
    if (launch->store)
        return vt_job_print(arena, "%s\n%s\n%s\n%d", launch->launcher, or_empty(launch->run), launch->store,
                            (int)launch->world_size);
    return vt_job_print(arena, "%s\n%s\n%s\n%s\n%s\n%s\n%d\n%d", launch->launcher, or_empty(launch->run),
                        or_empty(vt_launch_variable(trace, "SLURM_STEP_ID")),
                        or_empty(vt_launch_variable(trace, "SLURM_ARRAY_TASK_ID")),
                        or_empty(vt_launch_variable(trace, "MASTER_ADDR")),
                        or_empty(vt_launch_variable(trace, "MASTER_PORT")), (int)launch->attempt,
                        (int)launch->world_size);
}

static void read_launch(const struct vt_trace *trace, struct vt_arena *arena, struct vt_job_process *process)
{
    const struct vt_launch launch = vt_launch_read(trace);

    process->rank = launch.rank;
    process->local_rank = launch.local_rank;
    process->world_size = launch.world_size;
    process->local_world_size = launch.local_world_size;
    process->node_rank = launch.node_rank;
    process->attempt = launch.attempt;
    process->launcher = launch.launcher;
    process->launch_name = vt_job_copy(arena, launch.run);
    process->visible_devices = vt_job_copy(arena, launch.visible_devices);
    process->by_group = launch.store != NULL;
    process->label = launch.rank >= 0 ? vt_job_print(arena, "rank %d", (int)launch.rank)
                                      : vt_job_print(arena, "pid %u", process->pid);
    process->launch_key = launch.rank >= 0 ? key_of(trace, arena, &launch) : "";
}

/* ---- All ---- */

static struct vt_arena *begin_process(const struct vt_report *report, struct vt_job_process *process)
{
    struct vt_arena *arena = vt_allocate_zeros(1, sizeof *arena);

    *process = (struct vt_job_process){.owner = arena};
    arena->piece_bytes = PIECE_BYTES;
    read_facts(report, arena, process);
    return arena;
}

void vt_job_process_read_brief(const struct vt_report *report, bool head_only, struct vt_job_process *process)
{
    const struct vt_file_header *header = &report->trace->header;
    struct vt_arena *arena = begin_process(report, process);

    process->devices = vt_job_take(arena, report->device_count, sizeof *process->devices);
    for (size_t i = 0; i < report->device_count; i++) {
        struct vt_job_device *device = &process->devices[process->device_count++];

        device->index = report->devices[i].index;
        device->peak = report->devices[i].peak.state;
        read_gpu(report->trace, arena, device);
    }
    read_refusals(report, arena, process);
    read_launch(report->trace, arena, process);
    process->head_only = head_only;
    process->event_count = head_only ? header->counters.events : process->event_count;
}

void vt_job_process_read(const struct vt_report *report, struct vt_job_process *process)
{
    struct vt_arena *arena = begin_process(report, process);

    read_devices(report, arena, process);
    read_steps(report, arena, process);
    read_refusals(report, arena, process);
    read_parameters(report->trace, arena, process);
    read_shares(report, arena, process);
    read_launch(report->trace, arena, process);
}

void vt_job_process_free(struct vt_job_process *process)
{
    struct vt_arena *arena = process->owner;

    if (arena)
        vt_arena_free(arena);
    free(arena);
    *process = (struct vt_job_process){0};
}
