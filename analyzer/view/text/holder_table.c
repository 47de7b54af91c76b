/* report --by holder: who keeps what, at the nearest inspection. */
#include "view/text/table.h"
#include "view/text/text.h"

#include <inttypes.h>

static void print_when(struct vt_print *print, const struct vt_holder_table *table)
{
    FILE *out = print->paragraph;

    fprintf(out, "As inspection %" PRIu32 " saw it %s", table->number,
            vt_text_when(print->report, table->t_ns, table->step, table->phase, (char[VT_WHEN_BYTES]){0}));
    if (table->distance_ns)
        fprintf(out, ", %s %s that moment", VT_DURATION(table->distance_ns),
                table->before ? "before" : "after");
    fprintf(out, ": %s in use.", VT_BYTES(table->bytes));
    vt_end_paragraph(print, 0, 0);
}

static void put_name(struct vt_table *out, const struct vt_holder_row *row)
{
    vt_table_cell(out, "%s%s%s", row->name, row->from ? " ← " : "", row->from ? row->from : "");
}

void vt_text_holders(struct vt_print *print, const struct vt_device_report *device, size_t rows)
{
    const struct vt_holder_table *table = &device->holders;
    const size_t shown = table->row_count < rows ? table->row_count : rows;
    static const struct vt_print_column columns[] = {{"Kept alive by", .cut = VT_CUT_END, .minimum = 44},
                                                     {"tensors", .right = true, .drop = 2},
                                                     {"", .right = true},
                                                     {"of use", .right = true},
                                                     {"mostly", .drop = 1},
                                                     {"by graphs", .right = true, .drop = 3}};
    uint64_t rest = 0;
    struct vt_table out;

    if (table->unknown) {
        vt_print_paragraph(
            print, 0, 0,
            "What keeps this memory alive is not known: %s. Call vramtrace.inspect(\"…\") where "
            "you want to know it.",
            table->unknown);
        fputc('\n', print->stream);
        return;
    }
    print_when(print, table);
    fputc('\n', print->stream);
    vt_table_begin(&out, columns, 6);
    for (size_t i = 0; i < shown; i++) {
        const struct vt_holder_row *row = &table->rows[i];

        if (!row->bytes)
            break;
        put_name(&out, row);
        vt_table_cells(&out, VT_COUNT(row->tensors));
        vt_table_size(&out, row->bytes, table->bytes);
        vt_table_category(&out, row->categories);
        vt_table_cells(&out, row->graph_bytes ? VT_BYTES(row->graph_bytes) : "");
    }
    for (size_t i = shown; i < table->row_count; i++)
        rest += table->rows[i].bytes;
    vt_table_rest(&out, table->row_count - shown, rest, table->bytes, 1);
    if (table->bytes > table->held_bytes) {
        vt_table_cells(&out, "nothing the inspection saw (temporaries, C++)", "");
        vt_table_size(&out, table->bytes - table->held_bytes, table->bytes);
        vt_table_category(&out, table->rest_categories);
        vt_table_cells(&out, "");
    }
    vt_table_print(&out, print);
    fputc('\n', print->stream);
}
