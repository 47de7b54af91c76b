/* The text report: verdict, picture, tables, the GPU, evidence, further commands. And timeline, which is only
 * the picture. */
#include "view/text/chart.h"
#include "view/text/first_screen.h"
#include "view/text/short_tables.h"
#include "view/text/table.h"
#include "view/text/text.h"
#include "view/text/views.h"

#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory_stream.h"
#include "report/launch_info.h"

#define LEGEND_COLUMNS 36
#define DEVICE_ROWS 4u
#define IMBALANCE 2     /* times the least peak */
#define SIDE_BY_SIDE 76 /* from this width on the legend stands beside the picture */

static void put_fill(FILE *stream, const struct vt_view_style *style, unsigned category, bool single)
{
    vt_put_fill(stream, style, category, single ? VT_CATEGORY_ACTIVATION : category);
}

/* The legend is also the table of categories. */
static void legend_line(FILE *stream, const struct vt_print *print, unsigned category, uint64_t bytes,
                        uint64_t whole, bool single)
{
    put_fill(stream, print->style, category, single);
    fprintf(stream, " %-13s %11s %7s\n", vt_category_label(category), VT_BYTES(bytes),
            VT_PERCENT(bytes, whole));
}

static void make_legend(const struct vt_print *print, const struct vt_device_report *device, FILE *stream)
{
    static const uint8_t beside[] = {VT_CATEGORY_CACHED, VT_CATEGORY_CONTEXT, VT_CATEGORY_HOST_PINNED};
    const struct vt_instant *instant = device->shown;
    uint64_t whole = instant->state.used_bytes;
    bool done[VT_CATEGORY_COUNT] = {false};

    fprintf(stream, VT_DIM "  %-13s %11s %7s" VT_RESET "\n",
            device->at.state.present ? "at that time" : "at the peak", "", vt_text_whole(device));
    for (size_t n = 0; n < vt_stacked_category_count; n++) {
        unsigned largest = VT_CATEGORY_COUNT;

        for (size_t i = 0; i < vt_stacked_category_count; i++) {
            unsigned c = vt_stacked_categories[i];
            if (!done[c] && (largest == VT_CATEGORY_COUNT ||
                             instant->state.categories[c] > instant->state.categories[largest]))
                largest = c;
        }
        done[largest] = true;
        if (instant->state.categories[largest])
            legend_line(stream, print, largest, instant->state.categories[largest], whole,
                        vt_single_category(device));
    }
    for (size_t i = 0; i < sizeof beside; i++) {
        const uint64_t bytes = beside[i] == VT_CATEGORY_CONTEXT ? vt_text_context_bytes(device)
                                                                : instant->state.categories[beside[i]];

        if (bytes)
            legend_line(stream, print, beside[i], bytes, 0, false);
    }
}

/* Writes one line of `text` and advances it. Returns the line's columns. */
static int put_line(FILE *stream, char **text)
{
    char *line = *text;

    *text += strcspn(line, "\n");
    if (**text)
        *(*text)++ = '\0';
    fputs(line, stream);
    return vt_text_columns(line);
}

/* The picture, and the table of categories beside it or, where that is too narrow, below. */
static void print_picture(struct vt_print *print, const struct vt_device_report *device)
{
    int width = print->style->width, wide = width >= SIDE_BY_SIDE, rows = width >= 120 ? 12 : 8;
    int chart_columns = wide ? width - LEGEND_COLUMNS - 3 : width;
    char *chart = vt_chart_draw(print->report, device, print->style, chart_columns, rows, VT_CHART_USUAL);
    char none[] = "", *left = chart ? chart : none, *legend, *right;
    size_t bytes;
    FILE *stream = vt_memory_stream(&legend, &bytes);

    make_legend(print, device, stream);
    fclose(stream);
    right = legend;
    while (*left || *right) {
        bool charted = *left;
        int used = charted ? put_line(print->stream, &left) : 0;

        if (*right && ((wide && chart) || !charted)) {
            fprintf(print->stream, "%*s", wide && chart ? chart_columns + 3 - used : 2, "");
            put_line(print->stream, &right);
        }
        fputc('\n', print->stream);
    }
    fputc('\n', print->stream);
    free(chart);
    free(legend);
}

