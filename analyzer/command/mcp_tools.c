/* The tools of mcp: what tools/list says of them, reading calls, and calling what the commands call. */
#include "command/mcp.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/memory_stream.h"
#include "diagnose/diagnose.h"
#include "diagnose/diff.h"
#include "report/program.h"
#include "view/json/json.h"
#include "view/mcp/mcp.h"
#include "view/sqlite/query.h"
#include "view/text/print.h"
#include "view/text/views.h"

#define WIDTH 100
#define FEW 6        /* rows, where none are asked for */
#define FEW_LINES 12 /* of a source file */
#define FEW_TRACES 20
#define FEW_ROWS 20 /* of a query */
#define ERROR_BYTES 2048
#define FEW_RANKS 16
#define FEW_DIFFERENCES 8 /* and ranks, as data */

/* The arguments of a call; NULL, -1, 0 = not given. */
struct request {
    const char *trace, *other_trace, *at, *other_at, *file, *what, *query;
    int by, depth, device, top, offset, cell_characters;
    bool all, oom;
};

struct call {
    struct vt_mcp_traces *traces;
    struct request request;
    FILE *out;         /* the answer's text */
    cJSON *structured; /* ... and the same as data; NULL = none */
    char error[ERROR_BYTES];
};

/* Returns 0, or not 0 with what to do instead in call->error. */
#define TOOL(id, name, title, about) static int tool_##name(struct call *call);
#include "command/mcp_tools.def"
#undef TOOL

enum tool_index {
#define TOOL(id, name, title, about) TOOL_##id,
#include "command/mcp_tools.def"
#undef TOOL
    TOOL_COUNT
};

static const struct tool {
    const char *name, *title, *about;
    int (*function)(struct call *call);
} tools[TOOL_COUNT] = {
#define TOOL(id, name, title, about) {#name, title, about, tool_##name},
#include "command/mcp_tools.def"
#undef TOOL
};

/* Sets of tools, as the table writes them. */
enum {
#define TOOL(id, name, title, about) id = 1u << TOOL_##id,
#include "command/mcp_tools.def"
#undef TOOL
    ALL = (1u << TOOL_COUNT) - 1
};

static const char *phase_only(unsigned choice)
{
    return choice ? "?" : "phase";
}

enum type { TYPE_TEXT, TYPE_NUMBER, TYPE_FLAG, TYPE_CHOICE };
#define TEXT .type = TYPE_TEXT
#define FLAG .type = TYPE_FLAG
#define NUMBER(from, to) .type = TYPE_NUMBER, .low = from, .high = to
#define CHOICE(function, count) .type = TYPE_CHOICE, .word = function, .words = count

static const struct argument {
    const char *name;
    size_t offset; /* in struct request */
    unsigned tools;
    const char *about;
    bool required;
    enum type type;
    int low, high;                 /* of a number */
    const char *(*word)(unsigned); /* of a choice: an int */
    unsigned words;
} arguments[] = {
#define ARGUMENT(name, type, member, of, about)                                                              \
    {name, offsetof(struct request, member), (of)&ALL, about, false, type},
#define REQUIRED(name, type, member, of, about)                                                              \
    {name, offsetof(struct request, member), (of)&ALL, about, true, type},
#include "command/mcp_tools.def"
#undef ARGUMENT
#undef REQUIRED
};
#define ARGUMENT_COUNT (sizeof arguments / sizeof *arguments)

static bool takes(const struct tool *tool, const struct argument *argument)
{
    return argument->tools & 1u << (tool - tools);
}

/* ---- tools/list ---- */

static bool describe_argument(const struct argument *argument, cJSON *properties, cJSON *required)
{
    static const char *const types[] = {"string", "integer", "boolean", "string"};
    cJSON *property = cJSON_AddObjectToObject(properties, argument->name), *words;
    bool made = cJSON_AddStringToObject(property, "type", types[argument->type]) &&
                cJSON_AddStringToObject(property, "description", argument->about);

    words = argument->type == TYPE_CHOICE ? cJSON_AddArrayToObject(property, "enum") : NULL;
    for (unsigned i = 0; i < argument->words; i++)
        made = made && cJSON_AddItemToArray(words, cJSON_CreateString(argument->word(i)));
    return made &&
           (!argument->required || cJSON_AddItemToArray(required, cJSON_CreateString(argument->name)));
}

