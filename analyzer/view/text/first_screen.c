/* The first screen: what a person reads before all else. Verdict, peak, what filled it, what to do. */
#include "view/text/first_screen.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "view/text/chart.h"
#include "view/text/short_tables.h"
#include "view/text/table.h"

#define CHART_ROWS 3
#define BARS 4            /* beside a finding */
#define INFERENCE_LINES 2 /* at least */
#define MUCH_UNUSED 0.5   /* of the reserved bytes */
#define LAST_ROWS 3       /* of each of the last tables */

/* ---- Status ---- */

static bool any_leak(const struct vt_report *report)
{
    bool any = false;

    for (size_t i = 0; i < report->device_count; i++)
        any |= report->devices[i].leaks.leak_count > 0;
    return any;
}

static bool all_judged(const struct vt_report *report)
{
    bool judged = report->device_count > 0;

    for (size_t i = 0; i < report->device_count; i++)
        judged &= report->devices[i].leaks.judged;
    return judged;
}

/* What stands before the next item of a line. */
static const char *next(const char **join)
{
    const char *before = *join;

    *join = " · ";
    return before;
}

void vt_text_status(struct vt_print *print)
{
    const struct vt_report *report = print->report;
    const struct vt_loss *loss = vt_worst_loss(&report->facts);
    const char *join = "";
    FILE *out = print->paragraph;

    if (!report->device_count)
        return;
    if (!any_leak(report) && all_judged(report))
        fprintf(out, "%s✓ no leak in %s steps", next(&join), VT_COUNT(report->step_count));
    else if (!any_leak(report))
        fprintf(out, "%s– leaks not judged", next(&join));
    if (!report->refusal_count && !report->survived_count)
        fprintf(out, "%s✓ %s", next(&join),
                report->untold_limit ? "the driver refused nothing" : "no out-of-memory error");
    else if (!report->refusal_count)
        fprintf(out, "%s! memory ran short %zu time%s", next(&join), report->survived_count,
                report->survived_count == 1 ? "" : "s");
    if (!loss)
        fprintf(out, "%s✓ nothing lost", next(&join));
    else if (!loss->detail[0]) /* else a sentence above says it */
        fprintf(out, "%s" VT_ALARM "✗ %s" VT_RESET, next(&join), loss->text);
    if (*join) {
        vt_end_paragraph(print, 0, 2);
        fputc('\n', print->stream);
    }
}

/* ---- The peak ---- */

static void put_moment(FILE *out, const struct vt_report *report, const struct vt_state *state)
{
    vt_text_put_moment(out, report, state->t_ns, state->step, state->phase);
}

void vt_text_category_bars(struct vt_print *print, const struct vt_device_report *device, size_t most)
{
    const struct vt_state *state = &device->shown->state;
    struct vt_bar bars[VT_CATEGORY_COUNT];
    uint64_t used[VT_CATEGORY_COUNT];
    size_t count;

    memcpy(used, state->categories, sizeof used);
    used[VT_CATEGORY_CACHED] = used[VT_CATEGORY_CONTEXT] = used[VT_CATEGORY_HOST_PINNED] = 0;
    count = vt_text_bars_of(used, bars, most);
    for (size_t i = 0; i < count && vt_single_category(device); i++)
        bars[i].category = VT_CATEGORY_ACTIVATION;
    vt_text_bars(print, bars, count, state->used_bytes);
}

void vt_text_peak(struct vt_print *print, const struct vt_device_report *device)
{
    const struct vt_report *report = print->report;
    const struct vt_state *peak = &device->peak.state, *at = &device->at.state;
    FILE *out = print->paragraph;

    if (!peak->driver_bytes) {
        vt_print_paragraph(print, 0, 0, "GPU %d held no memory of this process.", device->index);
        return;
    }
    if (at->present) {
        fprintf(out, VT_BOLD "%s" VT_RESET " in use at %s, ", VT_BYTES(at->used_bytes), report->at_label);
        put_moment(out, report, at);
        fprintf(out, " · peak %s, ", VT_BYTES(peak->used_bytes));
    } else {
        fprintf(out, VT_BOLD "Peak %s" VT_RESET, VT_BYTES(peak->used_bytes));
        if (device->total_bytes)
            fprintf(out, " (%s of the GPU)", VT_PERCENT(peak->used_bytes, device->total_bytes));
        fputs(", ", out);
    }
    put_moment(out, report, peak);
    if (device->reserved_peak_bytes)
        fprintf(out, " · at most %s reserved", VT_BYTES(device->reserved_peak_bytes));
    vt_end_paragraph(print, 0, 2);
}

/* What cuts time is said beside the picture's unit. */
static void print_chart(struct vt_print *print, const struct vt_device_report *device)
{
    char *chart =
        vt_chart_draw(print->report, device, print->style, print->style->width, CHART_ROWS, VT_CHART_SMALL);

    if (chart)
        fputs(chart, print->stream);
    free(chart);
}

