/* The table of owners: those whose names differ only in numbers, and that look the same, in one row. */
#include "view/text/text.h"

#include <stdlib.h>
#include <string.h>

void vt_text_owners(struct vt_print *print, const struct vt_report *report,
                    const struct vt_device_report *device, size_t rows)
{
    const struct vt_instant *instant = device->shown;
    const struct vt_groups *groups = &instant->groups[VT_BY_OWNER];
    uint64_t whole = instant->state.used_bytes, rest = 0, nameless = 0;
    struct vt_module_families families;
    struct vt_table table;
    bool repeated = false;
    char title[64];
    struct vt_column columns[] = {
        {vt_lossy_title(report, "By owner", title, sizeof title), false, VT_CUT_PARTS, 28, 0},
        {"", false, VT_CUT_END, 0, 5},
        {"", true, VT_CUT_END, 0, 2},
        {"", true, VT_CUT_END, 0, 0},
        {vt_text_whole(device), true, VT_CUT_END, 0, 0},
        {"", false, VT_CUT_END, 0, 3}};

    if (vt_fold_modules(groups, &families))
        return;
    rows = families.count < rows ? families.count : rows;
    for (size_t i = 0; i < rows; i++)
        repeated |= families.items[i].members > 1;
    columns[2].title = repeated ? "each" : "";
    columns[3].title = repeated ? "all" : "";
    vt_table_begin(&table, columns, 6);
    for (size_t i = 0; i < families.count; i++) {
        const struct vt_module_family *family = &families.items[i];

        if (i >= rows) {
            rest += family->bytes;
            continue;
        }
        vt_table_cell(&table, "%s", family->name);
        vt_table_cell(&table, "%s", family->class_name);
        vt_each_cell(&table, family);
        vt_size_cells(&table, family->bytes, whole);
        vt_category_cell(&table, family->categories);
    }
    vt_rest_row(&table, families.count - rows, rest, whole, 2, 1);
    for (size_t i = 0; i < groups->count; i++)
        nameless += groups->items[i].name[0] ? 0 : groups->items[i].bytes;
    if (nameless) {
        vt_table_cell(&table, VT_DIM "not known" VT_RESET);
        vt_table_cell(&table, "%s", "");
        vt_table_cell(&table, "%s", "");
        vt_size_cells(&table, nameless, whole);
        vt_table_cell(&table, "%s", "");
    }
    vt_table_print(&table, print, print->style->width);
    fputc('\n', print->stream);
    vt_module_families_free(&families);
}
