#include "view/html/trace.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/allocate.h"
#include "base/format.h"
#include "base/memory_stream.h"
#include "view/html/allocations.h"
#include "view/text/text.h"

#define MOST_MARKS 64u /* in HEAD; of more there is a table */

/* ---- The entry in HEAD: what schema.def does not have ---- */

/* "train" of "runs/train.vrt" */
static void put_name(FILE *json, const char *path)
{
    const char *name = basename(path);
    char *stem = vt_copy_bytes(name, vt_stem_bytes(name));

    fputs(",\"name\":", json);
    vt_json_text(stem, true, json);
    free(stem);
}

static void put_losses(FILE *json, const struct vt_trace_facts *facts)
{
    fputs(",\"losses\":[", json);
    for (size_t i = 0; i < facts->loss_count; i++) {
        const struct vt_loss *loss = &facts->losses[i];
        char *sentence = vt_print_text("%s%s", loss->headline, loss->detail);

        fputs(i ? "," : "", json);
        vt_json_text(loss->detail[0] ? sentence : loss->text, true, json);
        free(sentence);
    }
    fputs("]", json);
}

void vt_page_put_lines(FILE *json, const char *name, char *text)
{
    const char *comma = "";
    char *rest;

    fprintf(json, "\"%s\":[", name);
    for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        fputs(comma, json);
        vt_json_text(line + strspn(line, " "), true, json);
        comma = ",";
    }
    fputs("],", json);
    free(text);
}

/* What the text report says. */
static void put_said(FILE *json, const char *name, const struct vt_report *report,
                     const struct vt_device_report *device, vt_text_section *section)
{
    char *text;
    size_t bytes;
    FILE *stream = vt_memory_stream(&text, &bytes);

    vt_text_paragraphs(report, device, section, stream);
    fclose(stream);
    vt_page_put_lines(json, name, text);
}

static uint32_t change_at(const struct vt_page_allocations *allocations, uint32_t event)
{
    return event < allocations->event_count ? allocations->changes[event] : 0;
}

static void put_devices(FILE *json, const struct vt_report *report,
                        const struct vt_page_allocations *allocations, const struct vt_json_style *style)
{
    fputs("\"devices\":[", json);
    for (size_t i = 0; i < report->device_count; i++) {
        const struct vt_device_report *device = &report->devices[i];
        bool has_blocks = allocations->block_devices >> (device->index & 63) & 1;

        fprintf(json, "%s{\"peak_change\":%" PRIu32 ",\"end_change\":%zu,\"has_blocks\":%s,", i ? "," : "",
                change_at(allocations, device->peak.state.event_index),
                allocations->change_count ? allocations->change_count - 1 : 0, has_blocks ? "true" : "false");
        put_said(json, "served", report, device, vt_text_inference);
        put_said(json, "gpu", report, device, vt_text_gpu);
        put_said(json, "graph_pools", report, device, vt_text_graph_pools);
        put_said(json, "evidence", report, device, vt_text_evidence);
        vt_json_fields(&vt_page_device_document, device, style, json);
        fputs("}", json);
    }
    fputs("]", json);
}

static void put_categories(FILE *json)
{
    fputs(",\"categories\":[", json);
    for (unsigned c = 0; c < VT_CATEGORY_COUNT; c++)
        fprintf(json, "%s{\"name\":\"%s\",\"label\":\"%s\"}", c ? "," : "", vt_category_name(c),
                vt_category_label(c));
    fputs("]", json);
}

static void put_trace(FILE *json, const struct vt_page_trace *page, const struct vt_report *oom,
                      const struct vt_page_allocations *allocations)
{
    const struct vt_report *report = page->report;
    const struct vt_json_style style = {.report = report, .in_html = true, .top = 1};
    struct vt_report head = *report;

    head.mark_count = head.mark_count > MOST_MARKS ? 0 : head.mark_count;
    fprintf(json, "{\"blobs\":{%s},\"allocations\":%zu,\"changes\":%zu,\"tick_ns\":%" PRIu64,
            page->entries_text, allocations->count, allocations->change_count, allocations->tick_ns);
    put_name(json, report->facts.path);
    put_losses(json, &report->facts);
    fputs(",", json);
    if (oom && oom->shortage.cause_count) {
        fputs("\"oom_cause\":", json);
        vt_json_text(oom->shortage.causes[0].what, true, json);
        fputs(",", json);
    }
    put_said(json, "verdict", report, NULL, NULL);
    put_devices(json, report, allocations, &style);
    put_categories(json);
    fputs(",", json);
    vt_json_fields(&vt_page_trace_document, &head, &style, json);
    fputs("}", json);
}

