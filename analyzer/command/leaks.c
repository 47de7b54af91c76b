#include "command/command.h"

int vt_command_leaks(const struct vt_command *command, struct vt_arguments *arguments,
                     struct vt_output *output)
{
    return vt_show_traces(command, arguments, output, &vt_view_leaks, &vt_view_leaks_json);
}
