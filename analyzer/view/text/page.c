/* What every page has: the header, devices, evidence. */
#include "view/text/text.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define WEAK_WRONG_PART 4u /* at most 1 of 4 weak bytes is in a wrong category: docs/attribution.md */

const char *vt_text_whole(const struct vt_device_report *device)
{
    return device->at.state.present ? "of use" : "of peak";
}

char *vt_text_when(const struct vt_report *report, uint64_t t_ns, uint32_t step, uint8_t phase, char *text)
{
    const char *time = VT_DURATION(t_ns);

    if (!report->step_count)
        snprintf(text, VT_WHEN_BYTES, "%s after start", time);
    else if (!step)
        snprintf(text, VT_WHEN_BYTES, "before the first step (%s after start)", time);
    else if (phase == VT_PHASE_OTHER)
        snprintf(text, VT_WHEN_BYTES, "at step %u (%s after start)", step, time);
    else
        snprintf(text, VT_WHEN_BYTES, "at step %u, in %s%s (%s after start)", step,
                 phase == VT_PHASE_OPTIMIZER ? "the " : "", vt_phase_name(phase), time);
    return text;
}

/* `text` holds DEVICE_BYTES. */
#define DEVICE_BYTES 192
static char *device_name(const struct vt_print *print, const struct vt_device_report *device, char *text)
{
    int length = snprintf(text, 100, "GPU %d", device->index);

    if (device->name[0] && (print->style->full || print->style->brief))
        length += snprintf(text + length, 100 - (size_t)length, " %.64s", device->name);
    if (device->total_bytes)
        snprintf(text + length, DEVICE_BYTES - (size_t)length, " (%s)", VT_BYTES(device->total_bytes));
    return text;
}

void vt_text_device(struct vt_print *print, const struct vt_device_report *device)
{
    if (print->report->device_count > 1)
        fprintf(print->stream, VT_BOLD "%s" VT_RESET "\n",
                device_name(print, device, (char[DEVICE_BYTES]){0}));
}

/* Joined by " · ", broken between items only. */
struct items {
    struct vt_print *print;
    int column;
};

#define add_item(items, ...) add_item_text(items, vt_print_text(__VA_ARGS__))

/* Frees `text`. */
static void add_item_text(struct items *items, char *text)
{
    int columns = vt_text_columns(text);

    if (items->column && items->column + 3 + columns > items->print->style->width) {
        fputs("\n  ", items->print->stream);
        items->column = 2;
    } else if (items->column) {
        fputs(" · ", items->print->stream);
        items->column += 3;
    }
    fputs(text, items->print->stream);
    items->column += columns;
    free(text);
}

/* An out of memory that ended the run says it better. */
static bool tells_reason(const struct vt_report *report)
{
    const size_t last = report->refusal_count;

    return report->facts.ended_by && !(last && report->refusals[last - 1].ends_run);
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
    if (facts->paused_text[0])
        vt_print_paragraph(print, 0, 0, "%s", facts->paused_text);
    if (tells_reason(print->report))
        vt_print_paragraph(print, 0, 2, VT_ALARM "Ended by %s" VT_RESET, facts->ended_by);
    if (any || facts->paused_text[0] || tells_reason(print->report))
        fputc('\n', print->stream);
}

/* Losses come before all else. The command takes what the other items leave of the line. */
void vt_text_header(struct vt_print *print, const char *command)
{
    const struct vt_report *report = print->report;
    const struct vt_trace_facts *facts = &report->facts;
    const bool brief = print->style->brief, full = print->style->full;
    char device[DEVICE_BYTES + 8] = "", steps[64] = "", name[DEVICE_BYTES];
    struct items items = {.print = print};
    int left;

    if (facts->simulated)
        snprintf(device, sizeof device, " · " VT_ALARM "simulated: %.80s" VT_RESET, facts->simulated);
    else if (report->device_count == 1)
        snprintf(device, sizeof device, " · %s", device_name(print, &report->devices[0], name));
    if (report->step_count)
        snprintf(steps, sizeof steps, " · %u step%s", report->step_count, report->step_count > 1 ? "s" : "");
    left = print->style->width - vt_text_columns("vramtrace  · ") - vt_text_columns(command) -
           vt_text_columns(device) - vt_text_columns(steps) -
           vt_text_columns(VT_DURATION(report->duration_ns)) - 3;
    if (!brief) {
        char *who = vt_shorten(vt_short_command(facts), left > 20 ? left : 20, VT_CUT_MIDDLE);

        add_item(&items, VT_BOLD "vramtrace%s%s" VT_RESET, *command ? " " : "", command);
        add_item(&items, "%s", who);
        free(who);
    }
    if (!facts->complete)
        add_item(&items, VT_ALARM "%s" VT_RESET, facts->outcome);
    if (facts->dropped_events)
        add_item(&items, VT_ALARM "%s EVENTS LOST" VT_RESET, VT_COUNT(facts->dropped_events));
    if (full)
        add_item(&items, "pid %u", facts->pid);
    if (*device)
        add_item(&items, "%s", device + strlen(" · "));
    if (*steps)
        add_item(&items, "%s, %s", steps + strlen(" · "), VT_DURATION(report->duration_ns));
    else if (report->duration_ns)
        add_item(&items, "%s", VT_DURATION(report->duration_ns));
    fputs(*command || brief ? "\n\n" : "\n", print->stream);
    print_losses(print, facts);
}

