#include "command.h"

#include <locale.h>
#include <signal.h>
#include <string.h>

#include "vramtrace/format.h"
#include "vramtrace/version.h"

const struct vt_command vt_commands[VT_COMMAND_COUNT] = {
#define X(id, name, function, arguments, summary) {name, arguments, summary, function, 1u << VT_COMMAND_##id},
    VT_COMMANDS(X)
#undef X
};

const struct vt_command *vt_find_command(const char *name)
{
    for (int i = 0; i < VT_COMMAND_COUNT; i++)
        if (!strcmp(vt_commands[i].name, name))
            return &vt_commands[i];
    return NULL;
}

static int unknown_command(const char *name)
{
    const char *names[VT_COMMAND_COUNT + 1] = {0}, *nearest;
    size_t length = strlen(name);

    for (int i = 0; i < VT_COMMAND_COUNT; i++)
        names[i] = vt_commands[i].name;
    nearest = vt_nearest(name, names);
    if (nearest)
        return vt_wrong_use(NULL, "no command '%s'; did you mean '%s'?", name, nearest);
    if (length > 4 && !strcmp(name + length - 4, ".vrt"))
        return vt_wrong_use(NULL, "'%s' is no command; for a trace: vramtrace report %s", name, name);
    return vt_wrong_use(NULL, "no command '%s'; vramtrace help lists them", name);
}

int main(int argc, char **argv)
{
    const char *name = argc > 1 ? argv[1] : "";
    const struct vt_command *command = vt_find_command(name);

    setlocale(LC_CTYPE, ""); /* numbers stay as they are in C: JSON is made of them */
    signal(SIGPIPE, SIG_IGN);
    if (command)
        return command->run(command, argc - 1, argv + 1);
    if (!strcmp(name, "--version") || !strcmp(name, "-V")) {
        printf("vramtrace %s (trace format %u)\n", VRAMTRACE_VERSION, VT_FORMAT_VERSION);
        return VT_EXIT_GOOD;
    }
    if (!strcmp(name, "--help") || !strcmp(name, "-h")) {
        vt_print_help(stdout);
        return VT_EXIT_GOOD;
    }
    if (argc < 2)
        return vt_wrong_use(NULL, "which command? vramtrace help lists them");
    if (name[0] == '-')
        return vt_wrong_use(NULL, "unknown option '%s'; a command comes first: vramtrace COMMAND [OPTIONS]",
                            name);
    return unknown_command(name);
}
