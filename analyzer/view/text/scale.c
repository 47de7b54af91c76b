#include "view/text/chart.h"

#include <math.h>

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
            /* Room above the largest value, rows left unused, and too few or too many numbers on the axis. */
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
