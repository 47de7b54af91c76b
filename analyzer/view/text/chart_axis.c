/* What is below a picture: ticks and their numbers, steps, phases. */
#include "view/text/chart_axis.h"

#include "view/text/chart_cells.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define LEAST_CELLS 8 /* from tick to tick */

/* An axis and its unit: seconds, or events. */
struct ticks {
    double step, unit_size;
    const char *unit; /* "" = none */
};

static double from_of(const struct vt_chart *chart, const struct vt_chart_run *run)
{
    return chart->device->timeline.axis == VT_AXIS_TIME ? (double)run->first->t_ns / 1e9
                                                        : (double)run->first->first_event;
}

static double to_of(const struct vt_chart *chart, const struct vt_chart_run *run)
{
    return chart->device->timeline.axis == VT_AXIS_TIME ? (double)run->last->end_ns / 1e9
                                                        : (double)run->last->last_event + 1;
}

static double round_step(double least)
{
    double power = pow(10, floor(log10(least)));

    return least <= power * 1.000001 ? power
           : least <= 2 * power      ? 2 * power
           : least <= 5 * power      ? 5 * power
                                     : 10 * power;
}

/* A round time step of at least `least` seconds, and the unit for numbers up to `most`. */
static struct ticks time_ticks(double least, double most)
{
    static const struct {
        double step, seconds;
        const char *unit;
    } large[] = {{60, 60, "min"},      {120, 60, "min"},    {300, 60, "min"},   {600, 60, "min"},
                 {900, 60, "min"},     {1800, 60, "min"},   {3600, 3600, "h"},  {7200, 3600, "h"},
                 {10800, 3600, "h"},   {21600, 3600, "h"},  {43200, 3600, "h"}, {86400, 86400, "d"},
                 {172800, 86400, "d"}, {604800, 86400, "d"}};
    struct ticks ticks = {.step = round_step(least),
                          .unit_size = most >= 1      ? 1
                                       : most >= 1e-3 ? 1e-3
                                       : most >= 1e-6 ? 1e-6
                                                      : 1e-9,
                          .unit = most >= 1      ? "s"
                                  : most >= 1e-3 ? "ms"
                                  : most >= 1e-6 ? "us"
                                                 : "ns"};

    for (size_t i = 0; least > 20 && i < sizeof large / sizeof *large; i++) {
        if (large[i].step < least && i + 1 < sizeof large / sizeof *large)
            continue;
        ticks.unit = large[i].unit;
        ticks.unit_size = large[i].seconds;
        ticks.step = large[i].step < least ? least : large[i].step;
        break;
    }
    return ticks;
}

static void write_number(const struct ticks *ticks, double value, int more, bool unit, char text[40])
{
    int decimals = value > 0 ? vt_chart_decimals(ticks->step / ticks->unit_size) + more : 0;

    snprintf(text, 40, "%.*f%s%s", decimals < 9 ? decimals : 9, value / ticks->unit_size,
             unit && ticks->unit[0] ? " " : "", unit ? ticks->unit : "");
}

static struct ticks choose_ticks(const struct vt_chart *chart)
{
    bool time = chart->device->timeline.axis == VT_AXIS_TIME;
    double shown = 0, most = to_of(chart, &chart->runs[chart->run_count - 1]);
    struct ticks ticks = {.step = 1, .unit_size = 1, .unit = time ? "s" : ""};
    int cells = LEAST_CELLS;
    char text[40];

    for (size_t i = 0; i < chart->run_count; i++)
        shown += to_of(chart, &chart->runs[i]) - from_of(chart, &chart->runs[i]);
    for (int tries = 0; shown > 0 && tries < 2; tries++) {
        double least = shown * cells / chart->columns;

        if (time)
            ticks = time_ticks(least, most);
        else
            ticks.step = least > 1 ? round_step(least) : 1;
        write_number(&ticks, most, 0, false, text);
        cells = (int)strlen(text) + 3 > cells ? (int)strlen(text) + 3 : cells;
    }
    return ticks;
}

static int cell_of(const struct vt_chart *chart, const struct vt_chart_run *run, double value)
{
    double from = from_of(chart, run), whole = to_of(chart, run) - from;
    int cell = whole > 0 ? vt_columns_of((value - from) / whole, run->cells) : 0;

    return run->cell + (cell < run->cells ? cell : run->cells - 1);
}

/* Draws the numbers of a run into `numbers` and marks its ticks in `line`. With `begins`, the
 * start of the run comes first: after a cut, nothing else says where time goes on. */
static void put_ticks(const struct vt_chart *chart, const struct vt_chart_run *run, const struct ticks *ticks,
                      bool begins, char *line, char *numbers)
{
    double from = from_of(chart, run), to = to_of(chart, run);
    double first = begins ? floor(from / ticks->step) : ceil(from / ticks->step + 1e-9);
    char text[40];

    if (begins) {
        bool round_one = fabs(first * ticks->step - from) < 1e-6 * ticks->step;

        write_number(ticks, from, !round_one && ticks->unit[0], run == chart->runs, text);
        if (vt_chart_place(numbers, chart->columns, run->cell, text) && run != chart->runs)
            line[run->cell] = '+';
        return;
    }
    for (int n = 0; n < chart->columns; n++) {
        double value = (first + n) * ticks->step;
        int cell = cell_of(chart, run, value);

        if (value > to + 1e-9 * ticks->step)
            break;
        if (value <= 0 || cell <= run->cell)
            continue;
        write_number(ticks, value, 0, false, text);
        line[cell] = '+';
        vt_chart_place(numbers, chart->columns, cell, text);
    }
}

