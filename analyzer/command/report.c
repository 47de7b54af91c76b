/* report, timeline and those of its sections that are commands: a report in memory, shown by a view. */
#include "command/command.h"

static unsigned groups_for(const struct vt_arguments *arguments, const struct vt_view *view)
{
    unsigned groups = 1u << VT_BY_MODULE | 1u << VT_BY_LINE; /* the verdict names them */

    if (arguments->json)
        return 0;
    if (view == &vt_view_oom)
        groups |= 1u << VT_BY_OWNER;
    if (view != &vt_view_text && view != &vt_view_oom)
        return 1u << VT_BY_CATEGORY;
    if (arguments->by >= VT_BY_COUNT)
        return groups;
    return groups | 1u << (arguments->by < 0 ? VT_BY_STACK : arguments->by);
}

/* Which moment a view shows without --at. JSON of the report has "at" only where it is asked for. */
static enum vt_at_oom oom_for(const struct vt_view *view)
{
    if (view == &vt_view_oom || view == &vt_view_json_oom)
        return VT_AT_OOM_ONLY;
    return view == &vt_view_text || view == &vt_view_frag || view == &vt_view_json_frag
               ? VT_AT_OOM_IF_IT_ENDED_THE_RUN
               : VT_AT_OOM_NEVER;
}

static int report_one(const struct vt_command *command, const struct vt_arguments *arguments,
                      const char *path, const struct vt_view *view, const struct vt_view_style *style,
                      struct vt_output *output)
{
    struct vt_report_options options = {.device_index = arguments->device,
                                        .explain = arguments->explain,
                                        .at = arguments->at,
                                        .groups = groups_for(arguments, view),
                                        .oom = oom_for(view),
                                        .depth = (unsigned)arguments->depth,
                                        .blocks = arguments->by == VT_BY_BLOCK};
    struct vt_loaded loaded;
    struct vt_report *report;
    int result = vt_load(command, arguments, path, &loaded);

    if (result)
        return result;
    result = vt_make_report(command, path, &loaded, &options, &report);
    if (!result)
        result = vt_written(command, output, view->write(report, style, output->stream));
    vt_report_free(report);
    vt_unload(&loaded);
    return result;
}

/* Every trace is tried, as long as there is somewhere to write. */
int vt_show_traces(const struct vt_command *command, const struct vt_arguments *arguments,
                   struct vt_output *output, const struct vt_view *text, const struct vt_view *json)
{
    struct vt_view_style style = vt_style(arguments, output);
    int worst = 0;

    style.compact = arguments->operand_count > 1;
    style.all = arguments->all;
    for (int i = 0; i < arguments->operand_count && !output->broken; i++) {
        int result;

        if (i && !arguments->json)
            fprintf(output->stream, "\n%s\n\n", style.unicode ? "────────" : "--------");
        result = report_one(command, arguments, arguments->operands[i], arguments->json ? json : text, &style,
                            output);
        worst = result > worst ? result : worst;
    }
    return worst;
}

int vt_command_report(const struct vt_command *command, struct vt_arguments *arguments,
                      struct vt_output *output)
{
    return vt_show_traces(command, arguments, output, &vt_view_text, &vt_view_json);
}

int vt_command_timeline(const struct vt_command *command, struct vt_arguments *arguments,
                        struct vt_output *output)
{
    return vt_show_traces(command, arguments, output, &vt_view_timeline, &vt_view_timeline_json);
}
