#include "view/html/trace.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory_stream.h"
#include "view/html/columns.h"
#include "view/text/views.h"

/* What is being put together. */
struct parts {
    const struct vt_report *report;
    struct vt_bytes *json;
    struct vt_dictionary dictionary;
    struct vt_page_columns columns;
};

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

typedef uint64_t number_in_file(const struct vt_report *report, uint64_t event_index);

/* A member of `size` bytes in each of `count` structures of `stride` bytes. `in_file`, if it is not NULL:
 * they are events of `report`. */
static void put_numbers(struct vt_bytes *json, const char *name, const void *first, size_t size, size_t count,
                        size_t stride, const struct vt_report *report, number_in_file *in_file)
{
    vt_bytes_print(json, "\"%s\":[", name);
    for (size_t i = 0; i < count; i++) {
        uint64_t number = vt_read_unsigned((const char *)first + i * stride, size);

        vt_bytes_print(json, "%s%" PRIu64, i ? "," : "", in_file ? in_file(report, number) : number);
    }
    vt_bytes_add(json, "]", 1);
}

static void put_column(struct vt_bytes *json, const char *name, const void *first, size_t size, size_t count,
                       size_t stride)
{
    put_numbers(json, name, first, size, count, stride, NULL, NULL);
}

static void put_names(struct vt_bytes *json, const char *name, const char *const *names, size_t count)
{
    vt_bytes_print(json, ",\"%s\":[", name);
    for (size_t i = 0; i < count; i++) {
        vt_bytes_add(json, ",", i > 0);
        vt_bytes_string(json, names[i]);
    }
    vt_bytes_add(json, "]", 1);
}

/* ---- Who and what ---- */

