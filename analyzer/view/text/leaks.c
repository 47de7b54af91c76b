/* Leaks: a sentence in the report, and a page of their own. */
#include "view/text/text.h"
#include "view/text/views.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#define SENTENCES 3u /* in the report; the page has all */
#define PARTS 6u

/* "since step 1,024" */
static void name_time(const struct vt_leak *leak, char *text, size_t bytes)
{
    char step[32];

    snprintf(text, bytes, "since step %s", vt_format_count(leak->first_step, step));
}

/* A tensor that is a small part of what it keeps alive. */
static bool holds_view(const struct vt_leak_holder *holder)
{
    return holder->bytes > 0 && holder->bytes * 2 <= holder->storage_bytes;
}

static void print_nothing(struct vt_print *print, const struct vt_leaks *leaks)
{
    char steps[32];

    vt_format_count(leaks->step_count, steps);
    if (leaks->judged)
        vt_print_paragraph(print, 0, 0, "No leak in %s steps.", steps);
    else if (leaks->step_count)
        vt_print_paragraph(print, 0, 0, "%s step%s: too few to tell a leak (%u are needed).", steps,
                           leaks->step_count == 1 ? "" : "s", VT_LEAK_STEPS);
}

static void print_sentence(struct vt_print *print, const struct vt_leak *leak)
{
    const char *line = leak->line_count ? leak->lines[0].name : "";
    bool held = leak->holder.name != NULL;
    char bytes[32], time[64], forecast[96] = "", step[32], owners[256] = "";

    name_time(leak, time, sizeof time);
    if (leak->forecast_step)
        snprintf(forecast, sizeof forecast, " Out of memory at about step %s.",
                 vt_format_count(leak->forecast_step, step));
    if (leak->first_owner)
        snprintf(owners, sizeof owners, ", known as %.100s … %.100s", leak->first_owner, leak->last_owner);
    vt_print_paragraph(
        print, 0, 0, "%s" VT_RESET " " VT_BOLD "%s per step" VT_RESET " %s, %s%s%s%s%s%s%s%s.%s",
        leak->is_leak ? VT_ALARM "Leak:" : "Growth, but no leak:",
        vt_format_bytes(leak->bytes_per_step, bytes), time, leak->name, line[0] ? ", made at " : "", line,
        held ? ", held by " : "", held ? leak->holder.name : "",
        held && holds_view(&leak->holder) ? " (small views of it)" : "", owners,
        leak->is_leak ? "" : " (reserved, not allocated)", forecast);
}

void vt_text_leaks(struct vt_print *print, const struct vt_report *report,
                   const struct vt_device_report *device)
{
    const struct vt_leaks *leaks = &device->leaks;

    if (!leaks->judged)
        return;
    if (!leaks->leak_count)
        print_nothing(print, leaks);
    for (size_t i = 0; i < leaks->count && i < SENTENCES; i++)
        print_sentence(print, &leaks->items[i]);
    if (leaks->count > SENTENCES)
        vt_print_paragraph(print, 0, 0, "%zu more: vramtrace leaks %s", leaks->count - SENTENCES,
                           report->facts.path);
}

/* ---- The page ---- */

static void print_lines(struct vt_print *print, const struct vt_report *report, const struct vt_leak *leak)
{
    static const struct vt_column columns[] = {{"Look at", false, VT_CUT_PARTS, 20, 0},
                                               {"", false, VT_CUT_END, 12, 1}};
    struct vt_table table;

    if (!leak->line_count)
        return;
    vt_table_begin(&table, columns, 2);
    for (size_t i = 0; i < leak->line_count; i++) {
        char *source = vt_source_line(report->places, &leak->lines[i]);

        vt_table_cell(&table, "%s", leak->lines[i].name);
        vt_table_cell(&table, "%s", source ? source : "");
        free(source);
    }
    vt_table_print(&table, print, print->style->width);
}

static void print_parts(struct vt_print *print, const struct vt_leak *leak)
{
    static const struct vt_column columns[] = {{"Kept by each step", false, VT_CUT_PARTS, 24, 0},
                                               {"", true, VT_CUT_END, 0, 0},
                                               {"by", false, VT_CUT_END, 0, 3},
                                               {"blocks now", true, VT_CUT_END, 0, 2},
                                               {"category", false, VT_CUT_END, 0, 1}};
    size_t rows = print->style->top ? (size_t)print->style->top : PARTS;
    struct vt_table table;
    char bytes[32];
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
        vt_table_cell(&table, "%s", part->place ? part->place->name : "");
        vt_table_cell(&table, "%s", vt_format_bytes(part->bytes_per_step, bytes));
        vt_table_cell(&table, "%s", part->operator_name ? part->operator_name : "");
        vt_table_cell(&table, "%" PRIu64, part->blocks);
        vt_table_cell(&table, "%s", vt_category_label(part->category));
    }
    if (leak->part_count > rows) {
        vt_table_cell(&table, "… %zu more", leak->part_count - rows);
        vt_table_cell(&table, "%s", vt_format_bytes(rest, bytes));
        vt_table_cell(&table, "%s", "");
        vt_table_cell(&table, "%s", "");
        vt_table_cell(&table, "%s", "");
    }
    vt_table_print(&table, print, print->style->width);
}

