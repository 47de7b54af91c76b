/* diff: two runs, or two moments of one. */
#include "command/command.h"

#include <stdlib.h>
#include <string.h>

#include "diagnose/diff.h"
#include "view/json/json.h"
#include "view/text/views.h"

/* What an operand names. */
struct side {
    char *path;         /* owned */
    const char *moment; /* NULL = the peak; in the operand */
    struct vt_loaded loaded;
    struct vt_report *report;
};

static unsigned groups_for(const struct vt_arguments *arguments)
{
    if ((arguments->json || arguments->brief) && arguments->by < 0)
        return (1u << VT_BY_COUNT) - 1;
    return arguments->by >= 0 ? 1u << arguments->by
                              : 1u << VT_BY_MODULE | 1u << VT_BY_OWNER | 1u << VT_BY_LINE;
}

static struct vt_report_options options_for(const struct vt_arguments *arguments, const struct side *side)
{
    return (struct vt_report_options){.device_index = arguments->device,
                                      .at = side->moment,
                                      .groups = groups_for(arguments),
                                      .shown_only = true,
                                      .depth = (unsigned)arguments->depth,
                                      .timeline_columns = VT_NO_TIMELINE};
}

static int reach(const struct vt_command *command, const struct vt_arguments *arguments,
                 const struct side *side, struct vt_loaded *loaded)
{
    const struct vt_report_options options = options_for(arguments, side);
    char error[2 * PATH_MAX];
    int result = vt_reach(loaded, &options, error, sizeof error);

    if (result)
        vt_say(command, "%s", error);
    return result;
}

static int make_report(const struct vt_command *command, const struct vt_arguments *arguments,
                       const struct vt_loaded *loaded, struct side *side)
{
    const struct vt_report_options options = options_for(arguments, side);

    return vt_make_report(command, side->path, loaded, &options, 0, &side->report);
}

/* Both sides may be of one trace: it is opened once, and has both moments before either has a report. */
static int make_sides(const struct vt_command *command, const struct vt_arguments *arguments,
                      struct side sides[2])
{
    bool same;
    int result = 0;

    for (int i = 0; i < 2; i++)
        sides[i].path = vt_split_moment(arguments->operands[i], &sides[i].moment);
    same = !strcmp(sides[0].path, sides[1].path);
    for (int i = 0; !result && i < (same ? 1 : 2); i++)
        result = vt_load(command, arguments, sides[i].path, &sides[i].loaded);
    for (int i = 0; !result && i < 2; i++)
        result = reach(command, arguments, &sides[i], &sides[same ? 0 : i].loaded);
    for (int i = 0; !result && i < 2; i++)
        result = make_report(command, arguments, &sides[same ? 0 : i].loaded, &sides[i]);
    return result;
}

static int show(const struct vt_command *command, const struct vt_arguments *arguments,
                const struct side sides[2], struct vt_output *output)
{
    const struct vt_view_style style = vt_style(arguments, output);
    const struct vt_json_style json = {.top = arguments->top};
    unsigned groups = groups_for(arguments);
    struct vt_diff *diff;
    int result;

    diff = vt_diff_make(sides[0].report, sides[1].report, groups);
    result = arguments->json ? vt_json_write(&vt_diff_document, diff, &json, output->stream)
                             : vt_diff_text(diff, &style, output->stream);
    vt_diff_free(diff);
    return vt_written(command, output, result);
}

int vt_command_diff(const struct vt_command *command, struct vt_arguments *arguments,
                    struct vt_output *output)
{
    struct side sides[2] = {{0}};
    int result = make_sides(command, arguments, sides);

    if (!result)
        vt_pager_begin(command, arguments, output);
    if (!result)
        result = show(command, arguments, sides, output);
    for (int i = 0; i < 2; i++) {
        vt_report_free(sides[i].report);
        vt_unload(&sides[i].loaded);
        free(sides[i].path);
    }
    return result;
}
