/* The first lines of the text report: who ran, and what is missing from the trace. */
#include "view/text/text.h"

#include <inttypes.h>
#include <stdarg.h>
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
    static const char *const reasons[] = {"incomplete: recording stopped", "incomplete: disk full",
                                          "incomplete: write error", "incomplete: no memory for recording",
                                          "incomplete: no thread for recording"};

    if (trace->truncated)
        return "incomplete: file damaged";
    if (trace->header.state == VT_STATE_STOPPED)
        return reasons[trace->header.stop_reason <= VT_STOP_NO_THREAD ? trace->header.stop_reason : 0];
    if (trace->header.state == VT_STATE_RECORDING)
        return "incomplete: killed or still running";
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
                     " (the buffer was full, or a signal handler made them in the middle of another event): the "
                     "numbers below may be wrong by that much. A larger buffer holds more: see vramtrace run --help.",
            vt_format_count(header->dropped, count), vt_format_count(header->dropped_definitions, more));
    if (trace->truncated)
        vt_print_paragraph(print, 0, 0,
                           VT_ALARM "The file is damaged:" VT_RESET
                                    " %s could not be read; what they told is missing below.",
                           trace->damaged_bytes ? vt_format_bytes(trace->damaged_bytes, bytes) : "parts");
    if (header->without_stack)
        vt_print_paragraph(print, 0, 0,
                           VT_ALARM "%s events have no stack" VT_RESET
                                    ": more different stacks came than are kept (about 2 million). Their bytes are right, "
                                    "their lines and owners are not known.",
                           vt_format_count(header->without_stack, count));
    if (header->state == VT_STATE_STOPPED && header->after_end)
        vt_print_paragraph(print, 0, 0,
                           "Recording stopped before the process ended: %s later events are not here.",
                           vt_format_count(header->after_end, count));
    else if (header->state == VT_STATE_STOPPED)
        vt_print_paragraph(print, 0, 0,
                           "Recording stopped before the process ended: what came after is not here.");
    else if (header->state == VT_STATE_RECORDING)
        vt_print_paragraph(
            print, 0, 0,
            "The process was killed, or still runs: everything it had recorded up to then is here, %s "
            "events of it saved from the ring.%s",
            vt_format_count(trace->ring_events, count),
            trace->unfinished_records ? " Calls that were being recorded just then are not." : "");
    if (header->dropped || header->dropped_definitions || header->without_stack || trace->truncated ||
        header->state == VT_STATE_STOPPED || header->state == VT_STATE_RECORDING)
        fputc('\n', print->stream);
}

static void add_item(char **items, size_t *count, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static void add_item(char **items, size_t *count, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    if (vasprintf(&items[*count], format, arguments) > 0)
        (*count)++;
    va_end(arguments);
}

/* What is missing from a trace comes before all else that is told of it. */
void vt_text_header(struct vt_print *print, const struct vt_report *report, const char *command)
{
    const struct vt_trace *trace = report->trace;
    const char *state = state_of(trace);
    int room = print->style->width - vt_text_columns("vramtrace   · ") - vt_text_columns(command) -
               vt_text_columns(state);
    char *items[8] = {0}, time[32], name[192], *who = vt_text_command(trace, room > 24 ? room : 24);
    uint32_t steps = report->attribution->step_count;
    size_t count = 0;

    add_item(items, &count, VT_BOLD "vramtrace %s" VT_RESET "  %s", command, who ? who : "");
    if (!trace->complete)
        add_item(items, &count, VT_ALARM "%s" VT_RESET, state);
    if (trace->header.dropped)
        add_item(items, &count, VT_ALARM "%s EVENTS LOST" VT_RESET,
                 vt_format_count(trace->header.dropped, time));
    add_item(items, &count, "pid %u", trace->header.pid);
    if (report->device_count == 1)
        add_item(items, &count, "%s", vt_text_device(&report->devices[0], name));
    vt_format_duration(report->duration_ns, time);
    if (steps)
        add_item(items, &count, "%u step%s in %s", steps, steps > 1 ? "s" : "", time);
    else if (report->duration_ns)
        add_item(items, &count, "%s", time);
    if (trace->complete)
        add_item(items, &count, "%s", state);
    print_items(print, items, count);
    for (size_t i = 0; i < count; i++)
        free(items[i]);
    free(who);
    losses(print, trace);
}
