/* Out of memory, in words and tables. */
#include "view/text/short_tables.h"
#include "view/text/table.h"
#include "view/text/text.h"
#include "view/text/views.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define TOP_ROWS 8
#define FIRST_ROWS 3 /* on the first screen */

/* The framework refused without asking the driver. */
static bool is_own_limit(const struct vt_oom *refusal)
{
    return refusal->of_framework && !refusal->driver_tries;
}

/* "96 MiB requested, 78 MiB free (18 MiB short)" */
static void put_request(FILE *out, const struct vt_oom *refusal)
{
    const char *most = refusal->free_told ? "" : "at most ";

    fprintf(out, VT_BOLD "%s" VT_RESET " requested", VT_BYTES(refusal->asked_bytes));
    if (refusal->free_known)
        fprintf(out, ", %s%s free", most, VT_BYTES(refusal->free_bytes));
    if (is_own_limit(refusal))
        fprintf(out,
                "; the framework refused without asking the driver: it enforces a limit of its own%s%s%s",
                refusal->limit ? " (" : "", refusal->limit ? refusal->limit : "", refusal->limit ? ")" : "");
    else if (refusal->tried_bytes > refusal->asked_bytes)
        fprintf(out, "; the framework needs a segment of %s for it", VT_BYTES(refusal->tried_bytes));
    else if (refusal->free_known && refusal->asked_bytes > refusal->free_bytes)
        fprintf(out, " (%s short)", VT_BYTES(refusal->asked_bytes - refusal->free_bytes));
}

/* "layers.3.fc1 (Linear), aten::addmm" */
static void print_requester(struct vt_print *print, const struct vt_oom *refusal)
{
    const char *module = refusal->asker_module, *class_name = refusal->asker_class,
               *operator= refusal->operator_name;
    const bool names_class = module && class_name && !strstr(module, class_name);

    if (refusal->asker_place)
        vt_text_place(print, "by", refusal->asker_place);
    else
        vt_print_labelled(print, "by", "%s", refusal->asker);
    if (module || operator)
        vt_print_labelled(print, "in", "%s%s%s%s%s%s", module ? module : "", names_class ? " (" : "",
                          names_class ? class_name : "", names_class ? ")" : "", module && operator? ", " : "",
                          operator? operator: "");
}

bool vt_text_is_cause(const struct vt_report *report, const char *kind)
{
    for (size_t i = 0; i < report->shortage.cause_count; i++)
        if (!strcmp(report->shortage.causes[i].kind, kind))
            return true;
    return false;
}

/* Why memory ran out, and what helps. */
static void print_causes(struct vt_print *print, const struct vt_shortage *shortage)
{
    FILE *out = print->paragraph;

    for (size_t i = 0; i < shortage->cause_count; i++) {
        const struct vt_cause *cause = &shortage->causes[i];

        fprintf(out, "%s: " VT_BOLD "%s" VT_RESET " (%.0f %% of the GPU)", cause->what,
                VT_BYTES(cause->bytes), 100 * cause->share);
        if (cause->holder)
            fprintf(out, ", kept alive by %s", cause->holder);
        if (cause->place && cause->place->name[0])
            fprintf(out, ", allocated at %s", cause->place->name);
        vt_end_labelled(print, i ? "also" : cause->certain ? "why" : "observed");
        if (print->style->full)
            vt_print_labelled(print, "examined", "%s", cause->examined);
        if (!i || print->style->full || print->style->brief)
            vt_print_labelled(print, "fix", "%s", cause->remedy);
    }
}

void vt_text_oom_block(struct vt_print *print)
{
    const struct vt_report *report = print->report;
    const struct vt_oom *refusal = report->refusals + report->shown_refusal;
    FILE *out = print->paragraph;

    if (!report->refusal_count)
        return;
    fputs(VT_ALARM "✗ OUT OF MEMORY" VT_RESET "  ", out);
    if (report->device_count > 1 && refusal->device_index >= 0)
        fprintf(out, "GPU %d, ", refusal->device_index);
    vt_text_put_moment(out, report, refusal->t_ns, refusal->step, refusal->phase);
    fputs(": ", out);
    put_request(out, refusal);
    vt_end_paragraph(print, 0, 2);
    print_requester(print, refusal);
    print_causes(print, &report->shortage);
    if (report->refusal_count > 1)
        vt_print_labelled(print, "times", "memory ran out %zu times; this was %s%zu", report->refusal_count,
                          report->shown_refusal + 1 == report->refusal_count ? "the last, oom#" : "oom#",
                          report->shown_refusal + 1);
    if (refusal->went_on_ns)
        vt_print_labelled(print, "then", "the process kept allocating for %s",
                          VT_DURATION(refusal->went_on_ns));
}

