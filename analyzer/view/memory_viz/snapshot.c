/* Reads the tables that a snapshot needs, and writes stacks. */
#include "view/memory_viz/snapshot.h"

#include <stdlib.h>
#include <string.h>

/* Where memory without an address is put: above every address of a process, below what a number of JavaScript
 * can hold. */
#define FIRST_MADE_UP_ADDRESS (UINT64_C(1) << 48)

struct event {
    uint32_t stack;
    bool creates_handle;
};

struct reading {
    struct vt_snapshot *snapshot;
    struct event *events; /* by index */
    size_t event_count, event_capacity;
    uint64_t made_up_address; /* the next */
};

static int read_event(void *context, const void *item)
{
    const struct vt_event_row *row = item;
    struct reading *reading = context;
    struct event event = {row->stack_id, !strcmp(row->kind, "handle_create")};

    return VT_APPEND(reading->events, reading->event_count, reading->event_capacity, event);
}

/* ---- Allocations ---- */

static bool is_segment(const struct vt_snapshot *snapshot, const struct vt_allocation_row *row)
{
    const struct vt_memory *parent =
        row->has_parent && row->parent < snapshot->memory_count ? &snapshot->memory[row->parent] : NULL;

    return parent && (parent->role == VT_MEMORY_SEGMENT || parent->role == VT_MEMORY_MAPPED);
}

static enum vt_memory_role role_of(const struct reading *reading, const struct vt_allocation_row *row)
{
    const char *kind = row->block.kind;

    if (row->device_index < 0 || row->foreign)
        return VT_MEMORY_NONE;
    if (!strcmp(kind, "segment"))
        return reading->events[row->block.alloc_event].creates_handle ? VT_MEMORY_MAPPED : VT_MEMORY_SEGMENT;
    if (!strcmp(kind, "block") && is_segment(reading->snapshot, row))
        return VT_MEMORY_BLOCK;
    return row->counted_bytes ? VT_MEMORY_DIRECT : VT_MEMORY_NONE;
}

static int read_allocation(void *context, const void *item)
{
    const struct vt_allocation_row *row = item;
    const struct vt_block *block = &row->block;
    struct reading *reading = context;
    struct vt_snapshot *snapshot = reading->snapshot;
    struct vt_memory memory = {.address = block->address,
                               .bytes = block->bytes,
                               .rounding_bytes = row->rounding_bytes,
                               .t_ns = block->t_ns,
                               .free_t_ns = row->free_t_ns,
                               .alloc_event = block->alloc_event,
                               .free_event = block->freed ? block->free_event : UINT32_MAX,
                               .stack = row->stack_id,
                               .kind = block->kind,
                               .about = block->owner    ? block->owner
                                        : block->module ? block->module
                                                        : "",
                               .device_index = row->device_index,
                               .role = (uint8_t)role_of(reading, row),
                               .category = block->category};

    if (block->freed)
        memory.free_stack = reading->events[block->free_event].stack;
    if (memory.role == VT_MEMORY_DIRECT && !memory.address) {
        memory.address = reading->made_up_address;
        reading->made_up_address += memory.bytes;
    }
    return VT_APPEND(snapshot->memory, snapshot->memory_count, snapshot->memory_capacity, memory);
}

/* ---- Stacks ---- */

static int read_frame(void *context, const void *item)
{
    const struct vt_frame_row *row = item;
    struct vt_snapshot *snapshot = ((struct reading *)context)->snapshot;

    return VT_APPEND(snapshot->frames, snapshot->frame_count, snapshot->frame_capacity, row->frame);
}

/* Stacks without frames, up to STACK. */
static int begin_stacks(struct vt_snapshot *snapshot, uint32_t stack)
{
    int result = 0;

    while (snapshot->stack_count <= stack && !result)
        result = VT_APPEND(snapshot->stack_starts, snapshot->stack_count, snapshot->stack_capacity,
                           (uint32_t)snapshot->stack_frame_count);
    return result;
}

static int read_stack(void *context, const void *item)
{
    const struct vt_stack_row *row = item;
    struct vt_snapshot *snapshot = ((struct reading *)context)->snapshot;
    int result = begin_stacks(snapshot, row->stack_id);

    if (!result)
        result = VT_APPEND(snapshot->stack_frames, snapshot->stack_frame_count,
                           snapshot->stack_frame_capacity, row->frame);
    return result;
}

