/* The table of blocks alive at an instant. */
#include <inttypes.h>

#include "view/text/text.h"

void vt_block_name_cell(struct vt_table *table, const struct vt_block *block)
{
    vt_table_cell(table, "%s",
                  block->owner         ? block->owner
                  : block->shown_place ? block->shown_place->name
                                       : VT_DIM "no line known" VT_RESET);
}

static void block_row(struct vt_table *table, const struct vt_block *block, uint64_t whole)
{
    uint64_t categories[VT_CATEGORY_COUNT] = {0};

    categories[block->category] = 1;
    vt_block_name_cell(table, block);
    vt_table_cell(table, "%s", block->module && !block->owner ? block->module : "");
    vt_size_cells(table, block->bytes, whole);
    vt_category_cell(table, categories);
    vt_table_cell(table, "%s", vt_evidence_name(block->evidence));
    if (block->step)
        vt_table_cell(table, "%s %" PRIu32, vt_phase_name(block->phase), block->step);
    else
        vt_table_cell(table, "%s", vt_phase_name(block->phase));
    vt_table_cell(table, "0x%" PRIx64, block->address);
}

void vt_text_blocks(struct vt_print *print, const struct vt_report *report,
                    const struct vt_device_report *device, size_t rows)
{
    const struct vt_instant *instant = device->shown;
    uint64_t whole = instant->state.used_bytes, rest = 0;
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
        if (i < rows)
            block_row(&table, &instant->blocks[i], whole);
        else
            rest += instant->blocks[i].bytes;
    }
    vt_rest_row(&table, instant->block_count > rows ? instant->block_count - rows : 0, rest, whole, 1, 4);
    vt_table_print(&table, print, print->style->width);
    fputc('\n', print->stream);
}
