/* The tables of the text report: by line, stack, block, and what else --by asks for. */
#include "view/text/table.h"
#include "view/text/text.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define USUAL_ROWS 8
#define STACK_ROWS 3
#define BY_ROWS 30

const char *vt_lossy_title(const struct vt_print *print, const char *title, char *text)
{
    if (!print->report->facts.dropped_events && !print->report->facts.damaged_bytes)
        return title;
    snprintf(text, VT_TITLE_BYTES, "%s (events lost)", title);
    return text;
}

static const char *name_or(const struct vt_group *group, const char *none)
{
    return group->name[0] ? group->name : none;
}

static void rest_row(struct vt_table *table, const struct vt_groups *groups, size_t shown, uint64_t whole)
{
    uint64_t bytes = 0;

    for (size_t i = shown; i < groups->count; i++)
        bytes += groups->items[i].bytes;
    vt_table_rest(table, groups->count - shown, bytes, whole, 1);
}

static void end_table(struct vt_table *table, struct vt_print *print)
{
    vt_table_print(table, print);
    fputc('\n', print->stream);
}

void vt_text_lines_of(struct vt_print *print, const struct vt_groups *groups, const char *title,
                      const char *whole_title, uint64_t whole, size_t rows, bool categories)
{
    const bool phases = categories && print->report->step_count;
    const size_t shown = groups->count < rows ? groups->count : rows;
    const struct vt_print_column columns[] = {{VT_TITLE(print, title), .cut = VT_CUT_PARTS, .minimum = 34},
                                              {"", .minimum = 24, .drop = 4},
                                              {"", .right = true},
                                              {whole_title, .right = true},
                                              {"mostly", .drop = 1},
                                              {"allocated in", .drop = 3}};
    struct vt_table table;

    vt_table_begin(&table, columns, 4 + categories + phases);
    for (size_t i = 0; i < shown; i++) {
        const struct vt_group *group = &groups->items[i];
        char *source = vt_source_line(print->report->places, group->place);

        vt_table_cells(&table, name_or(group, VT_DIM "no line known" VT_RESET));
        vt_table_cell(&table, VT_DIM "%s" VT_RESET, source);
        vt_table_size(&table, group->bytes, whole);
        if (categories)
            vt_table_category(&table, group->categories);
        if (phases)
            vt_table_cells(&table, vt_phase_name(group->phase));
        free(source);
    }
    rest_row(&table, groups, shown, whole);
    vt_table_print(&table, print);
}

void vt_text_lines(struct vt_print *print, const struct vt_device_report *device, size_t rows)
{
    const struct vt_groups *groups = &device->shown->groups[VT_BY_LINE];

    if (!vt_has_names(groups))
        return;
    vt_text_lines_of(print, groups, "By line", vt_text_whole(device), device->shown->state.used_bytes, rows,
                     true);
    fputc('\n', print->stream);
}

/* Stacks of one frame repeat the table of lines. */
static bool has_depth(const struct vt_groups *groups, size_t shown)
{
    for (size_t i = 0; i < shown; i++)
        if (strstr(groups->items[i].name, "←"))
            return true;
    return false;
}

void vt_text_stacks_of(struct vt_print *print, const struct vt_groups *groups, const char *title,
                       uint64_t whole, size_t rows, bool categories)
{
    uint64_t rest = 0;

    fprintf(print->stream, VT_BOLD "%s" VT_RESET "\n", VT_TITLE(print, title));
    for (size_t i = 0; i < groups->count; i++) {
        const struct vt_group *group = &groups->items[i];

        if (i >= rows) {
            rest += group->bytes;
            continue;
        }
        fprintf(print->stream, "%12s  %7s", VT_BYTES(group->bytes), VT_PERCENT(group->bytes, whole));
        if (categories)
            fprintf(print->stream, "  " VT_LABEL, VT_LABEL_OF(vt_largest_category(group->categories)));
        if (categories && group->blocks > 1)
            fprintf(print->stream, ", %" PRIu64 " allocations", group->blocks);
        fputc('\n', print->stream);
        vt_print_paragraph(print, 4, 6, "%s", name_or(group, "no stack recorded"));
    }
    if (groups->count > rows)
        fprintf(print->stream, VT_DIM "  … %zu more stacks, %s" VT_RESET "\n", groups->count - rows,
                VT_BYTES(rest));
}

void vt_text_stacks(struct vt_print *print, const struct vt_device_report *device, size_t rows)
{
    const struct vt_groups *groups = &device->shown->groups[VT_BY_STACK];

    if (!vt_has_names(groups) ||
        (print->style->by < 0 && !has_depth(groups, groups->count < rows ? groups->count : rows)))
        return;
    vt_text_stacks_of(print, groups, "By stack", device->shown->state.used_bytes, rows, true);
    fputc('\n', print->stream);
}

