/* --at: from what a person typed to an event. */
#include "report/parts.h"
#include "base/format.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

uint64_t vt_event_time(const struct vt_trace *trace, uint32_t event_index)
{
    uint64_t start = trace->header.start_monotonic_ns, t_ns;

    if (event_index >= trace->event_count)
        return 0;
    t_ns = trace->events[event_index].t_ns;
    return t_ns > start ? t_ns - start : 0;
}

static const char *mark_name(const struct vt_trace *trace, const struct vt_event *event)
{
    const char *name = vt_trace_string(trace, event->detail);

    return name ? name : "";
}

/* Lists the names of marks, each once, as far as they fit. */
static void list_marks(const struct vt_trace *trace, char *text, size_t bytes)
{
    const char *listed[8];
    size_t count = 0, used = 0;

    text[0] = '\0';
    for (size_t i = 0; i < trace->event_count && count < 8; i++) {
        const char *name;
        bool known = false;

        if (trace->events[i].kind != VT_EVENT_MARK)
            continue;
        name = mark_name(trace, &trace->events[i]);
        for (size_t k = 0; k < count; k++)
            known |= !strcmp(listed[k], name);
        if (known || used + strlen(name) + 16 > bytes)
            continue;
        used += (size_t)snprintf(text + used, bytes - used, "%s'%s'", count ? ", " : "", name);
        listed[count++] = name;
    }
    if (count == 8 && used + 8 < bytes)
        snprintf(text + used, bytes - used, ", ...");
}

static int no_mark(const struct vt_trace *trace, const char *name, uint64_t number, uint64_t found,
                   char *error, size_t error_bytes)
{
    char marks[256];

    if (found) {
        snprintf(error, error_bytes, "the trace has mark '%.64s' only %" PRIu64 " times, not %" PRIu64, name,
                 found, number);
        return -EINVAL;
    }
    list_marks(trace, marks, sizeof marks);
    if (marks[0])
        snprintf(error, error_bytes, "no mark '%.64s' in the trace; it has %s", name, marks);
    else
        snprintf(error, error_bytes, "no mark '%.64s' in the trace; it has no marks at all", name);
    return -EINVAL;
}

/* NAME or NAME#k. A mark may be called "a#2" itself: the whole text is tried first. */
static int find_mark(const struct vt_trace *trace, const char *text, struct vt_moment *moment, char *error,
                     size_t error_bytes)
{
    const char *hash = strrchr(text, '#');
    char *end = NULL;
    uint64_t number = 1, found = 0;
    size_t length = strlen(text);

    for (int pass = 0; pass < 2; pass++) {
        found = 0;
        for (size_t i = 0; i < trace->event_count; i++) {
            const char *name;

            if (trace->events[i].kind != VT_EVENT_MARK)
                continue;
            name = mark_name(trace, &trace->events[i]);
            if (strlen(name) == length && !memcmp(name, text, length) && ++found == number) {
                moment->first = moment->last = (uint32_t)i;
                return 0;
            }
        }
        if (pass || !hash || hash[1] < '1' || hash[1] > '9')
            break;
        number = strtoull(hash + 1, &end, 10);
        if (*end)
            break;
        length = (size_t)(hash - text);
    }
    char *name = strndup(text, length);
    int result = no_mark(trace, name ? name : "", number, found, error, error_bytes);
    free(name);
    return result;
}

