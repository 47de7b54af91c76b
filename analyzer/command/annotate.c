/* annotate: source with the memory of each line beside it, or the table of files. */
#include "command/load.h"
#include "command/pager.h"

#include <errno.h>

#include "view/json/json.h"
#include "view/text/views.h"

#define REASON_BYTES 2048

static void print_annotation(const struct vt_annotation *annotation, const struct vt_arguments *arguments,
                             struct vt_output *output)
{
    const struct vt_view_style style = vt_style(arguments, output);
    const struct vt_json_style json = {.top = arguments->top};

    if (arguments->json)
        vt_json_write(&vt_annotation_document, annotation, &json, output->stream);
    else
        vt_text_annotate(annotation, &style, output->stream);
}

int vt_command_annotate(struct vt_arguments *arguments, struct vt_output *output)
{
    const struct vt_report_options options = {.device_index = arguments->device,
                                              .at = arguments->at,
                                              .groups = VT_NO_GROUPS,
                                              .oom = VT_AT_OOM_IF_IT_ENDED_THE_RUN,
                                              .timeline_columns = 1};
    const char *path = arguments->operands[0],
               *file = arguments->operand_count > 1 ? arguments->operands[1] : NULL;
    struct vt_annotation *annotation;
    struct vt_loaded loaded;
    char reason[REASON_BYTES];
    int result;

    arguments->each_event = true; /* it counts each allocation of a line */
    result = vt_load_report(arguments, path, &options, 0, &loaded);

    if (result)
        return result;
    result =
        vt_annotation_make(loaded.report, file, (size_t)arguments->top, &annotation, reason, sizeof reason);
    if (!result) {
        vt_pager_begin(arguments, output);
        print_annotation(annotation, arguments, output);
        result = vt_written(output, 0);
        vt_annotation_free(annotation);
    } else {
        vt_say("%s: %s", path, reason);
        result = result == -EINVAL ? VT_EXIT_WRONG_USE : VT_EXIT_UNREADABLE;
    }
    vt_unload(&loaded);
    return result;
}
