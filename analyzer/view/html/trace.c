#include "view/html/trace.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/allocate.h"
#include "base/memory_stream.h"
#include "view/html/allocations.h"
#include "view/text/views.h"

/* ---- JSON ---- */

static void put_number(struct vt_bytes *json, const char *name, uint64_t number)
{
    vt_bytes_print(json, ",\"%s\":%" PRIu64, name, number);
}

static void put_text(struct vt_bytes *json, const char *name, const char *text)
{
    vt_bytes_print(json, ",\"%s\":", name);
    vt_bytes_string(json, text);
}

/* A uint64_t in each of `count` structures of `stride` bytes. */
static void put_column(struct vt_bytes *json, const char *name, const void *first, size_t count,
                       size_t stride)
{
    vt_bytes_print(json, "\"%s\":[", name);
    for (size_t i = 0; i < count; i++)
        vt_bytes_print(json, "%s%" PRIu64, i ? "," : "",
                       vt_read_unsigned((const char *)first + i * stride, sizeof(uint64_t)));
    vt_bytes_add(json, "]", 1);
}

/* ---- Who and what ---- */

/* "train" of "runs/train.vrt" */
static void put_name(struct vt_bytes *json, const char *path)
{
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    size_t length = strlen(name);
    bool ends = length > 4 && !strcmp(name + length - 4, ".vrt");
    char *text = vt_copy_bytes(name, ends ? length - 4 : length);

    vt_bytes_print(json, ",\"name\":");
    vt_bytes_string(json, text);
    free(text);
}

static void put_losses(struct vt_bytes *json, const struct vt_trace_facts *facts)
{
    char sentence[sizeof facts->losses->headline + sizeof facts->losses->detail];

    vt_bytes_print(json, ",\"losses\":[");
    for (size_t i = 0; i < facts->loss_count; i++) {
        const struct vt_loss *loss = &facts->losses[i];

        snprintf(sentence, sizeof sentence, "%s%s", loss->headline, loss->detail);
        vt_bytes_add(json, ",", i > 0);
        vt_bytes_string(json, loss->detail[0] ? sentence : loss->text);
    }
    vt_bytes_add(json, "]", 1);
}

/* The text report's first paragraphs, one a line. */
static void put_verdict(struct vt_bytes *json, const struct vt_report *report)
{
    char *text = NULL, *end;
    size_t bytes, count = 0;
    FILE *stream = vt_memory_stream(&text, &bytes);

    vt_text_paragraphs(report, stream);
    fclose(stream);
    vt_bytes_print(json, ",\"verdict\":[");
    for (char *line = text; *line; line = end) {
        end = line + strcspn(line, "\n");
        if (*end)
            *end++ = '\0';
        if (!line[0])
            continue;
        vt_bytes_add(json, ",", count++ > 0);
        vt_bytes_string(json, line);
    }
    vt_bytes_add(json, "]", 1);
    free(text);
}

static void put_facts(const struct vt_page_trace *page, const struct vt_page_allocations *allocations)
{
    const struct vt_report *report = page->report;
    const struct vt_trace_facts *facts = &report->facts;
    struct vt_bytes *json = page->json;

    put_name(json, facts->path);
    put_text(json, "file", facts->path);
    put_number(json, "pid", facts->pid);
    put_text(json, "command", facts->command);
    vt_bytes_print(json, ",\"complete\":%s", facts->complete ? "true" : "false");
    put_losses(json, facts);
    put_number(json, "duration_ns", report->duration_ns);
    put_number(json, "events", facts->event_count);
    put_number(json, "steps", report->step_count);
    put_number(json, "allocations", allocations->count);
    put_number(json, "changes", allocations->change_count);
    put_number(json, "tick_ns", allocations->tick_ns);
}

/* ---- Devices ---- */