static void print_survived(struct vt_print *print)
{
    const struct vt_report *report = print->report;
    const struct vt_survived *largest = &report->survived;
    FILE *out = print->paragraph;

    if (!report->survived_count)
        return;
    if (!largest->emptied)
        fprintf(out, "%sThe driver refused %zu request%s, which the framework then met from its cache. %s: ",
                report->refusal_count ? "Besides: " : "", report->survived_count,
                report->survived_count == 1 ? "" : "s",
                report->survived_count == 1 ? "It was" : "The largest");
    else if (report->survived_count == 1)
        fprintf(out, "%sne request succeeded only after the framework emptied its cache: ",
                report->refusal_count ? "Besides, o" : "O");
    else
        fprintf(out,
                "%s%zu requests succeeded only after the framework emptied its cache (slow). The largest: ",
                report->refusal_count ? "Besides, " : "", report->survived_count);
    fprintf(out, "%s for %s, %s.", VT_BYTES(largest->bytes),
            largest->place ? largest->place->name : "a call without a known line", VT_WHEN(report, largest));
    vt_end_paragraph(print, 0, 0);
}

/* What filled the GPU, or this process's memory where nobody knows what else was on it. */
static void print_filled(struct vt_print *print, const struct vt_shortage *shortage)
{
    const struct vt_oom *refusal = shortage->refusal;
    const uint64_t total = refusal->free_known ? refusal->total_bytes : refusal->driver_bytes;
    uint64_t on_gpu[VT_CATEGORY_COUNT];
    struct vt_bar bars[VT_CATEGORY_COUNT + 2];
    size_t count;

    memcpy(on_gpu, refusal->categories, sizeof on_gpu);
    on_gpu[VT_CATEGORY_HOST_PINNED] = 0;
    count = vt_text_bars_of(on_gpu, bars, VT_CATEGORY_COUNT);
    bars[count++] =
        (struct vt_bar){"other processes, or not recorded", VT_CATEGORY_UNKNOWN, refusal->other_bytes};
    if (refusal->free_known)
        bars[count++] = (struct vt_bar){refusal->free_told ? "free" : "free, or other processes",
                                        VT_CATEGORY_CACHED, refusal->free_bytes};
    fprintf(print->stream, VT_BOLD "What filled the %s" VT_RESET "%s\n", VT_BYTES(total),
            refusal->free_known ? "" : " of this process");
    vt_text_bars(print, bars, count, total);
}

/* Holes by size, in powers of two. */
static void hole_table(struct vt_print *print, const struct vt_shortage *shortage)
{
    static const struct vt_print_column columns[] = {
        {.title = "Unused in the framework's cache, by piece size"},
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
    vt_print_paragraph(print, 2, 2, "%s in total, largest piece %s; %s is beside memory in use.",
                       VT_BYTES(cache->hole_bytes), VT_BYTES(cache->largest_hole_bytes),
                       VT_BYTES(cache->kept_bytes));
    fputc('\n', print->stream);
}

static void freed_table(struct vt_print *print, const struct vt_shortage *shortage, size_t rows)
{
    const char *title = shortage->freed_seen ? "Freed next"
                        : print->report->step_count
                            ? "Would have been freed next (as in earlier steps)"
                            : "Would have been freed next (as similar allocations were)";
    const struct vt_print_column columns[] = {{title, .cut = VT_CUT_PARTS, .minimum = 28},
                                              {"blocks", .right = true, .drop = 2},
                                              {"", .right = true},
                                              {.title = ""},
                                              {"in", .drop = 1}};
    struct vt_table table;
    uint64_t rest = 0;

    if (!shortage->freed_count) {
        vt_print_paragraph(print, 0, 0,
                           shortage->freed_seen ? "Nothing was freed afterwards."
                                                : "What would have been freed next is not known.");
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

    static const struct vt_print_column columns[] = {{.title = "All out-of-memory errors"},
                                                     {"after", .right = true},
                                                     {"requested", .right = true},
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

/* Everything after the first screen. */
static void print_details(struct vt_print *print, const struct vt_shortage *shortage, size_t rows)
{
    vt_text_advice(print, shortage->device);
    fputc('\n', print->stream);
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

static void print_sections(struct vt_print *print)
{
    const struct vt_shortage *shortage = &print->report->shortage;
    const int top = print->style->top;
    int rows[] = {top ? top : FIRST_ROWS, top ? top : FIRST_ROWS};

    if (!shortage->device)
        return;
    if (shortage->device->leaks.leak_count && !vt_text_is_cause(print->report, "leak"))
        vt_text_leaks(print, shortage->device, 1);
    print_filled(print, shortage);
    vt_text_share_lines(print, rows, 2);
    vt_text_short_lines(print, shortage->device, (size_t)rows[0]);
    vt_text_parts(print, shortage->device, (size_t)rows[1]);
    if (print->style->full || print->style->brief)
        print_details(print, shortage, top ? (size_t)top : TOP_ROWS);
    else
        vt_text_next(print, (const char *const[]){"oom --full", "oom --advise", "html", NULL});
}

void vt_text_oom(const struct vt_report *report, const struct vt_view_style *style, FILE *out)
{
    struct vt_print print;

    vt_print_begin(&print, style, report);
    vt_text_header(&print, "oom");
    if (!report->refusal_count && report->untold_limit)
        vt_print_paragraph(&print, 0, 0,
                           "The driver refused nothing in this trace. Requests that the framework refused by "
                           "its own limit are "
                           "not recorded (%s).",
                           report->untold_limit);
    else if (!report->refusal_count)
        vt_print_paragraph(&print, 0, 0, "No out-of-memory error in this trace.");
    vt_text_oom_block(&print);
    print_survived(&print);
    print_sections(&print);
    vt_print_finish(&print, out);
}
