/* Page-locked host memory: a line of the report, and with --by line or stack a table. */
#include "view/text/text.h"

#define ROWS 30
#define LEAST_BYTES (UINT64_C(1) << 20) /* without --full */

static void print_sentence(struct vt_print *print, const struct vt_host_memory *host)
{
    const struct vt_report *report = print->report;
    const struct vt_group *most = host->lines.count ? &host->lines.items[0] : NULL;
    FILE *out = print->paragraph;

    fprintf(out, "Page-locked host memory: peak " VT_BOLD "%s" VT_RESET " %s", VT_BYTES(host->peak_bytes),
            VT_WHEN(report, &host->peak));
    if (host->shown_bytes != host->peak_bytes)
        fprintf(out, "; %s %s", VT_BYTES(host->shown_bytes), report->at_label);
    if (most && most->name[0] && most->bytes == host->shown_bytes)
        fprintf(out, ", all from %s", most->name);
    else if (most && most->name[0])
        fprintf(out, ", most from %s (%s)", most->name, VT_BYTES(most->bytes));
    fputc('.', out);
    vt_end_paragraph(print, 0, 2);
}

void vt_text_host_memory(struct vt_print *print)
{
    const struct vt_host_memory *host = &print->report->host;
    const size_t rows = print->style->top ? (size_t)print->style->top : ROWS;

    if (!host->peak_bytes || (host->peak_bytes < LEAST_BYTES && !print->style->full))
        return;
    print_sentence(print, host);
    if (print->style->by == VT_BY_LINE && host->shown_bytes)
        vt_text_lines_of(print, &host->lines, "Page-locked host memory by line", "of it", host->shown_bytes,
                         rows, false);
    else if (print->style->by == VT_BY_STACK && host->shown_bytes)
        vt_text_stacks_of(print, &host->stacks, "Page-locked host memory by stack", host->shown_bytes, rows,
                          false);
}
