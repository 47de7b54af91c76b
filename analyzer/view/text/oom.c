/* Out of memory, in words and tables. */
#include "diagnose/oom.h"
#include "report/parts.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define TOP_ROWS 8

/* How long the process went on to allocate after an event; 0 = it did not. */
static uint64_t went_on(const struct vt_report *report, const struct vt_refusal *refusal)
{
    const struct vt_trace *trace = report->trace;

    for (size_t i = trace->event_count; i-- > refusal->event_index + 1;)
        if (trace->events[i].kind == VT_EVENT_ALLOC)
            return vt_event_time(trace, (uint32_t)i) - refusal->t_ns;
    return 0;
}

/* ": 12.88 GiB activations, 3.00 GiB parameters, 1.21 GiB cached": the largest three of what was held. */
static void print_holding(FILE *stream, uint64_t total, const uint64_t categories[VT_CATEGORY_COUNT])
{
    uint64_t left[VT_CATEGORY_COUNT];

    memcpy(left, categories, sizeof left);
    left[VT_CATEGORY_HOST_PINNED] = 0;
    for (int i = 0; i < 3; i++) {
        unsigned largest = vt_largest_category(left);
        char bytes[32];

        if (!left[largest])
            break;
        if (!i && left[largest] == total) {
            fprintf(stream, ", all of it %s", vt_category_style(largest)->many);
            break;
        }
        fprintf(stream, "%s%s %s%s", i ? ", " : ": ", vt_format_bytes(left[largest], bytes),
                largest == VT_CATEGORY_UNKNOWN ? "" : "of ", vt_category_style(largest)->many);
        left[largest] = 0;
    }
}

/* What the framework refuses though the driver was not asked. */
static bool is_own_limit(const struct vt_refusal *refusal)
{
    return refusal->layer == VT_LAYER_FRAMEWORK && !refusal->driver_tries;
}

static void print_room(FILE *stream, const struct vt_refusal *refusal)
{
    char bytes[32], missing[32];

    if (is_own_limit(refusal))
        fprintf(stream,
                " The framework refused by itself, without asking the driver: it keeps to a limit of its own "
                "(PyTorch: set_per_process_memory_fraction).");
    if (refusal->free_told)
        fprintf(stream, " The card had %s free", vt_format_bytes(refusal->free_bytes, bytes));
    else if (refusal->free_known)
        fprintf(stream, " The card had at most %s beside this process",
                vt_format_bytes(refusal->free_bytes, bytes));
    else
        return;
    if (refusal->asked_bytes > refusal->free_bytes && !is_own_limit(refusal))
        fprintf(stream, ": %s too little",
                vt_format_bytes(refusal->asked_bytes - refusal->free_bytes, missing));
    fputc('.', stream);
}

/* Enough was free in the cache, which the framework gives back before it gives up, but only whole segments of
 * it: what is left lies between blocks in use, or in another pool. */
static void print_fragmentation(FILE *stream, const struct vt_refusal *refusal)
{
    uint64_t cached = refusal->categories[VT_CATEGORY_CACHED];
    char bytes[32];

    if (refusal->layer == VT_LAYER_FRAMEWORK && refusal->asked_bytes && cached >= refusal->asked_bytes)
        fprintf(stream,
                " The %s in the framework's cache would have been enough, but in no one usable piece "
                "(fragmentation).",
                vt_format_bytes(cached, bytes));
}

/* " for aten::addmm in layers.3.fc1 (Linear)". */
static void print_operator(FILE *stream, const struct vt_report *report, const struct vt_refusal *refusal)
{
    const char *name = vt_operator_of(report->attribution, refusal->asker_stack);
    const char *module = refusal->asker_module;
    const char *class_name = module ? vt_module_class(report->attribution, module) : NULL;

    if (name)
        fprintf(stream, " for %s", name);
    if (module)
        fprintf(stream, " in %s", module);
    if (class_name && !strstr(module, class_name))
        fprintf(stream, " (%s)", class_name);
}

void vt_text_out_of_memory(struct vt_print *print, const struct vt_report *report)
{
    const struct vt_refusal *refusal = report->refusals + report->shown_refusal;
    char when[160], who[256], bytes[32], *text = NULL;
    size_t length;
    FILE *stream = report->refusal_count ? open_memstream(&text, &length) : NULL;

    if (!stream)
        return;
    vt_text_when(report, refusal->t_ns, refusal->step, refusal->phase, when);
    vt_asker_name(report, refusal, who, sizeof who);
    fprintf(stream, VT_ALARM "Out of memory" VT_RESET " %s: %s asked for " VT_BOLD "%s" VT_RESET, when, who,
            vt_format_bytes(refusal->asked_bytes, bytes));
    print_operator(stream, report, refusal);
    if (refusal->device_index >= 0)
        fprintf(stream, " on GPU %d", refusal->device_index);
    fputc('.', stream);
    print_room(stream, refusal);
    if (refusal->driver_bytes) {
        fprintf(stream, " This process held %s", vt_format_bytes(refusal->driver_bytes, bytes));
        print_holding(stream, refusal->driver_bytes, refusal->categories);
        fputc('.', stream);
        print_fragmentation(stream, refusal);
    }
    if (report->refusal_count > 1 && report->shown_refusal + 1 == report->refusal_count)
        fprintf(stream, " It happened %zu times; this was the last.", report->refusal_count);
    else if (report->refusal_count > 1)
        fprintf(stream, " It happened %zu times; this was oom#%zu.", report->refusal_count,
                report->shown_refusal + 1);
    if (went_on(report, refusal))
        fprintf(stream, " The process went on to allocate for %s.",
                vt_format_duration(went_on(report, refusal), bytes));
    if (!fclose(stream))
        vt_print_paragraph(print, 0, 0, "%s", text);
    fputc('\n', print->stream);
    free(text);
}

