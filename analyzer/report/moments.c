/* --at: from the text on the command line to an event, or to one of the times that memory ran out. */
#include "report/moments.h"

#include "attribute/attribute.h"
#include "base/format.h"
#include "base/index.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

uint64_t vt_since_start(const struct vt_trace *trace, uint64_t t_ns)
{
    const uint64_t start = trace->header.start_monotonic_ns;

    return t_ns > start ? t_ns - start : 0;
}

uint64_t vt_event_time(const struct vt_trace *trace, uint32_t event_index)
{
    return event_index < trace->event_count ? vt_since_start(trace, trace->events[event_index].t_ns) : 0;
}

uint32_t vt_last_event_at(const struct vt_trace *trace, uint64_t t_ns)
{
    size_t low = 0, high = trace->event_count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (trace->events[middle].t_ns <= t_ns)
            low = middle + 1;
        else
            high = middle;
    }
    return low ? (uint32_t)low - 1 : 0;
}

/* ---- Marks ---- */

/* Lists the names of marks, each once, as far as they fit. */
static void list_marks(const struct vt_report *report, char *text, size_t bytes)
{
    const char *listed[8];
    size_t count = 0, used = 0;

    text[0] = '\0';
    for (size_t i = 0; i < report->mark_count && count < 8; i++) {
        const char *name = report->marks[i].name;
        bool known = false;

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

static int no_mark(const struct vt_report *report, const char *name, int length, uint64_t number,
                   uint64_t found, struct vt_error_text reason)
{
    char marks[256];

    length = length < 64 ? length : 64;
    if (found)
        return vt_fail(reason, "the trace has mark '%.*s' only %" PRIu64 " times, not %" PRIu64, length, name,
                       found, number);
    list_marks(report, marks, sizeof marks);
    return vt_fail(reason, "no mark '%.*s' in the trace; it has %s", length, name,
                   marks[0] ? marks : "no marks at all");
}

/* NAME or NAME#k. A mark may be called "a#2" itself: the whole text is tried first. */
static int find_mark(const struct vt_report *report, const char *text, struct vt_moment *moment,
                     struct vt_error_text reason)
{
    const char *hash = strrchr(text, '#');
    char *end = NULL;
    uint64_t number = 1, found = 0;
    size_t length = strlen(text);

    for (int pass = 0; pass < 2; pass++) {
        found = 0;
        for (size_t i = 0; i < report->mark_count; i++) {
            const struct vt_mark *mark = &report->marks[i];

            if (strlen(mark->name) == length && !memcmp(mark->name, text, length) && ++found == number) {
                moment->first = moment->last = mark->event_index;
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
    return no_mark(report, text, (int)length, number, found, reason);
}

/* ---- Events, steps and times ---- */

/* The event with that number in the file, or the last one before it that is there. */
static uint32_t event_numbered(const struct vt_trace *trace, uint64_t number)
{
    size_t low = 0, high = trace->event_count;

    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;

        if (vt_trace_event_number(trace, (uint32_t)middle) <= number)
            low = middle;
        else
            high = middle;
    }
    return (uint32_t)low;
}

static int find_event(const struct vt_report *report, const char *text, struct vt_moment *moment,
                      struct vt_error_text reason)
{
    uint64_t count = report->trace->recorded_events;
    char *end, events[32];
    unsigned long long event = strtoull(text, &end, 10);

    if (text[0] < '0' || text[0] > '9' || *end)
        return vt_fail(reason, "'event:%.32s' is not event:NUMBER", text);
    if (!count)
        return vt_fail(reason, "no event %.20s in the trace; it has no events", text);
    if (event >= count)
        return vt_fail(reason, "no event %.20s in the trace; it has %s, numbered from 0", text,
                       vt_format_count(count, events));
    moment->first = moment->last = event_numbered(report->trace, event);
    return 0;
}

static int find_step(const struct vt_report *report, const char *text, struct vt_moment *moment,
                     struct vt_error_text reason)
{
    const struct vt_attribution *attribution = report->attribution;
    char *end;
    unsigned long step = strtoul(text, &end, 10);
    bool found = false;

    if (end == text || *end || text[0] == '-')
        return vt_fail(reason, "'step:%.32s' is not step:NUMBER", text);
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
        return vt_fail(reason, "no step %lu in the trace; it has steps 1 to %u (and 0, before the first)",
                       step, attribution->step_count);
    return vt_fail(reason, "no step %lu in the trace: no training steps were found", step);
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

static int find_time(const struct vt_report *report, const char *text, struct vt_moment *moment,
                     struct vt_error_text reason)
{
    const struct vt_trace *trace = report->trace;
    double seconds;
    char duration[32];

    if (!parse_time(text, &seconds))
        return vt_fail(
            reason,
            "'%.64s' is not a moment; use peak, reserved, end, oom, oom#2, mark:NAME, mark:NAME#2, step:N, "
            "event:N or a time such as 3.2s or 150ms",
            text);
    if (seconds * 1e9 > (double)report->duration_ns)
        return vt_fail(reason, "%.64s is after the end of the trace, which is %s long", text,
                       vt_format_duration(report->duration_ns, duration));
    moment->first = moment->last =
        vt_last_event_at(trace, trace->header.start_monotonic_ns + (uint64_t)(seconds * 1e9));
    moment->t_ns = (uint64_t)(seconds * 1e9);
    moment->timed = true;
    return 0;
}

/* ---- Out of memory ---- */

/* "oom" is the last, "oom#2" the second. */
static int find_refusal(const struct vt_report *report, const char *at, size_t *index,
                        struct vt_error_text reason)
{
    size_t count = report->refusal_count;
    char *end = NULL;
    unsigned long long number = count;

    if (!strncmp(at, "oom#", 4) && at[4] >= '0' && at[4] <= '9')
        number = strtoull(at + 4, &end, 10);
    else if (strcmp(at, "oom"))
        end = "?";
    if (end && *end)
        return vt_fail(reason, "'%.64s' is not oom#NUMBER", at);
    if (!count)
        return vt_fail(reason, "the trace has no out-of-memory event");
    if (!number || number > count)
        return vt_fail(reason, "the trace has %zu out-of-memory error%s: there is no %.64s", count,
                       count > 1 ? "s" : "", at);
    *index = (size_t)number - 1;
    return 0;
}

static int parse_moment(const struct vt_report *report, const char *at, struct vt_moment *moment,
                        const char **label, struct vt_error_text reason)
{
    size_t index = 0;
    int result;

    *moment = (struct vt_moment){
        .peak = !strcmp(at, "peak"), .end = !strcmp(at, "end"), .reserved = !strcmp(at, "reserved")};
    *label = moment->peak       ? "the peak"
             : moment->end      ? "the end"
             : moment->reserved ? "the moment with most reserved"
                                : "the chosen moment";
    if (moment->peak || moment->end || moment->reserved)
        return 0;
    if (!strcmp(at, "oom") || !strncmp(at, "oom#", 4)) {
        *label = "the out-of-memory error";
        result = find_refusal(report, at, &index, reason);
        if (!result)
            moment->first = moment->last = report->refusals[index].event_index;
        return result;
    }
    if (!strncmp(at, "mark:", 5))
        return find_mark(report, at + 5, moment, reason);
    if (!strncmp(at, "step:", 5)) {
        *label = "the step's peak";
        return find_step(report, at + 5, moment, reason);
    }
    if (!strncmp(at, "event:", 6)) {
        *label = "the moment after that event";
        return find_event(report, at + 6, moment, reason);
    }
    return find_time(report, at, moment, reason);
}

/* The failed request that `at` means where only these count: the last in a step, the first after a mark,
 * the nearest to a time. */
static int choose_refusal(const struct vt_report *report, const char *at, size_t *index,
                          struct vt_error_text reason)
{
    const struct vt_oom *refusals = report->refusals;
    size_t count = report->refusal_count, chosen = count;
    struct vt_moment moment;
    const char *label;
    int result;

    if (!count || !strncmp(at, "oom", 3))
        return find_refusal(report, count ? at : "oom", index, reason);
    result = parse_moment(report, at, &moment, &label, reason);
    if (result)
        return result;
    if (moment.peak || moment.end || moment.reserved)
        return vt_fail(
            reason,
            "memory did not run out there: this takes oom#2, step:N, mark:NAME, event:N or a time; for "
            "that moment: vramtrace report --at %s",
            at);
    for (size_t i = 0; i < count; i++) {
        uint32_t event = refusals[i].event_index;

        if (moment.t_ns && (chosen == count || vt_distance(refusals[i].t_ns, moment.t_ns) <
                                                   vt_distance(refusals[chosen].t_ns, moment.t_ns)))
            chosen = i;
        if (!moment.t_ns && event >= moment.first &&
            (moment.largest ? event <= moment.last : chosen == count))
            chosen = i;
    }
    *index = chosen;
    if (chosen < count)
        return 0;
    return vt_fail(reason,
                   "no out-of-memory error %s %.64s; the trace has %zu other%s: vramtrace oom lists them",
                   moment.largest ? "in" : "after", at, count, count > 1 ? "s" : "");
}

/* ---- The moment shown ---- */

int vt_find_moment(struct vt_report *report, const struct vt_report_options *options,
                   struct vt_moment *moment, struct vt_error_text reason)
{
    const char *at = options->at, *label = "the peak";
    size_t count = report->refusal_count;
    char numbered[32];
    int result = 0;

    report->shown_refusal = count ? count - 1 : 0;
    if (at && options->oom == VT_AT_OOM_ONLY) {
        result = choose_refusal(report, at, &report->shown_refusal, reason);
        snprintf(numbered, sizeof numbered, "oom#%zu", report->shown_refusal + 1);
        at = numbered;
    } else if (at && count && !strncmp(at, "oom", 3)) {
        result = find_refusal(report, at, &report->shown_refusal, reason);
    }
    if (result)
        return result;
    if (!at && count &&
        (options->oom == VT_AT_OOM_ONLY ||
         (options->oom == VT_AT_OOM_IF_IT_ENDED_THE_RUN && report->refusals[report->shown_refusal].ends_run)))
        at = "oom";
    at = at ? at : options->default_at;
    report->has_at = at != NULL;
    if (at)
        result = parse_moment(report, at, moment, &label, reason);
    if (at && !strncmp(at, "mark:", 5))
        snprintf(report->at_label, sizeof report->at_label, "mark '%.200s'", at + 5);
    else
        snprintf(report->at_label, sizeof report->at_label, "%s", label);
    return result;
}

int vt_find_range(const struct vt_report *report, const struct vt_report_options *options,
                  struct vt_range *range, struct vt_error_text reason)
{
    const char *label;
    int result = 0;

    *range = (struct vt_range){.has_from = options->from != NULL, .has_to = options->to != NULL};
    if (range->has_from)
        result = parse_moment(report, options->from, &range->from, &label, reason);
    if (!result && range->has_to)
        result = parse_moment(report, options->to, &range->to, &label, reason);
    return result;
}
