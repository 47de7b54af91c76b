/* An explanation as text and as JSON. */
#include "view/json/json.h"
#include "report/stack_names.h"
#include "view/text/text.h"

#include <inttypes.h>
#include <string.h>

static const char *how_name(const struct vt_reason *reason)
{
    return reason->source.name[0] ? "rule" : reason->inspection ? "look" : "kind";
}

static void print_rule(struct vt_print *print, const struct vt_rule_source *source)
{
    vt_print_paragraph(print, 4, 6, "by rule %s, %s:%d", source->name, source->file, source->line);
    for (const char *line = source->text; *line; line += strcspn(line, "\n"), line += *line == '\n')
        if (line[strspn(line, " \t\r")] != '#' && line[strspn(line, " \t\r")] != '\n')
            fprintf(print->stream, "        " VT_DIM "%.*s" VT_RESET "\n", (int)strcspn(line, "\n"), line);
}

static void print_how(struct vt_print *print, const struct vt_report *report, const struct vt_reason *reason)
{
    const struct vt_trace *trace = report->trace;
    char time[32];

    if (reason->source.name[0]) {
        print_rule(print, &reason->source);
    } else if (reason->inspection) {
        vt_format_duration(vt_event_time(trace, trace->inspections[reason->inspection - 1].event_index), time);
        vt_print_paragraph(print, 4, 6,
                           "read from the live object: look %" PRIu32 ", %s after start, saw %s %s%s",
                           reason->inspection, time, reason->tensor->role, reason->tensor->path,
                           reason->blocks > 1 ? " in the largest" : "");
    } else if (reason->category == VT_CATEGORY_UNKNOWN) {
        vt_print_paragraph(print, 4, 6, "no rule holds for it");
    } else {
        vt_print_paragraph(print, 4, 6, "by the kind of allocation alone");
    }
}

static void print_reason(struct vt_print *print, const struct vt_report *report,
                         const struct vt_reason *reason, uint64_t whole, struct vt_stack_namer *namer)
{
    const struct vt_allocation *allocation = &report->attribution->replay->allocations[reason->allocation];
    const struct vt_label *label = &report->attribution->labels[reason->allocation];
    const char *stack = vt_stack_name_of(namer, allocation->stack_id)->text;
    const char *forward =
        label->forward_stack_id ? vt_stack_name_of(namer, label->forward_stack_id)->text : NULL;
    char bytes[32], percent[32], count[32];

    fprintf(print->stream, "%12s  %7s  \x0e%c%s" VT_RESET ", %s evidence, %s block%s\n",
            vt_format_bytes(reason->bytes, bytes), vt_format_percent(reason->bytes, whole, percent),
            VT_MARK_INK + (int)reason->category, vt_category_style(reason->category)->label,
            vt_evidence_name(reason->evidence), vt_format_count(reason->blocks, count),
            reason->blocks == 1 ? "" : "s");
    print_how(print, report, reason);
    vt_print_paragraph(print, 4, 6, "%s%s%s%s%s%s", label->owner ? label->owner : "",
                       label->owner ? ", made by " : "made by ",
                       stack && stack[0] ? stack : "no recorded stack",
                       forward && forward[0] ? ", backward of " : "", forward && forward[0] ? forward : "",
                       reason->blocks > 1 ? " (the largest)" : "");
}

void vt_text_explanation(struct vt_print *print, const struct vt_report *report,
                         const struct vt_device_report *device)
{
    const struct vt_explanation *explanation = &device->explanation;
    const struct vt_instant *instant = vt_shown_instant(device);
    uint64_t whole = vt_used_bytes(instant->categories);
    struct vt_stack_namer *namer = NULL;
    const char *moment = device->at.present ? report->at_label : "the peak";
    char when[160], bytes[32], percent[32], count[32];

    vt_text_when(report, instant->t_ns, instant->step, instant->phase, when);
    if (!explanation->blocks) {
        if (explanation->way)
            vt_print_paragraph(print, 0, 0, "Nothing that was allocated on GPU %d counts as %s at %s, %s.",
                               device->index, explanation->what, moment, when);
        else
            vt_print_paragraph(
                print, 0, 0,
                "Nothing alive on GPU %d at %s, %s, is called '%s': it is no category, owner or module "
                "then, nor a FILE:LINE that made something (report --by block lists all).",
                device->index, moment, when, explanation->what);
        return;
    }
    vt_print_paragraph(print, 0, 0,
                       VT_BOLD "%s" VT_RESET " (%s) at %s, %s: " VT_BOLD "%s" VT_RESET
                               " in %s block%s, %s of what was in use.",
                       explanation->what, explanation->way_label, moment, when,
                       vt_format_bytes(explanation->bytes, bytes),
                       vt_format_count(explanation->blocks, count), explanation->blocks == 1 ? "" : "s",
                       vt_format_percent(explanation->bytes, whole, percent));
    if (!vt_stack_namer_make(report->trace, &namer)) {
        for (size_t i = 0; i < explanation->count; i++) {
            fputc('\n', print->stream);
            print_reason(print, report, &explanation->reasons[i], whole, namer);
        }
    }
    vt_stack_namer_free(namer);
}

static cJSON *make_reason(const struct vt_report *report, const struct vt_reason *reason)
{
    const struct vt_allocation *allocation = &report->attribution->replay->allocations[reason->allocation];
    const struct vt_label *label = &report->attribution->labels[reason->allocation];
    cJSON *object = vt_json_item(), *how;

    vt_json_text(object, "category", vt_category_name(reason->category));
    vt_json_text(object, "evidence", vt_evidence_name(reason->evidence));
    vt_json_text(object, "how", how_name(reason));
    if (!strcmp(how_name(reason), "rule")) {
        how = vt_json_object(object, "rule");
        vt_json_text(how, "name", reason->source.name);
        vt_json_text(how, "file", reason->source.file);
        vt_json_number(how, "line", (uint64_t)reason->source.line);
        vt_json_text(how, "text", reason->source.text);
    } else if (reason->inspection) {
        how = vt_json_object(object, "look");
        vt_json_number(how, "number", reason->inspection);
        vt_json_number(how, "t_ns",
                       vt_event_time(report->trace, report->trace->inspections[reason->inspection - 1].event_index));
        vt_json_text(how, "role", reason->tensor->role);
        vt_json_text(how, "path", reason->tensor->path);
    }
    vt_json_number(object, "bytes", reason->bytes);
    vt_json_number(object, "blocks", reason->blocks);
    vt_json_name(object, "owner", label->owner);
    vt_json_put(object, "stack", vt_json_stack(report->trace, allocation->stack_id));
    if (label->forward_stack_id)
        vt_json_put(object, "forward_stack", vt_json_stack(report->trace, label->forward_stack_id));
    return object;
}

void vt_json_explanation(cJSON *device, const struct vt_report *report,
                         const struct vt_explanation *explanation)
{
    cJSON *object = vt_json_object(device, "explanation"), *reasons;

    vt_json_text(object, "what", explanation->what);
    vt_json_name(object, "as", explanation->way);
    vt_json_number(object, "bytes", explanation->bytes);
    vt_json_number(object, "blocks", explanation->blocks);
    reasons = vt_json_array(object, "reasons");
    for (size_t i = 0; i < explanation->count; i++)
        vt_json_append(reasons, make_reason(report, &explanation->reasons[i]));
}