/* ---- The GPU ---- */

/* Of the whole GPU where NVML reported it, else of this process. */
static void print_gpu(struct vt_print *print, const struct vt_device_report *device)
{
    const struct vt_gpu_table *gpu = &device->card;
    const struct vt_state *state = &device->shown->state;
    struct {
        uint64_t bytes;
        const char *name;
    } parts[] = {{0, "other processes"},
                 {state->categories[VT_CATEGORY_CACHED], "reserved but unused"},
                 {vt_text_context_bytes(device),
                  gpu->present && gpu->processes_known ? "context" : "context and other processes"}};
    const char *join = ": ";
    FILE *out = print->paragraph;

    for (size_t i = 0; gpu->present && i < gpu->row_count; i++)
        if (!strcmp(gpu->rows[i].kind, "process") && gpu->rows[i].bytes > 0)
            parts[0].bytes += (uint64_t)gpu->rows[i].bytes;
    if (gpu->present)
        fprintf(out, "GPU: %s of %s in use", VT_BYTES(gpu->device_bytes), VT_BYTES(gpu->total_bytes));
    else
        fprintf(out, "This process: %s from the driver", VT_BYTES(state->driver_bytes));
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        if (!parts[i].bytes)
            continue;
        fprintf(out, "%s%s %s", join, VT_BYTES(parts[i].bytes), parts[i].name);
        join = ", ";
    }
    vt_end_paragraph(print, 0, 2);
    if (!device->at.state.present && device->reserved_unused.share >= MUCH_UNUSED &&
        device->reserved_unused.remedy)
        vt_print_paragraph(
            print, 0, 2,
            "! %.0f %% of what is reserved is in empty segments: %s returns %s (vramtrace frag).",
            100 * device->reserved_unused.share, device->reserved_unused.remedy,
            VT_BYTES(device->reserved_unused.bytes));
}

/* ---- What to do ---- */

static void print_advice(struct vt_print *print, const struct vt_device_report *device, size_t rows)
{
    const struct vt_advices *advices = &device->advices;

    if (rows)
        fprintf(print->stream, VT_BOLD "To lower the peak" VT_RESET "\n");
    for (size_t i = 0, shown = 0; i < advices->count && shown < rows; i++) {
        char *what;

        if (!strcmp(advices->items[i].kind, "leak"))
            continue;
        what = vt_shorten(advices->items[i].what, print->style->width - VT_LABEL_COLUMNS - 3, VT_CUT_END);
        fprintf(print->stream, "  %9s  %s\n", vt_format_change(advices->items[i].bytes, 0, (char[32]){0}),
                what);
        free(what);
        shown++;
    }
}

static size_t count_advice(const struct vt_advices *advices)
{
    size_t count = 0;

    for (size_t i = 0; i < advices->count; i++)
        count += strcmp(advices->items[i].kind, "leak") != 0;
    return count;
}

static int at_most(size_t count, int most)
{
    return count < (size_t)most ? (int)count : most;
}

/* Beside findings: few, and fewer after long ones. */
static size_t bars_that_fit(struct vt_print *print, const struct vt_device_report *device)
{
    const int below = 2 + (device->inference.found ? INFERENCE_LINES : 0);
    const int left = VT_SCREEN_LINES - vt_print_lines(print) - below;

    return left < 0 ? 0 : left < BARS ? (size_t)left : BARS;
}

void vt_text_first_screen(struct vt_print *print, const struct vt_device_report *device)
{
    const struct vt_report *report = print->report;
    const struct vt_instant *shown = device->shown;
    const int most = print->style->top ? print->style->top : LAST_ROWS;
    int rows[] = {
        vt_has_names(&shown->groups[VT_BY_LINE]) ? at_most(shown->groups[VT_BY_LINE].count, most) : 0,
        at_most(count_advice(&device->advices), most),
        vt_has_names(&shown->groups[VT_BY_MODULE]) ? at_most(shown->groups[VT_BY_MODULE].count, most) : 0};
    const bool full = print->style->full || print->style->brief;
    const bool found = device->leaks.count || report->refusal_count;

    if (full || report->shortage.device != device || !vt_text_is_cause(report, "leak"))
        vt_text_leaks(print, device, full ? SIZE_MAX : 2);
    vt_text_peak(print, device);
    vt_text_category_bars(print, device, full || !found ? SIZE_MAX : bars_that_fit(print, device));
    if (!device->peak.state.driver_bytes)
        return;
    if (!full)
        print_gpu(print, device);
    vt_text_inference(print, device);
    if (full) /* larger ones follow */
        return;
    vt_text_host_memory(print);
    if (VT_SCREEN_LINES - vt_print_lines(print) > CHART_ROWS + 2)
        print_chart(print, device);
    vt_text_share_lines(print, rows, 3);
    vt_text_short_lines(print, device, (size_t)rows[0]);
    vt_text_parts(print, device, (size_t)rows[2]);
    print_advice(print, device, (size_t)rows[1]);
}
