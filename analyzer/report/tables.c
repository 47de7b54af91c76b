/* Walks everything of a trace, a row at a time. */
#include "report/tables.h"

#include "attribute/sums.h"
#include "base/allocate.h"
#include "base/index.h"
#include "report/blocks.h"
#include "report/columns.h"
#include "report/instants.h"
#include "report/moments.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FRAMES 512 /* of a stack that are listed */

struct vt_tables {
    const struct vt_report *report;
    unsigned wanted;
    struct vt_frame_row *frames;
    size_t frame_count, frame_capacity;
    struct vt_index frame_index;   /* hash of a frame's content → its id */
    struct vt_tensor_row *tensors; /* of the list at hand */
    size_t tensor_capacity;
};

/* ---- Frames ---- */

static bool same_frame(const struct vt_frame *a, const struct vt_frame *b)
{
    return a->kind == b->kind && a->line == b->line && a->address == b->address &&
           !strcmp(a->function, b->function) && !strcmp(a->full_function, b->full_function) &&
           !strcmp(a->file, b->file) && !strcmp(a->module, b->module);
}

static uint64_t hash_frame(const struct vt_frame *frame)
{
    uint64_t hash = vt_mix(vt_mix(frame->kind, (uint64_t)frame->line), frame->address);

    hash = vt_hash_bytes(frame->function, strlen(frame->function) + 1, hash);
    hash = vt_hash_bytes(frame->full_function, strlen(frame->full_function) + 1, hash);
    hash = vt_hash_bytes(frame->file, strlen(frame->file) + 1, hash);
    return vt_hash_bytes(frame->module, strlen(frame->module) + 1, hash);
}

/* The id of a frame, which is added if it is new. For Python code the address belongs to an object, not to
 * the frame. */
static uint32_t frame_id(struct vt_tables *tables, struct vt_frame frame)
{
    struct vt_place named;
    uint64_t hash;
    uint32_t id;

    if (frame.kind == VT_FRAME_PYTHON)
        frame.address = 0;
    for (hash = hash_frame(&frame);; hash++) {
        id = vt_index_get(&tables->frame_index, hash);
        if (id == VT_INDEX_NONE)
            break;
        if (same_frame(&tables->frames[id].frame, &frame))
            return id;
    }
    id = (uint32_t)tables->frame_count;
    vt_place_set(tables->report->places, &frame, &named);
    VT_APPEND(tables->frames, tables->frame_count, tables->frame_capacity,
              (struct vt_frame_row){.id = id, .frame = frame, .name = named.name});
    vt_index_put(&tables->frame_index, hash, id);
    return id;
}

static size_t frames_of(const struct vt_tables *tables, size_t stack_id, struct vt_frame *frames)
{
    size_t count = vt_trace_frames(tables->report->trace, (uint32_t)stack_id, frames, FRAMES);

    return count < FRAMES ? count : FRAMES;
}

/* ---- Rows ---- */

struct walk {
    struct vt_tables *tables;
    vt_row_visit *visit;
    void *context;
    struct vt_instant_row instant; /* of a walk of instants */
};

/* What tables call an event: its index in the table of events; where chains were left out, and so that table
 * is, its number in the file. */
static uint32_t number_of(const struct vt_report *report, uint32_t event_index)
{
    return report->trace->leaves_out ? (uint32_t)vt_report_event_number(report, event_index) : event_index;
}

static int walk_events(struct walk *walk)
{
    const struct vt_trace *trace = walk->tables->report->trace;
    struct vt_event_facts event;
    int result = 0;

    for (uint32_t i = 0; i < trace->event_count && !result; i++) {
        vt_event_facts_read(trace, i, &event);
        result = walk->visit(walk->context, &event);
    }
    return result;
}

static uint32_t list_of(const struct vt_attribution *attribution, uint32_t allocation, size_t *count)
{
    const struct vt_owner *owners = vt_owners_of(attribution, allocation, count);

    return owners ? (uint32_t)(owners - attribution->owners) + 1 : 0;
}