static bool is_damaged(const struct vt_trace_facts *facts)
{
    for (size_t i = 0; i < facts->loss_count; i++)
        if (facts->losses[i].kind == VT_LOSS_DAMAGE)
            return true;
    return false;
}

/* Those that do not hold; they are of the process, so once. */
static void print_identities(struct vt_print *print, const struct vt_device_report *device)
{
    const struct vt_report *report = print->report;

    for (size_t i = 0; device == report->devices && i < report->identity_count; i++)
        if (report->identities[i].text[0])
            vt_print_paragraph(print, 0, 2, VT_BOLD "Identity:" VT_RESET " %s.", report->identities[i].text);
}

void vt_text_evidence(struct vt_print *print, const struct vt_device_report *device)
{
    const struct vt_instant *instant = device->shown;
    uint64_t unknown = instant->state.categories[VT_CATEGORY_UNKNOWN],
             all_weak = instant->evidence[VT_EVIDENCE_WEAK],
             weak = all_weak > unknown ? all_weak - unknown : 0, whole = 0;
    char exact[80] = "read from live objects", guessed[96];
    const struct {
        uint64_t bytes;
        const char *name;
    } parts[] = {{instant->evidence[VT_EVIDENCE_EXACT], exact},
                 {instant->evidence[VT_EVIDENCE_STRONG], "inferred from two independent signals"},
                 {weak, guessed},
                 {unknown, "unknown"}};
    const char *join = VT_BOLD "Evidence:" VT_RESET " ";

    if (print->report->facts.inspection_count)
        snprintf(exact, sizeof exact, "read from live objects (%zu inspection%s)",
                 print->report->facts.inspection_count,
                 print->report->facts.inspection_count == 1 ? "" : "s");
    snprintf(guessed, sizeof guessed, "guessed from one signal (up to %s may be in a wrong category)",
             VT_BYTES(weak / WEAK_WRONG_PART));
    for (int i = 0; i < VT_EVIDENCE_COUNT; i++)
        whole += instant->evidence[i];
    if (!whole)
        return;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        if (!parts[i].bytes)
            continue;
        fprintf(print->paragraph, "%s%s %s", join, VT_PERCENT(parts[i].bytes, whole), parts[i].name);
        join = ", ";
    }
    if (print->report->facts.dropped_events)
        fprintf(print->paragraph, ". %s events were lost.", VT_COUNT(print->report->facts.dropped_events));
    else /* in a damaged file, nobody knows */
        fputs(is_damaged(&print->report->facts) ? "." : ". No events were lost.", print->paragraph);
    vt_end_paragraph(print, 0, 2);
    print_identities(print, device);
}

void vt_text_page(const struct vt_report *report, const struct vt_view_style *style, FILE *out,
                  const char *command, const char *nothing, vt_text_section *section)
{
    struct vt_print print;

    vt_print_begin(&print, style, report);
    vt_text_header(&print, command);
    if (!report->device_count)
        nothing = "No GPU memory was allocated in this run.";
    if (nothing)
        vt_print_paragraph(&print, 0, 0, "%s", nothing);
    for (size_t i = 0; !nothing && i < report->device_count; i++) {
        if (i)
            fputc('\n', print.stream);
        vt_text_device(&print, &report->devices[i]);
        section(&print, &report->devices[i]);
    }
    vt_print_finish(&print, out);
}