static void put_overview(struct vt_bytes *json, const struct vt_timeline *timeline)
{
    size_t columns = timeline->columns;
    bool any = false;

    vt_bytes_print(json, ",\"overview\":{\"columns\":%zu,", columns);
    put_column(json, "t_ns", timeline->t_ns, columns, sizeof(uint64_t));
    vt_bytes_print(json, ",\"categories\":{");
    for (unsigned c = 0; c < VT_CATEGORY_COUNT; c++) {
        bool used = false;

        for (size_t i = 0; i < columns && !used; i++)
            used = timeline->categories[i][c] > 0;
        if (!used)
            continue;
        vt_bytes_add(json, ",", any);
        put_column(json, vt_category_name(c), &timeline->categories[0][c], columns,
                   sizeof *timeline->categories);
        any = true;
    }
    vt_bytes_print(json, "},");
    put_column(json, "driver_bytes", timeline->driver_bytes, columns, sizeof(uint64_t));
    vt_bytes_add(json, "}", 1);
}

static uint32_t change_at(const struct vt_page_allocations *allocations, uint32_t event)
{
    return event < allocations->event_count ? allocations->changes[event] : 0;
}

static void put_device(struct vt_bytes *json, const struct vt_page_allocations *allocations,
                       const struct vt_device_report *device)
{
    bool has_blocks = allocations->block_devices >> (device->index & 63) & 1;

    vt_bytes_print(json, "{\"index\":%d", device->index);
    put_text(json, "name", device->name);
    put_number(json, "total_bytes", device->total_bytes);
    put_number(json, "peak_change", change_at(allocations, device->peak.state.event_index));
    put_number(json, "end_change", allocations->change_count ? allocations->change_count - 1 : 0);
    put_number(json, "median_peak_bytes", device->steps.median_peak_bytes);
    put_number(json, "median_duration_ns", device->steps.median_ns);
    vt_bytes_print(json, ",\"has_blocks\":%s", has_blocks ? "true" : "false");
    if (device->cache_release)
        put_text(json, "cache_release", device->cache_release);
    put_overview(json, &device->timeline);
    vt_bytes_add(json, "}", 1);
}

static void put_devices(const struct vt_page_trace *page, const struct vt_page_allocations *allocations)
{
    vt_bytes_print(page->json, ",\"devices\":[");
    for (size_t i = 0; i < page->report->device_count; i++) {
        vt_bytes_add(page->json, ",", i > 0);
        put_device(page->json, allocations, &page->report->devices[i]);
    }
    vt_bytes_add(page->json, "]", 1);
}

/* ---- Words, marks, refusals ---- */

static void put_words(struct vt_bytes *json)
{
    vt_bytes_print(json, ",\"categories\":[");
    for (unsigned c = 0; c < VT_CATEGORY_COUNT; c++)
        vt_bytes_print(json, "%s{\"name\":\"%s\",\"label\":\"%s\"}", c ? "," : "", vt_category_name(c),
                       vt_category_label(c));
    vt_bytes_add(json, "]", 1);
}

static void put_moments(const struct vt_page_trace *page)
{
    static const struct {
        const char *name;
        size_t offset;
    } gap_fields[] = {{"first_event", offsetof(struct vt_report_gap, first_event)},
                      {"end_event", offsetof(struct vt_report_gap, end_event)},
                      {"omitted", offsetof(struct vt_report_gap, omitted_events)},
                      {"t_ns", offsetof(struct vt_report_gap, t_ns)},
                      {"end_ns", offsetof(struct vt_report_gap, end_ns)}};
    const struct vt_report *report = page->report;
    struct vt_bytes *json = page->json;

    vt_bytes_print(json, ",\"marks\":[");
    for (size_t i = 0; i < report->mark_count; i++) {
        const struct vt_mark *mark = &report->marks[i];

        vt_bytes_print(json, "%s{\"t_ns\":%" PRIu64 ",\"event\":%" PRIu64, i ? "," : "", mark->t_ns,
                       vt_report_event_number(report, mark->event_index));
        put_text(json, "name", mark->name);
        vt_bytes_add(json, "}", 1);
    }
    vt_bytes_print(json, "],\"refusals\":[");
    for (size_t i = 0; i < report->refusal_count; i++) {
        const struct vt_oom *refusal = &report->refusals[i];

        vt_bytes_print(
            json, "%s{\"t_ns\":%" PRIu64 ",\"event\":%" PRIu64 ",\"device\":%d,\"asked_bytes\":%" PRIu64 "}",
            i ? "," : "", refusal->t_ns, vt_report_event_number(report, refusal->event_index),
            refusal->device_index, refusal->asked_bytes);
    }
    vt_bytes_print(json, "],\"gaps\":{");
    for (size_t i = 0; i < sizeof gap_fields / sizeof *gap_fields; i++) {
        vt_bytes_add(json, ",", i > 0);
        put_column(json, gap_fields[i].name, (const char *)report->gaps + gap_fields[i].offset,
                   report->gap_count, sizeof *report->gaps);
    }
    vt_bytes_add(json, "}", 1);
}

