/* Which cell of a picture shows what of a timeline, and text in rows of cells. */

#include "view/text/chart_cells.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

void vt_chart_lay_out(struct vt_chart *chart)
{
    const struct vt_timeline *timeline = &chart->device->timeline;
    size_t count = timeline->axis == VT_AXIS_TIME ? timeline->stretch_count : 1;
    int cells, used = 0;

    if (count * 3 > (size_t)chart->columns)
        count = 1;
    chart->runs = vt_allocate_zeros(count, sizeof *chart->runs);
    cells = chart->columns - (int)count + 1;
    for (size_t i = 0; i < count; i++) {
        const struct vt_stretch *first = &timeline->stretches[i],
                                *last =
                                    i + 1 < count ? first : timeline->stretches + timeline->stretch_count - 1;
        int rest = (int)(count - 1 - i),
            end = (int)round(last->end_column / (double)timeline->columns * cells);

        end = end > cells - rest ? cells - rest : end <= used ? used + 1 : end;
        chart->runs[i] =
            (struct vt_chart_run){.first = first, .last = last, .cell = used + (int)i, .cells = end - used};
        used = end;
    }
    chart->run_count = count;
}

/* The timeline's column where a cell of a run begins; the cell after the last gives the run's end. */
static size_t first_source(const struct vt_chart_run *run, int cell)
{
    double width = run->last->end_column - run->first->column;

    return (size_t)(run->first->column + width * (cell - run->cell) / run->cells + 1e-9);
}

void vt_chart_choose_sources(struct vt_chart *chart)
{
    const struct vt_timeline *timeline = &chart->device->timeline;

    memset(chart->source, 0xff, (size_t)chart->columns * sizeof *chart->source);
    for (size_t r = 0; r < chart->run_count; r++) {
        const struct vt_chart_run *run = &chart->runs[r];

        for (int c = run->cell; c < run->cell + run->cells; c++) {
            size_t from = first_source(run, c), to = first_source(run, c + 1);
            uint64_t most = 0;

            chart->source[c] = from;
            for (size_t i = from; (i == from || i < to) && i < timeline->columns; i++) {
                uint64_t used = vt_used_bytes(timeline->categories[i]), given = timeline->driver_bytes[i];

                chart->source[c] = used > most ? i : chart->source[c];
                most = used > most ? used : most;
                chart->driver_bytes[c] = given > chart->driver_bytes[c] ? given : chart->driver_bytes[c];
            }
        }
    }
}

int vt_chart_cell(const struct vt_chart *chart, uint32_t event_index, uint64_t t_ns)
{
    double position = vt_timeline_position(&chart->device->timeline, event_index, t_ns);
    const struct vt_chart_run *run = chart->runs, *end = chart->runs + chart->run_count;
    double width;
    int cell;

    if (position < 0)
        return -1;
    while (run + 1 < end && run[1].first->column <= position)
        run++;
    width = run->last->end_column - run->first->column;
    cell = vt_columns_of((position - run->first->column) / width, run->cells);
    return run->cell + (cell < run->cells ? cell : run->cells - 1);
}

bool vt_chart_place(char *row, int columns, int column, const char *text)
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

void vt_chart_put_row(FILE *stream, const char *row, int columns)
{
    for (int c = 0; c < columns; c++) {
        if (row[c] == VT_CHART_ARROW)
            fputs("▾", stream);
        else if (row[c] == VT_CHART_CROSS)
            fputs("✗", stream);
        else if (row[c] == VT_CHART_BAR)
            fputs("│", stream);
        else
            fputc(row[c], stream);
    }
    fputc('\n', stream);
}

int vt_chart_decimals(double step)
{
    int count = 0;

    for (; count < 6 && fabs(step - round(step)) > 1e-6 * step; count++)
        step *= 10;
    return count;
}
