/* check: a trace against limits, for a job that must not grow. */
#include "command/command.h"

#include <errno.h>
#include <stdlib.h>

#include "diagnose/diagnose.h"
#include "view/json/json.h"
#include "view/text/print.h"

static int load_report(const struct vt_command *command, const struct vt_arguments *arguments,
                       const char *path, struct vt_loaded *loaded)
{
    const struct vt_report_options options = {
        .device_index = arguments->device, .groups = VT_NO_GROUPS, .timeline_columns = VT_NO_TIMELINE};

    return vt_load_report(command, arguments, path, &options,
                          arguments->limits.max_leak.given ? VT_FIND_LEAKS : 0, loaded);
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

static int check_one(const struct vt_command *command, const struct vt_arguments *arguments, const char *path,
                     const struct vt_report *baseline, struct vt_checks *checks)
{
    struct vt_loaded loaded;
    int result = load_report(command, arguments, path, &loaded);

    if (result)
        return result;
    result = vt_check_make(loaded.report, baseline, &arguments->limits, checks);
    if (result) {
        vt_say(command, "out of memory");
        result = VT_EXIT_UNREADABLE;
    } else {
        result = checks->breaches ? VT_EXIT_CHECK_FAILED : VT_EXIT_GOOD;
    }
    vt_unload(&loaded);
    return result;
}

/* Checks every trace; the status is the worst. Breaches are printed when found, JSON at the end. */
static int check_all(const struct vt_command *command, const struct vt_arguments *arguments,
                     const struct vt_report *baseline, struct vt_output *output)
{
    const struct vt_json_style style = {0};
    struct vt_check_list list = {.items = calloc((size_t)arguments->operand_count + 1, sizeof *list.items)};
    int worst = list.items ? 0 : VT_EXIT_UNREADABLE, written = 0;

    for (int i = 0; list.items && i < arguments->operand_count; i++) {
        struct vt_checks *checks = &list.items[list.count];
        int result = check_one(command, arguments, arguments->operands[i], baseline, checks);

        worst = result > worst ? result : worst;
        if (result > VT_EXIT_CHECK_FAILED)
            continue;
        list.count++;
        if (!arguments->json)
            put_breaches(arguments->operands[i], checks, output->stream);
    }
    list.passed = !worst;
    if (arguments->json)
        written = list.items ? vt_json_write(&vt_check_document, &list, &style, output->stream) : -ENOMEM;
    written = vt_written(command, output, written);
    for (size_t i = 0; i < list.count; i++)
        vt_check_free(&list.items[i]);
    free(list.items);
    return written > worst ? written : worst;
}

int vt_command_check(const struct vt_command *command, struct vt_arguments *arguments,
                     struct vt_output *output)
{
    struct vt_loaded baseline = {0};
    int result = 0;

    if (arguments->baseline)
        result = load_report(command, arguments, arguments->baseline, &baseline);
    if (!result)
        result = check_all(command, arguments, baseline.report, output);
    vt_unload(&baseline);
    return result;
}
