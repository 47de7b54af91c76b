#include "command.h"

int vt_command_leaks(const struct vt_command *command, int argc, char **argv)
{
    return vt_show_traces(command, argc, argv, &vt_view_leaks, &vt_view_leaks_json);
}