/* The title of the picture's axis, unless it shows all of the time. */
static void axis_title(struct vt_print *print, const struct vt_device_report *device, int indent)
{
    const struct vt_timeline *timeline = &device->timeline;
    const struct vt_stretch *first = timeline->stretches, *last = first + timeline->stretch_count - 1;
    bool ranged = timeline->from_ns || timeline->to_ns < print->report->duration_ns;

    if (timeline->axis == VT_AXIS_TIME && !timeline->cut_ns && !ranged)
        return;
    if (timeline->axis == VT_AXIS_TIME)
        fprintf(print->paragraph, VT_DIM "Time from %s to %s", first->t_ns ? VT_DURATION(first->t_ns) : "0",
                VT_DURATION(last->end_ns));
    else if (timeline->axis == VT_AXIS_EVENTS)
        fprintf(print->paragraph, VT_DIM "Events %s to %s", VT_COUNT(first->first_event),
                VT_COUNT(last->last_event));
    else
        fprintf(print->paragraph, VT_DIM "x axis: steps, of equal width; within a step, by event");
    if (timeline->cut_ns)
        fprintf(print->paragraph, "; %s idle left out%s", VT_DURATION(timeline->cut_ns),
                timeline->stretch_count > 1 ? " (╱)" : "");
    fputs(VT_RESET, print->paragraph);
    vt_end_paragraph(print, indent, indent);
}

static void next_commands(struct vt_print *print)
{
    const struct vt_report *report = print->report;
    const char *commands[6] = {"report --full"};
    size_t count = 1;

    if (report->refusal_count)
        commands[count++] = "oom";
    for (size_t i = 0; i < report->device_count; i++)
        if (report->devices[i].leaks.count) {
            commands[count++] = "leaks";
            break;
        }
    if (report->device_count > 1)
        commands[count++] = "report --device N";
    commands[count++] = "html";
    vt_text_next(print, commands);
}

/* The table of --by. */
static void one_table(struct vt_print *print, const struct vt_device_report *device)
{
    vt_print_paragraph(print, 0, 0, "At %s, %s: " VT_BOLD "%s" VT_RESET " in use.", print->report->at_label,
                       VT_WHEN(print->report, &device->shown->state),
                       VT_BYTES(device->shown->state.used_bytes));
    fputc('\n', print->stream);
    vt_text_tables(print, device);
}

/* Everything after the first screen. */
static void details(struct vt_print *print, const struct vt_device_report *device)
{
    if (!device->peak.state.driver_bytes && !device->peak.state.categories[VT_CATEGORY_HOST_PINNED])
        return;
    vt_text_advice(print, device); /* an assistant may read only the beginning */
    fputc('\n', print->stream);
    if (!print->style->brief) {
        axis_title(print, device, 2);
        print_picture(print, device);
    }
    vt_text_tables(print, device);
    vt_text_gpu(print, device);
    vt_text_gpu_table(print, device);
    vt_text_graph_pools(print, device);
    vt_text_evidence(print, device);
}

static bool shows_first_screens(const struct vt_print *print)
{
    const struct vt_report *report = print->report;

    return print->style->by < 0 && !print->style->full && !print->style->brief && report->device_count &&
           !report->devices[0].explanation.what;
}

/* The one that the first screen is about: where memory ran out or most leaks, else with the highest peak. */
static size_t main_device(const struct vt_report *report)
{
    const struct vt_device_report *devices = report->devices;
    size_t best = 0;

    for (size_t i = 1; i < report->device_count; i++) {
        const struct vt_leaks *leaks = &devices[i].leaks, *most = &devices[best].leaks;

        if (leaks->leak_count || most->leak_count
                ? leaks->bytes_per_step > most->bytes_per_step
                : devices[i].peak.state.used_bytes > devices[best].peak.state.used_bytes)
            best = i;
    }
    for (size_t i = 0; report->refusal_count && i < report->device_count; i++)
        if (devices[i].index == report->refusals[report->shown_refusal].device_index)
            best = i;
    return best;
}

