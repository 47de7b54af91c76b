#include "view/html/page.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/allocate.h"
#include "view/html/base64.h"
#include "view/html/blobs.h"
#include "view/html/trace.h"
#include "view/json/json.h"

/* What comes before HEAD, between HEAD and the data, and after it; made by page/. */
static const char *const parts[] = {
#include "page_parts.inc"
};

struct vt_html {
    struct vt_blobs blobs;
    struct vt_bytes traces;   /* JSON: what is in the list of traces */
    struct vt_bytes title;    /* of the first trace, a JSON string */
    struct vt_bytes left_out; /* JSON strings: paths */
    struct vt_blob diff;
    bool compares;
};

struct vt_html *vt_html_make(void)
{
    struct vt_html *page = vt_allocate_zeros(1, sizeof *page);

    vt_blobs_make(&page->blobs);
    return page;
}

void vt_html_free(struct vt_html *page)
{
    if (!page)
        return;
    vt_blobs_free(&page->blobs);
    vt_bytes_free(&page->traces);
    vt_bytes_free(&page->title);
    vt_bytes_free(&page->left_out);
    free(page);
}

void vt_html_add(struct vt_html *page, const struct vt_report *report, const struct vt_report *oom)
{
    if (!page->title.count)
        vt_bytes_string(&page->title, report->facts.command[0] ? report->facts.command : report->facts.path);
    else
        vt_bytes_add(&page->traces, ",", 1);
    vt_page_trace_add(report, oom, &page->blobs, &page->traces);
}

void vt_html_leave_out(struct vt_html *page, const char *path)
{
    vt_bytes_add(&page->left_out, ",", page->left_out.count > 0);
    vt_bytes_string(&page->left_out, path);
}

void vt_html_compare(struct vt_html *page, const struct vt_diff *diff)
{
    struct vt_bytes raw = {0};

    vt_page_document_make(&vt_diff_document, diff, &(struct vt_json_style){.compact = true}, &raw);
    page->compares = true;
    page->diff = vt_blob_add(&page->blobs, &raw);
}

static void put_head(const struct vt_html *page, const char *title, struct vt_bytes *head)
{
    vt_bytes_print(head, "{\"format\":\"vramtrace.page/2\",\"version\":\"%s\",\"title\":", VRAMTRACE_VERSION);
    if (title)
        vt_bytes_string(head, title);
    else
        vt_bytes_add(head, page->title.data, page->title.count);
    vt_bytes_print(head, ",\"traces\":[");
    vt_bytes_add(head, page->traces.data, page->traces.count);
    vt_bytes_print(head, "],\"left_out\":[");
    vt_bytes_add(head, page->left_out.data, page->left_out.count);
    vt_bytes_print(head, "],\"diff\":%s", page->compares ? "{" : "null");
    if (page->compares)
        vt_blob_describe(&page->diff, head);
    vt_bytes_print(head, "%s", page->compares ? "}}" : "}");
}

int vt_html_write(const struct vt_html *page, const char *title, FILE *out)
{
    struct vt_bytes head = {0};

    put_head(page, title, &head);
    errno = 0;
    fputs(parts[0], out);
    fwrite(head.data, 1, head.count, out);
    fputs(parts[1], out);
    vt_base64_write(page->blobs.data.data, page->blobs.data.count, out);
    fputs(parts[2], out);
    vt_bytes_free(&head);
    return ferror(out) ? (errno ? -errno : -EIO) : 0;
}
