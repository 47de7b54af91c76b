/* The comparison as text: who is compared, a sentence for each device, tables of what changed. */
#include "view/text/diff.h"
#include "view/text/losses.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define ROWS 10
#define BY_ROWS 30

static uint64_t apart(uint64_t a, uint64_t b)
{
    return a > b ? a - b : b - a;
}

/* "A  run.vrt, at the peak: at step 3, in backward (1.2 s after start)". */
static void side_line(struct vt_print *print, const char *side, const struct vt_report *report,
                      const struct vt_instant *instant)
{
    char when[160], lost[256];
    const char *label = report->at_label[0] ? report->at_label : "the peak";

    if (instant && instant->present)
        vt_text_when(report, instant->t_ns, instant->step, instant->phase, when);
    else
        snprintf(when, sizeof when, "no memory was held");
    vt_print_paragraph(print, 2, 5, VT_BOLD "%s" VT_RESET "  %s · %s: %s", side, report->trace->path, label,
                       when);
    if (vt_losses_tell(report->trace, lost, sizeof lost))
        vt_print_paragraph(print, 5, 5, VT_ALARM "%s" VT_RESET ": what it told is missing below", lost);
}

static const char *percent_change(uint64_t a, uint64_t b, char *text)
{
    text[0] = '\0';
    if (a)
        snprintf(text, 32, ", %s%.1f %%", b > a ? "+" : "−", 100.0 * (double)apart(a, b) / (double)a);
    return text;
}

/* "GPU 0: 1.23 GiB in use → 1.40 GiB, +174.00 MiB, +14.1 %." */
static void verdict(struct vt_print *print, const struct vt_diff_device *device)
{
    uint64_t a = vt_used_bytes(device->a->categories), b = vt_used_bytes(device->b->categories);
    char from[24], to[24], change[32], percent[32];

    if (!device->differs)
        vt_print_paragraph(print, 0, 0, "GPU %d: no difference, %s in use.", device->index,
                           vt_format_bytes(a, from));
    else if (a == b)
        vt_print_paragraph(print, 0, 0, "GPU %d: %s in use in both, but not by the same.", device->index,
                           vt_format_bytes(a, from));
    else
        vt_print_paragraph(print, 0, 0, "GPU %d: %s in use in A, %s in B: " VT_BOLD "%s" VT_RESET "%s.",
                           device->index, vt_format_bytes(a, from), vt_format_bytes(b, to),
                           vt_format_change(a, b, change), percent_change(a, b, percent));
}

static void change_cells(struct vt_table *table, uint64_t a, uint64_t b)
{
    char text[32];

    vt_table_cell(table, "%s", a ? vt_format_bytes(a, text) : "–");
    vt_table_cell(table, "%s", b ? vt_format_bytes(b, text) : "–");
    vt_table_cell(table, "%s", vt_format_change(a, b, text));
}

void vt_diff_categories_cell(struct vt_table *table, const uint64_t a[VT_CATEGORY_COUNT],
                             const uint64_t b[VT_CATEGORY_COUNT])
{
    uint64_t left[VT_CATEGORY_COUNT], kinds = 0;
    char text[256] = "", bytes[32];
    size_t used = 0;

    for (int c = 0; c < VT_CATEGORY_COUNT; c++) {
        left[c] = apart(a[c], b[c]);
        kinds += left[c] > 0;
    }
    for (unsigned c; left[c = vt_largest_category(left)] && used + 64 < sizeof text; left[c] = 0) {
        used += (size_t)snprintf(text + used, sizeof text - used, "%s\x0e%c%s" VT_RESET, used ? ", " : "",
                                 VT_MARK_INK + (int)c, vt_category_style(c)->label);
        if (kinds > 1)
            used +=
                (size_t)snprintf(text + used, sizeof text - used, " %s", vt_format_change(a[c], b[c], bytes));
    }
    vt_table_cell(table, "%s", text);
}

static void rest_row(struct vt_table *table, const struct vt_diff_rows *rows, size_t shown, int after)
{
    uint64_t a = 0, b = 0;

    if (shown >= rows->count)
        return;
    for (size_t i = shown; i < rows->count; i++) {
        a += rows->items[i].a.bytes;
        b += rows->items[i].b.bytes;
    }
    vt_table_cell(table, VT_DIM "… %zu more" VT_RESET, rows->count - shown);
    change_cells(table, a, b);
    for (int i = 0; i < after; i++)
        vt_table_cell(table, "%s", "");
}

static void category_table(struct vt_print *print, const struct vt_diff_device *device)
{
    static const struct vt_column columns[] = {{"By category", false, VT_CUT_END, 10, 0},
                                               {"A", true, VT_CUT_END, 0, 0},
                                               {"B", true, VT_CUT_END, 0, 0},
                                               {"change", true, VT_CUT_END, 0, 0}};
    const struct vt_diff_rows *rows = &device->rows[VT_BY_CATEGORY];
    struct vt_table table;

    if (!rows->count)
        return;
    fputc('\n', print->stream);
    vt_table_begin(&table, columns, 4);
    for (size_t i = 0; i < rows->count; i++) {
        unsigned c = 0;

        while (strcmp(rows->items[i].name, vt_category_name(c)))
            c++;
        vt_table_cell(&table, "\x0e%c%s" VT_RESET, VT_MARK_INK + (int)c, vt_category_style(c)->label);
        change_cells(&table, rows->items[i].a.bytes, rows->items[i].b.bytes);
    }
    vt_table_print(&table, print, print->style->width);
}

