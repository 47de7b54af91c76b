/* Leaks: a sentence in the report, a page of their own, JSON. */
#include "view/text/leaks.h"
#include "report/parts.h"

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

static void name_line(const struct vt_report *report, const struct vt_leak *leak, char *text, size_t bytes)
{
    text[0] = '\0';
    if (leak->line_count)
        vt_name_frame(report->trace, &leak->lines[0], text, bytes);
}

/* A tensor that is a small part of what it keeps alive. */
static bool holds_view(const struct vt_inspection_holder *holder)
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

static void print_sentence(struct vt_print *print, const struct vt_report *report, const struct vt_leak *leak)
{
    bool is_leak = vt_leak_is_leak((enum vt_leak_verdict)leak->verdict);
    char bytes[32], time[64], line[256], forecast[96] = "", step[32], owners[256] = "";

    name_time(leak, time, sizeof time);
    name_line(report, leak, line, sizeof line);
    if (leak->forecast_step)
        snprintf(forecast, sizeof forecast, " Out of memory at about step %s.",
                 vt_format_count(leak->forecast_step, step));
    if (leak->first_owner)
        snprintf(owners, sizeof owners, ", known as %.100s … %.100s", leak->first_owner, leak->last_owner);
    vt_print_paragraph(
        print, 0, 0, "%s" VT_RESET " " VT_BOLD "%s per step" VT_RESET " %s, %s%s%s%s%s%s%s%s.%s",
        is_leak ? VT_ALARM "Leak:" : "Growth, but no leak:", vt_format_bytes(leak->bytes_per_step, bytes),
        time, vt_leak_name((enum vt_leak_verdict)leak->verdict), line[0] ? ", made at " : "", line,
        leak->holder ? ", held by " : "", leak->holder ? leak->holder->holder : "",
        leak->holder && holds_view(leak->holder) ? " (small views of it)" : "", owners,
        is_leak ? "" : " (reserved, not allocated)", forecast);
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
        print_sentence(print, report, &leaks->items[i]);
    if (leaks->count > SENTENCES)
        vt_print_paragraph(print, 0, 0, "%zu more: vramtrace leaks %s", leaks->count - SENTENCES,
                           report->trace->path);
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
        char *source = vt_source_line(report->trace, leak->lines[i].file, leak->lines[i].line), name[512];

        vt_name_frame(report->trace, &leak->lines[i], name, sizeof name);
        vt_table_cell(&table, "%s", name);
        vt_table_cell(&table, "%s", source ? source : "");
        free(source);
    }
    vt_table_print(&table, print, print->style->width);
}

