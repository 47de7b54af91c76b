/* A trace in a page: its entry in HEAD, and its blobs. */
#ifndef VT_PAGE_TRACE_H
#define VT_PAGE_TRACE_H

#include "report/report.h"
#include "view/html/blobs.h"
#include "view/json/json.h"

/* Appends the JSON object of a trace. See vt_html_add. */
void vt_page_trace_add(const struct vt_report *report, const struct vt_report *oom, struct vt_blobs *blobs,
                      struct vt_bytes *json);

/* A document as --json prints it. */
void vt_page_document_make(const struct vt_document *document, const void *root,
                          const struct vt_json_style *style, struct vt_bytes *raw);

#endif