/* Each on a line, as many as fit. */
static void device_table(struct vt_print *print, size_t shown)
{
    static const struct vt_print_column columns[] = {
        {.title = "GPUs"},           {"peak", .right = true},           {"at", .drop = 1},
        {"reserved", .right = true}, {"leaks per step", .right = true}, {.title = ""}};
    const struct vt_report *report = print->report;
    const size_t rows = report->device_count < DEVICE_ROWS ? report->device_count : DEVICE_ROWS;
    struct vt_table table;

    vt_table_begin(&table, columns, 6);
    for (size_t i = 0; i < rows; i++) {
        const struct vt_device_report *device = &report->devices[i];
        const struct vt_state *peak = &device->peak.state;

        vt_table_cell(&table, "GPU %d", device->index);
        vt_table_cells(&table, VT_BYTES(peak->used_bytes));
        if (peak->step)
            vt_table_cell(&table, "step %u", peak->step);
        else
            vt_table_cells(&table, VT_DURATION(peak->t_ns));
        vt_table_cells(&table, VT_BYTES(device->reserved_peak_bytes),
                       device->leaks.leak_count ? VT_BYTES(device->leaks.bytes_per_step) : "–",
                       i == shown ? "shown below" : "");
    }
    vt_table_more(&table, 0, report->device_count, rows);
    vt_table_print(&table, print);
}

/* The category of which one moment has most more than another. */
static unsigned differs_most(const struct vt_state *more, const struct vt_state *less)
{
    unsigned most = 0;
    int64_t largest = INT64_MIN;

    for (unsigned c = 0; c < VT_CATEGORY_COUNT; c++) {
        const int64_t apart = (int64_t)(more->categories[c] - less->categories[c]);
        const bool counts = c != VT_CATEGORY_CACHED && c != VT_CATEGORY_CONTEXT;

        most = counts && apart > largest ? c : most;
        largest = counts && apart > largest ? apart : largest;
    }
    return most;
}

/* GPUs that share the work should need about the same. */
static void print_imbalance(struct vt_print *print)
{
    const struct vt_report *report = print->report;
    const struct vt_device_report *most = report->devices, *least = report->devices;
    unsigned category;

    for (size_t i = 1; i < report->device_count; i++) {
        const struct vt_device_report *device = &report->devices[i];

        most = device->peak.state.used_bytes > most->peak.state.used_bytes ? device : most;
        least = device->peak.state.used_bytes < least->peak.state.used_bytes ? device : least;
    }
    if (report->device_count < 2 || most->peak.state.used_bytes <= IMBALANCE * least->peak.state.used_bytes)
        return;
    category = differs_most(&most->peak.state, &least->peak.state);
    vt_print_paragraph(
        print, 0, 2,
        "! imbalance: GPU %d peaks at %s, GPU %d at %s; largest difference: %s, %s against %s (vramtrace "
        "report --device %d)",
        most->index, VT_BYTES(most->peak.state.used_bytes), least->index,
        VT_BYTES(least->peak.state.used_bytes), vt_category_label(category),
        VT_BYTES(most->peak.state.categories[category]), VT_BYTES(least->peak.state.categories[category]),
        most->index);
}

static void device_section(struct vt_print *print, const struct vt_device_report *device)
{
    vt_text_device(print, device);
    if (device->explanation.what) {
        vt_text_explanation(print, device);
    } else if (print->style->by >= 0) {
        one_table(print, device);
    } else {
        vt_text_first_screen(print, device);
        if (print->style->full || print->style->brief)
            details(print, device);
    }
}

/* Says why there is nothing to report, if so. */
static void print_nothing(struct vt_print *print)
{
    const struct vt_report *report = print->report;

    if (report->device_count)
        return;
    vt_print_paragraph(print, 0, 0,
                       report->facts.event_count ? "No GPU memory was allocated in this run."
                       : report->facts.complete  ? "The trace is empty: no GPU allocation was recorded."
                                                 : "No events could be read from this trace.");
}

void vt_text_report(const struct vt_report *report, const struct vt_view_style *style, FILE *out)
{
    const bool explains = report->device_count && report->devices[0].explanation.what;
    const bool whole = style->by < 0 && !explains;
    struct vt_print print;

    vt_print_begin(&print, style, report);
    vt_text_header(&print, "");
    if (whole) {
        vt_text_status(&print);
        vt_text_oom_block(&print);
    }
    print_nothing(&print);
    if (report->device_count > 1 && shows_first_screens(&print)) {
        device_table(&print, main_device(report));
        print_imbalance(&print);
        device_section(&print, &report->devices[main_device(report)]);
    } else {
        for (size_t i = 0; i < report->device_count; i++) {
            fputs(i ? "\n" : "", print.stream);
            device_section(&print, &report->devices[i]);
        }
    }
    if (!explains && !shows_first_screens(&print))
        vt_text_host_memory(&print);
    if (whole && style->full)
        vt_text_bare_contexts(&print);
    if (whole && !style->brief && report->device_count)
        next_commands(&print);
    vt_print_finish(&print, out);
}