static int find_step(const struct vt_report *report, const char *text, struct vt_moment *moment, char *error,
                     size_t error_bytes)
{
    const struct vt_attribution *attribution = report->attribution;
    char *end;
    unsigned long step = strtoul(text, &end, 10);
    bool found = false;

    if (end == text || *end || text[0] == '-') {
        snprintf(error, error_bytes, "'step:%.32s' is not step:NUMBER", text);
        return -EINVAL;
    }
    for (size_t i = 0; i < attribution->span_count; i++) {
        const struct vt_span *span = &attribution->spans[i];
        if (span->step != step)
            continue;
        moment->first = found ? moment->first : span->first_event;
        moment->last = span->last_event;
        found = true;
    }
    moment->largest = true;
    if (found)
        return 0;
    if (attribution->step_count)
        snprintf(error, error_bytes,
                 "no step %lu in the trace; it has steps 1 to %u (and 0, before the first)", step,
                 attribution->step_count);
    else
        snprintf(error, error_bytes, "no step %lu in the trace: no training steps were recognised in it",
                 step);
    return -EINVAL;
}

/* "3.2s", "150ms", "2min", "1.5 h" since recording began. */
static bool parse_time(const char *text, double *seconds)
{
    static const struct {
        const char *name;
        double seconds;
    } units[] = {{"s", 1},     {"ms", 1e-3}, {"us", 1e-6}, {"µs", 1e-6},
                 {"ns", 1e-9}, {"min", 60},  {"m", 60},    {"h", 3600}};
    char *end;

    if (text[0] < '0' || text[0] > '9')
        return false;
    *seconds = strtod(text, &end);
    while (*end == ' ')
        end++;
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        if (strcmp(end, units[i].name))
            continue;
        *seconds *= units[i].seconds;
        return true;
    }
    return false;
}

static int find_time(const struct vt_report *report, const char *text, struct vt_moment *moment, char *error,
                     size_t error_bytes)
{
    const struct vt_trace *trace = report->trace;
    size_t low = 0, high = trace->event_count;
    double seconds;
    char duration[32];

    if (!parse_time(text, &seconds)) {
        snprintf(error, error_bytes,
                 "'%.64s' is no moment: use peak, end, oom, oom#2, mark:NAME, mark:NAME#2, step:N or a time "
                 "such as "
                 "3.2s or 150ms",
                 text);
        return -EINVAL;
    }
    if (seconds * 1e9 > (double)report->duration_ns) {
        snprintf(error, error_bytes, "%.64s is after the end of the trace, which is %s long", text,
                 vt_format_duration(report->duration_ns, duration));
        return -EINVAL;
    }
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if ((double)vt_event_time(trace, (uint32_t)middle) <= seconds * 1e9)
            low = middle + 1;
        else
            high = middle;
    }
    moment->first = moment->last = low ? (uint32_t)low - 1 : 0;
    moment->t_ns = (uint64_t)(seconds * 1e9);
    return 0;
}

int vt_moment_parse(const struct vt_report *report, const char *at, struct vt_moment *moment, char *label,
                    size_t label_bytes, char *error, size_t error_bytes)
{
    *moment = (struct vt_moment){0};
    snprintf(label, label_bytes, "%s", at);
    if (!strcmp(at, "peak") || !strcmp(at, "end"))
        snprintf(label, label_bytes, "the %s", at);
    if (!strcmp(at, "peak")) {
        moment->peak = true;
        return 0;
    }
    if (!strcmp(at, "end")) {
        moment->end = true;
        return 0;
    }
    if (!strcmp(at, "oom") || !strncmp(at, "oom#", 4)) {
        size_t index = 0;
        int result = vt_refusal_parse(report, at, &index, error, error_bytes);

        if (result)
            return result;
        moment->first = moment->last = report->refusals[index].event_index;
        snprintf(label, label_bytes, "the moment when memory ran out");
        return 0;
    }
    if (!strncmp(at, "mark:", 5)) {
        snprintf(label, label_bytes, "mark '%.200s'", at + 5);
        return find_mark(report->trace, at + 5, moment, error, error_bytes);
    }
    if (!strncmp(at, "step:", 5)) {
        snprintf(label, label_bytes, "the step's largest moment");
        return find_step(report, at + 5, moment, error, error_bytes);
    }
    snprintf(label, label_bytes, "the moment asked for");
    return find_time(report, at, moment, error, error_bytes);
}