static void read_tensors(struct vt_tables *tables, uint32_t list, size_t count)
{
    const struct vt_owner *owners = tables->report->attribution->owners + list - 1;

    vt_reserve(&tables->tensors, &tables->tensor_capacity, count, sizeof *tables->tensors);
    for (size_t i = 0; i < count; i++)
        tables->tensors[i] = (struct vt_tensor_row){.tensor_list = list,
                                                    .name = owners[i].name,
                                                    .role = owners[i].role,
                                                    .module = owners[i].module,
                                                    .dtype = owners[i].dtype,
                                                    .shape = owners[i].shape,
                                                    .bytes = owners[i].bytes,
                                                    .share_bytes = owners[i].share_bytes,
                                                    .evidence = owners[i].evidence};
}

const struct vt_tensor_row *vt_row_tensors(struct vt_tables *tables, const struct vt_allocation_row *row)
{
    if (!row->tensor_list)
        return NULL;
    read_tensors(tables, row->tensor_list, row->tensor_count);
    return tables->tensors;
}

static int walk_allocations(struct walk *walk)
{
    const struct vt_report *report = walk->tables->report;
    const struct vt_attribution *attribution = report->attribution;
    int result = 0;

    for (uint32_t i = 0; i < attribution->replay->allocation_count && !result; i++) {
        const struct vt_allocation *allocation = &attribution->replay->allocations[i];
        const struct vt_label *label = &attribution->labels[i];
        struct vt_allocation_row row = {
            .device_index = allocation->kind == VT_ALLOCATION_HOST ? -1 : allocation->device_index,
            .module_class = label->module ? vt_module_class(attribution, label->module) : NULL,
            .stack_id = allocation->stack_id,
            .forward_stack_id = label->forward_stack_id,
            .parent = allocation->parent,
            .has_parent = allocation->parent != VT_NEVER,
            .foreign = allocation->flags & VT_FLAG_FOREIGN,
            .rounding_bytes = label->rounding_bytes,
            .counted_bytes = vt_allocation_own_bytes(allocation),
            .driver_bytes = vt_is_driver_memory(allocation) ? allocation->bytes : 0,
            .cached_change_bytes = vt_cached_change(allocation)};
        size_t tensors;

        vt_block_set(report, i, &row.block);
        row.free_t_ns = row.block.freed ? vt_event_time(report->trace, allocation->free_event) : 0;
        row.tensor_list = list_of(attribution, i, &tensors);
        row.tensor_count = (uint32_t)tensors;
        result = walk->visit(walk->context, &row);
    }
    return result;
}

/* Each list once. */
static int walk_tensors(struct walk *walk)
{
    const struct vt_attribution *attribution = walk->tables->report->attribution;
    bool *walked = vt_allocate_zeros(attribution->owner_count + 1, sizeof *walked);
    size_t count;
    int result = 0;

    for (uint32_t i = 0; i < attribution->replay->allocation_count && !result; i++) {
        uint32_t list = list_of(attribution, i, &count);

        if (!list || walked[list])
            continue;
        walked[list] = true;
        read_tensors(walk->tables, list, count);
        for (size_t k = 0; k < count && !result; k++)
            result = walk->visit(walk->context, &walk->tables->tensors[k]);
    }
    free(walked);
    return result;
}

static int walk_stacks(struct walk *walk)
{
    struct vt_tables *tables = walk->tables;
    struct vt_frame frames[FRAMES];
    int result = 0;

    for (size_t id = 1; id < tables->report->trace->stack_count && !result; id++) {
        size_t count = frames_of(tables, id, frames);
        const struct vt_place *place = vt_place_of(tables->report->places, (uint32_t)id);

        for (size_t i = 0; i < count && !result; i++) {
            struct vt_stack_row row = {.stack_id = (uint32_t)id, .depth = (uint32_t)i};

            row.is_place = place && same_frame(&place->frame, &frames[i]);
            if (row.is_place)
                place = NULL; /* a recursive function is there more than once */
            row.frame = frame_id(tables, frames[i]);
            result = walk->visit(walk->context, &row);
        }
    }
    return result;
}

static int walk_frames(struct walk *walk)
{
    int result = 0;

    for (size_t i = 0; i < walk->tables->frame_count && !result; i++)
        result = walk->visit(walk->context, &walk->tables->frames[i]);
    return result;
}

