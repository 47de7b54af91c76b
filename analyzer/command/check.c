/* check: a trace against limits, for a job that must not grow. */
#include "command/command.h"

#include "view/json/json.h"
#include "view/text/print.h"

static int load_report(const struct vt_command *command, const struct vt_arguments *arguments,
                       const char *path, struct vt_loaded *loaded, struct vt_report **report)
{
    struct vt_report_options options = {
        .device_index = arguments->device, .groups = 1u << VT_BY_CATEGORY, .timeline_columns = 1};
    int result = vt_load(command, arguments, path, loaded);

    *report = NULL;
    if (!result)
        result = vt_make_report(command, path, loaded, &options, report);
    if (result)
        vt_unload(loaded);
    return result;
}

static void put_breaches(const char *path, const struct vt_checks *checks, FILE *out)
{
    for (size_t i = 0; i < checks->count; i++) {
        if (!checks->items[i].text)
            continue;
        vt_put_clean(path, out);
        fputs(": ", out);
        vt_put_clean(checks->items[i].text, out); /* it may name a line of the trace */
        fputc('\n', out);
    }
}

static void add_json(cJSON *array, const struct vt_trace *trace, const struct vt_checks *checks)
{
    cJSON *object = vt_json_item(), *list;

    vt_json_trace(vt_json_object(object, "trace"), trace);
    vt_json_bool(object, "passed", !checks->breaches);
    list = vt_json_array(object, "checks");
    for (size_t i = 0; i < checks->count; i++) {
        const struct vt_checked *checked = &checks->items[i];
        cJSON *item = vt_json_item();

        vt_json_text(item, "what", checked->what);
        if (checked->part)
            vt_json_text(item, "part", checked->part);
        vt_json_bool(item, "passed", !checked->breached);
        if (checked->device_index >= 0) {
            vt_json_integer(item, "device", checked->device_index);
            vt_json_number(item, "bytes", checked->bytes);
            vt_json_number(item, "limit_bytes", checked->limit_bytes);
        }
        if (checked->text)
            vt_json_text(item, "text", checked->text);
        vt_json_append(list, item);
    }
    vt_json_append(array, object);
}

/* `array` NULL = breaches are said in words. */
static int check_one(const struct vt_command *command, const struct vt_arguments *arguments, const char *path,
                     const struct vt_report *baseline, cJSON *array, FILE *out)
{
    struct vt_loaded loaded;
    struct vt_report *report;
    struct vt_checks checks;
    int result = load_report(command, arguments, path, &loaded, &report);

    if (result)
        return result;
    result = vt_check_make(report, baseline, &arguments->limits, &checks);
    if (result) {
        vt_say(command, "out of memory");
        result = VT_EXIT_UNREADABLE;
    } else {
        if (array)
            add_json(array, loaded.trace, &checks);
        else
            put_breaches(path, &checks, out);
        result = checks.breaches ? VT_EXIT_CHECK_FAILED : VT_EXIT_GOOD;
        vt_check_free(&checks);
    }
    vt_report_free(report);
    vt_unload(&loaded);
    return result;
}

/* Every trace is checked; the status is the worst. */
static int check_all(const struct vt_command *command, const struct vt_arguments *arguments,
                     const struct vt_report *baseline, struct vt_output *output)
{
    cJSON *root = arguments->json ? vt_json_begin("vramtrace.check/1") : NULL, *array = NULL;
    int worst = 0, written = 0;

    if (root)
        array = vt_json_array(root, "traces");
    for (int i = 0; i < arguments->operand_count; i++) {
        int result = check_one(command, arguments, arguments->operands[i], baseline, array, output->stream);
        worst = result > worst ? result : worst;
    }
    if (arguments->json) {
        vt_json_bool(root, "passed", !worst);
        written = vt_json_end(root, 0, false, output->stream);
    }
    written = vt_written(command, output, written);
    return written > worst ? written : worst;
}

int vt_command_check(const struct vt_command *command, struct vt_arguments *arguments,
                     struct vt_output *output)
{
    struct vt_loaded loaded = {0};
    struct vt_report *baseline = NULL;
    int result = 0;

    if (arguments->baseline)
        result = load_report(command, arguments, arguments->baseline, &loaded, &baseline);
    if (result)
        return result;
    result = check_all(command, arguments, baseline, output);
    vt_report_free(baseline);
    vt_unload(&loaded);
    return result;
}
