/* The tables of the text report: by line, stack, and what --by asks for. */
#include "view/text/text.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define MODULE_ROWS 8
#define LINE_ROWS 8
#define STACK_ROWS 3
#define BY_ROWS 30

unsigned vt_largest_category(const uint64_t categories[VT_CATEGORY_COUNT])
{
    unsigned largest = VT_CATEGORY_UNKNOWN;

    for (unsigned c = 0; c < VT_CATEGORY_COUNT; c++)
        if (categories[c] > categories[largest])
            largest = c;
    return largest;
}

void vt_category_cell(struct vt_table *table, const uint64_t categories[VT_CATEGORY_COUNT])
{
    unsigned category = vt_largest_category(categories);

    vt_table_cell(table, "\x0e%c%s" VT_RESET, VT_MARK_INK + (int)category, vt_category_label(category));
}

void vt_size_cells(struct vt_table *table, uint64_t bytes, uint64_t whole)
{
    char text[32];

    vt_table_cell(table, "%s", vt_format_bytes(bytes, text));
    vt_table_cell(table, "%s", vt_format_percent(bytes, whole, text));
}

void vt_rest_row(struct vt_table *table, size_t rest, uint64_t bytes, uint64_t whole, int before, int after)
{
    if (!rest)
        return;
    vt_table_cell(table, VT_DIM "… %zu more" VT_RESET, rest);
    for (int i = 0; i < before; i++)
        vt_table_cell(table, "%s", "");
    vt_size_cells(table, bytes, whole);
    for (int i = 0; i < after; i++)
        vt_table_cell(table, "%s", "");
}

bool vt_has_names(const struct vt_groups *groups)
{
    for (size_t i = 0; i < groups->count; i++)
        if (groups->items[i].name[0])
            return true;
    return false;
}

const char *vt_lossy_title(const struct vt_report *report, const char *title, char *text, size_t bytes)
{
    if (!report->facts.dropped_events && !report->facts.damaged_bytes)
        return title;
    snprintf(text, bytes, "%s (events lost)", title);
    return text;
}

static const char *name_or(const struct vt_group *group, const char *none)
{
    return group->name[0] ? group->name : none;
}

static uint64_t rest_bytes(const struct vt_groups *groups, size_t shown)
{
    uint64_t bytes = 0;

    for (size_t i = shown; i < groups->count; i++)
        bytes += groups->items[i].bytes;
    return bytes;
}

static void lines_table(struct vt_print *print, const struct vt_report *report,
                        const struct vt_device_report *device, size_t rows)
{
    const struct vt_instant *instant = device->shown;
    const struct vt_groups *groups = &instant->groups[VT_BY_LINE];
    uint64_t whole = instant->state.used_bytes;
    size_t shown = groups->count < rows ? groups->count : rows;
    struct vt_table table;
    char title[64];
    const struct vt_column columns[] = {
        {vt_lossy_title(report, "By line", title, sizeof title), false, VT_CUT_PARTS, 34, 0},
        {"", false, VT_CUT_END, 24, 4},
        {"", true, VT_CUT_END, 0, 0},
        {vt_text_whole(device), true, VT_CUT_END, 0, 0},
        {"mostly", false, VT_CUT_END, 0, 1},
        {"made in", false, VT_CUT_END, 0, 3}};

    if (!vt_has_names(groups))
        return;
    vt_table_begin(&table, columns, report->step_count ? 6 : 5);
    for (size_t i = 0; i < shown; i++) {
        const struct vt_group *group = &groups->items[i];
        char *source = vt_source_line(report->places, group->place);

        vt_table_cell(&table, "%s", name_or(group, VT_DIM "no line known" VT_RESET));
        vt_table_cell(&table, VT_DIM "%s" VT_RESET, source ? source : "");
        vt_size_cells(&table, group->bytes, whole);
        vt_category_cell(&table, group->categories);
        if (report->step_count)
            vt_table_cell(&table, "%s", vt_phase_name(group->phase));
        free(source);
    }
    vt_rest_row(&table, groups->count - shown, rest_bytes(groups, shown), whole, 1,
                report->step_count ? 2 : 1);
    vt_table_print(&table, print, print->style->width);
    fputc('\n', print->stream);
}

/* Stacks of one frame each would say the same as the table of lines. */
static bool has_depth(const struct vt_groups *groups, size_t shown)
{
    for (size_t i = 0; i < shown; i++)
        if (strstr(groups->items[i].name, "←"))
            return true;
    return false;
}

