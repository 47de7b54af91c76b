/* Out of memory, in words and tables. */
#include "view/text/table.h"
#include "view/text/text.h"
#include "view/text/views.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define TOP_ROWS 8
#define FIRST_ROWS 4 /* of what decides */

/* ": 12.88 GiB activations, 3.00 GiB parameters, 1.21 GiB cached": the three largest categories. */
static void print_holding(FILE *stream, uint64_t total, const uint64_t categories[VT_CATEGORY_COUNT])
{
    uint64_t left[VT_CATEGORY_COUNT];

    memcpy(left, categories, sizeof left);
    left[VT_CATEGORY_HOST_PINNED] = 0;
    for (int i = 0; i < 3; i++) {
        unsigned largest = vt_largest_category(left);

        if (!left[largest])
            break;
        if (!i && left[largest] == total) {
            fprintf(stream, ", all of it %s", vt_category_many(largest));
            break;
        }
        fprintf(stream, "%s%s %s%s", i ? ", " : ": ", VT_BYTES(left[largest]),
                largest == VT_CATEGORY_UNKNOWN ? "" : "of ", vt_category_many(largest));
        left[largest] = 0;
    }
}

/* The framework refused without asking the driver. */
static bool is_own_limit(const struct vt_oom *refusal)
{
    return refusal->of_framework && !refusal->driver_tries;
}

static void print_free(FILE *stream, const struct vt_oom *refusal)
{
    if (is_own_limit(refusal))
        fprintf(stream,
                " The framework refused without asking the driver: it enforces a limit of its own%s%s%s.",
                refusal->limit ? " (" : "", refusal->limit ? refusal->limit : "", refusal->limit ? ")" : "");
    if (refusal->free_told)
        fprintf(stream, " The card had %s free", VT_BYTES(refusal->free_bytes));
    else if (refusal->free_known)
        fprintf(stream, " The card had at most %s free", VT_BYTES(refusal->free_bytes));
    else
        return;
    if (refusal->tried_bytes > refusal->asked_bytes)
        fprintf(stream, ", and the framework asked the driver for a segment of %s",
                VT_BYTES(refusal->tried_bytes));
    else if (refusal->asked_bytes > refusal->free_bytes && !is_own_limit(refusal))
        fprintf(stream, ": %s too little", VT_BYTES(refusal->asked_bytes - refusal->free_bytes));
    fputc('.', stream);
}

/* Why memory ran out, and what helps. */
static void print_causes(struct vt_print *print, const struct vt_shortage *shortage)
{
    FILE *out = print->paragraph;

    for (size_t i = 0; i < shortage->cause_count; i++) {
        const struct vt_cause *cause = &shortage->causes[i];

        fprintf(out, "%s%s" VT_RESET " %s: " VT_BOLD "%s" VT_RESET ", %.0f %% of the card", i ? "" : VT_ALARM,
                i ? "Also:" : "Cause:", cause->what, VT_BYTES(cause->bytes), 100 * cause->share);
        if (cause->holder)
            fprintf(out, ", held by %s", cause->holder);
        if (cause->place && cause->place->name[0])
            fprintf(out, ", made at %s", cause->place->name);
        fputc('.', out);
        vt_end_paragraph(print, 0, 0);
        vt_print_paragraph(print, 0, 0, "Remedy: %s", cause->remedy);
    }
    if (shortage->cause_count)
        fputc('\n', print->stream);
}

/* " for aten::addmm in layers.3.fc1 (Linear)". */
static void print_operator(FILE *stream, const struct vt_oom *refusal)
{
    const char *module = refusal->asker_module, *class_name = refusal->asker_class;

    if (refusal->operator_name)
        fprintf(stream, " for %s", refusal->operator_name);
    if (module)
        fprintf(stream, " in %s", module);
    if (class_name && !strstr(module, class_name))
        fprintf(stream, " (%s)", class_name);
}

void vt_text_out_of_memory(struct vt_print *print)
{
    const struct vt_report *report = print->report;
    const struct vt_oom *refusal = report->refusals + report->shown_refusal;
    FILE *out = print->paragraph;

    if (!report->refusal_count)
        return;
    fprintf(out, VT_ALARM "Out of memory" VT_RESET " %s: %s asked for " VT_BOLD "%s" VT_RESET,
            VT_WHEN(report, refusal), refusal->asker, VT_BYTES(refusal->asked_bytes));
    print_operator(out, refusal);
    if (refusal->device_index >= 0)
        fprintf(out, " on GPU %d", refusal->device_index);
    fputc('.', out);
    print_free(out, refusal);
    if (refusal->driver_bytes) {
        fprintf(out, " This process held %s", VT_BYTES(refusal->driver_bytes));
        print_holding(out, refusal->driver_bytes, refusal->categories);
        fputc('.', out);
    }
    if (report->refusal_count > 1 && report->shown_refusal + 1 == report->refusal_count)
        fprintf(out, " Memory ran out %zu times; this was the last.", report->refusal_count);
    else if (report->refusal_count > 1)
        fprintf(out, " Memory ran out %zu times; this was oom#%zu.", report->refusal_count,
                report->shown_refusal + 1);
    if (refusal->went_on_ns)
        fprintf(out, " The process kept allocating for %s afterwards.", VT_DURATION(refusal->went_on_ns));
    vt_end_paragraph(print, 0, 0);
    fputc('\n', print->stream);
    print_causes(print, &report->shortage);
}

