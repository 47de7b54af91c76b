/* The sentences of the text report. */
#include "view/text.h"
#include "view/report_parts.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

char *vt_text_when(const struct vt_report *report, uint64_t t_ns, uint32_t step, uint8_t phase, char *text)
{
    char time[32];

    vt_format_duration(t_ns, time);
    if (!report->attribution->step_count)
        snprintf(text, 160, "%s after start", time);
    else if (!step)
        snprintf(text, 160, "before the first step (%s after start)", time);
    else
        snprintf(text, 160, "at step %u, in %s (%s after start)", step, vt_phase_name(phase), time);
    return text;
}

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
    static const char *const reasons[] = {"stopped", "stopped: disk full", "stopped: write error", "stopped: no memory",
                                          "stopped: no thread"};

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
        vt_print_paragraph(print, 0,
                           VT_ALARM "%s events and %s definitions were lost" VT_RESET
                                    " because the ring was full: any number below may be wrong by what they told. A "
                                    "larger ring holds more: see vramtrace run --help.",
                           vt_format_count(header->dropped, count), vt_format_count(header->dropped_definitions, more));
    if (trace->truncated)
        vt_print_paragraph(print, 0, VT_ALARM "The file is damaged:" VT_RESET " %s could not be read; what they told is missing below.",
                           trace->damaged_bytes ? vt_format_bytes(trace->damaged_bytes, bytes) : "parts");
    if (header->state == VT_STATE_STOPPED)
        vt_print_paragraph(print, 0, "Recording %s before the process ended: what came after is not here.", state_of(trace));
    else if (header->state == VT_STATE_RECORDING)
        vt_print_paragraph(print, 0,
                           "The process was killed, or still runs: everything it had recorded up to then is here, %s "
                           "events of it saved from the ring.%s",
                           vt_format_count(trace->ring_events, count),
                           trace->unfinished_records ? " Calls that were being recorded just then are not." : "");
    if (header->dropped || header->dropped_definitions || trace->truncated || header->state == VT_STATE_STOPPED ||
        header->state == VT_STATE_RECORDING)
        fputc('\n', print->stream);
}

void vt_text_header(struct vt_print *print, const struct vt_report *report, const char *command)
{
    const struct vt_trace *trace = report->trace;
    char *items[6] = {0}, time[32], name[192];
    char *who = vt_text_command(trace, print->style->width - 24);
    size_t count = 0;

    if (asprintf(&items[count], VT_BOLD "vramtrace %s" VT_RESET "  %s", command, who ? who : "") > 0)
        count++;
    if (asprintf(&items[count], "pid %u", trace->header.pid) > 0)
        count++;
    if (report->device_count == 1 && asprintf(&items[count], "%s", vt_text_device(&report->devices[0], name)) > 0)
        count++;
    vt_format_duration(report->duration_ns, time);
    if (report->attribution->step_count
            ? asprintf(&items[count], "%u step%s in %s", report->attribution->step_count,
                       report->attribution->step_count > 1 ? "s" : "", time) > 0
            : asprintf(&items[count], "%s", time) > 0)
        count++;
    if (asprintf(&items[count], "%s", state_of(trace)) > 0)
        count++;
    if (trace->header.dropped &&
        asprintf(&items[count], VT_ALARM "%" PRIu64 " EVENTS LOST" VT_RESET, trace->header.dropped) > 0)
        count++;
    print_items(print, items, count);
    for (size_t i = 0; i < count; i++)
        free(items[i]);
    free(who);
    losses(print, trace);
}

static const char *asker(const struct vt_report *report, const struct vt_refusal *refusal, char *text, size_t bytes)
{
    const struct vt_trace *trace = report->trace;
    uint32_t stack_id = trace->events[refusal->event_index].stack_id;
    struct vt_frame frame;

    if (!vt_trace_user_frame(trace, stack_id, &frame))
        snprintf(text, bytes, "a call without a recorded stack");
    else if (frame.file[0] && frame.line > 0)
        snprintf(text, bytes, "%s:%d %s", vt_short_path(trace, frame.file), frame.line, frame.function);
    else
        snprintf(text, bytes, "%s", frame.function);
    return text;
}

