/* The first lines of the text report: who ran, and what is missing from the trace. */
#include "view/text.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

char *vt_text_command(const struct vt_trace *trace, int columns)
{
    char *text = NULL, *cut;
    size_t bytes;
    FILE *stream = open_memstream(&text, &bytes);

    if (!stream)
        return NULL;
    for (int i = 0; i < trace->argument_count; i++) {
        const char *argument = trace->arguments[i], *slash = i ? NULL : strrchr(argument, '/');
        fprintf(stream, i ? " %s" : "%s", slash ? slash + 1 : argument);
    }
    if (fclose(stream))
        return NULL;
    cut = vt_shorten(text[0] ? text : "unknown command", columns, VT_CUT_END);
    free(text);
    return cut;
}

char *vt_text_device(const struct vt_device_report *device, char *text)
{
    char total[32];
    int length = snprintf(text, 100, "GPU %d", device->index);

    if (device->name && device->name[0])
        length += snprintf(text + length, 100, " %.64s", device->name);
    if (device->total_bytes)
        snprintf(text + length, 60, " (%s)", vt_format_bytes(device->total_bytes, total));
    return text;
}

static const char *state_of(const struct vt_trace *trace)
{
    static const char *const reasons[] = {"stopped", "stopped: disk full", "stopped: write error",
                                          "stopped: no memory", "stopped: no thread"};

    if (trace->truncated)
        return "damaged";
    if (trace->header.state == VT_STATE_STOPPED)
        return reasons[trace->header.stop_reason <= VT_STOP_NO_THREAD ? trace->header.stop_reason : 0];
    if (trace->header.state == VT_STATE_RECORDING)
        return "killed or still running";
    return trace->complete ? "complete" : "incomplete";
}

/* Items joined by " · ", broken between items only. */
static void print_items(struct vt_print *print, char *const *items, size_t count)
{
    int column = 0;

    for (size_t i = 0; i < count; i++) {
        int columns = vt_text_columns(items[i]);

        if (column && column + 3 + columns > print->style->width) {
            fputs("\n  ", print->stream);
            column = 2;
        } else if (column) {
            fputs(" · ", print->stream);
            column += 3;
        }
        fputs(items[i], print->stream);
        column += columns;
    }
    fputs("\n\n", print->stream);
}

static void losses(struct vt_print *print, const struct vt_trace *trace)
{
    const struct vt_file_header *header = &trace->header;
    char count[32], more[32], bytes[32];

    if (header->dropped || header->dropped_definitions)
        vt_print_paragraph(
            print, 0, 0,
            VT_ALARM "%s events and %s definitions were lost" VT_RESET
                     " because the ring was full: any number below may be wrong by what they told. A "
                     "larger ring holds more: see vramtrace run --help.",
            vt_format_count(header->dropped, count), vt_format_count(header->dropped_definitions, more));
    if (trace->truncated)
        vt_print_paragraph(print, 0, 0,
                           VT_ALARM "The file is damaged:" VT_RESET
                                    " %s could not be read; what they told is missing below.",
                           trace->damaged_bytes ? vt_format_bytes(trace->damaged_bytes, bytes) : "parts");
    if (header->state == VT_STATE_STOPPED)
        vt_print_paragraph(print, 0, 0, "Recording %s before the process ended: what came after is not here.",
                           state_of(trace));
    else if (header->state == VT_STATE_RECORDING)
        vt_print_paragraph(
            print, 0, 0,
            "The process was killed, or still runs: everything it had recorded up to then is here, %s "
            "events of it saved from the ring.%s",
            vt_format_count(trace->ring_events, count),
            trace->unfinished_records ? " Calls that were being recorded just then are not." : "");
    if (header->dropped || header->dropped_definitions || trace->truncated ||
        header->state == VT_STATE_STOPPED || header->state == VT_STATE_RECORDING)
        fputc('\n', print->stream);
}

void vt_text_header(struct vt_print *print, const struct vt_report *report, const char *command)
{
    const struct vt_trace *trace = report->trace;
    char *items[6] = {0}, time[32], name[192];
    char *who = vt_text_command(trace, print->style->width - 24);
    uint32_t steps = report->attribution->step_count;
    size_t count = 0;

    if (asprintf(&items[count], VT_BOLD "vramtrace %s" VT_RESET "  %s", command, who ? who : "") > 0)
        count++;
    if (asprintf(&items[count], "pid %u", trace->header.pid) > 0)
        count++;
    if (report->device_count == 1 &&
        asprintf(&items[count], "%s", vt_text_device(&report->devices[0], name)) > 0)
        count++;
    vt_format_duration(report->duration_ns, time);
    if (steps && asprintf(&items[count], "%u step%s in %s", steps, steps > 1 ? "s" : "", time) > 0)
        count++;
    if (!steps && report->duration_ns && asprintf(&items[count], "%s", time) > 0)
        count++;
    if (asprintf(&items[count], "%s", state_of(trace)) > 0)
        count++;
    if (trace->header.dropped && asprintf(&items[count], VT_ALARM "%s EVENTS LOST" VT_RESET,
                                          vt_format_count(trace->header.dropped, time)) > 0)
        count++;
    print_items(print, items, count);
    for (size_t i = 0; i < count; i++)
        free(items[i]);
    free(who);
    losses(print, trace);
}