static bool describe_tool(const struct tool *tool, cJSON *list)
{
    cJSON *item = cJSON_CreateObject(), *input, *properties, *required, *hints;
    bool made = item && cJSON_AddItemToArray(list, item) &&
                cJSON_AddStringToObject(item, "name", tool->name) &&
                cJSON_AddStringToObject(item, "title", tool->title) &&
                cJSON_AddStringToObject(item, "description", tool->about);

    input = cJSON_AddObjectToObject(item, "inputSchema");
    made = made && cJSON_AddStringToObject(input, "type", "object");
    properties = cJSON_AddObjectToObject(input, "properties");
    required = cJSON_AddArrayToObject(input, "required");
    made = made && properties && required && cJSON_AddFalseToObject(input, "additionalProperties");
    for (size_t i = 0; i < ARGUMENT_COUNT; i++)
        if (takes(tool, &arguments[i]))
            made = made && describe_argument(&arguments[i], properties, required);
    if (!cJSON_GetArraySize(required))
        cJSON_DeleteItemFromObject(input, "required");
    hints = cJSON_AddObjectToObject(item, "annotations");
    return made && cJSON_AddTrueToObject(hints, "readOnlyHint");
}

cJSON *vt_mcp_list_tools(void *context)
{
    cJSON *result = cJSON_CreateObject(), *list = cJSON_AddArrayToObject(result, "tools");
    bool made = list != NULL;

    (void)context;
    for (size_t i = 0; i < TOOL_COUNT; i++)
        made = made && describe_tool(&tools[i], list);
    if (made)
        return result;
    cJSON_Delete(result);
    return NULL;
}

/* ---- Reading a call ---- */

static int wrong(struct call *call, const char *format, ...) __attribute__((format(printf, 2, 3)));
static int wrong(struct call *call, const char *format, ...)
{
    va_list values;

    va_start(values, format);
    vsnprintf(call->error, sizeof call->error, format, values);
    va_end(values);
    return -EINVAL;
}

static int read_choice(struct call *call, const struct argument *argument, const char *text, int *choice)
{
    char words[256] = "";
    size_t used = 0;

    for (unsigned i = 0; i < argument->words; i++) {
        if (text && !strcmp(text, argument->word(i))) {
            *choice = (int)i;
            return 0;
        }
        used += (size_t)snprintf(words + used, sizeof words - used, "%s%s", i ? ", " : "", argument->word(i));
    }
    return wrong(call, "`%s` takes one of: %s", argument->name, words);
}

static int read_argument(struct call *call, const struct argument *argument, const cJSON *value)
{
    void *member = (char *)&call->request + argument->offset;
    double number;

    switch (argument->type) {
    case TYPE_TEXT:
        *(const char **)member = cJSON_GetStringValue(value);
        return cJSON_IsString(value) ? 0 : wrong(call, "`%s` takes a text", argument->name);
    case TYPE_FLAG:
        *(bool *)member = cJSON_IsTrue(value);
        return cJSON_IsBool(value) ? 0 : wrong(call, "`%s` takes true or false", argument->name);
    case TYPE_CHOICE:
        return read_choice(call, argument, cJSON_GetStringValue(value), member);
    case TYPE_NUMBER:
        break;
    }
    number = cJSON_IsNumber(value) ? value->valuedouble : -1;
    if (!(number >= argument->low && number <= argument->high) || number != floor(number))
        return wrong(call, "`%s` takes a whole number from %d to %d", argument->name, argument->low,
                     argument->high);
    *(int *)member = (int)number;
    return 0;
}

static int unknown_argument(struct call *call, const struct tool *tool, const char *name)
{
    char names[512] = "";
    size_t used = 0;

    for (size_t i = 0; i < ARGUMENT_COUNT; i++)
        if (takes(tool, &arguments[i]))
            used += (size_t)snprintf(names + used, sizeof names - used, "%s`%s`", used ? ", " : "",
                                     arguments[i].name);
    return wrong(call, "the tool %s takes no `%.64s`; it takes %s", tool->name, name, names);
}

