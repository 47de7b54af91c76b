/* steps: how each training step went. */
#include "command.h"

int vt_command_steps(const struct vt_command *command, int argc, char **argv)
{
    return vt_show_traces(command, argc, argv, &vt_view_steps, &vt_view_steps_json);
}
