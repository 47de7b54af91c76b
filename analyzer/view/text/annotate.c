/* Source with its memory beside it, or the table of files. */
#include "report/annotation.h"
#include "report/sources.h"
#include "view/text/table.h"
#include "view/text/text.h"
#include "view/text/views.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define FILE_ROWS 20
#define TAB "    "
#define MAX_COLUMNS (5 + VT_PHASE_COUNT)

/* The columns of a table: those between the first and the last are the same for files and lines. */
struct layout {
    struct vt_print_column columns[MAX_COLUMNS];
    int count;
    size_t indent;               /* left out of each source line */
    bool phases[VT_PHASE_COUNT]; /* by phase: those in which anything was alive; else none */
};

static void add_column(struct layout *layout, struct vt_print_column column)
{
    layout->columns[layout->count++] = column;
}

static void add_peaks(struct layout *layout, const struct vt_print *print, const struct vt_line_use *use)
{
    bool any = false;

    for (int phase = 0; print->style->by >= 0 && phase < VT_PHASE_COUNT; phase++) {
        layout->phases[phase] = use->phase_peaks[phase] > 0;
        any |= layout->phases[phase];
        if (layout->phases[phase])
            add_column(layout, (struct vt_print_column){vt_phase_name((unsigned)phase), .right = true});
    }
    if (!any)
        add_column(layout, (struct vt_print_column){"own peak", .right = true});
}

/* In the colour of the largest category. */
static void put_bytes(struct vt_table *table, uint64_t bytes, const uint64_t categories[VT_CATEGORY_COUNT])
{
    if (bytes)
        vt_table_cell(table, "\x0e%c%s" VT_RESET, VT_MARK_INK + (int)vt_largest_category(categories),
                      VT_BYTES(bytes));
    else
        vt_table_cells(table, VT_BYTES(0));
}

static void put_peaks(struct vt_table *table, const struct layout *layout, const struct vt_line_use *use)
{
    bool any = false;

    for (int phase = 0; phase < VT_PHASE_COUNT; phase++) {
        any |= layout->phases[phase];
        if (layout->phases[phase])
            vt_table_cells(table, use->phase_peaks[phase] ? VT_BYTES(use->phase_peaks[phase]) : "");
    }
    if (!any)
        vt_table_cells(table, VT_BYTES(use->peak_bytes));
}

static void put_category(struct vt_table *table, const struct vt_line_use *use)
{
    if (use->bytes)
        vt_table_category(table, use->categories);
    else
        vt_table_cells(table, "");
}

/* Empty if the line called nothing that allocated. */
static void put_through(struct vt_table *table, const struct vt_line_use *own,
                        const struct vt_line_use *through)
{
    if (through->allocations > own->allocations)
        put_bytes(table, through->bytes, through->categories);
    else
        vt_table_cells(table, "");
}

/* ---- Files ---- */

static void file_row(struct vt_table *table, const struct layout *layout, const char *name,
                     const struct vt_line_use *own, const struct vt_line_use *through, uint64_t whole)
{
    vt_table_cells(table, name);
    put_bytes(table, own->bytes, own->categories);
    vt_table_cells(table, VT_PERCENT(own->bytes, whole));
    put_peaks(table, layout, own);
    vt_table_cells(table, VT_COUNT(own->allocations));
    put_category(table, own);
    put_through(table, own, through);
}

static void file_table(struct vt_print *print, const struct vt_annotated_device *device)
{
    size_t rows = print->style->top ? (size_t)print->style->top : FILE_ROWS, shown = 0;
    uint64_t whole = device->report->shown->state.used_bytes, rest = 0;
    struct layout layout = {.count = 0};
    struct vt_table table;

    add_column(&layout, (struct vt_print_column){VT_TITLE(print, "Memory by source file"),
                                                 .cut = VT_CUT_PARTS, .minimum = 22});
    add_column(&layout, (struct vt_print_column){"bytes", .right = true});
    add_column(&layout, (struct vt_print_column){vt_text_whole(device->report), .right = true, .drop = 1});
    add_peaks(&layout, print, &device->all);
    add_column(&layout, (struct vt_print_column){"allocations", .right = true, .drop = 2});
    add_column(&layout, (struct vt_print_column){"", .drop = 4});
    add_column(&layout, (struct vt_print_column){"through it", .right = true, .drop = 3});
    vt_table_begin(&table, layout.columns, layout.count);
    for (; shown < device->file_count && shown < rows; shown++)
        file_row(&table, &layout, device->files[shown].name, &device->files[shown].own,
                 &device->files[shown].through, whole);
    for (size_t i = shown; i < device->file_count; i++)
        rest += device->files[i].own.bytes;
    vt_table_rest(&table, device->file_count - shown, rest, whole, 0);
    if (device->nowhere.allocations)
        file_row(&table, &layout, "no line known", &device->nowhere, &device->nowhere, whole);
    vt_table_print(&table, print);
    vt_print_paragraph(
        print, 2, 2,
        "Each allocation is attributed to one file (the innermost line of the user's code, as report %s). "
        "\"Through it\" includes what its lines called.%s",
        print->style->brief ? "with by=line" : "--by line",
        print->style->brief ? "" : " For the lines of a file: vramtrace annotate TRACE FILE.");
}

