/* Stacked bars by category. A column shows the largest moment of its time. Rows are to scale, from zero. With
 * colour, cells are filled by eighths; without, by the fill of the category that has most of the cell. */
#include "view/text/chart.h"

#include "base/memory_stream.h"
#include "view/text/chart_axis.h"
#include "view/text/chart_cells.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define EIGHTHS 8
#define NOTHING VT_CATEGORY_COUNT

static const char *const bars[EIGHTHS + 1] = {" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
static const char ascii_bars[EIGHTHS + 1] = " _.-:=+*#";

/* ---- Scale ---- */

static void choose_unit(uint64_t max_bytes, struct vt_scale *scale)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    size_t unit = 0;

    scale->unit_bytes = 1;
    while ((double)max_bytes >= scale->unit_bytes * 1024 && unit + 1 < sizeof units / sizeof *units) {
        scale->unit_bytes *= 1024;
        unit++;
    }
    scale->unit = units[unit];
}

struct vt_scale vt_scale_for(uint64_t max_bytes, int rows)
{
    static const double round[] = {1, 2, 5};
    struct vt_scale scale = {.step = 1, .steps = 1, .rows_per_step = rows > 0 ? rows : 1};
    double max, best = INFINITY;

    choose_unit(max_bytes, &scale);
    max = (double)max_bytes / scale.unit_bytes;
    if (max <= 0)
        return scale;
    for (int power = -2; power <= 3; power++) {
        for (int i = 0; i < 3; i++) {
            double step = round[i] * pow(10, power), steps = ceil(max / step - 1e-9);
            double waste, score;
            int fit = steps >= 1 && steps <= rows ? rows / (int)steps : 0;

            if (!fit || (scale.unit_bytes == 1 && step < 1))
                continue;
            /* space above the largest value, unused rows, too few or too many numbers on the axis */
            waste = steps * step / max - 1;
            score = waste + (rows - fit * steps) / rows + fabs(steps - 4) * 0.05 + (steps < 2 ? 0.3 : 0);
            if (score >= best)
                continue;
            best = score;
            scale.step = step * scale.unit_bytes;
            scale.steps = (int)steps;
            scale.rows_per_step = fit;
        }
    }
    return scale;
}

bool vt_single_category(const struct vt_device_report *device)
{
    unsigned only = NOTHING;

    for (size_t i = 0; i < device->timeline.columns; i++) {
        for (size_t k = 0; k < vt_stacked_category_count; k++) {
            unsigned c = vt_stacked_categories[k];
            if (!device->timeline.categories[i][c])
                continue;
            if (only != NOTHING && only != c)
                return false;
            only = c;
        }
    }
    return true;
}

/* ---- Picture ---- */

static unsigned category_at(const uint64_t categories[VT_CATEGORY_COUNT], double bytes)
{
    for (size_t i = 0; i < vt_stacked_category_count; i++) {
        bytes -= (double)categories[vt_stacked_categories[i]];
        if (bytes < 0)
            return vt_stacked_categories[i];
    }
    return NOTHING;
}

/* The category at the middle of each eighth of a cell, from the bottom. */
static void sample_cell(const struct vt_chart *chart, const uint64_t *categories, int row, uint8_t *eighths)
{
    double cell = chart->scale.step / chart->scale.rows_per_step;

    for (int i = 0; i < EIGHTHS; i++)
        eighths[i] = (uint8_t)category_at(categories, cell * (row + (i + 0.5) / EIGHTHS));
}

static unsigned most_of(const uint8_t *eighths, int from, int *filled)
{
    int counts[NOTHING + 1] = {0}, best = NOTHING;

    *filled = 0;
    for (int i = from; i < EIGHTHS; i++) {
        counts[eighths[i]]++;
        *filled += eighths[i] != NOTHING;
    }
    counts[NOTHING] = 0;
    for (int i = 0; i < NOTHING; i++)
        best = counts[i] > counts[best] ? i : best;
    return (unsigned)best;
}

