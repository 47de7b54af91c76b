/* oom: what ran out of memory, and what had filled the card. */
#include "command.h"

int vt_command_oom(const struct vt_command *command, int argc, char **argv)
{
    return vt_show_traces(command, argc, argv, &vt_view_oom, &vt_view_json_oom);
}
