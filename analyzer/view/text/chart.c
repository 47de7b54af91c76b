/* Stacked bars by category. A column shows the largest moment of its time. Rows are to scale, from zero. With
 * colour, cells are filled by eighths; without, by the fill of the category that has most of the cell. */
#include "view/text/chart.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MARGIN 8 /* the axis */
#define EIGHTHS 8
#define NOTHING VT_CATEGORY_COUNT

static const char *const bars[EIGHTHS + 1] = {" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
static const char ascii_bars[EIGHTHS + 1] = " _.-:=+*#";

struct chart {
    const struct vt_report *report;
    const struct vt_device_report *device;
    const struct vt_view_style *style;
    int columns; /* without the margin */
    int rows;
    struct vt_scale scale;
    bool single;    /* one category only */
    size_t *source; /* column of the timeline that each column shows */
    FILE *stream;
};

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

/* ---- Picture ---- */

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

static size_t first_source(const struct chart *chart, int column)
{
    return (size_t)column * chart->device->timeline.columns / (size_t)chart->columns;
}

/* For each column of the chart, the timeline's column with the most in use. */
static void choose_sources(struct chart *chart)
{
    const struct vt_timeline *timeline = &chart->device->timeline;

    for (int c = 0; c < chart->columns; c++) {
        size_t from = first_source(chart, c), to = first_source(chart, c + 1);
        uint64_t most = 0;

        chart->source[c] = from;
        for (size_t i = from; i < to && i < timeline->columns; i++) {
            uint64_t used = vt_used_bytes(timeline->categories[i]);
            if (used > most) {
                most = used;
                chart->source[c] = i;
            }
        }
    }
}

static int column_at(const struct chart *chart, uint64_t t_ns)
{
    uint64_t duration_ns = chart->report->duration_ns;
    int column = duration_ns ? (int)((double)t_ns / (double)duration_ns * chart->columns) : 0;

    return column < chart->columns ? column : chart->columns - 1;
}

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
static void sample(const struct chart *chart, const uint64_t *categories, int row, uint8_t *eighths)
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
    fprintf(stream, "\x0e%c", VT_MARK_INK + eighths[0]);
    if (same < EIGHTHS && rest != NOTHING)
        fprintf(stream, "\x0e%c", VT_MARK_PAPER + (int)rest);
    fprintf(stream, "%s" VT_RESET, bars[same]);
}

static void put_plain(const struct chart *chart, const uint8_t *eighths, bool bottom)
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

/* Decimals that multiples of a round step need. */
static int decimals(double step)
{
    int count = 0;

    for (; count < 6 && fabs(step - round(step)) > 1e-6 * step; count++)
        step *= 10;
    return count;
}

static void draw_row(struct chart *chart, int row)
{
    const struct vt_timeline *timeline = &chart->device->timeline;
    uint8_t eighths[EIGHTHS];
    bool tick = (row + 1) % chart->scale.rows_per_step == 0;
    double value = (row + 1) / chart->scale.rows_per_step * chart->scale.step / chart->scale.unit_bytes;

    if (tick)
        fprintf(chart->stream, "%*.*f ┤", MARGIN - 2, decimals(chart->scale.step / chart->scale.unit_bytes),
                value);
    else
        fprintf(chart->stream, "%*s", MARGIN, "");
    for (int c = 0; c < chart->columns; c++) {
        sample(chart, timeline->categories[chart->source[c]], row, eighths);
        if (chart->style->colour && chart->style->unicode)
            put_coloured(chart->stream, eighths);
        else
            put_plain(chart, eighths, row == 0);
    }
    fputc('\n', chart->stream);
}

/* Driver bytes, with cache and context, as one row of eighths with its own scale. */
static void draw_driver(struct chart *chart)
{
    const struct vt_timeline *timeline = &chart->device->timeline;
    uint64_t most = 0;

    for (size_t i = 0; i < timeline->columns; i++)
        most = timeline->driver_bytes[i] > most ? timeline->driver_bytes[i] : most;
    fprintf(chart->stream, VT_DIM "%*s ", MARGIN - 1, "driver");
    for (int c = 0; c < chart->columns && most; c++) {
        uint64_t bytes = 0;
        int level;

        for (size_t i = first_source(chart, c); i <= chart->source[c] || i < first_source(chart, c + 1); i++)
            bytes = timeline->driver_bytes[i] > bytes ? timeline->driver_bytes[i] : bytes;
        level = (int)ceil((double)bytes / (double)most * EIGHTHS - 1e-9);
        if (chart->style->unicode)
            fputs(bars[level], chart->stream);
        else
            fputc(ascii_bars[level], chart->stream);
    }
    fputs(VT_RESET "\n", chart->stream);
}

