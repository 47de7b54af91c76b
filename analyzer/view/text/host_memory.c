/* Page-locked host memory: a line of the report, and with --by line or stack a table. */
#include "view/text/table.h"
#include "view/text/text.h"

#include <inttypes.h>
#include <stdlib.h>

#define ROWS 30
#define LEAST_BYTES (UINT64_C(1) << 20) /* without --full */

static void print_sentence(struct vt_print *print, const struct vt_host_memory *host)
{
    const struct vt_report *report = print->report;
    const struct vt_group *most = host->lines.count ? &host->lines.items[0] : NULL;
    FILE *out = print->paragraph;

    fprintf(out, "Page-locked host memory: peak " VT_BOLD "%s" VT_RESET " %s", VT_BYTES(host->peak_bytes),
            VT_WHEN(report, &host->peak));
    if (host->shown_bytes != host->peak_bytes)
        fprintf(out, "; %s %s", VT_BYTES(host->shown_bytes), report->at_label);
    if (most && most->name[0] && most->bytes == host->shown_bytes)
        fprintf(out, ", all from %s", most->name);
    else if (most && most->name[0])
        fprintf(out, ", most from %s (%s)", most->name, VT_BYTES(most->bytes));
    fputc('.', out);
    vt_end_paragraph(print, 0, 2);
}

static void print_lines(struct vt_print *print, const struct vt_host_memory *host, size_t rows)
{
    static const struct vt_print_column columns[] = {
        {"Page-locked host memory by line", .cut = VT_CUT_PARTS, .minimum = 34},
        {"", .minimum = 24, .drop = 2},
        {"", .right = true},
        {"of it", .right = true}};
    const struct vt_groups *groups = &host->lines;
    const size_t shown = groups->count < rows ? groups->count : rows;
    struct vt_table table;
    uint64_t rest = 0;

    vt_table_begin(&table, columns, 4);
    for (size_t i = 0; i < shown; i++) {
        const struct vt_group *group = &groups->items[i];
        char *source = vt_source_line(print->report->places, group->place);

        vt_table_cells(&table, group->name[0] ? group->name : VT_DIM "no line known" VT_RESET);
        vt_table_cell(&table, VT_DIM "%s" VT_RESET, source);
        vt_table_size(&table, group->bytes, host->shown_bytes);
        free(source);
    }
    for (size_t i = shown; i < groups->count; i++)
        rest += groups->items[i].bytes;
    vt_table_rest(&table, groups->count - shown, rest, host->shown_bytes, 1);
    vt_table_print(&table, print);
}

static void print_stacks(struct vt_print *print, const struct vt_host_memory *host, size_t rows)
{
    const struct vt_groups *groups = &host->stacks;

    fprintf(print->stream, VT_BOLD "Page-locked host memory by stack" VT_RESET "\n");
    for (size_t i = 0; i < groups->count && i < rows; i++) {
        const struct vt_group *group = &groups->items[i];

        fprintf(print->stream, "%12s  %7s\n", VT_BYTES(group->bytes),
                VT_PERCENT(group->bytes, host->shown_bytes));
        vt_print_paragraph(print, 4, 6, "%s", group->name[0] ? group->name : "no stack recorded");
    }
    if (groups->count > rows)
        fprintf(print->stream, VT_DIM "  … %zu more stacks" VT_RESET "\n", groups->count - rows);
}

void vt_text_host_memory(struct vt_print *print)
{
    const struct vt_host_memory *host = &print->report->host;
    const size_t rows = print->style->top ? (size_t)print->style->top : ROWS;

    if (!host->peak_bytes || (host->peak_bytes < LEAST_BYTES && !print->style->full))
        return;
    print_sentence(print, host);
    if (print->style->by == VT_BY_LINE && host->shown_bytes)
        print_lines(print, host, rows);
    else if (print->style->by == VT_BY_STACK && host->shown_bytes)
        print_stacks(print, host, rows);
}
