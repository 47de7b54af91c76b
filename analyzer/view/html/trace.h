/* A trace in a page: its entry in HEAD, and its blobs. */
#ifndef VT_PAGE_TRACE_H
#define VT_PAGE_TRACE_H

#include "report/report.h"
#include "view/html/blobs.h"

/* Appends the JSON object of a trace. See vt_html_add. */
void vt_page_trace_add(const struct vt_report *report, const struct vt_report *oom, struct vt_blobs *blobs,
                       FILE *json);
/* "name":[each line of the text], and frees the text. */
void vt_page_put_lines(FILE *json, const char *name, char *text);

#endif
