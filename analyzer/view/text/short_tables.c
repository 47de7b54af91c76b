/* What the first screens are made of: bars, lines with their source, modules with all inside them. */
#include "view/text/short_tables.h"

#include <stdlib.h>
#include <string.h>

#include "base/index.h"
#include "base/sort.h"
#include "view/text/table.h"

#define BAR_COLUMNS 25     /* of 100 % */
#define SMALLEST_PART 100u /* below 1/100 of the whole a part is left out */
#define PARTS 8u           /* into which a model is taken apart */

bool vt_text_is_shown(uint64_t part, uint64_t whole)
{
    return part && part >= whole / SMALLEST_PART;
}

void vt_text_put_moment(FILE *out, const struct vt_report *report, uint64_t t_ns, uint32_t step,
                        uint8_t phase)
{
    if (!report->step_count)
        fprintf(out, "%s after start", VT_DURATION(t_ns));
    else if (!step)
        fputs("before the first step", out);
    else if (phase == VT_PHASE_OTHER)
        fprintf(out, "step %u", step);
    else
        fprintf(out, "step %u, %s", step, vt_phase_name(phase));
}

void vt_text_place(struct vt_print *print, const char *label, const struct vt_place *place)
{
    char *source = vt_source_line(print->report->places, place);
    char *text = vt_print_text("%s%s" VT_DIM "%s", place->name, source[0] ? "  " : "", source);
    char *cut = vt_shorten(text, print->style->width - VT_LABEL_COLUMNS, VT_CUT_END);

    vt_print_labelled(print, label, "%s" VT_RESET, cut);
    free(cut);
    free(text);
    free(source);
}

/* What is not in use has no fill of its own. */
static void put_bar_cell(struct vt_print *print, unsigned category)
{
    if (vt_category_style(category)->fill[0] == ' ')
        fputs(print->style->unicode ? VT_DIM "╌" VT_RESET : "-", print->stream);
    else
        vt_put_fill(print->stream, print->style, category, category);
}

size_t vt_text_bars_of(const uint64_t categories[VT_CATEGORY_COUNT], struct vt_bar *bars, size_t most)
{
    uint64_t left[VT_CATEGORY_COUNT];
    size_t count = 0;

    memcpy(left, categories, sizeof left);
    for (unsigned c = vt_largest_category(left); left[c] && count < most; c = vt_largest_category(left)) {
        bars[count++] = (struct vt_bar){vt_category_many(c), c, left[c]};
        left[c] = 0;
    }
    return count;
}

void vt_text_bars(struct vt_print *print, const struct vt_bar *bars, size_t count, uint64_t whole)
{
    int names = 0;

    for (size_t i = 0; i < count; i++)
        if (vt_text_is_shown(bars[i].bytes, whole) && vt_text_columns(bars[i].name) > names)
            names = vt_text_columns(bars[i].name);
    for (size_t i = 0; i < count; i++) {
        int columns =
            whole ? vt_columns_of((double)bars[i].bytes / (double)whole + 0.5 / BAR_COLUMNS, BAR_COLUMNS) : 0;

        if (!vt_text_is_shown(bars[i].bytes, whole))
            continue;
        fprintf(print->stream, "  %s%*s  %9s  %5s  ", bars[i].name, names - vt_text_columns(bars[i].name), "",
                VT_BYTES(bars[i].bytes), VT_PERCENT(bars[i].bytes, whole));
        for (int c = 0; c < columns; c++)
            put_bar_cell(print, bars[i].category);
        fputc('\n', print->stream);
    }
}

static int by_name(const void *left, const void *right)
{
    return strcmp(((const struct vt_group *)left)->name, ((const struct vt_group *)right)->name);
}

static int by_bytes(const void *left, const void *right)
{
    const struct vt_group *a = left, *b = right;

    return a->bytes != b->bytes ? vt_order(b->bytes, a->bytes) : by_name(a, b);
}

/* Groups of one place as one: what a line made in several phases; largest first. Returns how many are left.
 */