static void survived(struct vt_print *print, const struct vt_report *report)
{
    char bytes[32];

    if (report->survived_count == 1)
        vt_print_paragraph(
            print, 0, 0,
            "Once the driver refused %s at first, and gave it when the framework had freed its cache.",
            vt_format_bytes(report->survived_bytes, bytes));
    else if (report->survived_count)
        vt_print_paragraph(
            print, 0, 0,
            "%zu times the driver refused at first (up to %s), and gave when the framework had freed "
            "its cache, which takes time.",
            report->survived_count, vt_format_bytes(report->survived_bytes, bytes));
}

static void card_row(struct vt_table *table, const char *name, uint64_t bytes, uint64_t total)
{
    if (!bytes)
        return;
    vt_table_cell(table, "%s", name);
    vt_size_cells(table, bytes, total);
}

/* The whole card: what this process held by category, what was free, what others had. */
static void card(struct vt_print *print, const struct vt_report *report, const struct vt_shortage *shortage)
{
    const struct vt_refusal *refusal = shortage->refusal;
    uint64_t left[VT_CATEGORY_COUNT],
        total = refusal->free_known ? refusal->total_bytes : refusal->driver_bytes;
    struct vt_table table;
    char title[64];
    const struct vt_column columns[] = {
        {vt_lossy_title(report, refusal->free_known ? "The card then" : "This process then", title,
                        sizeof title),
         false, VT_CUT_END, 0, 0},
        {"", true, VT_CUT_END, 0, 0},
        {refusal->free_known ? "of card" : "of it", true, VT_CUT_END, 0, 0}};

    memcpy(left, refusal->categories, sizeof left);
    left[VT_CATEGORY_HOST_PINNED] = 0;
    vt_table_begin(&table, columns, 3);
    for (unsigned c = vt_largest_category(left); left[c]; c = vt_largest_category(left)) {
        card_row(&table, vt_category_style(c)->label, left[c], total);
        left[c] = 0;
    }
    card_row(&table, "of other processes, or not seen", shortage->other_bytes, total);
    if (refusal->free_known)
        card_row(&table, refusal->free_told ? "free" : "free, or of other processes", refusal->free_bytes,
                 total);
    vt_table_cell(&table, VT_BOLD "all" VT_RESET);
    vt_size_cells(&table, total, total);
    vt_table_print(&table, print, print->style->width);
    fputc('\n', print->stream);
}

/* Holes by size, in powers of two. */
static void holes(struct vt_print *print, const struct vt_shortage *shortage)
{
    static const struct vt_column columns[] = {
        {"Free in the framework's cache, by size of the piece", false, VT_CUT_END, 0, 0},
        {"pieces", true, VT_CUT_END, 0, 0},
        {"", true, VT_CUT_END, 0, 0}};
    const struct vt_fragmentation *cache = &shortage->cache;
    struct vt_table table;
    char bytes[32], other[32], count[32];

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
        vt_table_cell(&table, "%s and more", vt_format_bytes(low, bytes));
        vt_table_cell(&table, "%s", vt_format_count(pieces, count));
        vt_table_cell(&table, "%s", vt_format_bytes(sum, bytes));
    }
    vt_table_print(&table, print, print->style->width);
    vt_print_paragraph(print, 2, 2, "%s together, the largest %s; %s of it lies beside blocks in use.",
                       vt_format_bytes(cache->hole_bytes, bytes),
                       vt_format_bytes(cache->largest_hole_bytes, other),
                       vt_format_bytes(cache->kept_bytes, count));
    fputc('\n', print->stream);
}

static void freed_row(struct vt_table *table, const struct vt_report *report,
                      const struct vt_freed_next *freed)
{
    const struct vt_allocation *block = &report->attribution->replay->allocations[freed->allocation];
    uint64_t categories[VT_CATEGORY_COUNT] = {0};
    char name[256], count[32], bytes[32];

    vt_name_allocation(report->attribution, block, name, sizeof name);
    categories[report->attribution->labels[freed->allocation].category] = 1;
    vt_table_cell(table, "%s", name);
    vt_table_cell(table, "%s", vt_format_count(freed->blocks, count));
    vt_table_cell(table, "%s", vt_format_bytes(freed->bytes, bytes));
    vt_category_cell(table, categories);
    vt_table_cell(table, "%s", vt_phase_name(freed->phase));
}