void vt_text_out_of_memory(struct vt_print *print, const struct vt_report *report)
{
    const struct vt_refusal *refusal = report->refusals + report->refusal_count - 1;
    char when[160], who[256], asked[32], free_text[32], cached[32], held[32], went_on[96] = "", times[64] = "", gpu[32] = "the GPU";
    char room[256] = "", time[32];

    if (!report->refusal_count)
        return;
    if (refusal->device_index >= 0)
        snprintf(gpu, sizeof gpu, "GPU %d", refusal->device_index);
    if (refusal->free_known)
        snprintf(room, sizeof room, refusal->free_told ? " Of %s's memory %s was free then." : " At most %2$s of %1$s was free then, if no other process used it.",
                 gpu, vt_format_bytes(refusal->free_bytes, free_text));
    if (report->refusal_count > 1)
        snprintf(times, sizeof times, " It happened %zu times; this was the last.", report->refusal_count);
    if (report->duration_ns > refusal->t_ns + 1000000000u)
        snprintf(went_on, sizeof went_on, " The process went on for %s.",
                 vt_format_duration(report->duration_ns - refusal->t_ns, time));
    vt_print_paragraph(print, 0, VT_ALARM "Out of memory" VT_RESET " %s: %s asked for %s on %s.%s This process held %s, of it %s cached and unused.%s%s",
                       vt_text_when(report, refusal->t_ns, refusal->step, refusal->phase, when),
                       asker(report, refusal, who, sizeof who), vt_format_bytes(refusal->asked_bytes, asked), gpu, room,
                       vt_format_bytes(refusal->driver_bytes, held), vt_format_bytes(refusal->cached_bytes, cached), times,
                       went_on);
    fputc('\n', print->stream);
}

/* Names who has most of a category: modules where they are known, else a line. */
static void name_largest(const struct vt_instant *instant, unsigned category, char *text, size_t bytes)
{
    struct vt_module_families families;
    const struct vt_module_family *module = NULL;
    const struct vt_group *line = NULL;
    char each[32];

    text[0] = '\0';
    if (vt_fold_modules(&instant->groups[VT_BY_MODULE], &families))
        return;
    for (size_t i = 0; i < families.count; i++)
        if (families.items[i].categories[category] > (module ? module->categories[category] : 0))
            module = &families.items[i];
    for (size_t i = 0; i < instant->groups[VT_BY_LINE].count; i++)
        if (instant->groups[VT_BY_LINE].items[i].name[0] &&
            instant->groups[VT_BY_LINE].items[i].categories[category] > (line ? line->categories[category] : 0))
            line = &instant->groups[VT_BY_LINE].items[i];
    if (module && module->members > 1)
        snprintf(text, bytes, ", most in %.200s (%" PRIu64 " modules%s%s)", module->name, module->members,
                 module->same ? ", each " : "", module->same ? vt_format_bytes(module->first_bytes, each) : "");
    else if (module)
        snprintf(text, bytes, ", most in %.200s (%s)", module->name, vt_format_bytes(module->categories[category], each));
    else if (line)
        snprintf(text, bytes, ", most of it made at %.300s (%s)", line->name,
                 vt_format_bytes(line->categories[category], each));
    vt_module_families_free(&families);
}

static void print_largest(struct vt_print *print, const struct vt_instant *instant)
{
    uint64_t used = vt_used_bytes(instant->categories), used_categories[VT_CATEGORY_COUNT];
    unsigned category;
    char who[512];

    memcpy(used_categories, instant->categories, sizeof used_categories);
    used_categories[VT_CATEGORY_CACHED] = used_categories[VT_CATEGORY_CONTEXT] = used_categories[VT_CATEGORY_HOST_PINNED] = 0;
    category = vt_largest_category(used_categories);
    if (!used || !used_categories[category])
        return;
    name_largest(instant, category, who, sizeof who);
    if (used_categories[category] == used)
        vt_print_paragraph(print, 0, "All of it is %s%s.", vt_category_look(category)->many, who);
    else
        vt_print_paragraph(print, 0, "%.0f %% of it is %s%s.",
                           100.0 * (double)used_categories[category] / (double)used, vt_category_look(category)->many, who);
}

