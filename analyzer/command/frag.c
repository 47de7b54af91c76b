/* frag: the framework's segments, what lies in them, and what keeps them. */
#include "command/command.h"

int vt_command_frag(const struct vt_command *command, struct vt_arguments *arguments,
                    struct vt_output *output)
{
    return vt_show_traces(command, arguments, output, &vt_view_frag, &vt_view_json_frag);
}
