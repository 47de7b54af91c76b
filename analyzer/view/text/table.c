#include "view/text/table.h"

#include "view/text/print.h"

#include <stdlib.h>
#include <string.h>

#include "base/index.h"

#define GAP 2
#define INDENT 2
#define MAX_COLUMNS 12

void vt_table_begin(struct vt_table *table, const struct vt_print_column *columns, int column_count)
{
    *table = (struct vt_table){.columns = columns,
                               .column_count = column_count < MAX_COLUMNS ? column_count : MAX_COLUMNS};
}

void vt_table_put(struct vt_table *table, char *text)
{
    VT_APPEND(table->cells, table->cell_count, table->capacity, text);
}

void vt_table_add(struct vt_table *table, const char *const *texts)
{
    for (; *texts; texts++)
        vt_table_put(table, vt_copy_text(*texts));
}

void vt_table_end_row(struct vt_table *table)
{
    while (table->cell_count % (size_t)table->column_count)
        vt_table_cells(table, "");
}

void vt_table_category(struct vt_table *table, const uint64_t categories[VT_CATEGORY_COUNT])
{
    vt_table_cell(table, VT_LABEL, VT_LABEL_OF(vt_largest_category(categories)));
}

void vt_table_size(struct vt_table *table, uint64_t bytes, uint64_t whole)
{
    vt_table_cells(table, VT_BYTES(bytes), VT_PERCENT(bytes, whole));
}

void vt_table_more(struct vt_table *table, int indent, size_t count, size_t shown)
{
    if (count <= shown)
        return;
    vt_table_cell(table, VT_DIM "%*s… %zu more" VT_RESET, indent, "", count - shown);
    vt_table_end_row(table);
}

void vt_table_rest(struct vt_table *table, size_t rest, uint64_t bytes, uint64_t whole, int before)
{
    if (!rest)
        return;
    vt_table_cell(table, VT_DIM "… %zu more" VT_RESET, rest);
    while (before--)
        vt_table_cells(table, "");
    vt_table_size(table, bytes, whole);
    vt_table_end_row(table);
}

static void measure_columns(const struct vt_table *table, int *widths)
{
    size_t rows = table->cell_count / (size_t)table->column_count;

    for (int c = 0; c < table->column_count; c++) {
        widths[c] = c ? vt_text_columns(table->columns[c].title) : 0;
        for (size_t r = 0; r < rows; r++) {
            int columns = vt_text_columns(table->cells[r * (size_t)table->column_count + (size_t)c]);
            widths[c] = columns > widths[c] ? columns : widths[c];
        }
    }
    if (vt_text_columns(table->columns[0].title) > widths[0] + INDENT)
        widths[0] = vt_text_columns(table->columns[0].title) - INDENT;
}

static int total_width(const struct vt_table *table, const int *widths)
{
    int sum = INDENT - GAP;

    for (int c = 0; c < table->column_count; c++)
        sum += widths[c] ? widths[c] + GAP : 0;
    return sum;
}

static int least_width(const struct vt_table *table, const int *widths, int c)
{
    int minimum = table->columns[c].minimum,
        title = c ? 0 : vt_text_columns(table->columns[0].title) - INDENT;

    minimum = minimum && minimum < title ? title : minimum;
    return minimum && minimum < widths[c] ? minimum : widths[c];
}

/* Drops columns until the rest can fit, then shrinks the widest. */
static void fit_widths(const struct vt_table *table, int *widths, int width)
{
    for (;;) {
        int needed = INDENT - GAP, dropped = -1;

        for (int c = 0; c < table->column_count; c++) {
            needed += widths[c] ? least_width(table, widths, c) + GAP : 0;
            if (table->columns[c].drop && widths[c] &&
                (dropped < 0 || table->columns[c].drop > table->columns[dropped].drop))
                dropped = c;
        }
        if (needed <= width || dropped < 0)
            break;
        widths[dropped] = 0;
    }
    while (total_width(table, widths) > width) {
        int widest = -1;

        for (int c = 0; c < table->column_count; c++)
            if (widths[c] > least_width(table, widths, c) && (widest < 0 || widths[c] > widths[widest]))
                widest = c;
        if (widest < 0)
            return;
        widths[widest]--;
    }
}

static void print_cell(FILE *stream, const struct vt_print_column *column, const char *text, int width,
                       bool last)
{
    char *fitted = vt_shorten(text, width, column->cut);
    int pad = width - vt_text_columns(fitted);

    if (column->right)
        fprintf(stream, "%*s", pad, "");
    fputs(fitted, stream);
    if (strchr(text, VT_MARK)) /* the cut may have removed the end of a colour */
        fputs(VT_RESET, stream);
    if (!column->right && !last)
        fprintf(stream, "%*s", pad, "");
    free(fitted);
}

static void print_titles(const struct vt_table *table, const int *widths, int last, FILE *stream)
{
    fprintf(stream, VT_BOLD "%s" VT_RESET, table->columns[0].title);
    if (last > 0)
        fprintf(stream, "%*s", widths[0] + INDENT - vt_text_columns(table->columns[0].title), "");
    for (int c = 1; c <= last; c++) {
        if (!widths[c])
            continue;
        fprintf(stream, "%*s" VT_DIM, GAP, "");
        print_cell(stream, &table->columns[c], table->columns[c].title, widths[c], c == last);
        fputs(VT_RESET, stream);
    }
    fputc('\n', stream);
}

void vt_table_print(struct vt_table *table, struct vt_print *print)
{
    int widths[MAX_COLUMNS], last_title = 0, last = 0;
    size_t rows = table->cell_count / (size_t)table->column_count;
    FILE *stream = print->stream;

    measure_columns(table, widths);
    fit_widths(table, widths, print->style->width);
    for (int c = 0; c < table->column_count; c++) {
        last = widths[c] ? c : last;
        last_title = widths[c] && table->columns[c].title[0] ? c : last_title;
    }
    print_titles(table, widths, last_title, stream);
    for (size_t r = 0; r < rows; r++) {
        fprintf(stream, "%*s", INDENT, "");
        for (int c = 0; c <= last; c++) {
            if (!widths[c])
                continue;
            print_cell(stream, &table->columns[c], table->cells[r * (size_t)table->column_count + (size_t)c],
                       widths[c], c == last);
            if (c < last)
                fprintf(stream, "%*s", GAP, "");
        }
        fputc('\n', stream);
    }
    for (size_t i = 0; i < table->cell_count; i++)
        free(table->cells[i]);
    free(table->cells);
    table->cells = NULL;
    table->cell_count = table->capacity = 0;
}