static int read_call(struct call *call, const struct tool *tool, const cJSON *given)
{
    const cJSON *value;

    call->request = (struct request){.by = -1, .device = -1};
    cJSON_ArrayForEach(value, given)
    {
        const struct argument *argument = NULL;
        int result;

        for (size_t i = 0; i < ARGUMENT_COUNT; i++)
            if (takes(tool, &arguments[i]) && !strcmp(arguments[i].name, value->string))
                argument = &arguments[i];
        if (!argument)
            return unknown_argument(call, tool, value->string);
        result = cJSON_IsNull(value) && !argument->required ? 0 : read_argument(call, argument, value);
        if (result)
            return result;
    }
    for (size_t i = 0; i < ARGUMENT_COUNT; i++)
        if (takes(tool, &arguments[i]) && arguments[i].required &&
            !cJSON_GetObjectItemCaseSensitive(given, arguments[i].name))
            return wrong(call, "the tool %s needs `%s`: %s", tool->name, arguments[i].name,
                         arguments[i].about);
    return 0;
}

cJSON *vt_mcp_call_tool(void *context, const char *name, const cJSON *given, bool *known)
{
    struct call call = {.traces = context, .error = "out of memory"};
    const struct tool *tool = NULL;
    char *text = NULL;
    size_t bytes;
    cJSON *result;
    int failed;

    for (size_t i = 0; i < TOOL_COUNT; i++)
        if (!strcmp(tools[i].name, name))
            tool = &tools[i];
    *known = tool != NULL;
    call.out = tool ? vt_memory_stream(&text, &bytes) : NULL;
    if (!call.out)
        return NULL;
    failed = read_call(&call, tool, given);
    if (!failed)
        failed = tool->function(&call);
    if ((fclose(call.out) || !text) && !failed)
        failed = wrong(&call, "out of memory");
    if (failed || call.request.offset) {
        cJSON_Delete(call.structured); /* the first page had it */
        call.structured = NULL;
    }
    result = failed ? vt_mcp_failure(call.error)
                    : vt_mcp_answer(text, (size_t)call.request.offset, call.structured);
    free(text);
    return result;
}

/* ---- The tools ---- */

static struct vt_view_style style_for(const struct call *call, int few)
{
    return (struct vt_view_style){.unicode = true,
                                  .width = WIDTH,
                                  .by = call->request.by,
                                  .top = call->request.top ? call->request.top : few,
                                  .all = call->request.all,
                                  .brief = true};
}

static struct vt_mcp_kept *opened(struct call *call, struct vt_mcp_kept *kept)
{
    if (kept) {
        vt_put_clean(vt_mcp_name(call->traces, kept->path), call->out);
        fputc('\n', call->out);
    }
    return kept;
}

static struct vt_mcp_kept *open_trace(struct call *call, const char *name)
{
    return opened(call, vt_mcp_open(call->traces, name, call->error, sizeof call->error));
}

/* With each of its events. */
static struct vt_mcp_kept *open_whole(struct call *call, const char *name)
{
    return opened(call, vt_mcp_open_whole(call->traces, name, call->error, sizeof call->error));
}

/* A document that becomes the answer's data. */
struct data {
    char *text;
    size_t bytes;
    FILE *stream;
};

static int begin_data(struct call *call, struct data *data)
{
    *data = (struct data){.text = NULL};
    data->stream = vt_memory_stream(&data->text, &data->bytes);
    return data->stream ? 0 : wrong(call, "out of memory");
}

/* Adds it unless the call failed already. */
static int end_data(struct call *call, struct data *data, int failed)
{
    bool whole = data->stream && !fclose(data->stream);

    if (!failed && whole) {
        data->text[strcspn(data->text, "\n")] = '\0';   /* the last: it is on one line */
        call->structured = cJSON_CreateRaw(data->text); /* a parser would round large numbers */
    }
    free(data->text);
    return failed ? failed : call->structured ? 0 : wrong(call, "out of memory");
}

/* What a document says, as data. */
static int add_structured(struct call *call, const struct vt_document *document, const void *root, int top)
{
    const struct vt_json_style style = {.top = top, .compact = true, .brief = top > FEW};
    struct data data;
    int result = begin_data(call, &data);

    if (!result && vt_json_write(document, root, &style, data.stream))
        result = wrong(call, "out of memory");
    return end_data(call, &data, result);
}