/* The sign of a cell of the zero line: '+' a tick; a small chart has its labels here. */
static void put_cell(FILE *stream, char sign)
{
    if (sign == '+' || sign == VT_CHART_BAR)
        fputs("┴", stream);
    else if (sign == ' ')
        fputs("─", stream);
    else
        fputc(sign, stream);
}

static void put_line(const struct vt_chart *chart, const char *line)
{
    const bool small = chart->size == VT_CHART_SMALL;
    const int margin = VT_CHART_MARGIN - 2 - (small ? (int)strlen(chart->scale.unit) + 1 : 0);

    fprintf(chart->stream, "%*s%s%s ┼", margin, "0", small ? " " : "", small ? chart->scale.unit : "");
    for (int c = 0; c < chart->columns; c++) {
        if (chart->source[c] == VT_CHART_CUT)
            fputs("╱", chart->stream);
        else
            put_cell(chart->stream, line[c]);
    }
    fputc('\n', chart->stream);
}

/* The zero line, and the numbers of time or events below. */
static void draw_numbers(struct vt_chart *chart, char *line, char *numbers)
{
    const struct ticks ticks = choose_ticks(chart);

    memset(line, ' ', (size_t)chart->columns);
    memset(numbers, ' ', (size_t)chart->columns + 1);
    for (int begins = 1; begins >= 0; begins--)
        for (size_t i = 0; i < chart->run_count; i++)
            put_ticks(chart, &chart->runs[i], &ticks, begins, line, numbers);
    put_line(chart, line);
    fprintf(chart->stream, "%*s %.*s\n", VT_CHART_MARGIN - 1,
            chart->device->timeline.axis == VT_AXIS_TIME ? "time" : "event", chart->columns, numbers);
}

/* The zero line of an axis of steps: their numbers are in the row below. */
static void draw_step_line(struct vt_chart *chart, char *line)
{
    const struct vt_timeline *timeline = &chart->device->timeline;
    size_t count = timeline->stretch_count;

    memset(line, ' ', (size_t)chart->columns);
    for (size_t i = 1; i < count && count * 2 <= (size_t)chart->columns; i++) {
        int cell = vt_chart_cell(chart, timeline->stretches[i].first_event, 0);

        line[cell > 0 ? cell : 0] = '+';
    }
    put_line(chart, line);
}

/* Where steps begin, as many numbers as fit. */
static void draw_steps(struct vt_chart *chart, char *row)
{
    const struct vt_report *report = chart->report;
    uint32_t every = 1, shown = 0;
    bool any = false;

    for (size_t i = 0; i < report->step_start_count; i++)
        shown += vt_chart_cell(chart, report->step_starts[i].event_index, report->step_starts[i].t_ns) >= 0;
    for (uint32_t power = 1; shown / every > (uint32_t)chart->columns / 6;) {
        every = every == 2 * power ? 5 * power : 2 * every; /* 1, 2, 5, 10, 20, 50 … */
        power = every == 10 * power ? every : power;
    }
    memset(row, ' ', (size_t)chart->columns);
    for (size_t i = 0; i < report->step_start_count; i++) {
        const struct vt_step_start *start = &report->step_starts[i];
        char text[24];
        int column = vt_chart_cell(chart, start->event_index, start->t_ns);

        if (column < 0)
            continue;
        if (!i && column >= 5)
            memcpy(row, "init", 4);
        snprintf(text, sizeof text, "%c%u", VT_CHART_BAR, start->step);
        if (!any || start->step % every == 0)
            vt_chart_place(row, chart->columns, column, text);
        any = true;
    }
    if (chart->size == VT_CHART_SMALL) {
        put_line(chart, row);
    } else {
        fprintf(chart->stream, "%*s ", VT_CHART_MARGIN - 1, "step");
        vt_chart_put_row(chart->stream, row, chart->columns);
    }
}

static void draw_phases(struct vt_chart *chart)
{
    static const char letters[VT_PHASE_COUNT + 1] = "ifboed.";

    fprintf(chart->stream, "%*s ", VT_CHART_MARGIN - 1, "phase");
    for (int c = 0; c < chart->columns; c++) {
        size_t source = chart->source[c];
        uint8_t phase = source == VT_CHART_CUT ? VT_PHASE_COUNT : chart->device->timeline.phase[source];

        fputc(phase < VT_PHASE_COUNT ? letters[phase] : source == VT_CHART_CUT ? ' ' : '.', chart->stream);
    }
    fputc('\n', chart->stream);
}

void vt_chart_axis(struct vt_chart *chart, char *row)
{
    const bool has_steps = chart->report->step_count > 0;

    if (chart->size == VT_CHART_SMALL && has_steps)
        ;
    else if (chart->device->timeline.axis == VT_AXIS_STEPS)
        draw_step_line(chart, row);
    else
        draw_numbers(chart, row, row + chart->columns + 1);
    if (has_steps)
        draw_steps(chart, row);
    if (chart->size == VT_CHART_LARGE && has_steps)
        draw_phases(chart);
}
