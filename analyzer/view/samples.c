/* Reads stacks and samples from the tables. */
#include "view/samples.h"

#include <stdlib.h>
#include <string.h>

#include "base/allocate.h"
#include "base/index.h"

/* ---- Stacks ---- */

static void end_stacks(struct vt_stack_list *stacks, size_t count)
{
    while (stacks->stack_count < count)
        VT_APPEND(stacks->ends, stacks->stack_count, stacks->stack_capacity, (uint32_t)stacks->id_count);
}

static int read_stack_row(void *context, const void *item)
{
    struct vt_stack_list *stacks = context;
    const struct vt_stack_row *row = item;

    end_stacks(stacks, row->stack_id); /* those before it */
    if (stacks->id_count >= UINT32_MAX)
        vt_end_out_of_memory();
    VT_APPEND(stacks->frame_ids, stacks->id_count, stacks->id_capacity, row->frame);
    return 0;
}

static int read_frame_row(void *context, const void *item)
{
    struct vt_stack_list *stacks = context;
    const struct vt_frame_row *row = item;

    VT_APPEND(stacks->frames, stacks->frame_count, stacks->frame_capacity, *row);
    return 0;
}

void vt_stacks_read(struct vt_tables *tables, struct vt_stack_list *stacks)
{
    struct vt_frame_row border = {.frame = {.kind = VT_FRAME_PYTHON,
                                            .function = "backward of",
                                            .full_function = "backward of",
                                            .file = "",
                                            .module = ""},
                                  .name = "backward of"};

    *stacks = (struct vt_stack_list){.frames = NULL};
    vt_table_walk(tables, VT_TABLE_STACKS, read_stack_row, stacks);
    end_stacks(stacks, stacks->stack_count + 1); /* the last one */
    vt_table_walk(tables, VT_TABLE_FRAMES, read_frame_row, stacks);
    border.id = (uint32_t)stacks->frame_count;
    read_frame_row(stacks, &border);
}

void vt_stacks_free(struct vt_stack_list *stacks)
{
    free(stacks->frames);
    free(stacks->frame_ids);
    free(stacks->ends);
    *stacks = (struct vt_stack_list){.frames = NULL};
}

static size_t add_stack(const struct vt_stack_list *stacks, uint32_t stack_id, uint32_t *ids, size_t room)
{
    size_t first, count;

    if (!stack_id || stack_id >= stacks->stack_count)
        return 0;
    first = stacks->ends[stack_id - 1];
    count = stacks->ends[stack_id] - first;
    count = count < room ? count : room;
    if (count)
        memcpy(ids, stacks->frame_ids + first, count * sizeof *ids);
    return count;
}

size_t vt_stack_chain(const struct vt_stack_list *stacks, uint32_t stack_id, uint32_t forward_stack_id,
                      uint32_t ids[VT_CHAIN_FRAMES])
{
    size_t count = add_stack(stacks, stack_id, ids, VT_CHAIN_FRAMES / 2 - 1);

    if (!forward_stack_id)
        return count;
    ids[count++] = (uint32_t)stacks->frame_count - 1;
    return count + add_stack(stacks, forward_stack_id, ids + count, VT_CHAIN_FRAMES / 2);
}

/* ---- What is alive ---- */

struct reading {
    const struct vt_report *report;
    struct vt_tables *tables;
    struct vt_sample_list *samples;
};

static const struct vt_state *shown_state(const struct vt_report *report, int device_index)
{
    for (size_t i = 0; i < report->device_count; i++)
        if (report->devices[i].index == device_index && report->devices[i].shown->state.present)
            return &report->devices[i].shown->state;
    return NULL;
}

static int read_allocation(void *context, const void *item)
{
    struct reading *reading = context;
    const struct vt_allocation_row *row = item;
    const struct vt_block *block = &row->block;
    const struct vt_state *state = shown_state(reading->report, row->device_index);
    const struct vt_tensor_row *tensors;

    if (!state || !row->counted_bytes || block->category == VT_CATEGORY_HOST_PINNED ||
        block->alloc_event > state->event_index || (block->freed && block->free_event <= state->event_index))
        return 0;
    tensors = vt_row_tensors(reading->tables, row);
    VT_APPEND(reading->samples->items, reading->samples->count, reading->samples->capacity,
              (struct vt_sample){.device_index = row->device_index,
                                 .category = block->category,
                                 .phase = block->phase,
                                 .evidence = block->evidence,
                                 .stack_id = row->stack_id,
                                 .forward_stack_id = row->forward_stack_id,
                                 .step = block->step,
                                 .bytes = row->counted_bytes,
                                 .count = 1,
                                 .kind = block->kind,
                                 .owner = block->owner,
                                 .module = block->module,
                                 .module_class = row->module_class,
                                 .operator_name = block->operator_name,
                                 .dtype = tensors ? tensors[0].dtype : NULL});
    return 0;
}

static int compare_samples(const void *left, const void *right)
{
    const struct vt_sample *a = left, *b = right;

    if (a->device_index != b->device_index)
        return a->device_index < b->device_index ? -1 : 1;
    if (a->category != b->category)
        return vt_order(a->category, b->category);
    if (a->forward_stack_id != b->forward_stack_id)
        return vt_order(a->forward_stack_id, b->forward_stack_id);
    return vt_order(a->stack_id, b->stack_id);
}

void vt_samples_read(const struct vt_export *export, struct vt_sample_list *samples)
{
    struct reading reading = {.report = export->report, .tables = export->tables, .samples = samples};

    *samples = (struct vt_sample_list){.items = NULL};
    vt_table_walk(export->tables, VT_TABLE_ALLOCATIONS, read_allocation, &reading);
    for (size_t i = 0; i < export->report->device_count; i++) {
        const struct vt_device_report *device = &export->report->devices[i];
        uint64_t cached = device->shown->state.categories[VT_CATEGORY_CACHED];

        if (device->shown->state.present && cached)
            VT_APPEND(samples->items, samples->count, samples->capacity,
                      (struct vt_sample){.device_index = device->index,
                                         .category = VT_CATEGORY_CACHED,
                                         .phase = VT_PHASE_COUNT,
                                         .evidence = VT_EVIDENCE_COUNT,
                                         .bytes = cached,
                                         .kind = "cached"});
    }
    if (samples->count)
        qsort(samples->items, samples->count, sizeof *samples->items, compare_samples);
}

void vt_samples_free(struct vt_sample_list *samples)
{
    free(samples->items);
    *samples = (struct vt_sample_list){.items = NULL};
}

void vt_samples_merge(struct vt_sample_list *samples)
{
    size_t kept = 0;

    for (size_t i = 0; i < samples->count; i++) {
        if (kept && !compare_samples(&samples->items[kept - 1], &samples->items[i])) {
            samples->items[kept - 1].bytes += samples->items[i].bytes;
            samples->items[kept - 1].count += samples->items[i].count;
        } else {
            samples->items[kept++] = samples->items[i];
        }
    }
    samples->count = kept;
}