static void put_coloured(FILE *stream, const uint8_t *eighths)
{
    int same = 1, filled;
    unsigned rest;

    while (same < EIGHTHS && eighths[same] == eighths[0])
        same++;
    if (eighths[0] == NOTHING) {
        fputc(' ', stream);
        return;
    }
    rest = most_of(eighths, same, &filled);
    if (eighths[EIGHTHS - 1] == NOTHING && filled) {
        /* Two colours and the empty above are one too many for a cell: the height must be right. */
        rest = most_of(eighths, 0, &filled);
        fprintf(stream, "\x0e%c%s" VT_RESET, VT_MARK_INK + (int)rest, bars[filled]);
        return;
    }
    fprintf(stream, "\x0e%c", VT_MARK_INK + eighths[0]);
    if (same < EIGHTHS && rest != NOTHING)
        fprintf(stream, "\x0e%c", VT_MARK_PAPER + (int)rest);
    fprintf(stream, "%s" VT_RESET, bars[same]);
}

static void put_plain(const struct vt_chart *chart, const uint8_t *eighths, bool bottom)
{
    int filled;
    unsigned category = most_of(eighths, 0, &filled);
    const struct vt_category_style *drawn =
        vt_category_style(chart->single ? VT_CATEGORY_ACTIVATION : category);

    if (filled >= EIGHTHS / 2 && !chart->style->unicode)
        fputc(drawn->ascii_fill, chart->stream);
    else if (filled >= EIGHTHS / 2)
        fputs(filled < EIGHTHS && !strcmp(drawn->fill, bars[EIGHTHS]) ? bars[filled] : drawn->fill,
              chart->stream);
    else if (filled && bottom)
        fputs(chart->style->unicode ? bars[1] : "_", chart->stream);
    else
        fputc(' ', chart->stream);
}

static void draw_row(struct vt_chart *chart, int row)
{
    const struct vt_timeline *timeline = &chart->device->timeline;
    uint8_t eighths[EIGHTHS];
    bool tick = (row + 1) % chart->scale.rows_per_step == 0;
    double value = (row + 1) / chart->scale.rows_per_step * chart->scale.step / chart->scale.unit_bytes;

    if (tick)
        fprintf(chart->stream, "%*.*f ┤", VT_CHART_MARGIN - 2,
                vt_chart_decimals(chart->scale.step / chart->scale.unit_bytes), value);
    else
        fprintf(chart->stream, "%*s", VT_CHART_MARGIN, "");
    for (int c = 0; c < chart->columns; c++) {
        if (chart->source[c] == VT_CHART_CUT) {
            fputc(' ', chart->stream);
            continue;
        }
        sample_cell(chart, timeline->categories[chart->source[c]], row, eighths);
        if (chart->style->colour && chart->style->unicode)
            put_coloured(chart->stream, eighths);
        else
            put_plain(chart, eighths, row == 0);
    }
    fputc('\n', chart->stream);
}

/* Driver bytes, with cache and context, as one row of eighths with its own scale. */
static void draw_driver(struct vt_chart *chart)
{
    uint64_t most = 0;

    for (int c = 0; c < chart->columns; c++)
        most = chart->driver_bytes[c] > most ? chart->driver_bytes[c] : most;
    fprintf(chart->stream, VT_DIM "%*s ", VT_CHART_MARGIN - 1, "driver");
    for (int c = 0; c < chart->columns && most; c++) {
        int level = (int)ceil((double)chart->driver_bytes[c] / (double)most * EIGHTHS - 1e-9);

        if (chart->style->unicode)
            fputs(bars[level], chart->stream);
        else
            fputc(ascii_bars[level], chart->stream);
    }
    fputs(VT_RESET "\n", chart->stream);
}