/* ---- Lines ---- */

/* Lines shown before and after one with memory. */
static size_t lines_around(const struct vt_print *print)
{
    return print->style->brief ? 1 : 2;
}

static bool is_shown(const struct vt_print *print, const struct vt_annotated_line *line, size_t number)
{
    return print->style->all || (line->line > 0 && number + lines_around(print) >= (size_t)line->line &&
                                 number <= (size_t)line->line + lines_around(print));
}

/* Spaces that all lines shown begin with. */
static size_t common_indent(const struct vt_print *print, const struct vt_annotated_file *file)
{
    size_t least = SIZE_MAX, next = 0;

    for (size_t number = 1; number <= file->text_count; number++) {
        const char *text = file->texts[number - 1];
        size_t indent = strspn(text, " ");

        while (next + 1 < file->line_count && (size_t)file->lines[next].line + lines_around(print) < number)
            next++;
        if (text[indent] && next < file->line_count && is_shown(print, &file->lines[next], number) &&
            indent < least)
            least = indent;
    }
    return least == SIZE_MAX ? 0 : least;
}

/* The caller frees it. */
static char *expand_tabs(const char *text)
{
    size_t tabs = 0, used = 0;
    char *expanded;

    for (const char *at = text; *at; at++)
        tabs += *at == '\t';
    expanded = vt_allocate(strlen(text) + tabs * (sizeof TAB - 2) + 1);
    for (; *text; text++) {
        if (*text == '\t') {
            memcpy(expanded + used, TAB, sizeof TAB - 1);
            used += sizeof TAB - 1;
        } else {
            expanded[used++] = *text;
        }
    }
    expanded[used] = '\0';
    return expanded;
}

static void put_text(struct vt_table *table, const struct layout *layout, const char *text, bool has_memory)
{
    size_t indent = strspn(text, " ");
    char *expanded = expand_tabs(text + (indent < layout->indent ? indent : layout->indent));

    vt_table_cell(table, "%s%s%s", has_memory ? "" : VT_DIM, expanded, has_memory ? "" : VT_RESET);
    free(expanded);
}

static void put_nothing(struct vt_table *table, int cells)
{
    while (cells-- > 0)
        vt_table_cells(table, "");
}

static void line_row(struct vt_table *table, const struct layout *layout,
                     const struct vt_annotated_line *line)
{
    if (line->line)
        vt_table_cell(table, "%" PRId32, line->line);
    else
        vt_table_cells(table, "?");
    if (line->own.allocations) {
        put_bytes(table, line->own.bytes, line->own.categories);
        put_peaks(table, layout, &line->own);
        vt_table_cells(table, VT_COUNT(line->own.allocations));
        put_category(table, &line->own);
    } else {
        put_nothing(table, layout->count - 3); /* all but line, through and source */
    }
    put_through(table, &line->own, &line->through);
    put_text(table, layout, line->text ? line->text : "", true);
}

/* A line of the file without memory; `number` 0 = lines that are left out. */
static void plain_row(struct vt_table *table, const struct layout *layout, size_t number, const char *text)
{
    if (number)
        vt_table_cell(table, VT_DIM "%zu" VT_RESET, number);
    else
        vt_table_cells(table, "…");
    put_nothing(table, layout->count - 2);
    put_text(table, layout, text, false);
}

/* Lines without memory from the line `from` on up to before `to`. */
static void plain_rows(struct vt_print *print, struct vt_table *table, const struct layout *layout,
                       const struct vt_annotated_file *file, size_t from, size_t to)
{
    bool after_one = from > 1, before_one = to <= file->text_count;
    size_t first = after_one ? from + lines_around(print) : from,
           last = before_one && to > lines_around(print) ? to - lines_around(print) : to;

    if (!file->text_count)
        return;
    if (!before_one)
        to = last = file->text_count + 1;
    if (print->style->all || first + 1 >= last) /* leaving out one line saves nothing */
        first = last = to;
    if (!after_one && !print->style->all && first < last)
        first = from;
    for (size_t i = from; i < first && i < to; i++)
        plain_row(table, layout, i, file->texts[i - 1]);
    if (first < last)
        plain_row(table, layout, 0, "");
    for (size_t i = last > first ? last : first; before_one && i < to; i++)
        plain_row(table, layout, i, file->texts[i - 1]);
}