static const char *began(uint64_t start_ns, char text[32])
{
    time_t seconds = (time_t)(start_ns / 1000000000u);
    struct tm parts;

    if (!gmtime_r(&seconds, &parts) || !strftime(text, 32, "%Y-%m-%d %H:%M:%S UTC", &parts))
        strcpy(text, "not known");
    return text;
}

static bool add_listed(cJSON *list, const struct vt_mcp_listed *listed, const struct vt_mcp_outcome *outcome)
{
    cJSON *item = cJSON_CreateObject();
    char text[32];
    bool added = item && cJSON_AddItemToArray(list, item) &&
                 cJSON_AddStringToObject(item, "trace", listed->name) &&
                 cJSON_AddNumberToObject(item, "bytes", (double)listed->bytes) &&
                 cJSON_AddStringToObject(item, "began", began(listed->start_ns, text));

    if (!added || !outcome)
        return added;
    if (outcome->rank >= 0 && !cJSON_AddNumberToObject(item, "rank", outcome->rank))
        return false;
    return cJSON_AddStringToObject(item, "command", outcome->command) &&
           cJSON_AddStringToObject(item, "outcome", outcome->text) &&
           cJSON_AddNumberToObject(item, "out_of_memory", (double)outcome->refusals) &&
           cJSON_AddNumberToObject(item, "peak_used_bytes", (double)outcome->peak_bytes);
}

/* "2026-03-01 10:00:00 UTC  run.vrt: complete · peak 1.41 GiB · python train.py" */
static void put_listed(FILE *out, const struct vt_mcp_listed *listed, const struct vt_mcp_outcome *outcome)
{
    char text[32];

    fprintf(out, "%s  ", began(listed->start_ns, text));
    vt_put_clean(listed->name, out);
    if (outcome) {
        fputs(": ", out);
        if (outcome->rank >= 0)
            fprintf(out, "rank %d · ", (int)outcome->rank);
        vt_put_clean(outcome->text, out);
        fprintf(out, " · peak %s · ", VT_BYTES(outcome->peak_bytes));
        vt_put_clean(outcome->command, out);
    } else {
        fprintf(out, ": %s, not read here", VT_BYTES(listed->bytes));
    }
    fputc('\n', out);
}

/* Files and folders of which nothing is known. */
static void put_forbidden(FILE *out, size_t count)
{
    if (count)
        fprintf(out, "%zu more here may not be read by this user.\n", count);
}

static int tool_traces(struct call *call)
{
    size_t top = call->request.top ? (size_t)call->request.top : FEW_TRACES;
    uint64_t budget = VT_MCP_READ_AT_ONCE;
    struct vt_mcp_list listed;
    cJSON *list;
    bool made;

    if (vt_mcp_list_make(call->traces, &listed))
        return wrong(call, "out of memory");
    call->structured = cJSON_CreateObject();
    list = cJSON_AddArrayToObject(call->structured, "traces");
    made = cJSON_AddNumberToObject(call->structured, "count", (double)listed.count) && list;
    fprintf(call->out, "%zu trace%s, the newest first\n", listed.count, listed.count == 1 ? "" : "s");
    for (size_t i = 0; i < listed.count && i < top && made; i++) {
        const struct vt_mcp_outcome *outcome = vt_mcp_outcome(call->traces, &listed.items[i], &budget);

        put_listed(call->out, &listed.items[i], outcome);
        made = add_listed(list, &listed.items[i], outcome);
    }
    if (listed.count > top)
        fprintf(call->out, "… %zu more: `top` shows them\n", listed.count - top);
    put_forbidden(call->out, listed.forbidden);
    if (listed.cut)
        fprintf(call->out,
                "Only the first %d files of the folders were looked at: name a folder with fewer.\n",
                VT_MCP_MAX_FILES);
    made = made && cJSON_AddBoolToObject(call->structured, "cut", listed.cut) &&
           cJSON_AddNumberToObject(call->structured, "forbidden", (double)listed.forbidden);
    vt_mcp_list_free(&listed);
    return made ? 0 : wrong(call, "out of memory");
}

