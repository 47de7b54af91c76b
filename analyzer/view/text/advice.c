/* "Would help": what would have lowered the peak. */
#include "diagnose/advice.h"
#include "view/json/json.h"
#include "report/parts.h"
#include "view/text/text.h"

static void name_place(const struct vt_report *report, const struct vt_advice *advice, char *text,
                       size_t bytes)
{
    struct vt_frame frame;

    text[0] = '\0';
    if (advice->where[0])
        snprintf(text, bytes, "%s", advice->where);
    else if (advice->stack_id && vt_trace_user_frame(report->trace, advice->stack_id, &frame))
        vt_name_frame(report->trace, &frame, text, bytes);
}

void vt_text_advice(struct vt_print *print, const struct vt_report *report,
                    const struct vt_device_report *device)
{
    struct vt_advices advices;
    char bytes[32], percent[32], place[256];

    if (vt_advice_find(report->attribution, device->index, &advices))
        return;
    if (advices.count)
        fprintf(print->stream,
                "\n" VT_BOLD "Would help" VT_RESET VT_DIM "  (each by itself, at the peak)" VT_RESET "\n");
    for (size_t i = 0; i < advices.count; i++) {
        const struct vt_advice *advice = &advices.items[i];

        name_place(report, advice, place, sizeof place);
        vt_print_paragraph(print, 2, 4, VT_BOLD "−%s" VT_RESET " (%s)  %s",
                           vt_format_bytes(advice->bytes, bytes),
                           vt_format_percent(advice->bytes, advices.peak_bytes, percent), advice->what);
        vt_print_paragraph(print, 4, 4, VT_DIM "%s%s%s." VT_RESET, advice->why,
                           place[0] && !advice->where[0] ? ": " : "", advice->where[0] ? "" : place);
    }
    vt_advice_free(&advices);
}

void vt_json_advice(cJSON *object, const struct vt_report *report, const struct vt_device_report *device)
{
    cJSON *array = vt_json_array(object, "advice");
    struct vt_advices advices;
    char place[256];

    if (vt_advice_find(report->attribution, device->index, &advices)) {
        vt_json_fail();
        return;
    }
    for (size_t i = 0; i < advices.count; i++) {
        const struct vt_advice *advice = &advices.items[i];
        cJSON *item = vt_json_item();

        name_place(report, advice, place, sizeof place);
        vt_json_text(item, "kind", advice->kind);
        vt_json_text(item, "what", advice->what);
        vt_json_number(item, "bytes", advice->bytes);
        vt_json_real(item, "share", (double)advice->bytes / (double)advices.peak_bytes);
        vt_json_text(item, "why", advice->why);
        vt_json_text(item, "where", place);
        vt_json_append(array, item);
    }
    vt_advice_free(&advices);
}
