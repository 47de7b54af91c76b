/* steps: how each training step went. */
#include "command/command.h"

int vt_command_steps(const struct vt_command *command, struct vt_arguments *arguments,
                     struct vt_output *output)
{
    return vt_show_traces(command, arguments, output, &vt_view_steps, &vt_view_steps_json);
}
