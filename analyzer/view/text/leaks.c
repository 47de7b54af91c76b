/* Leaks: a few lines each; and a page of their own. */
#include "view/text/short_tables.h"
#include "view/text/table.h"
#include "view/text/text.h"
#include "view/text/views.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define SHOWN 3u /* with --full, all */
#define PARTS 6u

/* A tensor that is a small part of what it keeps alive. */
static bool holds_view(const struct vt_leak_holder *holder)
{
    return holder->bytes > 0 && holder->bytes * 2 <= holder->storage_bytes;
}

static bool is_cycle(const struct vt_leak *leak)
{
    return strcmp(leak->name, "reference cycle") == 0;
}

static void print_lines(struct vt_print *print, const struct vt_leak *leak)
{
    static const struct vt_print_column columns[] = {{"Lines to check", .cut = VT_CUT_PARTS, .minimum = 20},
                                                     {"", .minimum = 12, .drop = 1}};
    struct vt_table table;

    if (!leak->line_count)
        return;
    vt_table_begin(&table, columns, 2);
    for (size_t i = 0; i < leak->line_count; i++) {
        char *source = vt_source_line(print->report->places, &leak->lines[i]);

        vt_table_cells(&table, leak->lines[i].name, source);
        free(source);
    }
    vt_table_print(&table, print);
}

static void print_parts(struct vt_print *print, const struct vt_leak *leak)
{
    static const struct vt_print_column columns[] = {
        {"Retained per step", .cut = VT_CUT_PARTS, .minimum = 24},
        {"", .right = true},
        {"by", .drop = 3},
        {"allocations", .right = true, .drop = 2},
        {"category", .drop = 1}};
    size_t rows = vt_text_rows(print, 3, PARTS);
    struct vt_table table;
    uint64_t rest = 0;

    if (leak->part_count < 2)
        return;
    fputc('\n', print->stream);
    vt_table_begin(&table, columns, 5);
    for (size_t i = 0; i < leak->part_count; i++) {
        const struct vt_leak_part *part = &leak->parts[i];

        if (i >= rows) {
            rest += part->bytes_per_step;
            continue;
        }
        vt_table_cells(&table, part->place ? part->place->name : "", VT_BYTES(part->bytes_per_step),
                       part->operator_name ? part->operator_name : "");
        vt_table_cell(&table, "%" PRIu64, part->blocks);
        vt_table_cells(&table, vt_category_label(part->category));
    }
    if (leak->part_count > rows) {
        vt_table_cell(&table, "… %zu more", leak->part_count - rows);
        vt_table_cells(&table, VT_BYTES(rest));
        vt_table_end_row(&table);
    }
    vt_table_print(&table, print);
}

static void put_title(struct vt_print *print, const struct vt_device_report *device,
                      const struct vt_leak *leak)
{
    const uint64_t peak = device->peak.state.used_bytes;
    FILE *out = print->paragraph;

    fprintf(out, "%s" VT_RESET "  " VT_BOLD "+%s per step" VT_RESET,
            leak->is_leak ? VT_ALARM "✗ LEAK" : "! GROWTH", VT_BYTES(leak->bytes_per_step));
    fprintf(out, leak->collected ? ", at most %s until the collector ran" : ", %s so far",
            VT_BYTES(leak->bytes));
    if (!leak->collected && is_cycle(leak))
        fputs(" (no collection seen)", out);
    else if (leak->blocks && vt_text_is_shown(leak->bytes, peak))
        fprintf(out, " (%s of the peak)", VT_PERCENT(leak->bytes, peak));
    fprintf(out, ", since step %s", VT_COUNT(leak->first_step));
    vt_end_paragraph(print, 0, 2);
}

/* The way to the tensor, and what it is; a small view keeps its whole storage alive. */
static void put_way(struct vt_print *print, const struct vt_leak *leak)
{
    const struct vt_leak_holder *holder = &leak->holder;
    const char *separator = " (";
    const char *const parts[] = {holder->dtype, holder->shape, holder->node};
    FILE *out = print->paragraph;

    if (!strstr(holder->way, holder->name))
        fprintf(out, ": %s", holder->way);
    if (holder->step < leak->last_step)
        fprintf(out, ", in step %s", VT_COUNT(holder->step));
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        if (!parts[i][0])
            continue;
        fprintf(out, "%s%s", separator, parts[i]);
        separator = ", ";
    }
    fputs(*separator == ',' ? ")" : "", out);
}

static void print_holder(struct vt_print *print, const struct vt_leak *leak)
{
    const struct vt_leak_holder *holder = &leak->holder;
    const bool full = print->style->full || print->style->brief;
    FILE *out = print->paragraph;

    if (holder->name) {
        fputs(full && strstr(holder->way, holder->name) ? holder->way : holder->name, out);
        if (full)
            put_way(print, leak);
        if (holds_view(holder))
            fprintf(out, "; a view of %s keeps all %s of its storage: copy it", VT_BYTES(holder->bytes),
                    VT_BYTES(holder->storage_bytes));
        vt_end_labelled(print, "kept by");
    } else if (leak->holder_unknown) {
        vt_print_labelled(print, "kept by", "not known; %s", leak->holder_unknown);
    }
    if (leak->first_owner)
        vt_print_labelled(print, "known as", "%.100s … %.100s, %s of its allocations", leak->first_owner,
                          leak->last_owner, VT_COUNT(leak->owned_blocks));
}