static void print_survived(struct vt_print *print)
{
    const struct vt_report *report = print->report;
    const struct vt_survived *largest = &report->survived;
    FILE *out = print->paragraph;

    if (!report->survived_count)
        return;
    if (!largest->emptied)
        fprintf(out, "%sThe driver refused %zu request%s to which the framework found another way. %s: ",
                report->refusal_count ? "Besides: " : "", report->survived_count,
                report->survived_count == 1 ? "" : "s",
                report->survived_count == 1 ? "It was" : "The largest");
    else if (report->survived_count == 1)
        fprintf(out,
                "%sne request was refused at first, and granted after the framework had emptied its cache: ",
                report->refusal_count ? "Besides, o" : "O");
    else
        fprintf(out,
                "%s%zu requests were refused at first, and granted after the framework had emptied its "
                "cache, which takes time. The largest: ",
                report->refusal_count ? "Besides, " : "", report->survived_count);
    fprintf(out, "%s for %s, %s.", VT_BYTES(largest->bytes),
            largest->place ? largest->place->name : "a call without a known line", VT_WHEN(report, largest));
    vt_end_paragraph(print, 0, 0);
}

static void gpu_row(struct vt_table *table, const char *name, uint64_t bytes, uint64_t total)
{
    if (!bytes)
        return;
    vt_table_cells(table, name);
    vt_table_size(table, bytes, total);
}

/* The whole GPU: what this process held by category, what was free, what others had. */
static void gpu_table(struct vt_print *print, const struct vt_shortage *shortage)
{
    const struct vt_oom *refusal = shortage->refusal;
    uint64_t left[VT_CATEGORY_COUNT],
        total = refusal->free_known ? refusal->total_bytes : refusal->driver_bytes;
    struct vt_table table;
    const struct vt_print_column columns[] = {
        {.title = VT_TITLE(print, refusal->free_known ? "The card then" : "This process then")},
        {"", .right = true},
        {refusal->free_known ? "of card" : "of it", .right = true}};

    memcpy(left, refusal->categories, sizeof left);
    left[VT_CATEGORY_HOST_PINNED] = 0;
    vt_table_begin(&table, columns, 3);
    for (unsigned c = vt_largest_category(left); left[c]; c = vt_largest_category(left)) {
        gpu_row(&table, vt_category_label(c), left[c], total);
        left[c] = 0;
    }
    gpu_row(&table, "other processes, or not recorded", refusal->other_bytes, total);
    if (refusal->free_known)
        gpu_row(&table, refusal->free_told ? "free" : "free, or other processes", refusal->free_bytes, total);
    gpu_row(&table, VT_BOLD "all" VT_RESET, total, total);
    vt_table_print(&table, print);
    fputc('\n', print->stream);
}

/* Holes by size, in powers of two. */
static void hole_table(struct vt_print *print, const struct vt_shortage *shortage)
{
    static const struct vt_print_column columns[] = {
        {.title = "Free in the framework's cache, by piece size"},
        {"pieces", .right = true},
        {"", .right = true}};
    const struct vt_fragmentation *cache = &shortage->cache;
    struct vt_table table;

    if (!cache->hole_bytes)
        return;
    vt_table_begin(&table, columns, 3);
    for (int power = 63; power >= 0; power--) {
        uint64_t low = UINT64_C(1) << power, sum = 0, pieces = 0;

        for (size_t i = 0; i < cache->hole_count; i++) {
            bool inside = cache->holes[i].bytes >= low && (power == 63 || cache->holes[i].bytes < low * 2);

            pieces += inside;
            sum += inside ? cache->holes[i].bytes : 0;
        }
        if (!pieces)
            continue;
        vt_table_cell(&table, "%s or more", VT_BYTES(low));
        vt_table_cells(&table, VT_COUNT(pieces), VT_BYTES(sum));
    }
    vt_table_print(&table, print);
    vt_print_paragraph(print, 2, 2, "%s in total, the largest %s; %s is next to blocks in use.",
                       VT_BYTES(cache->hole_bytes), VT_BYTES(cache->largest_hole_bytes),
                       VT_BYTES(cache->kept_bytes));
    fputc('\n', print->stream);
}