/* "train" of "runs/train.vrt" */
static void put_name(struct vt_bytes *json, const char *path)
{
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    size_t length = strlen(name);
    bool ends = length > 4 && !strcmp(name + length - 4, ".vrt");
    char *text = strndup(name, ends ? length - 4 : length);

    vt_bytes_print(json, "\"name\":");
    vt_bytes_string(json, text);
    json->failed |= !text;
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
static int put_verdict(struct vt_bytes *json, const struct vt_report *report)
{
    char *text = NULL, *end;
    size_t bytes, count = 0;
    FILE *stream = vt_memory_stream(&text, &bytes);
    int result = stream ? vt_text_paragraphs(report, stream) : -ENOMEM;

    if (stream && fclose(stream))
        result = -ENOMEM;
    vt_bytes_print(json, ",\"verdict\":[");
    for (char *line = text; !result && *line; line = end) {
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
    return result;
}

static void put_facts(const struct parts *parts)
{
    const struct vt_report *report = parts->report;
    const struct vt_trace_facts *facts = &report->facts;
    struct vt_bytes *json = parts->json;

    put_name(json, facts->path);
    put_text(json, "file", facts->path);
    put_number(json, "pid", facts->pid);
    put_text(json, "command", facts->command);
    vt_bytes_print(json, ",\"complete\":%s", facts->complete ? "true" : "false");
    put_losses(json, facts);
    put_number(json, "duration_ns", report->duration_ns);
    put_number(json, "events", facts->event_count);
    put_number(json, "steps", report->step_count);
    put_number(json, "allocations", parts->columns.allocation_count);
    put_number(json, "changes", parts->columns.change_count);
    put_number(json, "tick_ns", parts->columns.tick_ns);
}

/* ---- Devices ---- */

static void put_overview(struct vt_bytes *json, const struct vt_timeline *timeline)
{
    size_t columns = timeline->columns;
    bool any = false;

    vt_bytes_print(json, ",\"overview\":{\"columns\":%zu,", columns);
    put_column(json, "t_ns", timeline->t_ns, sizeof(uint64_t), columns, sizeof(uint64_t));
    vt_bytes_print(json, ",\"categories\":{");
    for (unsigned c = 0; c < VT_CATEGORY_COUNT; c++) {
        bool used = false;

        for (size_t i = 0; i < columns && !used; i++)
            used = timeline->categories[i][c] > 0;
        if (!used)
            continue;
        vt_bytes_add(json, ",", any);
        put_column(json, vt_category_name(c), &timeline->categories[0][c], sizeof(uint64_t), columns,
                   sizeof *timeline->categories);
        any = true;
    }
    vt_bytes_print(json, "},");
    put_column(json, "driver_bytes", timeline->driver_bytes, sizeof(uint64_t), columns, sizeof(uint64_t));
    vt_bytes_add(json, "}", 1);
}

static uint32_t change_at(const struct vt_page_columns *columns, uint32_t event)
{
    return event < columns->event_count ? columns->changes[event] : 0;
}

static void put_device(const struct parts *parts, const struct vt_device_report *device)
{
    const struct vt_page_columns *columns = &parts->columns;
    struct vt_bytes *json = parts->json;
    bool has_blocks = columns->block_devices >> (device->index & 63) & 1;

    vt_bytes_print(json, "{\"index\":%d", device->index);
    put_text(json, "name", device->name);
    put_number(json, "total_bytes", device->total_bytes);
    put_number(json, "peak_change", change_at(columns, device->peak.state.event_index));
    put_number(json, "end_change", columns->change_count ? columns->change_count - 1 : 0);
    vt_bytes_print(json, ",\"has_blocks\":%s", has_blocks ? "true" : "false");
    if (device->cache_release)
        put_text(json, "cache_release", device->cache_release);
    put_overview(json, &device->timeline);
    vt_bytes_add(json, "}", 1);
}

static void put_devices(const struct parts *parts)
{
    vt_bytes_print(parts->json, ",\"devices\":[");
    for (size_t i = 0; i < parts->report->device_count; i++) {
        vt_bytes_add(parts->json, ",", i > 0);
        put_device(parts, &parts->report->devices[i]);
    }
    vt_bytes_add(parts->json, "]", 1);
}

/* ---- Words, marks, refusals ---- */

static void put_words(const struct parts *parts)
{
    struct vt_bytes *json = parts->json;

    vt_bytes_print(json, ",\"categories\":[");
    for (unsigned c = 0; c < VT_CATEGORY_COUNT; c++)
        vt_bytes_print(json, "%s{\"name\":\"%s\",\"label\":\"%s\"}", c ? "," : "", vt_category_name(c),
                       vt_category_label(c));
    vt_bytes_add(json, "]", 1);
    put_names(json, "phases", vt_phase_names, VT_PHASE_COUNT);
    put_names(json, "evidence", vt_evidence_names, VT_EVIDENCE_COUNT);
    put_names(json, "kinds", parts->dictionary.kinds.items, parts->dictionary.kinds.count);
}

static void put_moments(const struct parts *parts)
{
    static const struct {
        const char *name;
        size_t offset;
    } gap_fields[] = {{"first_event", offsetof(struct vt_report_gap, first_event)},
                      {"end_event", offsetof(struct vt_report_gap, end_event)},
                      {"omitted", offsetof(struct vt_report_gap, omitted_events)},
                      {"t_ns", offsetof(struct vt_report_gap, t_ns)},
                      {"end_ns", offsetof(struct vt_report_gap, end_ns)}};
    const struct vt_report *report = parts->report;
    struct vt_bytes *json = parts->json;

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
        const struct vt_refusal *refusal = &report->refusals[i];

        vt_bytes_print(
            json, "%s{\"t_ns\":%" PRIu64 ",\"event\":%" PRIu64 ",\"device\":%d,\"asked_bytes\":%" PRIu64 "}",
            i ? "," : "", refusal->t_ns, vt_report_event_number(report, refusal->event_index),
            refusal->device_index, refusal->asked_bytes);
    }
    vt_bytes_print(json, "],\"gaps\":{");
    for (size_t i = 0; i < sizeof gap_fields / sizeof *gap_fields; i++) {
        vt_bytes_add(json, ",", i > 0);
        put_column(json, gap_fields[i].name, (const char *)report->gaps + gap_fields[i].offset,
                   sizeof(uint64_t), report->gap_count, sizeof *report->gaps);
    }
    vt_bytes_add(json, "}", 1);
}

/* ---- Blobs ---- */

static void put_blob(struct vt_bytes *json, const char *name, const struct vt_blob *blob)
{
    vt_bytes_print(json, "\"%s\":", name);
    vt_blob_describe(blob, json);
}

int vt_page_document_add(struct vt_blobs *blobs, const struct vt_document *document, const void *root,
                         const struct vt_json_style *style, struct vt_blob *blob)
{
    struct vt_bytes raw = {0};
    FILE *stream = vt_memory_stream(&raw.data, &raw.count);
    int result = stream ? vt_json_write(document, root, style, stream) : -ENOMEM;

    if (stream && fclose(stream))
        result = -ENOMEM;
    raw.failed = result != 0;
    *blob = vt_blob_add(blobs, VT_ENCODING_JSON, 0, &raw);
    return result;
}

static void put_steps_of(const struct vt_report *report, const struct vt_device_report *device,
                         struct vt_bytes *json)
{
#define FIELD(name, member, in_file)                                                                         \
    {                                                                                                        \
        name, offsetof(struct vt_step, member), sizeof(((struct vt_step *)0)->member), in_file               \
    }
    static const struct {
        const char *name;
        size_t offset, size;
        number_in_file *in_file;
    } fields[] = {FIELD("step", step, NULL),
                  FIELD("first_event", first_event, vt_report_event_number),
                  FIELD("last_event", last_event, vt_report_last_event_number),
                  FIELD("t_ns", t_ns, NULL),
                  FIELD("duration_ns", duration_ns, NULL),
                  FIELD("peak_event", peak.event_index, vt_report_event_number),
                  FIELD("peak_bytes", peak.used_bytes, NULL),
                  FIELD("end_bytes", end.used_bytes, NULL)};
#undef FIELD
    const struct vt_steps *steps = &device->steps;

    vt_bytes_print(json, "{\"index\":%d", device->index);
    put_number(json, "median_peak_bytes", steps->median_peak_bytes);
    put_number(json, "median_duration_ns", steps->median_ns);
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        vt_bytes_add(json, ",", 1);
        put_numbers(json, fields[i].name, (const char *)steps->items + fields[i].offset, fields[i].size,
                    steps->count, sizeof *steps->items, report, fields[i].in_file);
    }
    vt_bytes_print(json, ",\"stands_out\":["); /* 1: by its peak, 2: by its time */
    for (size_t i = 0; i < steps->count; i++)
        vt_bytes_print(json, "%s%d", i ? "," : "", steps->items[i].large + 2 * steps->items[i].slow);
    vt_bytes_print(json, "]}");
}