void vt_text_verdict(struct vt_print *print, const struct vt_report *report, const struct vt_device_report *device)
{
    const struct vt_instant *peak = &device->peak, *at = &device->at;
    uint64_t end_bytes = vt_used_bytes(device->end.categories);
    char bytes[32], end[32], when[160];

    if (!peak->counts.driver_bytes) {
        vt_print_paragraph(print, 0, "GPU %d held no memory of this process.", device->index);
        return;
    }
    vt_print_paragraph(print, 0, VT_BOLD "Peak %s" VT_RESET " in use %s; %s at the end.",
                       vt_format_bytes(vt_used_bytes(peak->categories), bytes),
                       vt_text_when(report, peak->t_ns, peak->step, peak->phase, when),
                       end_bytes ? vt_format_bytes(end_bytes, end) : "nothing");
    if (!at->present) {
        print_largest(print, peak);
        return;
    }
    vt_print_paragraph(print, 0, "The tables below show %s, %s: " VT_BOLD "%s" VT_RESET " in use.", report->at_label,
                       vt_text_when(report, at->t_ns, at->step, at->phase, when),
                       vt_format_bytes(vt_used_bytes(at->categories), bytes));
    print_largest(print, at);
}

void vt_text_card(struct vt_print *print, const struct vt_report *report, const struct vt_device_report *device)
{
    const struct vt_instant *instant = vt_text_instant(device);
    const struct vt_counts *counts = &instant->counts;
    uint64_t used = vt_used_bytes(instant->categories), free_bytes, total_bytes;
    uint64_t direct = used > counts->block_bytes ? used - counts->block_bytes : 0;
    char *text = NULL, bytes[32], other[32];
    size_t length;
    FILE *stream = open_memstream(&text, &length);
    const char *join = " = ";
    const struct {
        uint64_t bytes;
        const char *name;
    } parts[] = {{counts->block_bytes, "blocks of the framework"},
                 {direct, counts->block_bytes ? "taken from the driver directly" : "allocations"},
                 {instant->categories[VT_CATEGORY_CACHED], "cached"},
                 {instant->categories[VT_CATEGORY_CONTEXT], "context and modules"}};

    if (!stream)
        return;
    fprintf(stream, VT_BOLD "The card:" VT_RESET " %s of this process", vt_format_bytes(counts->driver_bytes, bytes));
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        if (!parts[i].bytes)
            continue;
        fprintf(stream, "%s%s %s", join, vt_format_bytes(parts[i].bytes, bytes), parts[i].name);
        join = " + ";
    }
    fputc('.', stream);
    if (counts->rounding_bytes)
        fprintf(stream, " %s of the blocks is rounding.", vt_format_bytes(counts->rounding_bytes, bytes));
    if (vt_free_near(report->trace, instant->event_index, device->index, &free_bytes, &total_bytes) &&
        total_bytes > free_bytes && total_bytes - free_bytes > counts->driver_bytes)
        fprintf(stream, " The driver told %s in use on the whole card then: %s more, of other processes or not seen.",
                vt_format_bytes(total_bytes - free_bytes, bytes),
                vt_format_bytes(total_bytes - free_bytes - counts->driver_bytes, other));
    if (!fclose(stream))
        vt_print_paragraph(print, 0, "%s", text);
    free(text);
}

void vt_text_evidence(struct vt_print *print, const struct vt_report *report, const struct vt_device_report *device)
{
    const struct vt_instant *instant = vt_text_instant(device);
    uint64_t unknown = instant->categories[VT_CATEGORY_UNKNOWN], whole = 0, weak = instant->evidence[VT_EVIDENCE_WEAK];
    char exact_text[32], strong_text[32], weak_text[32], unknown_text[32], lost[32];
    uint64_t dropped = report->trace->header.dropped;

    for (int i = 0; i < VT_EVIDENCE_COUNT; i++)
        whole += instant->evidence[i];
    weak = weak > unknown ? weak - unknown : 0;
    if (!whole)
        return;
    vt_print_paragraph(print, 0,
                       VT_BOLD "Evidence:" VT_RESET
                               " %s exact (named by the live object), %s strong (stack and lifetime agree), %s weak, %s "
                               "unknown. %s lost.",
                       vt_format_percent(instant->evidence[VT_EVIDENCE_EXACT], whole, exact_text),
                       vt_format_percent(instant->evidence[VT_EVIDENCE_STRONG], whole, strong_text),
                       vt_format_percent(weak, whole, weak_text), vt_format_percent(unknown, whole, unknown_text),
                       dropped ? strcat(vt_format_count(dropped, lost), " events were") : "No event was");
}