static void freed_table(struct vt_print *print, const struct vt_shortage *shortage, size_t rows)
{
    const char *title = shortage->freed_seen        ? "Freed next"
                        : print->report->step_count ? "Freed next, as in earlier steps"
                                                    : "Freed next, as such blocks were before";
    const struct vt_print_column columns[] = {{title, .cut = VT_CUT_PARTS, .minimum = 28},
                                              {"blocks", .right = true, .drop = 2},
                                              {"", .right = true},
                                              {.title = ""},
                                              {"in", .drop = 1}};
    struct vt_table table;
    uint64_t rest = 0;

    if (!shortage->freed_count) {
        vt_print_paragraph(print, 0, 0,
                           shortage->freed_seen
                               ? "None of it was freed while the program went on."
                               : "No earlier step shows when any of it would have been freed.");
        fputc('\n', print->stream);
        return;
    }
    vt_table_begin(&table, columns, 5);
    for (size_t i = 0; i < shortage->freed_count; i++) {
        const struct vt_freed_next *freed = &shortage->freed[i];

        if (i >= rows) {
            rest += freed->bytes;
            continue;
        }
        vt_table_cells(&table, vt_text_block(&freed->first), VT_COUNT(freed->blocks), VT_BYTES(freed->bytes));
        vt_table_cell(&table, VT_LABEL, VT_LABEL_OF(freed->first.category));
        vt_table_cells(&table, vt_phase_name(freed->phase));
    }
    if (rest) {
        vt_table_cells(&table, VT_DIM "… later" VT_RESET, "", VT_BYTES(rest));
        vt_table_end_row(&table);
    }
    vt_table_print(&table, print);
    fputc('\n', print->stream);
}

/* Each time, where there was more than one. */
static void oom_table(struct vt_print *print, size_t rows)
{
    const struct vt_report *report = print->report;

    static const struct vt_print_column columns[] = {{.title = "Each time"},
                                                     {"after", .right = true},
                                                     {"asked", .right = true},
                                                     {"by", .cut = VT_CUT_PARTS, .minimum = 20}};
    size_t first = report->refusal_count > rows ? report->refusal_count - rows : 0;
    struct vt_table table;

    if (report->refusal_count < 2)
        return;
    vt_table_begin(&table, columns, 4);
    for (size_t i = first; i < report->refusal_count; i++) {
        const struct vt_oom *refusal = &report->refusals[i];

        vt_table_cell(&table, "oom#%zu", i + 1);
        vt_table_cells(&table, VT_DURATION(refusal->t_ns), VT_BYTES(refusal->asked_bytes), refusal->asker);
    }
    vt_table_print(&table, print);
    fputc('\n', print->stream);
}

/* For readers who stop here: what kept growing, what filled the GPU, what would have helped. */
static void first_page(struct vt_print *print, const struct vt_shortage *shortage, size_t rows)
{
    const struct vt_leaks *leaks = &shortage->device->leaks;

    if (leaks->leak_count) {
        vt_text_leaks(print, shortage->device);
        fputc('\n', print->stream);
    }
    vt_text_lines(print, shortage->device, rows < FIRST_ROWS ? rows : FIRST_ROWS);
    if (shortage->device->advices.count) {
        vt_text_advice(print, shortage->device);
        fputc('\n', print->stream);
    }
}

static void print_sections(struct vt_print *print)
{
    size_t rows = print->style->top ? (size_t)print->style->top : TOP_ROWS;
    const struct vt_shortage *shortage = &print->report->shortage;

    if (!shortage->device)
        return;
    if (print->style->brief)
        first_page(print, shortage, rows);
    gpu_table(print, shortage);
    if (print->style->brief) {
        freed_table(print, shortage, rows < FIRST_ROWS ? rows : FIRST_ROWS);
        vt_text_modules(print, shortage->device, rows);
        vt_text_stacks(print, shortage->device, rows);
    } else {
        vt_text_tables(print, shortage->device);
    }
    if (vt_has_names(&shortage->device->at.groups[VT_BY_OWNER]))
        vt_text_owners(print, shortage->device, rows);
    hole_table(print, shortage);
    if (!print->style->brief)
        freed_table(print, shortage, rows);
    oom_table(print, rows);
    vt_text_evidence(print, shortage->device);
}

void vt_text_oom(const struct vt_report *report, const struct vt_view_style *style, FILE *out)
{
    struct vt_print print;

    vt_print_begin(&print, style, report);
    vt_text_header(&print, "oom");
    if (!report->refusal_count && report->untold_limit)
        vt_print_paragraph(
            &print, 0, 0,
            "The driver refused nothing in this trace. What the framework refused by a limit of "
            "its own is not recorded (%s).",
            report->untold_limit);
    else if (!report->refusal_count)
        vt_print_paragraph(&print, 0, 0, "Memory did not run out in this trace.");
    vt_text_out_of_memory(&print);
    print_survived(&print);
    if (report->survived_count && report->refusal_count)
        fputc('\n', print.stream);
    print_sections(&print);
    vt_print_finish(&print, out);
}