/* "v peak 38.21 GiB" over its column: to the right, else to the left, else in the row above. */
static void place_marker(const struct vt_chart *chart, char *row, char *above, uint32_t event_index,
                         uint64_t t_ns, char sign, const char *text)
{
    int column = vt_chart_cell(chart, event_index, t_ns), length = (int)strlen(text) + 2;
    char right[80], left[80];

    if (column < 0)
        return;
    snprintf(right, sizeof right, "%c %.70s", sign, text);
    snprintf(left, sizeof left, "%.70s %c", text, sign);
    if (vt_chart_place(row, chart->columns, column, right) ||
        vt_chart_place(row, chart->columns, column - length + 1, left) ||
        vt_chart_place(above, chart->columns, column, right))
        return;
    vt_chart_place(above, chart->columns, column - length + 1, left);
}

static void draw_markers(struct vt_chart *chart, char *row, char *above)
{
    const struct vt_device_report *device = chart->device;
    const struct vt_report *report = chart->report;
    const struct vt_oom *refusal = report->refusals + report->shown_refusal;
    char text[64] = "peak ";

    memset(row, ' ', (size_t)chart->columns);
    memset(above, ' ', (size_t)chart->columns);
    if (report->refusal_count && refusal->device_index == device->index)
        place_marker(chart, row, above, refusal->event_index, refusal->t_ns, VT_CHART_CROSS, "out of memory");
    vt_format_bytes(device->peak.state.used_bytes, text + 5);
    place_marker(chart, row, above, device->peak.state.event_index, device->peak.state.t_ns, VT_CHART_ARROW,
                 text);
    if (device->at.state.present && device->at.state.event_index != device->peak.state.event_index)
        place_marker(chart, row, above, device->at.state.event_index, device->at.state.t_ns, VT_CHART_ARROW,
                     "at");
    if (strspn(above, " ") < (size_t)chart->columns) {
        fprintf(chart->stream, "%*s", VT_CHART_MARGIN, "");
        vt_chart_put_row(chart->stream, above, chart->columns);
    }
    fprintf(chart->stream, "%*s  ", VT_CHART_MARGIN - 2, chart->scale.unit);
    vt_chart_put_row(chart->stream, row, chart->columns);
}

/* `row` is a buffer for two rows. */
static void draw_chart(struct vt_chart *chart, char *row)
{
    vt_chart_choose_sources(chart);
    if (chart->size > VT_CHART_SMALL) {
        draw_driver(chart);
        draw_markers(chart, row, row + chart->columns + 1);
    }
    for (int r = chart->rows - 1; r >= 0; r--)
        draw_row(chart, r);
    vt_chart_axis(chart, row);
}

char *vt_chart_draw(const struct vt_report *report, const struct vt_device_report *device,
                    const struct vt_view_style *style, int columns, int rows, enum vt_chart_size size)
{
    struct vt_chart chart = {.report = report,
                             .device = device,
                             .style = style,
                             .columns = columns - VT_CHART_MARGIN,
                             .size = size};
    uint64_t most = 0;
    char *row, *text;
    size_t bytes;

    for (size_t i = 0; i < device->timeline.columns; i++) {
        uint64_t used = vt_used_bytes(device->timeline.categories[i]);
        most = used > most ? used : most;
    }
    if (chart.columns < 10 || rows < 2 || !most)
        return NULL;
    vt_chart_lay_out(&chart);
    chart.scale = vt_scale_for(most, rows);
    chart.single = vt_single_category(device);
    chart.rows = chart.scale.steps * chart.scale.rows_per_step;
    chart.source = vt_allocate_zeros((size_t)chart.columns, sizeof *chart.source);
    chart.driver_bytes = vt_allocate_zeros((size_t)chart.columns, sizeof *chart.driver_bytes);
    row = vt_allocate_zeros(2, (size_t)chart.columns + 64);
    chart.stream = vt_memory_stream(&text, &bytes);
    draw_chart(&chart, row);
    fclose(chart.stream);
    free(chart.driver_bytes);
    free(chart.runs);
    free(row);
    free(chart.source);
    return text;
}
