/* report and timeline: a report in memory, shown by a view. */
#include "command.h"

#include <errno.h>

#include "view/print.h"

static unsigned groups_for(const struct vt_arguments *arguments, const struct vt_view *view)
{
    unsigned groups = 1u << VT_BY_MODULE | 1u << VT_BY_LINE; /* the verdict names them */

    if (view == &vt_view_json)
        return 0;
    if (view == &vt_view_timeline)
        return 1u << VT_BY_CATEGORY;
    return groups | 1u << (arguments->by < 0 ? VT_BY_STACK : arguments->by);
}

static int report_one(const struct vt_command *command, const struct vt_arguments *arguments,
                      const char *path, const struct vt_view *view, const struct vt_view_style *style)
{
    struct vt_report_options options = {
        .device_index = arguments->device, .at = arguments->at, .groups = groups_for(arguments, view)};
    struct vt_loaded loaded;
    struct vt_report *report;
    char error[512];
    int result = vt_load(command, path, arguments->rules, &loaded);

    if (result)
        return result;
    result = vt_report_make(loaded.attribution, &options, &report, error, sizeof error);
    if (result) {
        fprintf(stderr, "vramtrace %s: %s: ", command->name, path);
        vt_put_clean(error, stderr); /* it may quote the trace */
        fputc('\n', stderr);
        vt_unload(&loaded);
        return result == -EINVAL ? VT_EXIT_WRONG_USE : VT_EXIT_UNREADABLE;
    }
    result = vt_written(command, view->write(report, style, stdout));
    vt_report_free(report);
    vt_unload(&loaded);
    return result;
}

/* Every trace is tried; the status is the worst. */
static int report_all(const struct vt_command *command, int argc, char **argv, const struct vt_view *text)
{
    struct vt_arguments arguments;
    struct vt_view_style style;
    int worst = vt_parse_arguments(command, argc, argv, &arguments);

    if (worst)
        return worst;
    if (arguments.help) {
        vt_print_command_help(command, stdout);
        return vt_written(command, 0);
    }
    if (!arguments.operand_count)
        return vt_wrong_use(command, "which trace? vramtrace %s TRACE (vramtrace run makes one)",
                            command->name);
    style = vt_style(&arguments);
    style.compact = arguments.operand_count > 1;
    for (int i = 0; i < arguments.operand_count; i++) {
        int result;

        if (i && !arguments.json)
            printf("\n%s\n\n", style.unicode ? "────────" : "--------");
        result = report_one(command, &arguments, arguments.operands[i], arguments.json ? &vt_view_json : text,
                            &style);
        worst = result > worst ? result : worst;
    }
    return worst;
}

int vt_command_report(const struct vt_command *command, int argc, char **argv)
{
    return report_all(command, argc, argv, &vt_view_text);
}

int vt_command_timeline(const struct vt_command *command, int argc, char **argv)
{
    return report_all(command, argc, argv, &vt_view_timeline);
}