static const char *nameless(enum vt_by by)
{
    return by == VT_BY_MODULE || by == VT_BY_KIND ? "outside of any module" : "no name known";
}

static void name_cell(struct vt_table *table, const struct vt_diff_row *row, enum vt_by by)
{
    const struct vt_group *a = row->a.group, *b = row->b.group;

    if (!row->name[0])
        vt_table_cell(table, VT_DIM "%s" VT_RESET, nameless(by));
    else if (a && b && a->line && b->line && a->line != b->line)
        vt_table_cell(table, "%s (was line %d)", row->name, (int)a->line);
    else if (row->members > 1)
        vt_table_cell(table, "%s (%" PRIu64 ")", row->name, row->members);
    else
        vt_table_cell(table, "%s", row->name);
}

/* Added and removed are told by what is missing on one side, too. */
static const char *kind_word(const struct vt_diff_row *row)
{
    return row->kind == VT_DIFF_GROWN || row->kind == VT_DIFF_SHRUNK ? "" : vt_diff_kind_name(row->kind);
}

static void row_table(struct vt_print *print, const struct vt_diff_device *device, enum vt_by by,
                      const char *title, size_t most)
{
    const struct vt_column columns[] = {{title, false, by == VT_BY_STACK ? VT_CUT_END : VT_CUT_PARTS, 24, 0},
                                        {"A", true, VT_CUT_END, 0, 2},
                                        {"B", true, VT_CUT_END, 0, 2},
                                        {"change", true, VT_CUT_END, 0, 0},
                                        {"", false, VT_CUT_END, 0, 3},
                                        {"of", false, VT_CUT_END, 10, 0},
                                        {by == VT_BY_LINE ? "made in" : "", false, VT_CUT_END, 0, 4}};
    const struct vt_diff_rows *rows = &device->rows[by];
    struct vt_table table;
    size_t shown = rows->count < most ? rows->count : most;

    fputc('\n', print->stream);
    vt_table_begin(&table, columns, 7);
    for (size_t i = 0; i < shown; i++) {
        const struct vt_diff_row *row = &rows->items[i];
        const struct vt_group *group = row->b.group ? row->b.group : row->a.group;

        name_cell(&table, row, by);
        change_cells(&table, row->a.bytes, row->b.bytes);
        vt_table_cell(&table, "%s", kind_word(row));
        vt_diff_categories_cell(&table, row->a.categories, row->b.categories);
        vt_table_cell(&table, "%s", by == VT_BY_LINE && group ? vt_phase_name(group->phase) : "");
    }
    rest_row(&table, rows, shown, 3);
    vt_table_print(&table, print, print->style->width);
}

static bool has_names(const struct vt_diff_rows *rows)
{
    return rows->count > 1 || (rows->count && rows->items[0].name[0]);
}

/* Modules and owners only where some of them have names: the sum of all is the categories'. */
static void tables(struct vt_print *print, const struct vt_diff_device *device)
{
    int by = print->style->by;
    size_t most = print->style->top > 0 ? (size_t)print->style->top : by < 0 ? ROWS : BY_ROWS;
    char title[32];

    if (by < 0 || by == VT_BY_CATEGORY)
        category_table(print, device);
    if (by == VT_BY_CATEGORY || (by >= 0 && !device->rows[by].count))
        return;
    if (by >= 0) {
        snprintf(title, sizeof title, "By %s", vt_by_name((enum vt_by)by));
        row_table(print, device, (enum vt_by)by, title, most);
        return;
    }
    if (has_names(&device->rows[VT_BY_MODULE]))
        vt_diff_folded(print, &device->rows[VT_BY_MODULE], VT_BY_MODULE, nameless(VT_BY_MODULE), most);
    if (has_names(&device->rows[VT_BY_OWNER]))
        vt_diff_folded(print, &device->rows[VT_BY_OWNER], VT_BY_OWNER, nameless(VT_BY_OWNER), most);
    if (device->rows[VT_BY_LINE].count)
        row_table(print, device, VT_BY_LINE, "By line", most);
}

int vt_diff_text(const struct vt_diff *diff, const struct vt_view_style *style, FILE *out)
{
    const struct vt_diff_device *first = diff->device_count ? &diff->devices[0] : NULL;
    struct vt_print print;
    int result = vt_print_begin(&print, style);

    if (result)
        return result;
    fprintf(print.stream, VT_BOLD "vramtrace diff" VT_RESET "\n");
    side_line(&print, "A", diff->a, first ? first->a : NULL);
    side_line(&print, "B", diff->b, first ? first->b : NULL);
    if (!first)
        vt_print_paragraph(&print, 0, 0, "\nNo difference: no GPU memory was held in either.");
    for (size_t i = 0; i < diff->device_count; i++) {
        fputc('\n', print.stream);
        verdict(&print, &diff->devices[i]);
        if (diff->devices[i].differs)
            tables(&print, &diff->devices[i]);
    }
    return vt_print_finish(&print, out);
}
