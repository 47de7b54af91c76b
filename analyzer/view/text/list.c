/* The traces of a folder. */
#include <time.h>

#include "report/list.h"
#include "view/text/print.h"
#include "view/text/table.h"
#include "view/text/views.h"

/* In local time; the year only if it is another one. */
static void put_when(struct vt_table *table, uint64_t realtime_ns)
{
    const time_t when = (time_t)(realtime_ns / 1000000000u), now = time(NULL);
    struct tm then, today;
    char text[32] = "";

    if (localtime_r(&when, &then) && localtime_r(&now, &today))
        strftime(text, sizeof text, then.tm_year == today.tm_year ? "%b %d %H:%M" : "%Y-%m-%d", &then);
    vt_table_cells(table, text);
}

static void put_row(struct vt_table *table, const struct vt_list_row *row)
{
    vt_table_cells(table, row->name);
    put_when(table, row->start_realtime_ns);
    vt_table_cells(table, VT_DURATION(row->duration_ns), row->examined ? VT_BYTES(row->peak_bytes) : "–");
    vt_table_cell(table, row->out_of_memory ? VT_ALARM "%s" VT_RESET : "%s", row->outcome);
    if (row->trace_count > 1)
        vt_table_cell(table, "%zu × %s", row->trace_count, row->command);
    else
        vt_table_cells(table, row->command);
    vt_table_cells(table, row->gpu);
}

void vt_text_list(const struct vt_list *list, const struct vt_view_style *style, FILE *out)
{
    static const struct vt_print_column columns[] = {
        {.title = "Trace", .cut = VT_CUT_PARTS, .minimum = 14},
        {.title = "began", .drop = 2},
        {.title = "ran", .right = true, .drop = 3},
        {.title = "peak", .right = true},
        {.title = "outcome", .cut = VT_CUT_END, .minimum = 24},
        {.title = "command", .cut = VT_CUT_END, .minimum = 10, .drop = 1},
        {.title = "GPU", .cut = VT_CUT_END, .minimum = 10, .drop = 4}};
    const size_t shown =
        style->top && (size_t)style->top < list->row_count ? (size_t)style->top : list->row_count;
    struct vt_print print;
    struct vt_table table;

    vt_print_begin(&print, style, NULL);
    vt_table_begin(&table, columns, 7);
    for (size_t i = 0; i < shown; i++)
        put_row(&table, &list->rows[i]);
    vt_table_print(&table, &print);
    if (shown < list->row_count)
        fprintf(print.stream, VT_DIM "  … %zu more" VT_RESET "\n", list->row_count - shown);
    if (list->unexamined)
        vt_print_paragraph(&print, 0, 0,
                           "Not examined: of these long traces only the head was read. Name one to see it.");
    if (list->copies)
        vt_print_paragraph(&print, 0, 0, "Not shown: %zu snapshot%s of these processes.", list->copies,
                           list->copies == 1 ? "" : "s");
    vt_print_finish(&print, out);
}
