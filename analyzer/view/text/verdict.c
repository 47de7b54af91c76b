/* The sentences of the text report. */
#include "view/text/text.h"
#include "report/parts.h"

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
        snprintf(text, 160, "at step %u, in %s%s (%s after start)", step,
                 phase == VT_PHASE_OPTIMIZER ? "the " : "", vt_phase_name(phase), time);
    return text;
}

/* The modules that hold most of a category: the innermost that hold more than half of it, however many there
 * are, else the largest. NULL = no module holds any. */
static const struct vt_module_family *largest_place(const struct vt_module_families *places, uint64_t all)
{
    const struct vt_module_family *best = NULL;

    for (size_t i = 0; i < places->count; i++) {
        const struct vt_module_family *place = &places->items[i];
        bool half = place->bytes * 2 > all, best_half = best && best->bytes * 2 > all;

        if (!best || (half && best_half && strlen(place->name) > strlen(best->name)))
            best = place; /* they come largest first */
    }
    return best;
}

static const struct vt_group *largest_line(const struct vt_groups *lines, unsigned category)
{
    const struct vt_group *best = NULL;

    for (size_t i = 0; i < lines->count; i++)
        if (lines->items[i].name[0] &&
            lines->items[i].categories[category] > (best ? best->categories[category] : 0))
            best = &lines->items[i];
    return best;
}

static const char *part_of(uint64_t bytes, uint64_t all)
{
    return bytes == all ? "all" : bytes * 2 > all ? "most" : "the largest part";
}

static void name_place(const struct vt_module_family *place, uint64_t all, FILE *stream)
{
    char size[32];

    fprintf(stream, ", %s in %.200s (", part_of(place->bytes, all), place->name);
    if (place->members > 1)
        fprintf(stream, "%" PRIu64 " modules, %s ", place->members, place->same ? "each" : "together");
    fprintf(stream, "%s)", vt_format_bytes(place->same ? place->low_bytes : place->bytes, size));
}

static void name_line(const struct vt_group *line, unsigned category, uint64_t all, FILE *stream)
{
    char size[32];

    fprintf(stream, ", %s made at %.300s (%s)", part_of(line->categories[category], all), line->name,
            vt_format_bytes(line->categories[category], size));
}

/* Names who has most of a category: modules where they have most of it, a line where it has more than modules
 * that do not, or as much as a single module. */
static void name_largest(const struct vt_instant *instant, unsigned category, FILE *stream)
{
    const struct vt_group *line = largest_line(&instant->groups[VT_BY_LINE], category);
    uint64_t all = instant->categories[category], in_place, in_line = line ? line->categories[category] : 0;
    const struct vt_module_family *place;
    struct vt_module_families places;

    if (vt_fold_places(&instant->groups[VT_BY_MODULE], category, &places))
        return;
    place = largest_place(&places, all);
    in_place = place ? place->bytes : 0;
    if (place && (in_place * 2 > all || in_place >= in_line))
        name_place(place, all, stream);
    if (line && (in_place * 2 <= all ? in_line > in_place : place->members == 1 && in_line >= in_place))
        name_line(line, category, all, stream);
    vt_module_families_free(&places);
}

/* True if so much is known by weak evidence only that the category is as well, for the larger part. */
static bool is_guess(const struct vt_instant *instant, unsigned category, uint64_t used)
{
    uint64_t weak = instant->evidence[VT_EVIDENCE_WEAK], bytes = instant->categories[category];
    uint64_t others = used - bytes;

    return category != VT_CATEGORY_UNKNOWN && weak > others && (weak - others) * 2 > bytes;
}

/* The largest category of an instant, in a sentence. */
static void print_largest(FILE *stream, const struct vt_instant *instant)
{
    uint64_t used = vt_used_bytes(instant->categories), left[VT_CATEGORY_COUNT];
    unsigned category;
    char share[32] = "All";

    memcpy(left, instant->categories, sizeof left);
    left[VT_CATEGORY_CACHED] = left[VT_CATEGORY_CONTEXT] = left[VT_CATEGORY_HOST_PINNED] = 0;
    category = vt_largest_category(left);
    if (!left[category])
        return;
    if (left[category] < used && left[category] >= used - used / 200)
        snprintf(share, sizeof share, "Nearly all");
    else if (left[category] < used)
        snprintf(share, sizeof share, "%.0f %%", 100.0 * (double)left[category] / (double)used);
    fprintf(stream, " %s of it is %s%s", share, is_guess(instant, category, used) ? "probably " : "",
            vt_category_style(category)->many);
    name_largest(instant, category, stream);
    fputc('.', stream);
}

