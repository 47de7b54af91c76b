/* "Would help": what would have lowered the peak. */
#include "view/text/text.h"

void vt_text_advice(struct vt_print *print, const struct vt_device_report *device)
{
    const struct vt_advices *advices = &device->advices;
    char bytes[32], percent[32];

    if (advices->count)
        fprintf(print->stream,
                "\n" VT_BOLD "Would help" VT_RESET VT_DIM "  (each by itself, at the peak)" VT_RESET "\n");
    for (size_t i = 0; i < advices->count; i++) {
        const struct vt_advice *advice = &advices->items[i];
        bool named = advice->module[0] || !advice->where[0]; /* what is said names the module */

        vt_print_paragraph(print, 2, 4, VT_BOLD "−%s" VT_RESET " (%s)  %s",
                           vt_format_bytes(advice->bytes, bytes),
                           vt_format_percent(advice->bytes, advices->peak_bytes, percent), advice->what);
        vt_print_paragraph(print, 4, 4, VT_DIM "%s%s%s." VT_RESET, advice->why, named ? "" : ": ",
                           named ? "" : advice->where);
    }
}
