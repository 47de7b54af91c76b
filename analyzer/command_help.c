#include "command.h"

#include <string.h>

int vt_command_help(const struct vt_command *command, int argc, char **argv)
{
    const struct vt_command *about;
    const char *names[VT_COMMAND_COUNT + 1] = {0}, *nearest;

    if (argc < 2 || argv[1][0] == '-') {
        vt_print_help(stdout);
        return vt_written(command, 0);
    }
    about = vt_find_command(argv[1]);
    if (!about) {
        for (int i = 0; i < VT_COMMAND_COUNT; i++)
            names[i] = vt_commands[i].name;
        nearest = vt_nearest(argv[1], names);
        return nearest ? vt_wrong_use(command, "no command '%s'; did you mean '%s'?", argv[1], nearest)
                       : vt_wrong_use(command, "no command '%s'; vramtrace help lists them", argv[1]);
    }
    if (!strcmp(about->name, "run"))
        vt_print_run_help(about, stdout);
    else
        vt_print_command_help(about, stdout);
    return vt_written(command, 0);
}
