#include "command/command.h"

#include <string.h>

int vt_command_help(const struct vt_command *command, struct vt_arguments *arguments,
                    struct vt_output *output)
{
    const struct vt_command *about;
    const char *names[VT_COMMAND_COUNT + 1] = {0}, *nearest, *name = arguments->operands[0];

    if (!arguments->operand_count || name[0] == '-') {
        vt_print_help(output->stream);
        return vt_written(command, output, 0);
    }
    about = vt_find_command(name);
    if (!about) {
        for (int i = 0; i < VT_COMMAND_COUNT; i++)
            names[i] = vt_commands[i].name;
        nearest = vt_nearest(name, names);
        return nearest ? vt_wrong_use(command, "no command '%s'; did you mean '%s'?", name, nearest)
                       : vt_wrong_use(command, "no command '%s'; vramtrace help lists them", name);
    }
    if (about->run == vt_command_run)
        vt_print_run_help(about, output->stream);
    else
        vt_print_command_help(about, output->stream);
    return vt_written(command, output, 0);
}
