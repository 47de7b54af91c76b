#include "view/html/page.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <cJSON.h>

#include "base/allocate.h"
#include "base/memory_stream.h"
#include "view/html/trace.h"
#include "view/text/views.h"

/* What comes before HEAD, between HEAD and the data, and after it; made by page/. */
static const char *const parts[] = {
#include "page_parts.inc"
};

struct vt_html {
    struct vt_blobs blobs;
    FILE *traces, *left_out; /* JSON: what is in these lists */
    char *traces_text, *left_out_text, *job_text, *trials_text, *title;
    size_t traces_bytes, left_out_bytes, job_bytes, trials_bytes;
    struct vt_blob diff;
    bool compares;
};

struct vt_html *vt_html_make(void)
{
    struct vt_html *page = vt_allocate_zeros(1, sizeof *page);

    vt_blobs_make(&page->blobs);
    page->traces = vt_memory_stream(&page->traces_text, &page->traces_bytes);
    page->left_out = vt_memory_stream(&page->left_out_text, &page->left_out_bytes);
    return page;
}

void vt_html_free(struct vt_html *page)
{
    vt_blobs_free(&page->blobs);
    fclose(page->traces);
    fclose(page->left_out);
    free(page->traces_text);
    free(page->left_out_text);
    free(page->job_text);
    free(page->trials_text);
    free(page->title);
    free(page);
}

void vt_html_add(struct vt_html *page, const struct vt_report *report, const struct vt_report *oom)
{
    if (page->title)
        fputs(",", page->traces);
    else
        page->title = vt_copy_text(report->facts.command[0] ? report->facts.command : report->facts.path);
    vt_page_trace_add(report, oom, &page->blobs, page->traces);
}

void vt_html_leave_out(struct vt_html *page, const char *path)
{
    fputs(ftell(page->left_out) ? "," : "", page->left_out);
    vt_json_text(path, true, page->left_out);
}

void vt_html_add_job(struct vt_html *page, const struct vt_job *job)
{
    struct vt_job shown = *job;
    FILE *json = vt_memory_stream(&page->job_text, &page->job_bytes), *stream;
    char *text;
    size_t bytes;

    shown.row_count = shown.columns = 0; /* each trace has its own */
    stream = vt_memory_stream(&text, &bytes);
    vt_text_job_paragraphs(job, stream);
    fclose(stream);
    vt_page_put_lines(json, "said", text);
    vt_json_fields(&vt_job_document, &shown, &(struct vt_json_style){.in_html = true, .top = 1}, json);
    fclose(json);
}

bool vt_html_add_trials(struct vt_html *page, const char *text, size_t bytes, bool redact)
{
    cJSON *root = cJSON_ParseWithLength(text, bytes), *trials = cJSON_GetObjectItem(root, "trials"), *trial;
    FILE *json = vt_memory_stream(&page->trials_text, &page->trials_bytes);

    cJSON_ArrayForEach(trial, trials)
    {
        const char *changes = cJSON_GetStringValue(cJSON_GetObjectItem(trial, "changes"));
        const cJSON *peak = cJSON_GetObjectItem(trial, "peak_used_bytes");

        if (!changes || !cJSON_IsNumber(peak))
            continue; /* it failed */
        if (redact && (strstr(changes, "arg:") || strstr(changes, "env:")))
            continue;
        fprintf(json, "%s{\"bytes\":%.0f,\"changes\":", ftell(json) ? "," : "", peak->valuedouble);
        vt_json_text(changes, true, json);
        fputs("}", json);
    }
    fclose(json);
    cJSON_Delete(root);
    return trials;
}

void vt_html_compare(struct vt_html *page, const struct vt_diff *diff)
{
    page->compares = true;
    page->diff =
        vt_blob_of_document(&page->blobs, &vt_diff_document, diff, &(struct vt_json_style){.compact = true});
}

static void put_head(const struct vt_html *page, const char *title, FILE *out)
{
    fflush(page->traces);
    fflush(page->left_out);
    fprintf(out, "{\"format\":\"vramtrace.page/2\",\"version\":\"%s\",\"title\":", VRAMTRACE_VERSION);
    vt_json_text(title ? title : page->title, true, out);
    fprintf(out, ",\"traces\":[%s],\"left_out\":[%s],\"trials\":[%s],\"job\":%s%s%s,\"diff\":%s",
            page->traces_text, page->left_out_text, page->trials_text ? page->trials_text : "",
            page->job_text ? "{" : "null", page->job_text ? page->job_text : "", page->job_text ? "}" : "",
            page->compares ? "{" : "null}");
    if (page->compares) {
        vt_blob_describe(&page->diff, out);
        fputs("}}", out);
    }
}

#define GROUPS 4096u /* of three bytes, at once */

static void put_base64(const char *data, size_t bytes, FILE *out)
{
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const uint8_t *in = (const uint8_t *)data;
    char text[GROUPS * 4];

    while (bytes) {
        size_t used = 0;

        for (; bytes && used < sizeof text; used += 4) {
            size_t taken = bytes < 3 ? bytes : 3;
            uint32_t group = (uint32_t)in[0] << 16 | (taken > 1 ? in[1] << 8 : 0) | (taken > 2 ? in[2] : 0);

            text[used] = letters[group >> 18];
            text[used + 1] = letters[group >> 12 & 63];
            text[used + 2] = taken > 1 ? letters[group >> 6 & 63] : '=';
            text[used + 3] = taken > 2 ? letters[group & 63] : '=';
            in += taken;
            bytes -= taken;
        }
        fwrite(text, 1, used, out);
    }
}

int vt_html_write(const struct vt_html *page, const char *title, FILE *out)
{
    errno = 0;
    fputs(parts[0], out);
    put_head(page, title, out);
    fputs(parts[1], out);
    put_base64(page->blobs.data, page->blobs.bytes, out);
    fputs(parts[2], out); /* so long that nothing is left for a flush, which would say why it failed */
    return ferror(out) ? (errno ? -errno : -EIO) : 0;
}
