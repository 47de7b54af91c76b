/* The first lines of the text report: who ran, and what is missing from the trace. */
#include "view/text/text.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

char *vt_text_command(const struct vt_trace_facts *facts, int columns)
{
    char *text = NULL, *cut;
    size_t bytes;
    FILE *stream = open_memstream(&text, &bytes);

    if (!stream)
        return NULL;
    for (size_t i = 0; i < facts->argument_count; i++) {
        const char *argument = facts->arguments[i], *slash = i ? NULL : strrchr(argument, '/');
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

    if (device->name[0])
        length += snprintf(text + length, 100, " %.64s", device->name);
    if (device->total_bytes)
        snprintf(text + length, 60, " (%s)", vt_format_bytes(device->total_bytes, total));
    return text;
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

static void print_losses(struct vt_print *print, const struct vt_trace_facts *facts)
{
    bool any = false;

    for (size_t i = 0; i < facts->loss_count; i++) {
        const struct vt_loss *loss = &facts->losses[i];

        if (!loss->detail[0])
            continue;
        vt_print_paragraph(print, 0, 0, "%s%s%s%s", loss->headline[0] ? VT_ALARM : "", loss->headline,
                           loss->headline[0] ? VT_RESET : "", loss->detail);
        any = true;
    }
    if (any)
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
    const struct vt_trace_facts *facts = &report->facts;
    const char *state = facts->outcome;
    int room = print->style->width - vt_text_columns("vramtrace   · ") - vt_text_columns(command) -
               vt_text_columns(state);
    char *items[8] = {0}, time[32], name[192], *who = vt_text_command(facts, room > 24 ? room : 24);
    uint32_t steps = report->step_count;
    size_t count = 0;

    add_item(items, &count, VT_BOLD "vramtrace %s" VT_RESET "  %s", command, who ? who : "");
    if (!facts->complete)
        add_item(items, &count, VT_ALARM "%s" VT_RESET, state);
    if (facts->dropped_events)
        add_item(items, &count, VT_ALARM "%s EVENTS LOST" VT_RESET,
                 vt_format_count(facts->dropped_events, time));
    add_item(items, &count, "pid %u", facts->pid);
    if (report->device_count == 1)
        add_item(items, &count, "%s", vt_text_device(&report->devices[0], name));
    vt_format_duration(report->duration_ns, time);
    if (steps)
        add_item(items, &count, "%u step%s in %s", steps, steps > 1 ? "s" : "", time);
    else if (report->duration_ns)
        add_item(items, &count, "%s", time);
    if (facts->complete)
        add_item(items, &count, "%s", state);
    print_items(print, items, count);
    for (size_t i = 0; i < count; i++)
        free(items[i]);
    free(who);
    print_losses(print, facts);
}