/* Writes `text` into the row if its place is free. */
static bool place(char *row, int columns, int column, const char *text)
{
    int length = (int)strlen(text);

    if (column < 0 || column + length > columns)
        return false;
    for (int i = column > 0 ? column - 1 : 0; i < column + length + 1 && i < columns; i++)
        if (row[i] != ' ')
            return false;
    memcpy(row + column, text, (size_t)length);
    return true;
}

/* Markers in a row; put_row prints them as UTF-8. */
#define ARROW '\x01'
#define CROSS '\x02'
#define BAR '\x03'

/* "v peak 38.21 GiB" over its column: to the right, else to the left, else in the row above. */
static void place_marker(const struct chart *chart, char *row, char *above, uint64_t t_ns, char sign,
                         const char *text)
{
    int column = column_at(chart, t_ns), length = (int)strlen(text) + 2;
    char right[80], left[80];

    snprintf(right, sizeof right, "%c %.70s", sign, text);
    snprintf(left, sizeof left, "%.70s %c", text, sign);
    if (place(row, chart->columns, column, right) || place(row, chart->columns, column - length + 1, left) ||
        place(above, chart->columns, column, right))
        return;
    place(above, chart->columns, column - length + 1, left);
}

static void put_row(FILE *stream, const char *row, int columns)
{
    for (int c = 0; c < columns; c++) {
        if (row[c] == ARROW)
            fputs("▾", stream);
        else if (row[c] == CROSS)
            fputs("✗", stream);
        else if (row[c] == BAR)
            fputs("│", stream);
        else
            fputc(row[c], stream);
    }
    fputc('\n', stream);
}

static void draw_markers(struct chart *chart, char *row, char *above)
{
    const struct vt_device_report *device = chart->device;
    const struct vt_report *report = chart->report;
    const struct vt_refusal *refusal = report->refusals + report->shown_refusal;
    char text[64] = "peak ";

    memset(row, ' ', (size_t)chart->columns);
    memset(above, ' ', (size_t)chart->columns);
    if (report->refusal_count && refusal->device_index == device->index)
        place_marker(chart, row, above, refusal->t_ns, CROSS, "out of memory");
    vt_format_bytes(device->peak.state.used_bytes, text + 5);
    place_marker(chart, row, above, device->peak.state.t_ns, ARROW, text);
    if (device->at.state.present && device->at.state.event_index != device->peak.state.event_index)
        place_marker(chart, row, above, device->at.state.t_ns, ARROW, "at");
    if (strspn(above, " ") < (size_t)chart->columns) {
        fprintf(chart->stream, "%*s", MARGIN, "");
        put_row(chart->stream, above, chart->columns);
    }
    fprintf(chart->stream, "%*s  ", MARGIN - 2, chart->scale.unit);
    put_row(chart->stream, row, chart->columns);
}

/* A round time step of at least `least` seconds, and the unit for `whole` seconds. */
static double time_step(double least, double whole, const char **unit, double *unit_seconds)
{
    static const struct {
        double step, seconds;
        const char *unit;
    } large[] = {{60, 60, "min"},      {120, 60, "min"},    {300, 60, "min"},   {600, 60, "min"},
                 {900, 60, "min"},     {1800, 60, "min"},   {3600, 3600, "h"},  {7200, 3600, "h"},
                 {10800, 3600, "h"},   {21600, 3600, "h"},  {43200, 3600, "h"}, {86400, 86400, "d"},
                 {172800, 86400, "d"}, {604800, 86400, "d"}};
    double power = pow(10, floor(log10(least))), step = least <= power * 1.000001 ? power
                                                        : least <= 2 * power      ? 2 * power
                                                        : least <= 5 * power      ? 5 * power
                                                                                  : 10 * power;

    *unit_seconds = whole >= 1 ? 1 : whole >= 1e-3 ? 1e-3 : whole >= 1e-6 ? 1e-6 : 1e-9;
    *unit = whole >= 1 ? "s" : whole >= 1e-3 ? "ms" : whole >= 1e-6 ? "us" : "ns";
    for (size_t i = 0; least > 20 && i < sizeof large / sizeof *large; i++) {
        if (large[i].step < least && i + 1 < sizeof large / sizeof *large)
            continue;
        *unit = large[i].unit;
        *unit_seconds = large[i].seconds;
        return large[i].step < least ? least : large[i].step;
    }
    return step;
}