/* ---- Blobs ---- */

void vt_page_document_make(const struct vt_document *document, const void *root,
                           const struct vt_json_style *style, struct vt_bytes *raw)
{
    FILE *stream = vt_memory_stream(&raw->data, &raw->count);

    vt_json_write(document, root, style, stream);
    fclose(stream);
}

static void put_documents(struct vt_page_trace *page, const struct vt_report *oom)
{
    const struct {
        const char *name;
        const struct vt_document *document;
        const struct vt_report *root;
    } documents[] = {{"report", &vt_report_document, page->report},
                     {"leaks", &vt_leaks_document, page->report},
                     {"oom", &vt_oom_document, oom}};

    for (size_t i = 0; i < sizeof documents / sizeof *documents; i++) {
        const struct vt_report *root = documents[i].root;
        struct vt_bytes raw = {0};

        if (!root)
            continue;
        vt_page_document_make(
            documents[i].document, root,
            &(struct vt_json_style){.places = root->places, .compact = true, .report = root}, &raw);
        vt_page_blob_add(page, documents[i].name, &raw);
    }
}

/* After all tables, which number them. */
static void put_strings(struct vt_page_trace *page)
{
    struct vt_bytes raw = {0};

    for (size_t i = 0; i < page->strings.count; i++) {
        vt_bytes_add(&raw, i ? "," : "[", 1);
        vt_bytes_string(&raw, page->strings.items[i]);
    }
    vt_bytes_add(&raw, "]", 1);
    vt_page_blob_add(page, "strings", &raw);
}

static void put_blobs(struct vt_page_trace *page, struct vt_page_allocations *allocations,
                      const struct vt_report *oom)
{
    static const char *const phases[] = {"first_event", "phase", "step", "t_ns", NULL};
    static const char *const steps[] = {
        "device", "step", "first_event", "last_event",      "t_ns",           "duration_ns",
        "large",  "slow", "peak_event",  "peak_used_bytes", "end_used_bytes", NULL};

    vt_strings_find(&page->strings, "", NULL);
    vt_page_allocations_add(page, allocations);
    vt_page_table_copy(page, VT_TABLE_PHASES, phases, NULL, NULL);
    vt_page_table_copy(page, VT_TABLE_STEPS, steps, NULL, NULL);
    put_documents(page, oom);
    put_strings(page);
}

static void put_trace(struct vt_page_trace *page, struct vt_page_allocations *allocations,
                      const struct vt_report *oom)
{
    vt_bytes_print(page->json, "{\"blobs\":{");
    put_blobs(page, allocations, oom);
    vt_bytes_add(page->json, "}", 1);
    put_facts(page, allocations);
    put_verdict(page->json, page->report);
    put_devices(page, allocations);
    put_words(page->json);
    put_moments(page);
    vt_bytes_add(page->json, "}", 1);
}

void vt_page_trace_add(const struct vt_report *report, const struct vt_report *oom, struct vt_blobs *blobs,
                       struct vt_bytes *json)
{
    struct vt_page_trace page = {.report = report, .blobs = blobs, .json = json};
    struct vt_page_allocations allocations = {0};

    page.tables = vt_tables_make(report, VT_ALL_TABLES);
    put_trace(&page, &allocations, oom);
    vt_page_allocations_free(&allocations);
    vt_strings_free(&page.strings);
    vt_tables_free(page.tables);
}
