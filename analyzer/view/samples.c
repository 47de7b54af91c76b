/* Reads stacks and samples from the tables. */
#include "view/samples.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/index.h"

/* ---- Stacks ---- */

static int end_stacks(struct vt_stack_list *stacks, size_t count)
{
    int result = 0;

    while (!result && stacks->stack_count < count)
        result =
            VT_APPEND(stacks->ends, stacks->stack_count, stacks->stack_capacity, (uint32_t)stacks->id_count);
    return result;
}

static int read_stack_row(void *context, const void *item)
{
    struct vt_stack_list *stacks = context;
    const struct vt_stack_row *row = item;
    int result = end_stacks(stacks, row->stack_id); /* those before it */

    if (!result && stacks->id_count >= UINT32_MAX)
        result = -ENOMEM;
    if (!result)
        result = VT_APPEND(stacks->frame_ids, stacks->id_count, stacks->id_capacity, row->frame);
    return result;
}

static int read_frame_row(void *context, const void *item)
{
    struct vt_stack_list *stacks = context;
    const struct vt_frame_row *row = item;

    return VT_APPEND(stacks->frames, stacks->frame_count, stacks->frame_capacity, *row);
}

int vt_stacks_read(struct vt_tables *tables, struct vt_stack_list *stacks)
{
    struct vt_frame_row border = {.frame = {.kind = VT_FRAME_PYTHON,
                                            .function = "backward of",
                                            .full_function = "backward of",
                                            .file = "",
                                            .module = ""},
                                  .name = "backward of"};
    int result;

    *stacks = (struct vt_stack_list){.frames = NULL};
    result = vt_table_walk(tables, VT_TABLE_STACKS, read_stack_row, stacks);
    if (!result)
        result = end_stacks(stacks, stacks->stack_count + 1); /* the last one */
    if (!result)
        result = vt_table_walk(tables, VT_TABLE_FRAMES, read_frame_row, stacks);
    border.id = (uint32_t)stacks->frame_count;
    return result ? result : read_frame_row(stacks, &border);
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

    if (!state || !row->counted_bytes || block->category == VT_CATEGORY_HOST_PINNED ||
        block->alloc_event > state->event_index || (block->freed && block->free_event <= state->event_index))
        return 0;
    return VT_APPEND(reading->samples->items, reading->samples->count, reading->samples->capacity,
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
                                        .dtype = row->tensor_count ? row->tensors[0].dtype : NULL});
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

int vt_samples_read(const struct vt_export *export, struct vt_sample_list *samples)
{
    struct reading reading = {.report = export->report, .samples = samples};
    int result;

    *samples = (struct vt_sample_list){.items = NULL};
    result = vt_table_walk(export->tables, VT_TABLE_ALLOCATIONS, read_allocation, &reading);
    for (size_t i = 0; i < export->report->device_count && !result; i++) {
        const struct vt_device_report *device = &export->report->devices[i];
        uint64_t cached = device->shown->state.categories[VT_CATEGORY_CACHED];

        if (device->shown->state.present && cached)
            result = VT_APPEND(samples->items, samples->count, samples->capacity,
                               (struct vt_sample){.device_index = device->index,
                                                  .category = VT_CATEGORY_CACHED,
                                                  .phase = VT_PHASE_COUNT,
                                                  .evidence = VT_EVIDENCE_COUNT,
                                                  .bytes = cached,
                                                  .kind = "cached"});
    }
    if (!result && samples->count)
        qsort(samples->items, samples->count, sizeof *samples->items, compare_samples);
    return result;
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

const char *vt_device_label(int device_index, char text[VT_DEVICE_NAME_BYTES])
{
    snprintf(text, VT_DEVICE_NAME_BYTES, "GPU %d", device_index);
    return text;
}