static int walk_steps(struct walk *walk)
{
    const struct vt_report *report = walk->tables->report;
    int result = 0;

    for (size_t d = 0; d < report->device_count; d++)
        for (size_t i = 0; i < report->devices[d].steps.count && !result; i++)
            result = walk->visit(walk->context, &(struct vt_step_row){report->devices[d].index,
                                                                      &report->devices[d].steps.items[i]});
    return result;
}

static int walk_phases(struct walk *walk)
{
    const struct vt_report *report = walk->tables->report;
    const struct vt_attribution *attribution = report->attribution;
    int result = 0;

    for (size_t i = 0; i < attribution->span_count && !result; i++) {
        const struct vt_span *span = &attribution->spans[i];
        uint32_t end = i + 1 < attribution->span_count ? span[1].first_event : span->last_event;

        result = walk->visit(walk->context,
                             &(struct vt_phase_row){.first_event = span->first_event,
                                                    .last_event = span->last_event,
                                                    .step = span->step,
                                                    .phase = span->phase,
                                                    .t_ns = vt_event_time(report->trace, span->first_event),
                                                    .end_ns = vt_event_time(report->trace, end)});
    }
    return result;
}

static int walk_marks(struct walk *walk)
{
    const struct vt_report *report = walk->tables->report;
    int result = 0;

    for (size_t i = 0; i < report->mark_count && !result; i++)
        result = walk->visit(walk->context, &report->marks[i]);
    return result;
}

static int walk_requests(struct walk *walk)
{
    const struct vt_report *report = walk->tables->report;
    const struct vt_requests *requests = &report->attribution->requests;
    bool known = requests->are_named;
    int result = 0;

    for (size_t i = 0; !known && i < report->attribution->replay->allocation_count; i++)
        known = report->attribution->labels[i].category == VT_CATEGORY_KV_CACHE;
    known &= requests->are_told;
    for (size_t i = 0; known && i < requests->count && !result; i++) {
        uint64_t began_ns = vt_event_time(report->trace, requests->begins[i]);

        result = walk->visit(walk->context,
                             &(struct vt_request_row){
                                 .request = (uint32_t)i + 1,
                                 .first_event = requests->begins[i],
                                 .last_event = requests->ends[i],
                                 .function = requests->function,
                                 .t_ns = began_ns,
                                 .duration_ns = vt_event_time(report->trace, requests->ends[i]) - began_ns});
    }
    return result;
}

static int visit_instant(void *context, uint32_t event_index, const struct vt_sums *sums)
{
    struct walk *walk = context;

    vt_state_keep(&walk->instant.state, event_index, sums);
    vt_state_finish(walk->tables->report, &walk->instant.state);
    return walk->visit(walk->context, &walk->instant);
}

static int walk_instants(struct walk *walk)
{
    const struct vt_report *report = walk->tables->report;
    int result = 0;

    for (size_t d = 0; d < report->device_count && !result; d++) {
        walk->instant = (struct vt_instant_row){.device_index = report->devices[d].index};
        result = vt_category_walk(report->attribution, report->devices[d].index, visit_instant, walk);
    }
    return result;
}

static int walk_trace(struct walk *walk)
{
    struct vt_trace_row row;

    vt_trace_row_make(walk->tables->report, &row);
    return walk->visit(walk->context, &row);
}

static int walk_peak(struct walk *walk)
{
    const struct vt_report *report = walk->tables->report;
    int result = 0;

    for (size_t d = 0; d < report->device_count && !result; d++) {
        struct vt_peak_rows rows = vt_peak_rows_make(report, &report->devices[d]);

        for (size_t i = 0; i < rows.count && !result; i++)
            result = walk->visit(walk->context, &rows.items[i]);
        free(rows.items);
    }
    return result;
}

static int walk_leaks(struct walk *walk)
{
    const struct vt_report *report = walk->tables->report;
    int result = 0;

    for (size_t d = 0; d < report->device_count; d++)
        for (size_t i = 0; i < report->devices[d].leaks.count && !result; i++) {
            const struct vt_leak *leak = &report->devices[d].leaks.items[i];

            result =
                walk->visit(walk->context, &(struct vt_leak_row){report->devices[d].index, leak,
                                                                 leak->line_count ? &leak->lines[0] : NULL});
        }
    return result;
}

