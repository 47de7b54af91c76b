/* The blocks alive at an instant, one by one: the list and its table. */
#include "view/text/text.h"
#include "report/parts.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#define NAME_BYTES 512

/* Largest first; those of one size in the order that they were made. */
static int compare_blocks(const void *left, const void *right, void *replay)
{
    const struct vt_allocation *allocations = ((const struct vt_replay *)replay)->allocations;
    const struct vt_block *a = left, *b = right;
    uint64_t a_bytes = allocations[a->allocation].bytes, b_bytes = allocations[b->allocation].bytes;

    if (a_bytes != b_bytes)
        return a_bytes > b_bytes ? -1 : 1;
    return a->allocation < b->allocation ? -1 : a->allocation > b->allocation;
}

int vt_list_blocks(const struct vt_replay *replay, int device_index, struct vt_instant *instant)
{
    uint64_t number = 0;
    uint32_t event = 0;

    instant->blocks = calloc(replay->allocation_count + 1, sizeof *instant->blocks);
    if (!instant->blocks)
        return -ENOMEM;
    for (size_t i = 0; i < replay->allocation_count; i++) {
        const struct vt_allocation *allocation = &replay->allocations[i];

        if (allocation->alloc_event > instant->event_index)
            break;
        for (; event <= allocation->alloc_event; event++)
            number += replay->trace->events[event].kind == VT_EVENT_ALLOC &&
                      replay->trace->events[event].layer == VT_LAYER_FRAMEWORK &&
                      replay->trace->events[event].device_index == device_index;
        if (vt_is_counted(allocation, device_index, instant->event_index))
            instant->blocks[instant->block_count++] = (struct vt_block){
                .allocation = (uint32_t)i, .number = allocation->kind == VT_ALLOCATION_BLOCK ? number : 0};
    }
    qsort_r(instant->blocks, instant->block_count, sizeof *instant->blocks, compare_blocks, (void *)replay);
    return 0;
}

void vt_name_allocation(const struct vt_attribution *attribution, const struct vt_allocation *allocation,
                        char *text, size_t bytes)
{
    const char *owner = vt_label_of(attribution, allocation)->owner;
    struct vt_frame frame;

    if (owner)
        snprintf(text, bytes, "%s", owner);
    else if (vt_trace_user_frame(attribution->trace, vt_telling_stack(attribution, allocation), &frame))
        vt_name_frame(attribution->trace, &frame, text, bytes);
    else
        snprintf(text, bytes, VT_DIM "no line known" VT_RESET);
}

static void block_row(struct vt_table *table, const struct vt_report *report,
                      const struct vt_allocation *allocation, uint64_t whole)
{
    const struct vt_label *label = vt_label_of(report->attribution, allocation);
    const char *module = vt_shown_module(label);
    uint64_t categories[VT_CATEGORY_COUNT] = {0};
    char name[NAME_BYTES];

    categories[label->category] = 1;
    vt_name_allocation(report->attribution, allocation, name, sizeof name);
    vt_table_cell(table, "%s", name);
    vt_table_cell(table, "%s", module && !label->owner ? module : "");
    vt_size_cells(table, allocation->bytes, whole);
    vt_category_cell(table, categories);
    vt_table_cell(table, "%s", vt_evidence_name(label->evidence));
    if (label->step)
        vt_table_cell(table, "%s %" PRIu32, vt_phase_name(label->phase), label->step);
    else
        vt_table_cell(table, "%s", vt_phase_name(label->phase));
    vt_table_cell(table, "0x%" PRIx64, allocation->address);
}

void vt_text_blocks(struct vt_print *print, const struct vt_report *report,
                    const struct vt_device_report *device, size_t rows)
{
    const struct vt_instant *instant = vt_shown_instant(device);
    const struct vt_allocation *allocations = report->attribution->replay->allocations;
    uint64_t whole = vt_used_bytes(instant->categories), rest = 0;
    struct vt_table table;
    char title[64];
    const struct vt_column columns[] = {
        {vt_lossy_title(report, "By block", title, sizeof title), false, VT_CUT_PARTS, 28, 0},
        {"module", false, VT_CUT_PARTS, 20, 3},
        {"", true, VT_CUT_END, 0, 0},
        {vt_text_whole(device), true, VT_CUT_END, 0, 2},
        {"", false, VT_CUT_END, 0, 0},
        {"evidence", false, VT_CUT_END, 0, 4},
        {"made in", false, VT_CUT_END, 0, 1},
        {"address", false, VT_CUT_END, 0, 5}};

    vt_table_begin(&table, columns, 8);
    for (size_t i = 0; i < instant->block_count; i++) {
        const struct vt_allocation *allocation = &allocations[instant->blocks[i].allocation];

        if (i < rows)
            block_row(&table, report, allocation, whole);
        else
            rest += allocation->bytes;
    }
    vt_rest_row(&table, instant->block_count > rows ? instant->block_count - rows : 0, rest, whole, 1, 4);
    vt_table_print(&table, print, print->style->width);
    fputc('\n', print->stream);
}
