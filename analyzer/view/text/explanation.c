/* An explanation as text. */
#include "view/text/text.h"

#include <inttypes.h>
#include <string.h>

static void print_rule(struct vt_print *print, const struct vt_reason *reason)
{
    vt_print_paragraph(print, 4, 6, "by rule %s, %s:%d", reason->rule_name, reason->rule_file,
                       reason->rule_line);
    for (const char *line = reason->rule_text; *line; line += strcspn(line, "\n"), line += *line == '\n')
        if (line[strspn(line, " \t\r")] != '#' && line[strspn(line, " \t\r")] != '\n')
            fprintf(print->stream, "        " VT_DIM "%.*s" VT_RESET "\n", (int)strcspn(line, "\n"), line);
}

static void print_how(struct vt_print *print, const struct vt_reason *reason)
{
    char time[32];

    if (reason->rule_name) {
        print_rule(print, reason);
    } else if (reason->inspection) {
        vt_format_duration(reason->inspection_t_ns, time);
        vt_print_paragraph(print, 4, 6,
                           "read from the live object: look %" PRIu32 ", %s after start, saw %s %s%s",
                           reason->inspection, time, reason->role, reason->path,
                           reason->blocks > 1 ? " in the largest" : "");
    } else if (reason->category == VT_CATEGORY_UNKNOWN) {
        vt_print_paragraph(print, 4, 6, "no rule holds for it");
    } else {
        vt_print_paragraph(print, 4, 6, "by the kind of allocation alone");
    }
}

static void print_reason(struct vt_print *print, const struct vt_reason *reason, uint64_t whole)
{
    char bytes[32], percent[32], count[32];

    fprintf(print->stream, "%12s  %7s  \x0e%c%s" VT_RESET ", %s evidence, %s block%s\n",
            vt_format_bytes(reason->bytes, bytes), vt_format_percent(reason->bytes, whole, percent),
            VT_MARK_INK + (int)reason->category, vt_category_label(reason->category),
            vt_evidence_name(reason->evidence), vt_format_count(reason->blocks, count),
            reason->blocks == 1 ? "" : "s");
    print_how(print, reason);
    vt_print_paragraph(print, 4, 6, "%s%s%s%s%s%s", reason->owner ? reason->owner : "",
                       reason->owner ? ", made by " : "made by ",
                       reason->stack[0] ? reason->stack : "no recorded stack",
                       reason->forward_stack[0] ? ", backward of " : "", reason->forward_stack,
                       reason->blocks > 1 ? " (the largest)" : "");
}

void vt_text_explanation(struct vt_print *print, const struct vt_report *report,
                         const struct vt_device_report *device)
{
    const struct vt_explanation *explanation = &device->explanation;
    const struct vt_instant *instant = device->shown;
    uint64_t whole = instant->state.used_bytes;
    const char *moment = report->at_label;
    char when[160], bytes[32], percent[32], count[32];

    vt_text_when(report, instant->state.t_ns, instant->state.step, instant->state.phase, when);
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
    for (size_t i = 0; i < explanation->count; i++) {
        fputc('\n', print->stream);
        print_reason(print, &explanation->reasons[i], whole);
    }
}