/* The zero line with time ticks, and their numbers below. */
static void draw_time(struct chart *chart, char *row)
{
    double seconds = (double)chart->report->duration_ns / 1e9, unit_seconds = 1;
    const char *unit = "s";
    double step = seconds > 0 ? time_step(seconds * 8 / chart->columns, seconds, &unit, &unit_seconds) : 1;
    int ticks = seconds > 0 ? (int)floor(seconds / step) : 0;
    int next = 1;

    fprintf(chart->stream, "%*s ┼", MARGIN - 2, "0");
    for (int c = 0; c < chart->columns; c++) {
        bool tick = next <= ticks && c == (int)(next * step / seconds * chart->columns);
        fputs(tick ? "┴" : "─", chart->stream);
        next += tick;
    }
    memset(row, ' ', (size_t)chart->columns + 1);
    for (int i = 0; i <= ticks; i++) {
        char text[32];
        int column = (int)(i * step / (seconds > 0 ? seconds : 1) * chart->columns);

        if (i)
            snprintf(text, sizeof text, "%.*f", decimals(step / unit_seconds), i * step / unit_seconds);
        else
            snprintf(text, sizeof text, "0 %s", unit);
        place(row, chart->columns, column, text);
    }
    fprintf(chart->stream, "\n%*s%.*s\n", MARGIN, "", chart->columns, row);
}

/* Where steps begin, as many numbers as fit. */
static void draw_steps(struct chart *chart, char *row)
{
    const struct vt_report *report = chart->report;
    uint32_t every = 1;

    for (uint32_t power = 1; report->step_count / every > (uint32_t)chart->columns / 6;) {
        every = every == 2 * power ? 5 * power : 2 * every; /* 1, 2, 5, 10, 20, 50 … */
        power = every == 10 * power ? every : power;
    }
    memset(row, ' ', (size_t)chart->columns);
    for (size_t i = 0; i < report->step_start_count; i++) {
        const struct vt_step_start *start = &report->step_starts[i];
        char text[24];
        int column = column_at(chart, start->t_ns);

        if (!i && column >= 5)
            memcpy(row, "init", 4);
        snprintf(text, sizeof text, "%c%u", BAR, start->step);
        if (!i || start->step % every == 0)
            place(row, chart->columns, column, text);
    }
    fprintf(chart->stream, "%*s ", MARGIN - 1, "step");
    put_row(chart->stream, row, chart->columns);
}

static void draw_phases(struct chart *chart)
{
    static const char letters[VT_PHASE_COUNT + 1] = "ifboed.";

    fprintf(chart->stream, "%*s ", MARGIN - 1, "phase");
    for (int c = 0; c < chart->columns; c++) {
        uint8_t phase = chart->device->timeline.phase[chart->source[c]];
        fputc(phase < VT_PHASE_COUNT ? letters[phase] : '.', chart->stream);
    }
    fputc('\n', chart->stream);
}

/* `row` is a buffer for two rows. */
static void draw(struct chart *chart, char *row, bool phases)
{
    choose_sources(chart);
    draw_driver(chart);
    draw_markers(chart, row, row + chart->columns + 1);
    for (int r = chart->rows - 1; r >= 0; r--)
        draw_row(chart, r);
    draw_time(chart, row);
    if (chart->report->step_count)
        draw_steps(chart, row);
    if (phases && chart->report->step_count)
        draw_phases(chart);
}

char *vt_chart_draw(const struct vt_report *report, const struct vt_device_report *device,
                    const struct vt_view_style *style, int columns, int rows, bool phases)
{
    struct chart chart = {.report = report, .device = device, .style = style, .columns = columns - MARGIN};
    uint64_t most = device->peak.state.used_bytes;
    char *row, *text = NULL;
    size_t bytes;

    for (size_t i = 0; i < device->timeline.columns; i++) {
        uint64_t used = vt_used_bytes(device->timeline.categories[i]);
        most = used > most ? used : most;
    }
    if (chart.columns < 10 || rows < 2 || !most || !device->timeline.columns)
        return NULL;
    chart.scale = vt_scale_for(most, rows);
    chart.single = vt_single_category(device);
    chart.rows = chart.scale.steps * chart.scale.rows_per_step;
    chart.source = calloc((size_t)chart.columns, sizeof *chart.source);
    row = calloc(2, (size_t)chart.columns + 64);
    chart.stream = open_memstream(&text, &bytes);
    if (chart.source && row && chart.stream)
        draw(&chart, row, phases);
    if (chart.stream)
        fclose(chart.stream);
    free(row);
    free(chart.source);
    return text;
}
