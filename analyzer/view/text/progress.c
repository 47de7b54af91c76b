#include "view/text/progress.h"

#include <stdio.h>
#include <string.h>

#include "base/format.h"
#include "view/text/print.h"

#define CELLS 24
#define SECOND 1e9
#define SOON_NS 500000000u /* no rate, no time left before: they would jump */

static const char *const names[VT_WORK_COUNT] = {"reading", "replaying", "attributing", "reporting",
                                                 "reading"};

/* "412.5 MiB/s", "2.1 M events/s"; "" = not known. */
static void write_rate(const struct vt_progress *progress, uint64_t work_ns, char rate[48])
{
    double per_second = work_ns ? (double)progress->done * SECOND / (double)work_ns : 0;

    rate[0] = '\0';
    if (work_ns < SOON_NS || !progress->done)
        return;
    if (progress->work == VT_WORK_READ)
        snprintf(rate, 48, ", %s/s", VT_BYTES((uint64_t)per_second));
    else if (progress->work == VT_WORK_REPLAY)
        snprintf(rate, 48, ", %.1f M events/s", per_second / 1e6);
}

static void write_left(double part, uint64_t elapsed_ns, char left[48])
{
    double seconds = part > 0 ? (double)elapsed_ns / SECOND * (1 - part) / part : 0;

    left[0] = '\0';
    if (elapsed_ns < SOON_NS || part < 0.02)
        return;
    if (seconds < 60)
        snprintf(left, 48, ", %.0f s left", seconds);
    else
        snprintf(left, 48, ", %.0f min left", seconds / 60);
}

static size_t write_bar(double part, bool unicode, char *bar)
{
    int filled = vt_columns_of(part, CELLS);
    char *end = bar;

    for (int i = 0; i < CELLS; i++)
        end = stpcpy(end, i < filled ? (unicode ? "█" : "#") : (unicode ? "·" : "."));
    return (size_t)(end - bar);
}

size_t vt_progress_text(const struct vt_progress *progress, uint64_t elapsed_ns, uint64_t work_ns,
                        int columns, bool unicode, char text[VT_PROGRESS_BYTES])
{
    double part = vt_progress_part(progress);
    char rate[48], left[48], bar[4 * CELLS + 1];
    /* from all to little, as many as fit */
    const struct {
        bool bar, rate, left;
    } forms[] = {{true, true, true}, {true, false, true}, {false, false, true}, {false, false, false}};

    write_rate(progress, work_ns, rate);
    write_left(part, elapsed_ns, left);
    write_bar(part, unicode, bar);
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        snprintf(text, VT_PROGRESS_BYTES, "%-11s %s%s%.0f %%%s%s", names[progress->work],
                 forms[i].bar ? bar : "", forms[i].bar ? " " : "", part * 100, forms[i].rate ? rate : "",
                 forms[i].left ? left : "");
        if (vt_text_columns(text) < columns)
            return strlen(text);
    }
    text[0] = '\0';
    return 0;
}