static uint32_t *none_written(size_t count)
{
    uint32_t *numbers = malloc((count + 1) * sizeof *numbers);

    if (numbers)
        memset(numbers, 0xff, (count + 1) * sizeof *numbers);
    return numbers;
}

int vt_snapshot_make(const struct vt_report *report, struct vt_tables *tables, struct vt_snapshot *snapshot)
{
    struct reading reading = {.snapshot = snapshot, .made_up_address = FIRST_MADE_UP_ADDRESS};
    int result;

    *snapshot = (struct vt_snapshot){.report = report};
    result = vt_table_walk(tables, VT_TABLE_EVENTS, read_event, &reading);
    if (!result)
        result = vt_table_walk(tables, VT_TABLE_ALLOCATIONS, read_allocation, &reading);
    if (!result)
        result = vt_table_walk(tables, VT_TABLE_FRAMES, read_frame, &reading);
    if (!result)
        result = vt_table_walk(tables, VT_TABLE_STACKS, read_stack, &reading);
    if (!result)
        result = begin_stacks(snapshot, snapshot->stack_count ? (uint32_t)snapshot->stack_count : 1);
    free(reading.events);
    snapshot->written_frames = none_written(snapshot->frame_count);
    snapshot->written_stacks = none_written(snapshot->stack_count);
    if (!snapshot->written_frames || !snapshot->written_stacks)
        result = -ENOMEM;
    return result;
}

void vt_snapshot_free(struct vt_snapshot *snapshot)
{
    free(snapshot->memory);
    free(snapshot->frames);
    free(snapshot->stack_frames);
    free(snapshot->stack_starts);
    free(snapshot->written_frames);
    free(snapshot->written_stacks);
}

/* ---- Parts of the pickle ---- */

void vt_snapshot_key_text(struct vt_snapshot *snapshot, const char *key, const char *text)
{
    vt_pickle_text(&snapshot->pickle, key);
    vt_pickle_text(&snapshot->pickle, text);
}

void vt_snapshot_key_number(struct vt_snapshot *snapshot, const char *key, uint64_t number)
{
    vt_pickle_text(&snapshot->pickle, key);
    vt_pickle_number(&snapshot->pickle, number);
}

uint64_t vt_snapshot_time(const struct vt_snapshot *snapshot, uint64_t t_ns)
{
    return (snapshot->report->facts.start_realtime_ns + t_ns) / 1000;
}

/* PyTorch has the plain name of Python's functions: "forward", not "Model.forward". */
static const char *plain_name(const struct vt_frame *frame)
{
    const char *dot = frame->kind == VT_FRAME_PYTHON ? strrchr(frame->function, '.') : NULL;

    return dot && dot[1] ? dot + 1 : frame->function;
}

static void write_frame(struct vt_snapshot *snapshot, uint32_t number)
{
    const struct vt_frame *frame = &snapshot->frames[number];
    struct vt_pickle *pickle = &snapshot->pickle;

    if (snapshot->written_frames[number] != VT_INDEX_NONE) {
        vt_pickle_again(pickle, snapshot->written_frames[number]);
        return;
    }
    vt_pickle_dict(pickle);
    vt_snapshot_key_text(snapshot, "name", plain_name(frame));
    vt_snapshot_key_text(snapshot, "filename", frame->file[0] ? frame->file : frame->module);
    vt_snapshot_key_number(snapshot, "line", (uint64_t)frame->line);
    vt_pickle_dict_end(pickle);
    snapshot->written_frames[number] = vt_pickle_remember(pickle);
}

void vt_snapshot_frames(struct vt_snapshot *snapshot, uint32_t stack)
{
    struct vt_pickle *pickle = &snapshot->pickle;
    struct vt_pickle_batch batch = {0};

    if (stack + 1 >= snapshot->stack_count)
        stack = 0;
    vt_pickle_text(pickle, "frames");
    if (snapshot->written_stacks[stack] != VT_INDEX_NONE) {
        vt_pickle_again(pickle, snapshot->written_stacks[stack]);
        return;
    }
    vt_pickle_list(pickle);
    for (uint32_t i = snapshot->stack_starts[stack]; i < snapshot->stack_starts[stack + 1]; i++) {
        vt_pickle_item(pickle, &batch);
        write_frame(snapshot, snapshot->stack_frames[i]);
    }
    vt_pickle_list_end(pickle, &batch);
    snapshot->written_stacks[stack] = vt_pickle_remember(pickle);
}
