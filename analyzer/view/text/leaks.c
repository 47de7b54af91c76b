/* Leaks: a sentence in the report, and a page of their own. */
#include "view/text/table.h"
#include "view/text/text.h"
#include "view/text/views.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define SENTENCES 3u /* in the report; the page has all */
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

static void print_nothing(struct vt_print *print, const struct vt_leaks *leaks)
{
    const bool less = leaks->late_bytes < leaks->early_bytes;

    if (leaks->judged)
        vt_print_paragraph(
            print, 0, 0,
            "No leak in %s steps: memory at the start of a step, earlier half against later: %s%s.",
            VT_COUNT(leaks->step_count), less ? "-" : "+",
            VT_BYTES(less ? leaks->early_bytes - leaks->late_bytes : leaks->late_bytes - leaks->early_bytes));
    else
        vt_print_paragraph(print, 0, 0, "%s", leaks->unjudged);
}

static void put_forecast(struct vt_print *print, const struct vt_leak *leak)
{
    if (leak->forecast_step)
        fprintf(print->paragraph, " Out of memory at about step %s.", VT_COUNT(leak->forecast_step));
}

static void print_sentence(struct vt_print *print, const struct vt_leak *leak)
{
    FILE *out = print->paragraph;

    fprintf(out, "%s" VT_RESET " " VT_BOLD "%s per step" VT_RESET " since step %s, %s",
            leak->is_leak ? VT_ALARM "Leak:" : "Growth, but no leak:", VT_BYTES(leak->bytes_per_step),
            VT_COUNT(leak->first_step), leak->name);
    if (leak->line_count && leak->lines[0].name[0])
        fprintf(out, ", made at %s", leak->lines[0].name);
    if (leak->holder.name)
        fprintf(out, ", held by %s%s", leak->holder.name,
                holds_view(&leak->holder) ? " (small views of it)" : "");
    if (leak->first_owner)
        fprintf(out, ", known as %.100s … %.100s", leak->first_owner, leak->last_owner);
    if (leak->collected)
        fprintf(out, ", %s at most, until the collector ran", VT_BYTES(leak->bytes));
    else if (is_cycle(leak))
        fprintf(out, ", %s so far; no collection seen", VT_BYTES(leak->bytes));
    fputs(leak->blocks ? "." : " (reserved, not allocated).", out);
    put_forecast(print, leak);
    vt_end_paragraph(print, 0, 0);
}

void vt_text_leaks(struct vt_print *print, const struct vt_device_report *device)
{
    const struct vt_leaks *leaks = &device->leaks;

    if (!leaks->judged && leaks->step_count < VT_LEAK_STEPS)
        return;
    if (!leaks->leak_count)
        print_nothing(print, leaks);
    for (size_t i = 0; i < leaks->count && i < SENTENCES; i++)
        print_sentence(print, &leaks->items[i]);
    if (leaks->count > SENTENCES)
        vt_print_paragraph(print, 0, 0, "%zu more: %s%s", leaks->count - SENTENCES,
                           print->style->brief ? "`leaks`" : "vramtrace leaks ",
                           print->style->brief ? "" : print->report->facts.path);
}

/* ---- The page ---- */

static void print_lines(struct vt_print *print, const struct vt_leak *leak)
{
    static const struct vt_print_column columns[] = {{"Look at", .cut = VT_CUT_PARTS, .minimum = 20},
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
        {"Kept by each step", .cut = VT_CUT_PARTS, .minimum = 24},
        {"", .right = true},
        {"by", .drop = 3},
        {"blocks now", .right = true, .drop = 2},
        {"category", .drop = 1}};
    size_t rows = print->style->top ? (size_t)print->style->top : PARTS;
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

/* A small view keeps its whole storage alive. */
static void print_holder(struct vt_print *print, const struct vt_leak *leak)
{
    const struct vt_leak_holder *holder = &leak->holder;
    bool ends_with_it = strstr(holder->way, holder->name) != NULL;
    FILE *out = print->paragraph;

    fprintf(out, "Held by: %s%s%s", ends_with_it ? "" : holder->name, ends_with_it ? "" : ": ", holder->way);
    if (holder->step < leak->last_step)
        fprintf(out, ", in step %s", VT_COUNT(holder->step));
    fprintf(out, "%s%s%s%s%s%s", holder->dtype[0] ? " (" : "", holder->dtype, holder->shape[0] ? " " : "",
            holder->shape, holder->node[0] ? ", " : "", holder->node);
    if (holds_view(holder))
        fprintf(out, ", a view of %s that keeps all %s of its storage: clone() it", VT_BYTES(holder->bytes),
                VT_BYTES(holder->storage_bytes));
    if (holder->dtype[0])
        fputc(')', out);
    vt_end_paragraph(print, 3, 3);
}

static void print_leak(struct vt_print *print, const struct vt_leak *leak, size_t number)
{
    FILE *out = print->paragraph;

    fprintf(out, "%zu. %s%c%s" VT_RESET "%s: " VT_BOLD "%s per step" VT_RESET " since step %s, %s", number,
            leak->is_leak ? VT_ALARM : VT_BOLD, toupper((unsigned char)leak->name[0]), leak->name + 1,
            leak->is_leak ? "" : " (no leak)", VT_BYTES(leak->bytes_per_step), VT_COUNT(leak->first_step),
            VT_BYTES(leak->bytes));
    if (leak->blocks)
        fprintf(out, " in %s block%s %s.", VT_COUNT(leak->blocks), leak->blocks == 1 ? "" : "s",
                leak->collected  ? "at most, until the collector ran"
                : is_cycle(leak) ? "so far; no collection seen"
                                 : "so far");
    else
        fputs(" now reserved and not in use.", out);
    put_forecast(print, leak);
    vt_end_paragraph(print, 0, 3);
    vt_print_paragraph(print, 3, 3, "Why: %s", leak->why);
    if (leak->holder.name)
        print_holder(print, leak);
    if (leak->holder_unknown)
        vt_print_paragraph(print, 3, 3, "Held by: not known; %s.", leak->holder_unknown);
    if (leak->first_owner)
        vt_print_paragraph(print, 3, 3, "Known as: %s … %s, %s of its blocks.", leak->first_owner,
                           leak->last_owner, VT_COUNT(leak->owned_blocks));
    vt_print_paragraph(print, 3, 3, "Remedy: %s", leak->remedy);
    fputc('\n', print->stream);
    print_lines(print, leak);
    print_parts(print, leak);
}

/* Where steps cannot be compared. */
static void print_remaining(struct vt_print *print, const struct vt_leaks *leaks)
{
    static const struct vt_print_column columns[] = {
        {"Still allocated at the end", .cut = VT_CUT_PARTS, .minimum = 24},
        {"", .right = true},
        {"blocks", .right = true},
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

    if (print->report->facts.dropped_events && leaks->judged)
        vt_print_paragraph(print, 0, 0,
                           "%" PRIu64
                           " events were lost: what looks like a leak may have been freed in a lost event.",
                           print->report->facts.dropped_events);
    if (!leaks->leak_count)
        print_nothing(print, leaks);
    for (size_t i = 0; i < leaks->count; i++) {
        if (i || !leaks->leak_count)
            fputc('\n', print->stream);
        print_leak(print, &leaks->items[i], i + 1);
    }
    print_remaining(print, leaks);
}

void vt_text_leaks_page(const struct vt_report *report, const struct vt_view_style *style, FILE *out)
{
    vt_text_page(report, style, out, "leaks", NULL, device_section);
}