static void freed_next(struct vt_print *print, const struct vt_report *report,
                       const struct vt_shortage *shortage, size_t rows)
{
    const struct vt_column columns[] = {
        {shortage->freed_is_told ? "Freed next" : "Freed next, as in earlier steps", false, VT_CUT_PARTS, 28,
         0},
        {"blocks", true, VT_CUT_END, 0, 2},
        {"", true, VT_CUT_END, 0, 0},
        {"", false, VT_CUT_END, 0, 0},
        {"in", false, VT_CUT_END, 0, 1}};
    struct vt_table table;
    uint64_t rest = 0;
    char bytes[32];

    if (!shortage->freed_count) {
        vt_print_paragraph(print, 0, 0,
                           shortage->freed_is_told
                               ? "Nothing of it was freed later."
                               : "No earlier step tells when any of it would have been freed.");
        return;
    }
    vt_table_begin(&table, columns, 5);
    for (size_t i = 0; i < shortage->freed_count; i++) {
        if (i < rows)
            freed_row(&table, report, &shortage->freed[i]);
        else
            rest += shortage->freed[i].bytes;
    }
    if (rest) {
        vt_table_cell(&table, VT_DIM "… later" VT_RESET);
        vt_table_cell(&table, "%s", "");
        vt_table_cell(&table, "%s", vt_format_bytes(rest, bytes));
        vt_table_cell(&table, "%s", "");
        vt_table_cell(&table, "%s", "");
    }
    vt_table_print(&table, print, print->style->width);
    fputc('\n', print->stream);
}

/* Each time, where there was more than one. */
static void each_time(struct vt_print *print, const struct vt_report *report, size_t rows)
{
    static const struct vt_column columns[] = {{"Each time", false, VT_CUT_END, 0, 0},
                                               {"after", true, VT_CUT_END, 0, 0},
                                               {"asked", true, VT_CUT_END, 0, 0},
                                               {"by", false, VT_CUT_PARTS, 20, 0}};
    size_t first = report->refusal_count > rows ? report->refusal_count - rows : 0;
    struct vt_table table;
    char who[256], time[32], bytes[32];

    if (report->refusal_count < 2)
        return;
    vt_table_begin(&table, columns, 4);
    for (size_t i = first; i < report->refusal_count; i++) {
        vt_asker_name(report, &report->refusals[i], who, sizeof who);
        vt_table_cell(&table, "oom#%zu", i + 1);
        vt_table_cell(&table, "%s", vt_format_duration(report->refusals[i].t_ns, time));
        vt_table_cell(&table, "%s", vt_format_bytes(report->refusals[i].asked_bytes, bytes));
        vt_table_cell(&table, "%s", who);
    }
    vt_table_print(&table, print, print->style->width);
    fputc('\n', print->stream);
}

/* By name, where looks gave any. */
static void owners(struct vt_print *print, const struct vt_report *report,
                   const struct vt_device_report *device, size_t rows)
{
    const struct vt_groups *groups = &device->at.groups[VT_BY_OWNER];
    const struct vt_view_style *style = print->style;
    struct vt_view_style by_owner = *style;
    bool any = false;

    for (size_t i = 0; i < groups->count; i++)
        any |= groups->items[i].name[0] != '\0';
    if (!any)
        return;
    by_owner.by = VT_BY_OWNER;
    by_owner.top = (int)rows;
    print->style = &by_owner;
    vt_text_tables(print, report, device);
    print->style = style;
}

static int sections(struct vt_print *print, const struct vt_report *report)
{
    size_t rows = print->style->top ? (size_t)print->style->top : TOP_ROWS;
    struct vt_shortage shortage;
    int result = vt_shortage_find(report, &shortage);

    if (result || !shortage.device)
        return result;
    card(print, report, &shortage);
    vt_text_tables(print, report, shortage.device);
    owners(print, report, shortage.device, rows);
    holes(print, &shortage);
    freed_next(print, report, &shortage, rows);
    each_time(print, report, rows);
    vt_text_evidence(print, report, shortage.device);
    vt_shortage_free(&shortage);
    return 0;
}

static int write_oom(const struct vt_report *report, const struct vt_view_style *style, FILE *out)
{
    struct vt_print print;
    int result = vt_print_begin(&print, style), finished;

    if (result)
        return result;
    vt_text_header(&print, report, "oom");
    if (!report->refusal_count)
        vt_print_paragraph(&print, 0, 0, "Memory did not run out in this trace.");
    vt_text_out_of_memory(&print, report);
    survived(&print, report);
    if (report->survived_count && report->refusal_count)
        fputc('\n', print.stream);
    if (report->refusal_count)
        result = sections(&print, report);
    finished = vt_print_finish(&print, out);
    return result ? result : finished;
}

const struct vt_view vt_view_oom = {"oom", write_oom};