/* That there are others. */
static void put_rank(const struct vt_report *report, FILE *out)
{
    struct vt_launch launch;

    vt_launch_read(report->trace, &launch);
    if (launch.rank >= 0 && launch.world_size > 1)
        fprintf(out, "\nThis is rank %d of %d (%s): `job` tells of all of them together.\n", (int)launch.rank,
                (int)launch.world_size, launch.launcher);
}

static int tool_summary(struct call *call)
{
    const struct vt_report_options options = {.device_index = call->request.device,
                                              .groups =
                                                  1u << VT_BY_MODULE | 1u << VT_BY_LINE | 1u << VT_BY_STACK,
                                              .shown_only = true,
                                              .oom = VT_AT_OOM_IF_IT_ENDED_THE_RUN,
                                              .timeline_columns = 1};
    const struct vt_view_style style = style_for(call, FEW);
    struct vt_mcp_kept *kept = open_trace(call, call->request.trace);
    struct vt_report *report;
    int result;

    if (!kept ||
        vt_try_report(&kept->loaded, &options, VT_FIND_LEAKS, &report, call->error, sizeof call->error))
        return -EINVAL;
    result = vt_text_summary(report, &style, call->out)
                 ? wrong(call, "out of memory")
                 : add_structured(call, &vt_summary_document, report, FEW);
    put_rank(report, call->out);
    vt_report_free(report);
    return result;
}

/* A page of one of the commands that print a report; `json`: NULL, or where its document goes. */
static int page(struct call *call, enum vt_command_id command, FILE *json)
{
    const struct vt_view_style style = style_for(call, FEW);
    const struct vt_arguments given = {.device = call->request.device,
                                       .by = call->request.by,
                                       .depth = call->request.depth,
                                       .at = call->request.at,
                                       .explain = call->request.what};
    const struct vt_report_options options = vt_report_page_options(&vt_commands[command], &given);
    struct vt_mcp_kept *kept = open_trace(call, call->request.trace);

    return !kept || vt_mcp_reach(kept, &options, call->error, sizeof call->error) ||
           vt_report_page(&vt_commands[command], &given, &kept->loaded, &style, call->out, json, call->error,
                          sizeof call->error);
}

static int page_with_data(struct call *call, enum vt_command_id command)
{
    struct data data;
    int result = begin_data(call, &data);

    return end_data(call, &data, result ? result : page(call, command, data.stream));
}

static int tool_report(struct call *call)
{
    return page(call, VT_COMMAND_REPORT, NULL);
}

static int tool_explain(struct call *call)
{
    return page(call, VT_COMMAND_REPORT, NULL);
}

static int tool_leaks(struct call *call)
{
    return page_with_data(call, VT_COMMAND_LEAKS);
}

static int tool_oom(struct call *call)
{
    return page_with_data(call, VT_COMMAND_OOM);
}

static int tool_frag(struct call *call)
{
    return page(call, VT_COMMAND_FRAG, NULL);
}

static struct vt_report_options side(const struct call *call, const char *at, unsigned groups)
{
    return (struct vt_report_options){.device_index = call->request.device,
                                      .at = at ? at : "peak",
                                      .groups = groups,
                                      .shown_only = true,
                                      .depth = (unsigned)call->request.depth,
                                      .timeline_columns = 1};
}

/* Both have the moments before either has a report. */
static int compare(struct call *call, struct vt_mcp_kept *kept, struct vt_mcp_kept *other)
{
    const struct request *request = &call->request;
    const struct vt_view_style style = style_for(call, FEW);
    unsigned groups = request->by >= 0 ? 1u << request->by : (1u << VT_BY_COUNT) - 1;
    const struct vt_report_options of_a = side(call, request->at, groups),
                                   of_b = side(call, request->other_at, groups);
    struct vt_report *a = NULL, *b = NULL;
    struct vt_diff *diff = NULL;
    int result = vt_mcp_reach(kept, &of_a, call->error, sizeof call->error);

    if (!result)
        result = vt_mcp_reach(other, &of_b, call->error, sizeof call->error);
    if (!result)
        result = vt_try_report(&kept->loaded, &of_a, 0, &a, call->error, sizeof call->error);
    if (!result)
        result = vt_try_report(&other->loaded, &of_b, 0, &b, call->error, sizeof call->error);
    if (!result && (vt_diff_make(a, b, groups, &diff) || vt_diff_text(diff, &style, call->out)))
        result = wrong(call, "out of memory");
    vt_diff_free(diff);
    vt_report_free(a);
    vt_report_free(b);
    return result;
}