/* What the name holds is a tensor; a small view keeps all of its storage alive. */
static void print_holder(struct vt_print *print, const struct vt_leak_holder *holder)
{
    char view[128] = "", bytes[32], storage[32];

    if (holds_view(holder))
        snprintf(view, sizeof view, ", a view of %s that keeps all %s of its storage: clone() it",
                 vt_format_bytes(holder->bytes, bytes), vt_format_bytes(holder->storage_bytes, storage));
    vt_print_paragraph(print, 3, 3, "Held by: %s%s%s%s%s%s%s%s%s", holder->way, holder->dtype[0] ? " (" : "",
                       holder->dtype, holder->shape[0] ? " " : "", holder->shape, holder->node[0] ? ", " : "",
                       holder->node, view, holder->dtype[0] ? ")" : "");
}

static void print_leak(struct vt_print *print, const struct vt_report *report, const struct vt_leak *leak,
                       size_t number)
{
    const char *name = leak->name;
    bool is_leak = leak->is_leak;
    char per_step[32], bytes[32], blocks[32], time[64], forecast[96] = "", step[32], held[128];

    vt_format_bytes(leak->bytes, bytes);
    vt_format_count(leak->blocks, blocks);
    if (is_leak)
        snprintf(held, sizeof held, "%s in %s block%s %s", bytes, blocks, leak->blocks == 1 ? "" : "s",
                 leak->collected ? "at most, till the collector ran" : "so far");
    else
        snprintf(held, sizeof held, "%s now reserved and not in use", bytes);
    name_time(leak, time, sizeof time);
    if (leak->forecast_step)
        snprintf(forecast, sizeof forecast, " Out of memory at about step %s.",
                 vt_format_count(leak->forecast_step, step));
    vt_print_paragraph(print, 0, 3, "%zu. %s%c%s" VT_RESET "%s: " VT_BOLD "%s per step" VT_RESET " %s, %s.%s",
                       number, is_leak ? VT_ALARM : VT_BOLD, toupper((unsigned char)name[0]), name + 1,
                       is_leak ? "" : " (no leak)", vt_format_bytes(leak->bytes_per_step, per_step), time,
                       held, forecast);
    vt_print_paragraph(print, 3, 3, "Why: %s", leak->why);
    if (leak->holder.name)
        print_holder(print, &leak->holder);
    if (leak->first_owner)
        vt_print_paragraph(print, 3, 3, "Known as: %s … %s, %s of its blocks.", leak->first_owner,
                           leak->last_owner, vt_format_count(leak->owned_blocks, blocks));
    vt_print_paragraph(print, 3, 3, "Remedy: %s", leak->remedy);
    fputc('\n', print->stream);
    print_lines(print, report, leak);
    print_parts(print, leak);
}

static void print_device(struct vt_print *print, const struct vt_report *report,
                         const struct vt_device_report *device)
{
    const struct vt_leaks *leaks = &device->leaks;

    if (report->facts.dropped_events && leaks->judged)
        vt_print_paragraph(
            print, 0, 0, "%" PRIu64 " events were lost: what seems to be kept may be what was freed unseen.",
            report->facts.dropped_events);
    if (!leaks->step_count)
        vt_print_paragraph(
            print, 0, 0,
            "No steps were seen (no modules, no backward passes): growth that repeats with them "
            "cannot be told.");
    if (!leaks->leak_count)
        print_nothing(print, leaks);
    for (size_t i = 0; i < leaks->count; i++) {
        if (i || !leaks->leak_count)
            fputc('\n', print->stream);
        print_leak(print, report, &leaks->items[i], i + 1);
    }
}

int vt_text_leaks_page(const struct vt_report *report, const struct vt_view_style *style, FILE *out)
{
    struct vt_print print;
    int result = vt_print_begin(&print, style);

    if (result)
        return result;
    vt_text_header(&print, report, "leaks");
    if (!report->device_count)
        vt_print_paragraph(&print, 0, 0, "No GPU memory was held at any time of this trace.");
    for (size_t i = 0; i < report->device_count; i++) {
        char name[192];

        if (i)
            fputc('\n', print.stream);
        if (report->device_count > 1)
            fprintf(print.stream, VT_BOLD "%s" VT_RESET "\n", vt_text_device(&report->devices[i], name));
        print_device(&print, report, &report->devices[i]);
    }
    return vt_print_finish(&print, out);
}
