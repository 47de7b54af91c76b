/* oom: what ran out of memory, and what had filled the card. */
#include "command/command.h"

int vt_command_oom(const struct vt_command *command, struct vt_arguments *arguments, struct vt_output *output)
{
    return vt_show_traces(command, arguments, output, &vt_view_oom, &vt_view_json_oom);
}