static void print_lines(struct vt_print *print, const struct vt_annotated_file *file)
{
    struct layout layout = {.indent = common_indent(print, file)};
    struct vt_table table;
    size_t next = 1;

    add_column(&layout, (struct vt_print_column){VT_TITLE(print, "line"), .right = true});
    if (file->own.allocations) {
        add_column(&layout, (struct vt_print_column){"bytes", .right = true});
        add_peaks(&layout, print, &file->own);
        add_column(&layout, (struct vt_print_column){"times", .right = true, .drop = 1});
        add_column(&layout, (struct vt_print_column){"", .drop = 3});
    }
    add_column(&layout,
               (struct vt_print_column){"through it", .right = true, .drop = file->own.allocations ? 2 : 0});
    add_column(&layout, (struct vt_print_column){file->text_count ? "source" : "",
                                                 .minimum = file->text_count ? 28 : 0});
    vt_table_begin(&table, layout.columns, layout.count);
    for (size_t i = 0; i < file->line_count; i++) {
        const struct vt_annotated_line *line = &file->lines[i];

        if (line->line > 0) {
            plain_rows(print, &table, &layout, file, next, (size_t)line->line);
            next = (size_t)line->line + 1;
        }
        line_row(&table, &layout, line);
    }
    if (next <= file->text_count)
        plain_rows(print, &table, &layout, file, next, file->text_count + 1);
    vt_table_print(&table, print);
}

static void print_notes(struct vt_print *print, const struct vt_annotated_device *device,
                        const struct vt_annotated_file *file)
{
    static const char *const states[VT_SOURCE_STATES] = {
        [VT_SOURCE_MISSING] = "Source not available on this machine.",
        [VT_SOURCE_NEWER] = "Source omitted: the file changed after the recording.",
        [VT_SOURCE_REFUSED] = "Source cannot be shown."};

    if (states[file->source])
        vt_print_paragraph(print, 2, 2, "%s", states[file->source]);
    if (file->left_out)
        vt_print_paragraph(print, 2, 2, "%s more lines: use %s.", VT_COUNT(file->left_out),
                           print->style->brief ? "`top`" : "--top");
    vt_print_paragraph(print, 2, 2, "%s\"Through it\" includes what the line calls.%s",
                       !file->own.allocations ? ""
                       : print->style->by >= 0
                           ? "Peak of the line in each phase. "
                           : "\"Own peak\" is that of the line alone; \"times\" counts its allocations. ",
                       device->has_backward
                           ? " Memory allocated in backward is attributed to the forward line, where known."
                           : "");
}

static void one_file(struct vt_print *print, const struct vt_annotated_device *device)
{
    const struct vt_annotated_file *file = &device->files[0];
    uint64_t whole = device->report->shown->state.used_bytes;

    fprintf(print->paragraph, VT_BOLD "%s" VT_RESET ": ", file->path);
    if (file->own.allocations)
        fprintf(print->paragraph, VT_BOLD "%s" VT_RESET " allocated here (%s), %s including callees. ",
                VT_BYTES(file->own.bytes), VT_PERCENT(file->own.bytes, whole), VT_BYTES(file->through.bytes));
    else
        fprintf(print->paragraph, "nothing allocated here, %s (%s) including callees. ",
                VT_BYTES(file->through.bytes), VT_PERCENT(file->through.bytes, whole));
    if (file->own.allocations)
        fprintf(print->paragraph, "Its own peak is %s, in %s allocation%s.", VT_BYTES(file->own.peak_bytes),
                VT_COUNT(file->own.allocations), file->own.allocations == 1 ? "" : "s");
    vt_end_paragraph(print, 0, 2);
    fputc('\n', print->stream);
    if (!file->line_count) {
        vt_print_paragraph(print, 0, 0, "No line of this file allocated on GPU %d.", device->report->index);
        return;
    }
    print_lines(print, file);
    print_notes(print, device, file);
}

void vt_text_annotate(const struct vt_annotation *annotation, const struct vt_view_style *style, FILE *out)
{
    const struct vt_report *report = annotation->report;
    struct vt_print print;

    vt_print_begin(&print, style, report);
    vt_text_header(&print, "annotate");
    if (!annotation->device_count)
        vt_print_paragraph(&print, 0, 0, "No GPU memory was allocated in this run.");
    for (size_t i = 0; i < annotation->device_count; i++) {
        const struct vt_annotated_device *device = &annotation->devices[i];
        const struct vt_state *state = &device->report->shown->state;

        if (i)
            fputc('\n', print.stream);
        vt_text_device(&print, device->report);
        vt_print_paragraph(&print, 0, 0, "At %s, %s: " VT_BOLD "%s" VT_RESET " in use.", report->at_label,
                           VT_WHEN(report, state), VT_BYTES(state->used_bytes));
        if (!annotation->has_file)
            fputc('\n', print.stream);
        if (annotation->has_file)
            one_file(&print, device);
        else
            file_table(&print, device);
    }
    vt_print_finish(&print, out);
}
