/* The table of steps: runs of like steps share a row. */
#include "view/text/table.h"
#include "view/text/text.h"
#include "view/text/views.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* A longer table keeps its first and last rows and those that stand out; the others share rows. */
#define LONG_TABLE 40
#define KEPT_FIRST 10
#define KEPT_LAST 5

/* Steps that share a row. */
struct row {
    size_t first, count; /* in steps->items */
    bool even;           /* each step changes by the same bytes */
};

static bool stands_out(const struct vt_step *step)
{
    return step->large || step->slow;
}

static int64_t growth_of(const struct vt_step *step)
{
    return (int64_t)(step->end.used_bytes - step->before_bytes);
}

static int64_t peak_growth(const struct vt_step *step)
{
    return (int64_t)(step[0].peak.used_bytes - step[-1].peak.used_bytes);
}

/* Flight mode leaves out steps. */
static bool follows_step(const struct vt_step *step)
{
    return step->step == step[-1].step + 1;
}

/* True if the next step continues the row: the same peak and end, or both moved by what each step of the row
 * leaves behind. */
static bool continues_row(const struct vt_step *items, const struct row *row)
{
    const struct vt_step *first = &items[row->first], *next = &items[row->first + row->count];
    int64_t moved = peak_growth(next);

    if (!first->step || stands_out(first) || stands_out(next) || !follows_step(next))
        return false;
    return growth_of(next) == growth_of(first) && next->peak.phase == first->peak.phase &&
           (row->count > 1 ? moved == peak_growth(first + 1) : !moved || moved == growth_of(next));
}

static size_t fold_even(const struct vt_steps *steps, bool all, struct row *rows)
{
    size_t count = 0;

    for (size_t i = 0; i < steps->count; i++) {
        if (!all && count && continues_row(steps->items, &rows[count - 1]))
            rows[count - 1].count++;
        else
            rows[count++] = (struct row){.first = i, .count = 1, .even = true};
    }
    return count;
}

static size_t fold_middle(const struct vt_steps *steps, struct row *rows, size_t count)
{
    size_t kept = KEPT_FIRST;

    for (size_t i = KEPT_FIRST; i < count; i++) {
        bool joins =
            kept > KEPT_FIRST && i < count - KEPT_LAST && follows_step(&steps->items[rows[i].first]) &&
            !stands_out(&steps->items[rows[i].first]) && !stands_out(&steps->items[rows[kept - 1].first]);

        if (joins) {
            rows[kept - 1].count += rows[i].count;
            rows[kept - 1].even = false;
        } else {
            rows[kept++] = rows[i];
        }
    }
    return kept;
}

/* "3.20 GiB", "3.20–3.41 GiB", "900.00 MiB–1.20 GiB". */
static void range_cell(struct vt_table *table, uint64_t low, uint64_t high)
{
    char first[24], last[24];
    const char *unit = strchr(vt_format_bytes(low, first), ' ');

    vt_format_bytes(high, last);
    if (!strcmp(first, last))
        vt_table_cells(table, last);
    else if (!strcmp(unit, strchr(last, ' ')))
        vt_table_cell(table, "%.*s–%s", (int)(unit - first), first, last);
    else
        vt_table_cell(table, "%s–%s", first, last);
}

static void size_cells(struct vt_table *table, const struct vt_step *steps, const struct row *row)
{
    uint64_t low = UINT64_MAX, high = 0, low_end = UINT64_MAX, high_end = 0;
    bool same = true;

    for (size_t i = row->first; i < row->first + row->count; i++) {
        uint64_t peak = steps[i].peak.used_bytes, end = steps[i].end.used_bytes;

        low = peak < low ? peak : low;
        high = peak > high ? peak : high;
        low_end = end < low_end ? end : low_end;
        high_end = end > high_end ? end : high_end;
        same &= steps[i].peak.phase == steps[row->first].peak.phase;
    }
    range_cell(table, low, high);
    vt_table_cells(table, same ? vt_phase_name(steps[row->first].peak.phase) : "");
    range_cell(table, low_end, high_end);
}

static void why_cell(struct vt_table *table, const struct vt_steps *steps, const struct vt_step *step)
{
    char peak[48] = "", time[48] = "";

    if (step->large)
        snprintf(peak, sizeof peak, "peak +%.1f %%",
                 100.0 * ((double)step->peak.used_bytes / (double)steps->median_peak_bytes - 1));
    if (step->slow)
        snprintf(time, sizeof time, "time × %.1f", (double)step->duration_ns / (double)steps->median_ns);
    vt_table_cell(table, "%s%s%s", peak, peak[0] && time[0] ? ", " : "", time);
}

static void table_row(struct vt_table *table, const struct vt_steps *steps, const struct row *row)
{
    const struct vt_step *first = &steps->items[row->first], *last = first + row->count - 1;
    uint64_t duration_ns = last->t_ns + last->duration_ns - first->t_ns;

    if (!first->step)
        vt_table_cells(table, "before");
    else if (row->count == 1)
        vt_table_cell(table, stands_out(first) ? VT_BOLD "%" PRIu32 VT_RESET : "%" PRIu32, first->step);
    else
        vt_table_cell(table, "%" PRIu32 "–%" PRIu32, first->step, last->step);
    size_cells(table, steps->items, row);
    vt_table_cells(table, row->even ? VT_CHANGE(last->before_bytes, last->end.used_bytes) : "",
                   VT_DURATION(duration_ns / row->count));
    why_cell(table, steps, first);
}

/* Says what "stands out" means, if any step does. */
static void explain_outliers(struct vt_print *print, const struct vt_steps *steps)
{
    bool any = false;

    for (size_t i = 0; i < steps->count; i++)
        any |= stands_out(&steps->items[i]);
    if (any)
        vt_print_paragraph(
            print, 2, 2,
            "Outlier: more than %3$d× the median absolute deviation above the median (peak %1$s, time %2$s).",
            VT_BYTES(steps->median_peak_bytes), VT_DURATION(steps->median_ns), VT_STEP_SPREADS);
}

static void device_section(struct vt_print *print, const struct vt_device_report *device)
{
    static const struct vt_print_column columns[] = {{.title = "Step"},
                                                     {"peak in use", .right = true},
                                                     {"in", .drop = 1},
                                                     {"at the end", .right = true},
                                                     {"change each", .right = true},
                                                     {"time each", .right = true},
                                                     {"stands out", .minimum = 11}};
    const struct vt_steps *steps = &device->steps;
    struct vt_table table;
    struct row *rows = vt_allocate_zeros(steps->count, sizeof *rows);
    size_t count = fold_even(steps, print->style->all, rows), folded = count;

    if (!print->style->all && count > LONG_TABLE)
        folded = fold_middle(steps, rows, count);
    vt_table_begin(&table, columns, 7);
    for (size_t i = 0; i < folded; i++)
        table_row(&table, steps, &rows[i]);
    vt_table_print(&table, print);
    if (folded < count)
        fprintf(print->stream, VT_DIM "  --all shows each step" VT_RESET "\n");
    explain_outliers(print, steps);
    free(rows);
}

void vt_text_steps(const struct vt_report *report, const struct vt_view_style *style, FILE *out)
{
    vt_text_page(
        report, style, out, "steps",
        report->step_count
            ? NULL
            : "No training steps found. Call vramtrace.step() once per iteration (in C: VRAMTRACE_STEP()).",
        device_section);
}
