/* diff: two runs, or two moments of one. */
#include "command/load.h"
#include "command/pager.h"
#include "command/traces.h"

#include <stdlib.h>
#include <string.h>

#include "findings/diff.h"
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

/* Both sides may be of one trace: it is opened once, and has both moments before either has a report. */
static int make_sides(const struct vt_arguments *arguments, struct side sides[2])
{
    struct vt_report_options options[2];
    bool same;
    char *error;
    int result;

    for (int i = 0; i < 2; i++) {
        sides[i].path = vt_split_moment(arguments->operands[i], &sides[i].moment);
        options[i] = options_for(arguments, &sides[i]);
    }
    same = !strcmp(sides[0].path, sides[1].path);
    result = vt_load(arguments, sides[0].path, &options[0], &sides[0].loaded);
    if (!result && !same)
        result = vt_load(arguments, sides[1].path, &options[1], &sides[1].loaded);
    if (!result && same && (result = vt_reach(&sides[0].loaded, &options[1], &error)))
        vt_say_text(error);
    for (int i = 0; !result && i < 2; i++)
        result = vt_make_report(sides[i].path, &sides[same ? 0 : i].loaded, &options[i], 0, &sides[i].report);
    return result;
}

static int print_diff(const struct vt_arguments *arguments, const struct side sides[2],
                      struct vt_output *output)
{
    const struct vt_view_style style = vt_style(arguments, output);
    const struct vt_json_style json = {.top = arguments->top};
    struct vt_diff *diff;

    diff = vt_diff_make(sides[0].report, sides[1].report, groups_for(arguments));
    if (arguments->json)
        vt_json_write(&vt_diff_document, diff, &json, output->stream);
    else
        vt_diff_text(diff, &style, output->stream);
    vt_diff_free(diff);
    return vt_written(output, 0);
}

int vt_command_diff(struct vt_arguments *arguments, struct vt_output *output)
{
    struct side sides[2] = {{0}};
    int result = make_sides(arguments, sides);

    if (!result)
        vt_pager_begin(arguments, output);
    if (!result)
        result = print_diff(arguments, sides, output);
    for (int i = 0; i < 2; i++) {
        vt_report_free(sides[i].report);
        vt_unload(&sides[i].loaded);
        free(sides[i].path);
    }
    return result;
}