/* ---- Blobs ---- */

static void put_documents(struct vt_page_trace *page, const struct vt_report *oom)
{
    const struct {
        const char *name;
        const struct vt_document *document;
        const struct vt_report *root;
    } documents[] = {{"report", &vt_report_document, page->report},
                     {"leaks", &vt_leaks_document, page->report},
                     {"oom", &vt_oom_document, oom ? oom : page->report}};

    for (size_t i = 0; i < sizeof documents / sizeof *documents; i++) {
        const struct vt_report *root = documents[i].root;

        vt_page_blob_add(page, documents[i].name,
                         vt_blob_of_document(page->blobs, documents[i].document, root,
                                             &(struct vt_json_style){
                                                 .places = root->places, .compact = true, .report = root}));
    }
}

/* What each advice would have saved, from an event on until the next row. */
static void put_savings(struct vt_page_trace *page)
{
    static const char *const columns[] = {"device", "advice", "event", "bytes"};
    struct vt_page_table table = {.page = page};

    for (size_t i = 0; i < sizeof columns / sizeof *columns; i++)
        vt_page_table_add(&table, columns[i], VT_ENCODING_DELTAS);
    for (size_t i = 0; i < page->report->device_count; i++)
        for (size_t k = 0; k < page->report->devices[i].advices.count; k++) {
            const struct vt_savings *savings = &page->report->devices[i].advices.items[k].savings;
            for (size_t n = 0; n < savings->count; n++)
                vt_page_table_put(&table,
                                  (uint64_t[]){(uint64_t)page->report->devices[i].index, k,
                                               vt_report_event_number(page->report, savings->items[n].event),
                                               savings->items[n].bytes});
        }
    vt_page_table_finish(&table, "savings");
}

/* After all tables, which number them. */
static void put_strings(struct vt_page_trace *page)
{
    char *text;
    size_t bytes;
    FILE *json = vt_memory_stream(&text, &bytes);

    for (size_t i = 0; i < page->strings.count; i++) {
        fputs(i ? "," : "[", json);
        vt_json_text(page->strings.items[i], false, json);
    }
    fputs("]", json);
    fclose(json);
    vt_page_blob_add(page, "strings", vt_blob_add(page->blobs, text, bytes));
}

static void put_blobs(struct vt_page_trace *page, struct vt_page_allocations *allocations,
                      const struct vt_report *oom)
{
    static const char *const phases[] = {"first_event", "phase", "step", "t_ns", NULL};
    static const char *const steps[] = {
        "device", "step", "first_event", "last_event",      "t_ns",           "duration_ns",
        "large",  "slow", "peak_event",  "peak_used_bytes", "end_used_bytes", NULL};
    static const char *const marks[] = {"event", "t_ns", "name", NULL};
    static const char *const requests[] = {"first_event", "last_event", NULL};

    vt_strings_find(&page->strings, "", NULL);
    vt_page_allocations_add(page, allocations);
    vt_page_table_copy(page, VT_TABLE_PHASES, phases, NULL, NULL);
    vt_page_table_copy(page, VT_TABLE_STEPS, steps, NULL, NULL);
    if (page->report->mark_count > MOST_MARKS)
        vt_page_table_copy(page, VT_TABLE_MARKS, marks, NULL, NULL);
    vt_page_table_copy(page, VT_TABLE_REQUESTS, requests, NULL, NULL);
    put_savings(page);
    put_documents(page, oom);
    put_strings(page);
}

void vt_page_trace_add(const struct vt_report *report, const struct vt_report *oom, struct vt_blobs *blobs,
                       FILE *json)
{
    struct vt_page_trace page = {.report = report, .blobs = blobs};
    struct vt_page_allocations allocations = {0};
    size_t bytes;

    page.entries = vt_memory_stream(&page.entries_text, &bytes);
    page.tables = vt_tables_make(report, VT_ALL_TABLES);
    put_blobs(&page, &allocations, oom);
    fclose(page.entries);
    put_trace(json, &page, oom, &allocations);
    free(page.entries_text);
    vt_page_allocations_free(&allocations);
    vt_strings_free(&page.strings);
    vt_tables_free(page.tables);
}
