/* The lines and files that stacks come through: found once for each stack. */
#include "report/line_table.h"

#include "base/allocate.h"
#include "base/index.h"
#include "report/report.h"
#include "trace/trace.h"

#include <stdlib.h>
#include <string.h>

#define FRAMES 512

struct stack {
    uint32_t own, own_file;
    size_t first, count; /* in `through` */
    bool known;
};

struct vt_line_table {
    const struct vt_report *report;
    struct vt_line_item *items; /* the first is VT_NO_FILE */
    size_t item_count, item_capacity;
    struct vt_index index; /* hash of path and line → item */
    struct stack *stacks;  /* by stack id */
    uint32_t read_count;   /* of stacks */
    uint32_t *through;     /* of all stacks, one after the other */
    size_t through_count, through_capacity;
    struct vt_frame frames[FRAMES];
};

static uint32_t find_item(struct vt_line_table *table, const char *path, uint64_t path_hash, int32_t line,
                          uint32_t file)
{
    uint32_t item =
        vt_index_add(&table->index, vt_mix(path_hash, (uint32_t)line), (uint32_t)table->item_count);

    if (item == table->item_count)
        VT_APPEND(
            table->items, table->item_count, table->item_capacity,
            (struct vt_line_item){.file = line == VT_WHOLE_FILE ? item : file, .line = line, .path = path});
    return item;
}

static void add_through(struct vt_line_table *table, uint32_t item)
{
    if (table->items[item].met == table->read_count)
        return;
    table->items[item].met = table->read_count;
    VT_APPEND(table->through, table->through_count, table->through_capacity, item);
}

static void add_frame(struct vt_line_table *table, const struct vt_frame *frame, uint32_t *line,
                      uint32_t *file)
{
    uint64_t hash = vt_hash_bytes(frame->file, strlen(frame->file), VT_HASH_START);

    *file = find_item(table, frame->file, hash, VT_WHOLE_FILE, 0);
    *line = find_item(table, frame->file, hash, frame->line, *file);
    add_through(table, *file);
    add_through(table, *line);
}

static void read_stack(struct vt_line_table *table, uint32_t stack_id, struct stack *stack)
{
    const struct vt_place *place = vt_place_of(table->report->places, stack_id);
    size_t count = vt_trace_frames(table->report->trace, stack_id, table->frames, FRAMES);
    uint32_t line, file;

    table->read_count++;
    stack->first = table->through_count;
    if (place && place->frame.file[0])
        add_frame(table, &place->frame, &stack->own, &stack->own_file);
    for (size_t i = 0; i < count && i < FRAMES; i++)
        if (table->frames[i].file[0])
            add_frame(table, &table->frames[i], &line, &file);
    stack->count = table->through_count - stack->first;
    stack->known = true;
}

struct vt_stack_lines vt_line_table_read(struct vt_line_table *table, uint32_t stack_id)
{
    struct stack *stack = &table->stacks[stack_id < table->report->trace->stack_count ? stack_id : 0];

    if (!stack->known)
        read_stack(table, stack_id, stack);
    return (struct vt_stack_lines){.own = stack->own,
                                   .own_file = stack->own_file,
                                   .through = table->through ? table->through + stack->first : NULL,
                                   .through_count = stack->count};
}

const struct vt_line_item *vt_line_table_items(const struct vt_line_table *table, size_t *count)
{
    *count = table->item_count;
    return table->items;
}

struct vt_line_table *vt_line_table_make(const struct vt_report *report)
{
    struct vt_line_table *table = vt_allocate_zeros(1, sizeof *table);

    table->report = report;
    table->stacks = vt_allocate_zeros(report->trace->stack_count + 1, sizeof *table->stacks);
    VT_APPEND(table->items, table->item_count, table->item_capacity,
              (struct vt_line_item){.file = VT_NO_FILE, .path = ""});
    return table;
}

void vt_line_table_free(struct vt_line_table *table)
{
    if (!table)
        return;
    vt_index_free(&table->index);
    free(table->items);
    free(table->stacks);
    free(table->through);
    free(table);
}