/* What a person must know; `whole`: with what was found, and what fills the peak. */
static void print_summary(struct vt_print *print, bool whole)
{
    vt_text_status(print);
    if (whole)
        vt_text_oom_block(print);
    print_nothing(print);
    print_imbalance(print);
    for (size_t i = 0; i < print->report->device_count; i++) {
        const struct vt_device_report *device = &print->report->devices[i];

        vt_text_device(print, device);
        if (whole)
            vt_text_leaks(print, device, SIZE_MAX);
        vt_text_peak(print, device);
        if (whole)
            vt_text_category_bars(print, device, SIZE_MAX);
    }
}

/* What ran, and how it ended. */
static void who_ran(struct vt_print *print)
{
    const struct vt_trace_facts *facts = &print->report->facts;
    char *command = vt_shorten(vt_short_command(facts), print->style->width * 3 / 2, VT_CUT_END);

    vt_print_paragraph(print, 0, 2, "%s · pid %u · %s", command, facts->pid, facts->outcome);
    free(command);
    fputc('\n', print->stream);
}

/* That there are others. */
static void put_rank(struct vt_print *print)
{
    struct vt_launch launch;

    launch = vt_launch_read(print->report->trace);
    if (launch.rank >= 0 && launch.world_size > 1)
        fprintf(print->stream, "\nThis is rank %d of %d (%s): `job` tells of all of them together.\n",
                (int)launch.rank, (int)launch.world_size, launch.launcher);
}

void vt_text_summary(const struct vt_report *report, const struct vt_view_style *style, FILE *out)
{
    struct vt_print print;

    vt_print_begin(&print, style, report);
    vt_text_header(&print, "");
    if (style->brief)
        who_ran(&print);
    print_summary(&print, true);
    if (style->brief)
        put_rank(&print);
    vt_print_finish(&print, out);
}

void vt_text_paragraphs(const struct vt_report *report, const struct vt_device_report *device,
                        vt_text_section *section, FILE *out)
{
    struct vt_print print;

    vt_print_begin(&print, &vt_plain_style, report);
    if (section)
        section(&print, device);
    else
        print_summary(&print, false);
    vt_print_finish(&print, out);
}

/* ---- The timeline ---- */

/* The categories in one paragraph, for below a full-width picture. */
static void print_key(struct vt_print *print, const struct vt_device_report *device)
{
    const uint64_t *categories = device->shown->state.categories;

    fputs(device->at.state.present ? "In use at that time: " : "In use at the peak: ", print->paragraph);
    for (size_t i = vt_stacked_category_count; i-- > 0;) {
        unsigned c = vt_stacked_categories[i];

        if (!categories[c])
            continue;
        put_fill(print->paragraph, print->style, c, vt_single_category(device));
        fprintf(print->paragraph, " %s %s  ", vt_category_label(c), VT_BYTES(categories[c]));
    }
    vt_end_paragraph(print, 2, 2);
}

void vt_text_timeline(const struct vt_report *report, const struct vt_view_style *style, FILE *out)
{
    int rows = style->height > 26 ? style->height - 18 : 16;
    struct vt_print print;

    vt_print_begin(&print, style, report);
    vt_text_header(&print, "timeline");
    for (size_t i = 0; i < report->device_count; i++) {
        const struct vt_device_report *device = &report->devices[i];
        char *chart = vt_chart_draw(report, device, style, style->width, rows, VT_CHART_LARGE);

        if (i)
            fputc('\n', print.stream);
        vt_text_device(&print, device);
        if (chart) {
            axis_title(&print, device, 2);
            fputs(chart, print.stream);
            print_key(&print, device);
        } else {
            vt_print_paragraph(&print, 0, 0, "Nothing to plot: no memory was used on GPU %d.", device->index);
        }
        free(chart);
    }
    if (!report->device_count)
        vt_print_paragraph(&print, 0, 0, "Nothing to plot: no GPU memory was allocated in this run.");
    else if (report->step_count)
        vt_print_paragraph(&print, 2, 2,
                           "phase: i init, f forward, b backward, o optimizer, e eval, d data, . other. "
                           "Each column shows the maximum of its interval.");
    vt_print_finish(&print, out);
}