static void stacks_list(struct vt_print *print, const struct vt_report *report,
                        const struct vt_device_report *device, size_t rows)
{
    const struct vt_instant *instant = device->shown;
    const struct vt_groups *groups = &instant->groups[VT_BY_STACK];
    uint64_t whole = instant->state.used_bytes;
    size_t shown = groups->count < rows ? groups->count : rows;
    char title[64], bytes[32], percent[32];

    if (!vt_has_names(groups) || (print->style->by < 0 && !has_depth(groups, shown)))
        return;
    fprintf(print->stream, VT_BOLD "%s" VT_RESET "\n",
            vt_lossy_title(report, "By stack", title, sizeof title));
    for (size_t i = 0; i < shown; i++) {
        const struct vt_group *group = &groups->items[i];
        unsigned category = vt_largest_category(group->categories);

        fprintf(print->stream, "%12s  %7s  \x0e%c%s" VT_RESET, vt_format_bytes(group->bytes, bytes),
                vt_format_percent(group->bytes, whole, percent), VT_MARK_INK + (int)category,
                vt_category_label(category));
        if (group->blocks > 1)
            fprintf(print->stream, ", %" PRIu64 " blocks", group->blocks);
        fputc('\n', print->stream);
        vt_print_paragraph(print, 4, 6, "%s", name_or(group, "no stack recorded"));
    }
    if (groups->count > shown)
        fprintf(print->stream, VT_DIM "  … %zu more stacks, %s" VT_RESET "\n", groups->count - shown,
                vt_format_bytes(rest_bytes(groups, shown), bytes));
    fputc('\n', print->stream);
}

static void plain_table(struct vt_print *print, const struct vt_report *report,
                        const struct vt_device_report *device, enum vt_by by, size_t rows)
{
    static const char *const titles[VT_BY_COUNT] = {
        [VT_BY_CATEGORY] = "By category", [VT_BY_MODULE] = "By module", [VT_BY_KIND] = "By kind of module",
        [VT_BY_OWNER] = "By owner",       [VT_BY_LINE] = "By line",     [VT_BY_STACK] = "By stack",
        [VT_BY_OP] = "By operator"};
    const struct vt_instant *instant = device->shown;
    const struct vt_groups *groups = &instant->groups[by];
    uint64_t whole = instant->state.used_bytes;
    size_t shown = groups->count < rows ? groups->count : rows;
    struct vt_table table;
    char title[64], count[32];
    const struct vt_column columns[] = {
        {vt_lossy_title(report, titles[by], title, sizeof title), false, VT_CUT_PARTS, 24, 0},
        {"blocks", true, VT_CUT_END, 0, 2},
        {"", true, VT_CUT_END, 0, 0},
        {vt_text_whole(device), true, VT_CUT_END, 0, 0},
        {by == VT_BY_CATEGORY ? "" : "mostly", false, VT_CUT_END, 0, 1}};

    vt_table_begin(&table, columns, by == VT_BY_CATEGORY ? 4 : 5);
    for (size_t i = 0; i < shown; i++) {
        vt_table_cell(&table, "%s", name_or(&groups->items[i], VT_DIM "not known" VT_RESET));
        vt_table_cell(&table, "%s", vt_format_count(groups->items[i].blocks, count));
        vt_size_cells(&table, groups->items[i].bytes, whole);
        if (by != VT_BY_CATEGORY)
            vt_category_cell(&table, groups->items[i].categories);
    }
    vt_rest_row(&table, groups->count - shown, rest_bytes(groups, shown), whole, 1,
                by == VT_BY_CATEGORY ? 0 : 1);
    vt_table_print(&table, print, print->style->width);
    fputc('\n', print->stream);
}

void vt_text_tables(struct vt_print *print, const struct vt_report *report,
                    const struct vt_device_report *device)
{
    int top = print->style->top, by = print->style->by;

    if (by < 0) {
        vt_text_modules(print, report, device, (size_t)(top ? top : MODULE_ROWS));
        lines_table(print, report, device, (size_t)(top ? top : LINE_ROWS));
        stacks_list(print, report, device, (size_t)(top ? top : STACK_ROWS));
    } else if (by == VT_BY_BLOCK) {
        vt_text_blocks(print, report, device, (size_t)(top ? top : BY_ROWS));
    } else if (by == VT_BY_MODULE) {
        vt_text_modules(print, report, device, (size_t)(top ? top : BY_ROWS));
    } else if (by == VT_BY_OWNER && vt_has_names(&device->shown->groups[by])) {
        vt_text_owners(print, report, device, (size_t)(top ? top : BY_ROWS));
    } else if (by == VT_BY_KIND) {
        vt_text_kinds(print, report, device, (size_t)(top ? top : BY_ROWS));
    } else if (by == VT_BY_LINE && vt_has_names(&device->shown->groups[by])) {
        lines_table(print, report, device, (size_t)(top ? top : BY_ROWS));
    } else if (by == VT_BY_STACK && vt_has_names(&device->shown->groups[by])) {
        stacks_list(print, report, device, (size_t)(top ? top : BY_ROWS));
    } else {
        plain_table(print, report, device, (enum vt_by)by, (size_t)(top ? top : BY_ROWS));
    }
}