void vt_text_verdict(struct vt_print *print, const struct vt_report *report,
                     const struct vt_device_report *device)
{
    const struct vt_instant *peak = &device->peak, *at = &device->at;
    uint64_t end_bytes = vt_used_bytes(device->end.categories);
    char bytes[32], end[32], when[160], *text = NULL;
    size_t length;
    FILE *stream = open_memstream(&text, &length);

    if (!stream)
        return;
    if (!peak->counts.driver_bytes) {
        fprintf(stream, "GPU %d held no memory of this process.", device->index);
    } else {
        fprintf(stream, VT_BOLD "Peak %s" VT_RESET " in use %s; %s %s.",
                vt_format_bytes(vt_used_bytes(peak->categories), bytes),
                vt_text_when(report, peak->t_ns, peak->step, peak->phase, when),
                end_bytes ? vt_format_bytes(end_bytes, end) : "nothing",
                report->trace->header.state == VT_STATE_COMPLETE ? "at the end" : "where the trace ends");
        if (at->present)
            fprintf(stream, " The tables show %s, %s: " VT_BOLD "%s" VT_RESET " in use.", report->at_label,
                    vt_text_when(report, at->t_ns, at->step, at->phase, when),
                    vt_format_bytes(vt_used_bytes(at->categories), bytes));
        print_largest(stream, at->present ? at : peak);
    }
    if (!fclose(stream))
        vt_print_paragraph(print, 0, 0, "%s", text);
    free(text);
}

void vt_text_card(struct vt_print *print, const struct vt_report *report,
                  const struct vt_device_report *device)
{
    const struct vt_instant *instant = vt_shown_instant(device);
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
                 {instant->categories[VT_CATEGORY_CONTEXT], "CUDA context"}};

    if (!stream)
        return;
    fprintf(stream, VT_BOLD "The card:" VT_RESET " %s of this process",
            vt_format_bytes(counts->driver_bytes, bytes));
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        if (!parts[i].bytes)
            continue;
        fprintf(stream, "%s%s %s", join, vt_format_bytes(parts[i].bytes, bytes), parts[i].name);
        join = " + ";
    }
    fputc('.', stream);
    if (instant->rounding_bytes)
        fprintf(stream, " %s of the blocks is rounding.", vt_format_bytes(instant->rounding_bytes, bytes));
    if (vt_free_near(report->trace, instant->event_index, device->index, &free_bytes, &total_bytes) &&
        total_bytes > free_bytes && total_bytes - free_bytes > counts->driver_bytes)
        fprintf(stream,
                " The driver told %s in use on the whole card then: %s more, of other processes or not seen.",
                vt_format_bytes(total_bytes - free_bytes, bytes),
                vt_format_bytes(total_bytes - free_bytes - counts->driver_bytes, other));
    if (!fclose(stream))
        vt_print_paragraph(print, 0, 2, "%s", text);
    free(text);
}

void vt_text_evidence(struct vt_print *print, const struct vt_report *report,
                      const struct vt_device_report *device)
{
    const struct vt_instant *instant = vt_shown_instant(device);
    uint64_t unknown = instant->categories[VT_CATEGORY_UNKNOWN], weak = instant->evidence[VT_EVIDENCE_WEAK],
             whole = 0;
    char exact[80] = "exact (read from the live object)";
    const struct {
        uint64_t bytes;
        const char *name;
    } parts[] = {{instant->evidence[VT_EVIDENCE_EXACT], exact},
                 {instant->evidence[VT_EVIDENCE_STRONG], "strong (stack and lifetime agree)"},
                 {weak > unknown ? weak - unknown : 0, "weak"},
                 {unknown, "unknown"}};
    char line[256] = "", text[32];
    size_t used = 0;

    if (report->trace->inspection_count)
        snprintf(exact, sizeof exact, "exact (read from live objects in %zu look%s)",
                 report->trace->inspection_count, report->trace->inspection_count == 1 ? "" : "s");
    for (int i = 0; i < VT_EVIDENCE_COUNT; i++)
        whole += instant->evidence[i];
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (parts[i].bytes)
            used += (size_t)snprintf(line + used, sizeof line - used, "%s%s %s", used ? ", " : "",
                                     vt_format_percent(parts[i].bytes, whole, text), parts[i].name);
    if (!used)
        return;
    if (report->trace->header.dropped)
        vt_print_paragraph(print, 0, 2, VT_BOLD "Evidence:" VT_RESET " %s. %s events were lost.", line,
                           vt_format_count(report->trace->header.dropped, text));
    else
        vt_print_paragraph(print, 0, 2, VT_BOLD "Evidence:" VT_RESET " %s. No event was lost.", line);
}