/* Both are open before either has a report: a trace that is still recorded is read again. */
static int tool_diff(struct call *call)
{
    const struct request *request = &call->request;
    struct vt_mcp_kept *kept, *other;

    if (!request->other_trace && !request->other_at)
        return wrong(call, "give `other_trace`, or `other_at` for another moment of the same trace");
    kept = open_trace(call, request->trace);
    other = kept && request->other_trace ? open_trace(call, request->other_trace) : kept;
    return other ? compare(call, kept, other) : -EINVAL;
}

static int tool_annotate(struct call *call)
{
    const struct request *request = &call->request;
    const struct vt_report_options options = {.device_index = request->device,
                                              .at = request->at,
                                              .groups = VT_NO_GROUPS,
                                              .oom = VT_AT_OOM_IF_IT_ENDED_THE_RUN,
                                              .timeline_columns = 1};
    const struct vt_view_style style = style_for(call, FEW_LINES);
    struct vt_mcp_kept *kept = open_whole(call, request->trace);
    struct vt_annotation *annotation;
    struct vt_report *report;
    int result;

    if (!kept || vt_try_report(&kept->loaded, &options, 0, &report, call->error, sizeof call->error))
        return -EINVAL;
    result = vt_annotation_make(report, request->file, (size_t)style.top, &annotation, call->error,
                                sizeof call->error);
    if (!result) {
        result = vt_text_annotate(annotation, &style, call->out) ? wrong(call, "out of memory") : 0;
        vt_annotation_free(annotation);
    }
    vt_report_free(report);
    return result;
}

static int tool_job(struct call *call)
{
    const struct request *request = &call->request;
    const struct vt_view_style style = style_for(call, FEW_RANKS);
    size_t left_out, forbidden;
    const struct vt_job *job = vt_mcp_job_read(call->traces, request->trace, request->oom, &left_out,
                                               &forbidden, call->error, sizeof call->error);

    if (!job)
        return -EINVAL;
    if (left_out)
        fprintf(call->out, "%zu more traces of that time are too large to be read here with these.\n",
                left_out);
    put_forbidden(call->out, forbidden);
    if ((request->oom ? vt_text_job_oom : vt_text_job)(job, &style, call->out))
        return wrong(call, "out of memory");
    return add_structured(call, request->oom ? &vt_job_oom_summary_document : &vt_job_summary_document, job,
                          FEW_DIFFERENCES);
}

static int make_database(struct call *call, struct vt_mcp_kept *kept)
{
    const struct vt_report_options options = {
        .device_index = -1, .groups = VT_NO_GROUPS, .timeline_columns = 1};
    const struct vt_refusal *last;
    struct vt_tables *tables;
    struct vt_report *report;
    int result = vt_try_report(&kept->loaded, &options, VT_FIND_STEPS | VT_FIND_LEAKS | VT_FIND_CARD, &report,
                               call->error, sizeof call->error);

    if (result)
        return result;
    last = report->refusal_count ? &report->refusals[report->refusal_count - 1] : NULL;
    result = vt_tables_make(report, VT_ALL_TABLES, &tables);
    if (!result)
        result = vt_query_begin(tables, last ? last->device_index : -1, last ? last->event_index : 0,
                                &kept->database);
    vt_tables_free(tables);
    vt_report_free(report);
    return result ? wrong(call, "the tables need too much memory") : 0;
}

static int tool_sql(struct call *call)
{
    size_t rows = call->request.top ? (size_t)call->request.top : FEW_ROWS;
    struct vt_mcp_kept *kept = open_whole(call, call->request.trace);
    int result = kept ? 0 : -EINVAL;

    if (kept && !kept->database)
        result = make_database(call, kept);
    return result ? result
                  : vt_query(kept->database, call->request.query, rows, (size_t)call->request.cell_characters,
                             call->out, &call->structured, call->error, sizeof call->error);
}