static void plain_table(struct vt_print *print, const struct vt_device_report *device, enum vt_by by,
                        size_t rows)
{
    static const char *const titles[VT_BY_COUNT] = {
        [VT_BY_CATEGORY] = "By category", [VT_BY_MODULE] = "By module", [VT_BY_KIND] = "By kind of module",
        [VT_BY_OWNER] = "By owner",       [VT_BY_LINE] = "By line",     [VT_BY_STACK] = "By stack",
        [VT_BY_OP] = "By operator"};
    const struct vt_groups *groups = &device->shown->groups[by];
    uint64_t whole = device->shown->state.used_bytes;
    size_t shown = groups->count < rows ? groups->count : rows;
    const struct vt_print_column columns[] = {
        {VT_TITLE(print, titles[by]), .cut = VT_CUT_PARTS, .minimum = 24},
        {"allocations", .right = true, .drop = 2},
        {"", .right = true},
        {vt_text_whole(device), .right = true},
        {"mostly", .drop = 1}};
    struct vt_table table;

    vt_table_begin(&table, columns, by == VT_BY_CATEGORY ? 4 : 5);
    for (size_t i = 0; i < shown; i++) {
        const struct vt_group *group = &groups->items[i];

        vt_table_cells(&table, name_or(group, VT_DIM "not known" VT_RESET), VT_COUNT(group->blocks));
        vt_table_size(&table, group->bytes, whole);
        if (by != VT_BY_CATEGORY)
            vt_table_category(&table, group->categories);
    }
    rest_row(&table, groups, shown, whole);
    end_table(&table, print);
}

const char *vt_text_block(const struct vt_block *block)
{
    return block->owner         ? block->owner
           : block->holder      ? block->holder
           : block->shown_place ? block->shown_place->name
                                : VT_DIM "no line known" VT_RESET;
}

static void block_row(struct vt_table *table, const struct vt_block *block, uint64_t whole)
{
    vt_table_cells(table, vt_text_block(block), block->module && !block->owner ? block->module : "");
    vt_table_size(table, block->bytes, whole);
    vt_table_cell(table, VT_LABEL, VT_LABEL_OF(block->category));
    vt_table_cells(table, vt_evidence_name(block->evidence));
    if (block->step)
        vt_table_cell(table, "%s %" PRIu32, vt_phase_name(block->phase), block->step);
    else
        vt_table_cells(table, vt_phase_name(block->phase));
    vt_table_cell(table, "0x%" PRIx64, block->address);
}

static void blocks_table(struct vt_print *print, const struct vt_device_report *device, size_t rows)
{
    const struct vt_instant *instant = device->shown;
    uint64_t whole = instant->state.used_bytes, rest = 0;
    size_t shown = instant->block_count < rows ? instant->block_count : rows;
    const struct vt_print_column columns[] = {
        {VT_TITLE(print, "By block"), .cut = VT_CUT_PARTS, .minimum = 28},
        {"module", .cut = VT_CUT_PARTS, .minimum = 20, .drop = 3},
        {"", .right = true},
        {vt_text_whole(device), .right = true, .drop = 2},
        {.title = ""},
        {"evidence", .drop = 4},
        {"allocated in", .drop = 1},
        {"address", .drop = 5}};
    struct vt_table table;

    vt_table_begin(&table, columns, 8);
    for (size_t i = 0; i < shown; i++)
        block_row(&table, &instant->blocks[i], whole);
    for (size_t i = shown; i < instant->block_count; i++)
        rest += instant->blocks[i].bytes;
    vt_table_rest(&table, instant->block_count - shown, rest, whole, 1);
    end_table(&table, print);
}

void vt_text_tables(struct vt_print *print, const struct vt_device_report *device)
{
    static const struct {
        vt_text_table *print;
        bool needs_names;
    } tables[VT_BY_CHOICES] = {
        [VT_BY_HOLDER] = {vt_text_holders, false}, [VT_BY_MODULE] = {vt_text_modules, false},
        [VT_BY_KIND] = {vt_text_kinds, false},     [VT_BY_OWNER] = {vt_text_owners, true},
        [VT_BY_LINE] = {vt_text_lines, true},      [VT_BY_STACK] = {vt_text_stacks, true},
        [VT_BY_BLOCK] = {blocks_table, false},
    };
    int top = print->style->top, by = print->style->by;
    size_t rows = (size_t)(top ? top : by < 0 ? USUAL_ROWS : BY_ROWS);

    if (by < 0) {
        vt_text_modules(print, device, rows);
        vt_text_lines(print, device, rows);
        vt_text_stacks(print, device, (size_t)(top ? top : STACK_ROWS));
    } else if (tables[by].print && (!tables[by].needs_names || vt_has_names(&device->shown->groups[by]))) {
        tables[by].print(print, device, rows);
    } else {
        plain_table(print, device, (enum vt_by)by, rows);
    }
}