static void print_parts(struct vt_print *print, const struct vt_report *report, const struct vt_leak *leak)
{
    static const struct vt_column columns[] = {{"Kept by each step", false, VT_CUT_PARTS, 24, 0},
                                               {"", true, VT_CUT_END, 0, 0},
                                               {"by", false, VT_CUT_END, 0, 3},
                                               {"blocks now", true, VT_CUT_END, 0, 2},
                                               {"category", false, VT_CUT_END, 0, 1}};
    size_t rows = print->style->top ? (size_t)print->style->top : PARTS;
    struct vt_table table;
    char bytes[32], name[512];
    uint64_t rest = 0;

    if (leak->part_count < 2)
        return;
    fputc('\n', print->stream);
    vt_table_begin(&table, columns, 5);
    for (size_t i = 0; i < leak->part_count; i++) {
        const struct vt_leak_part *part = &leak->parts[i];
        const char *operator= vt_operator_of(report->attribution, part->stack_id);
        struct vt_frame frame;

        if (i >= rows) {
            rest += part->bytes_per_step;
            continue;
        }
        name[0] = '\0';
        if (vt_trace_user_frame(report->trace, part->stack_id, &frame))
            vt_name_frame(report->trace, &frame, name, sizeof name);
        vt_table_cell(&table, "%s", name);
        vt_table_cell(&table, "%s", vt_format_bytes(part->bytes_per_step, bytes));
        vt_table_cell(&table, "%s", operator? operator: "");
        vt_table_cell(&table, "%" PRIu64, part->blocks);
        vt_table_cell(&table, "%s", vt_category_style(part->category)->label);
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
static void print_holder(struct vt_print *print, const struct vt_inspection_holder *holder)
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
    const char *name = vt_leak_name((enum vt_leak_verdict)leak->verdict);
    bool is_leak = vt_leak_is_leak((enum vt_leak_verdict)leak->verdict);
    char per_step[32], bytes[32], blocks[32], time[64], forecast[96] = "", step[32], held[128];

    vt_format_bytes(leak->bytes, bytes);
    vt_format_count(leak->blocks, blocks);
    if (is_leak)
        snprintf(held, sizeof held, "%s in %s block%s %s", bytes, blocks, leak->blocks == 1 ? "" : "s",
                 leak->verdict == VT_LEAK_CYCLE && leak->part_count ? "at most, till the collector ran"
                                                                    : "so far");
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
    if (leak->holder)
        print_holder(print, leak->holder);
    if (leak->first_owner)
        vt_print_paragraph(print, 3, 3, "Known as: %s … %s, %s of its blocks.", leak->first_owner,
                           leak->last_owner, vt_format_count(leak->owned_blocks, blocks));
    vt_print_paragraph(print, 3, 3, "Remedy: %s", vt_leak_remedy((enum vt_leak_verdict)leak->verdict));
    fputc('\n', print->stream);
    print_lines(print, report, leak);
    print_parts(print, report, leak);
}

static void print_device(struct vt_print *print, const struct vt_report *report,
                         const struct vt_device_report *device)
{
    const struct vt_leaks *leaks = &device->leaks;

    if (report->trace->header.dropped && leaks->judged)
        vt_print_paragraph(
            print, 0, 0, "%" PRIu64 " events were lost: what seems to be kept may be what was freed unseen.",
            report->trace->header.dropped);
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

static int write_leaks(const struct vt_report *report, const struct vt_view_style *style, FILE *out)
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

/* ---- JSON ---- */

static cJSON *make_part(const struct vt_report *report, const struct vt_leak_part *part)
{
    cJSON *object = vt_json_item();
    const char *operator= vt_operator_of(report->attribution, part->stack_id);
    struct vt_frame frame;
    bool known = vt_trace_user_frame(report->trace, part->stack_id, &frame);

    vt_json_number(object, "bytes_per_step", part->bytes_per_step);
    vt_json_number(object, "bytes", part->bytes);
    vt_json_number(object, "blocks", part->blocks);
    vt_json_text(object, "category", vt_category_name(part->category));
    vt_json_text(object, "op", operator? operator: "");
    if (known)
        vt_json_put(object, "line", vt_json_frame(&frame));
    else
        vt_json_null(object, "line");
    return object;
}

static cJSON *make_leak(const struct vt_report *report, const struct vt_leak *leak)
{
    cJSON *object = vt_json_item(), *array;
    enum vt_leak_verdict verdict = (enum vt_leak_verdict)leak->verdict;

    vt_json_number(object, "bytes", leak->bytes);
    vt_json_number(object, "blocks", leak->blocks);
    vt_json_number(object, "bytes_per_step", leak->bytes_per_step);
    vt_json_text(object, "verdict", vt_leak_name(verdict));
    vt_json_bool(object, "leak", vt_leak_is_leak(verdict));
    vt_json_text(object, "category", vt_category_name(leak->category));
    vt_json_text(object, "owner", leak->owner ? leak->owner : "");
    vt_json_text(object, "module", leak->module ? leak->module : "");
    vt_json_number(object, "since_step", leak->first_step);
    vt_json_number(object, "last_step", leak->last_step);
    if (leak->forecast_step)
        vt_json_number(object, "forecast_step", leak->forecast_step);
    else
        vt_json_null(object, "forecast_step");
    if (leak->holder) {
        vt_json_text(object, "holder", leak->holder->holder);
        vt_json_text(object, "holder_kind", leak->holder->kind);
        vt_json_text(object, "holder_way", leak->holder->way);
        vt_json_text(object, "holder_dtype", leak->holder->dtype);
        vt_json_text(object, "holder_shape", leak->holder->shape);
        vt_json_number(object, "holder_tensor_bytes", leak->holder->bytes);
        vt_json_number(object, "holder_storage_bytes", leak->holder->storage_bytes);
    } else {
        vt_json_null(object, "holder"); /* nobody looked, or no name holds it */
    }
    if (leak->first_owner) {
        cJSON *known = vt_json_object(object, "known_as");

        vt_json_text(known, "first", leak->first_owner);
        vt_json_text(known, "last", leak->last_owner);
        vt_json_number(known, "blocks", leak->owned_blocks);
    } else {
        vt_json_null(object, "known_as");
    }
    if (leak->line_count)
        vt_json_put(object, "line", vt_json_frame(&leak->lines[0]));
    else
        vt_json_null(object, "line");
    array = vt_json_array(object, "lines");
    for (size_t i = 0; i < leak->line_count; i++)
        vt_json_append(array, vt_json_frame(&leak->lines[i]));
    array = vt_json_array(object, "parts");
    for (size_t i = 0; i < leak->part_count; i++)
        vt_json_append(array, make_part(report, &leak->parts[i]));
    vt_json_put(object, "stack", vt_json_stack(report->trace, leak->stack_id));
    vt_json_text(object, "why", leak->why);
    vt_json_text(object, "remedy", vt_leak_remedy(verdict));
    return object;
}

void vt_json_leaks(cJSON *device, const struct vt_report *report, const struct vt_leaks *leaks)
{
    cJSON *array = vt_json_array(device, "leaks");

    for (size_t i = 0; i < leaks->count; i++)
        vt_json_append(array, make_leak(report, &leaks->items[i]));
    vt_json_bool(device, "leaks_judged", leaks->judged);
}

static int write_json(const struct vt_report *report, const struct vt_view_style *style, FILE *out)
{
    cJSON *root = vt_json_begin("vramtrace.leaks/1"), *devices;

    vt_json_trace(vt_json_object(root, "trace"), report->trace);
    vt_json_number(root, "steps", report->attribution->step_count);
    devices = vt_json_array(root, "devices");
    for (size_t i = 0; i < report->device_count; i++) {
        const struct vt_device_report *device = &report->devices[i];
        cJSON *object = vt_json_item();

        vt_json_integer(object, "index", device->index);
        vt_json_text(object, "name", device->name ? device->name : "");
        vt_json_number(object, "total_bytes", device->total_bytes);
        vt_json_leaks(object, report, &device->leaks);
        vt_json_append(devices, object);
    }
    return vt_json_end(root, 0, style->compact, out);
}

const struct vt_view vt_view_leaks = {"leaks", write_leaks};
const struct vt_view vt_view_leaks_json = {"leaks-json", write_json};