static struct vt_blob add_steps(const struct vt_report *report, struct vt_blobs *blobs)
{
    struct vt_bytes raw = {0};

    vt_bytes_print(&raw, "{\"devices\":[");
    for (size_t i = 0; i < report->device_count; i++) {
        vt_bytes_add(&raw, ",", i > 0);
        put_steps_of(report, &report->devices[i], &raw);
    }
    vt_bytes_print(&raw, "]}");
    return vt_blob_add(blobs, VT_ENCODING_JSON, 0, &raw);
}

static int put_blobs(struct parts *parts, const struct vt_report *oom, struct vt_blobs *blobs)
{
    const struct vt_report *report = parts->report;
    const struct vt_json_style style = {.places = report->places, .compact = true};
    const struct {
        const char *name;
        const struct vt_document *document;
        const struct vt_report *root;
    } documents[] = {{"report", &vt_report_document, report},
                     {"leaks", &vt_leaks_document, report},
                     {"oom", &vt_oom_document, oom}};
    struct vt_bytes names = {0};
    struct vt_blob blob;

    vt_bytes_print(parts->json, ",\"blobs\":{");
    for (size_t i = 0; i < VT_COLUMN_BLOB_COUNT; i++) {
        put_blob(parts->json, vt_column_blob_names[i], &parts->columns.blobs[i]);
        vt_bytes_add(parts->json, ",", 1);
    }
    vt_dictionary_write(&parts->dictionary, report->trace, &names);
    blob = vt_blob_add(blobs, VT_ENCODING_JSON, 0, &names);
    put_blob(parts->json, "names", &blob);
    blob = add_steps(report, blobs);
    vt_bytes_add(parts->json, ",", 1);
    put_blob(parts->json, "steps", &blob);
    for (size_t i = 0; i < sizeof documents / sizeof *documents; i++) {
        struct vt_json_style of = style;
        int result;

        if (!documents[i].root)
            continue;
        of.places = documents[i].root->places;
        of.report = documents[i].root;
        result = vt_page_document_add(blobs, documents[i].document, documents[i].root, &of, &blob);
        if (result)
            return result;
        vt_bytes_add(parts->json, ",", 1);
        put_blob(parts->json, documents[i].name, &blob);
    }
    vt_bytes_add(parts->json, "}", 1);
    return 0;
}

static int put_trace(struct parts *parts, const struct vt_report *oom, struct vt_tables *tables,
                     struct vt_blobs *blobs)
{
    int result = vt_page_columns_make(parts->report, tables, &parts->dictionary, blobs, &parts->columns);

    if (!result)
        result = vt_dictionary_finish(&parts->dictionary);
    if (result)
        return result;
    vt_bytes_add(parts->json, "{", 1);
    put_facts(parts);
    result = put_verdict(parts->json, parts->report);
    put_devices(parts);
    put_words(parts);
    put_moments(parts);
    if (!result)
        result = put_blobs(parts, oom, blobs);
    vt_bytes_add(parts->json, "}", 1);
    return !result && (parts->json->failed || blobs->data.failed) ? -ENOMEM : result;
}

int vt_page_trace_add(const struct vt_report *report, const struct vt_report *oom, struct vt_blobs *blobs,
                      struct vt_bytes *json)
{
    struct parts parts = {.report = report, .json = json};
    struct vt_tables *tables;
    int result = vt_tables_make(report, VT_ALL_TABLES, &tables);

    if (result)
        return result;
    vt_dictionary_begin(&parts.dictionary, tables);
    result = put_trace(&parts, oom, tables, blobs);
    vt_page_columns_free(&parts.columns);
    vt_dictionary_free(&parts.dictionary);
    vt_tables_free(tables);
    return result;
}