static int walk_out_of_memory(struct walk *walk)
{
    const struct vt_report *report = walk->tables->report;
    int result = 0;

    for (size_t i = 0; i < report->refusal_count && !result; i++) {
        struct vt_oom refusal = report->refusals[i];

        refusal.event_index = number_of(report, refusal.event_index);
        result = walk->visit(walk->context, &refusal);
    }
    return result;
}

static int walk_devices(struct walk *walk)
{
    const struct vt_report *report = walk->tables->report;
    int result = 0;

    for (size_t d = 0; d < report->device_count && !result; d++) {
        struct vt_device_report device = report->devices[d];

        device.peak.state.event_index = number_of(report, device.peak.state.event_index);
        device.end.state.event_index = number_of(report, device.end.state.event_index);
        result = walk->visit(walk->context, &device);
    }
    return result;
}

static int walk_gpu_table(struct walk *walk, struct vt_gpu_table_row row)
{
    struct vt_gpu_table table = *row.table;
    int result = 0;

    table.event_index = number_of(walk->tables->report, table.event_index);
    row.table = &table;
    for (size_t i = 0; i < table.row_count + table.told_count && !result; i++) {
        row.counted = i < table.row_count;
        row.row = row.counted ? &table.rows[i] : &table.told[i - table.row_count];
        result = walk->visit(walk->context, &row);
    }
    return result;
}

static int walk_cards(struct walk *walk)
{
    const struct vt_report *report = walk->tables->report;
    int result = 0;

    for (size_t d = 0; d < report->device_count && !result; d++) {
        const struct vt_device_report *device = &report->devices[d];

        result = walk_gpu_table(walk,
                                (struct vt_gpu_table_row){device->index, "peak", &device->card, NULL, false});
        if (!result)
            result = walk_gpu_table(
                walk, (struct vt_gpu_table_row){device->index, "last", &device->last_card, NULL, false});
    }
    return result;
}

static int walk_columns(struct walk *walk)
{
    struct vt_columns columns;
    int result = 0;

    for (unsigned table = 0; table < VT_TABLE_COUNT && !result; table++) {
        if (!vt_table_wanted(walk->tables, table))
            continue;
        vt_columns_make(vt_table_object(table), &columns);
        for (size_t i = 0; i < columns.count && !result; i++) {
            const struct vt_column *column = &columns.items[i];

            result = walk->visit(walk->context,
                                 &(struct vt_column_row){vt_table_names[table], column->name,
                                                         vt_cell_kind_name(column->kind),
                                                         vt_unit_name(column->unit), column->about});
        }
        vt_columns_free(&columns);
    }
    return result;
}

int vt_table_walk(struct vt_tables *tables, unsigned table, vt_row_visit *visit, void *context)
{
    static int (*const walks[])(struct walk *) = {
#define X(id, name, row) walk_##name,
        VT_TABLES(X)
#undef X
    };
    struct walk walk = {.tables = tables, .visit = visit, .context = context};

    return walks[table](&walk);
}

bool vt_table_wanted(const struct vt_tables *tables, unsigned table)
{
    return tables->wanted >> table & 1;
}

static int skip_row(void *context, const void *row)
{
    (void)context;
    (void)row;
    return 0;
}

struct vt_tables *vt_tables_make(const struct vt_report *report, unsigned wanted)
{
    struct vt_tables *tables = vt_allocate_zeros(1, sizeof *tables);

    tables->report = report;
    tables->wanted = wanted;
    if (wanted & 1u << VT_TABLE_STACKS) /* numbers the frames, and makes their names */
        vt_table_walk(tables, VT_TABLE_STACKS, skip_row, NULL);
    return tables;
}

void vt_tables_free(struct vt_tables *tables)
{
    if (!tables)
        return;
    vt_index_free(&tables->frame_index);
    free(tables->frames);
    free(tables->tensors);
    free(tables);
}