static size_t merge_lines(const struct vt_groups *groups, struct vt_group *lines)
{
    size_t count = 0;

    memcpy(lines, groups->items, groups->count * sizeof *lines);
    vt_sort(lines, groups->count, sizeof *lines, by_name);
    for (size_t i = 0; i < groups->count; i++) {
        if (count && !by_name(&lines[count - 1], &lines[i]))
            lines[count - 1].bytes += lines[i].bytes;
        else
            lines[count++] = lines[i];
    }
    vt_sort(lines, count, sizeof *lines, by_bytes);
    return count;
}

void vt_text_short_lines(struct vt_print *print, const struct vt_device_report *device, size_t rows)
{
    static const struct vt_print_column columns[] = {{"Lines", .cut = VT_CUT_PARTS, .minimum = 20},
                                                     {"", .cut = VT_CUT_END, .minimum = 16, .drop = 1},
                                                     {"", .right = true},
                                                     {"", .right = true}};
    const struct vt_groups *groups = &device->shown->groups[VT_BY_LINE];
    const uint64_t whole = device->shown->state.used_bytes;
    struct vt_group *lines;
    struct vt_table table;
    size_t count;

    if (!rows || !vt_has_names(groups))
        return;
    lines = vt_allocate_zeros(groups->count, sizeof *lines);
    count = merge_lines(groups, lines);
    vt_table_begin(&table, columns, 4);
    for (size_t i = 0; i < count && i < rows && vt_text_is_shown(lines[i].bytes, whole); i++) {
        char *source = vt_source_line(print->report->places, lines[i].place);

        vt_table_cells(&table, lines[i].name[0] ? lines[i].name : VT_DIM "no line known" VT_RESET);
        vt_table_cell(&table, VT_DIM "%s" VT_RESET, source);
        vt_table_size(&table, lines[i].bytes, whole);
        free(source);
    }
    vt_table_print(&table, print);
    free(lines);
}

void vt_text_parts(struct vt_print *print, const struct vt_device_report *device, size_t rows)
{
    static const struct vt_print_column columns[] = {
        {"Modules (with children)", .cut = VT_CUT_PARTS, .minimum = 24},
        {"", .right = true, .drop = 1},
        {"", .right = true},
        {"", .right = true}};
    const struct vt_groups *groups = &device->shown->groups[VT_BY_MODULE];
    const uint64_t whole = device->shown->state.used_bytes;
    struct vt_module_families families;
    struct vt_table table;

    if (!rows || !vt_has_names(groups))
        return;
    vt_fold_parts(groups, PARTS, &families);
    if (!families.count || !vt_text_is_shown(families.items[0].bytes, whole)) {
        vt_module_families_free(&families);
        return;
    }
    vt_table_begin(&table, columns, 4);
    for (size_t i = 0; i < families.count && i < rows && vt_text_is_shown(families.items[i].bytes, whole);
         i++) {
        vt_table_cells(&table, families.items[i].name);
        vt_text_each(&table, &families.items[i]);
        vt_table_size(&table, families.items[i].bytes, whole);
    }
    vt_table_print(&table, print);
    vt_module_families_free(&families);
}

void vt_text_next(struct vt_print *print, const char *const *commands)
{
    const char *join = "More: vramtrace ";

    for (; *commands; commands++) {
        fprintf(print->paragraph, VT_DIM "%s%s" VT_RESET, join, *commands);
        join = " · ";
    }
    fputs(VT_DIM " ", print->paragraph);
    vt_put_word(print->report->facts.path, print->paragraph);
    fputs(VT_RESET, print->paragraph);
    vt_end_paragraph(print, 0, 2);
}

void vt_text_share_lines(struct vt_print *print, int *rows, int count)
{
    const int left = VT_SCREEN_LINES - 1 - vt_print_lines(print);

    if (print->style->top || print->style->full || print->style->brief)
        return;
    for (;;) {
        int sum = 0, longest = 0;

        for (int i = 0; i < count; i++) {
            sum += rows[i] ? rows[i] + 1 : 0;
            longest = rows[i] >= rows[longest] ? i : longest;
        }
        if (sum <= left || !rows[longest])
            return;
        rows[longest]--;
    }
}