static void print_leak(struct vt_print *print, const struct vt_device_report *device,
                       const struct vt_leak *leak)
{
    put_title(print, device, leak);
    if (leak->blocks)
        vt_print_labelled(print, "what", "%s, %s allocation%s", leak->name, VT_COUNT(leak->blocks),
                          leak->blocks == 1 ? "" : "s");
    else
        vt_print_labelled(print, "what", "%s: reserved, not in use", leak->name);
    if (leak->line_count && leak->lines[0].name[0])
        vt_text_place(print, "where", &leak->lines[0]);
    print_holder(print, leak);
    vt_print_labelled(print, "fix", "%s", leak->remedy);
}

/* Why it is said, and the lines and parts of it. */
static void print_evidence(struct vt_print *print, const struct vt_leak *leak)
{
    vt_print_labelled(print, "why", "%s", leak->why);
    print_lines(print, leak);
    print_parts(print, leak);
}

static void print_leaks(struct vt_print *print, const struct vt_device_report *device, size_t count,
                        bool evidence)
{
    const struct vt_leaks *leaks = &device->leaks;

    for (size_t i = 0; i < leaks->count && i < count; i++) {
        if (evidence && i)
            fputc('\n', print->stream);
        print_leak(print, device, &leaks->items[i]);
        if (evidence)
            print_evidence(print, &leaks->items[i]);
    }
    if (leaks->count > count)
        vt_print_paragraph(print, 0, 0, "%zu more: vramtrace leaks", leaks->count - count);
    if (leaks->count && leaks->items[0].forecast_step)
        vt_print_paragraph(print, 0, 0, "At this rate memory runs out at about step %s.",
                           VT_COUNT(leaks->items[0].forecast_step));
}

void vt_text_leaks(struct vt_print *print, const struct vt_device_report *device, size_t count)
{
    if (!device->leaks.judged && device->leaks.unjudged[0])
        vt_print_paragraph(print, 0, 0, "%s", device->leaks.unjudged);
    print_leaks(print, device, count, false);
}

/* Where steps cannot be compared. */
static void print_remaining(struct vt_print *print, const struct vt_leaks *leaks)
{
    static const struct vt_print_column columns[] = {
        {"Still allocated at the end", .cut = VT_CUT_PARTS, .minimum = 24},
        {"", .right = true},
        {"allocations", .right = true},
        {"category", .drop = 1}};
    const size_t rows = print->style->top ? (size_t)print->style->top : PARTS;
    uint64_t rest = 0;
    struct vt_table table;

    if (!leaks->remaining_count)
        return;
    fputc('\n', print->stream);
    vt_table_begin(&table, columns, 4);
    for (size_t i = 0; i < leaks->remaining_count; i++) {
        const struct vt_leak_part *part = &leaks->remaining[i];

        if (i >= rows) {
            rest += part->bytes;
            continue;
        }
        vt_table_cells(&table, part->place->name, VT_BYTES(part->bytes), VT_COUNT(part->blocks),
                       vt_category_label(part->category));
    }
    if (leaks->remaining_count > rows) {
        vt_table_cell(&table, "… %zu more", leaks->remaining_count - rows);
        vt_table_cells(&table, VT_BYTES(rest));
        vt_table_end_row(&table);
    }
    vt_table_print(&table, print);
}

static void device_section(struct vt_print *print, const struct vt_device_report *device)
{
    const struct vt_leaks *leaks = &device->leaks;
    const bool full = print->style->full || print->style->brief || leaks->count == 1;

    if (print->report->facts.dropped_events && leaks->judged)
        vt_print_paragraph(print, 0, 0,
                           "%" PRIu64 " events were lost: some leaks may be allocations whose free was lost.",
                           print->report->facts.dropped_events);
    if (leaks->judged && !leaks->leak_count && print->report->facts.omitted_events)
        vt_print_paragraph(print, 0, 0, "✓ no leak in %s steps", VT_COUNT(leaks->step_count));
    else if (leaks->judged && !leaks->leak_count)
        vt_print_paragraph(
            print, 0, 0,
            "✓ no leak in %s steps: memory at the start of a step, later half against earlier: %s",
            VT_COUNT(leaks->step_count), VT_CHANGE(leaks->early_bytes, leaks->late_bytes));
    if (full && leaks->count)
        print_leaks(print, device, SIZE_MAX, true);
    else
        vt_text_leaks(print, device, print->style->top ? (size_t)print->style->top : SHOWN);
    print_remaining(print, leaks);
}

void vt_text_leaks_page(const struct vt_report *report, const struct vt_view_style *style, FILE *out)
{
    vt_text_page(report, style, out, "leaks", NULL, device_section);
}
