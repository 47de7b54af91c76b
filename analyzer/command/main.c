#include "command/command.h"

#include <locale.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "vramtrace/format.h"
#include "vramtrace/version.h"

const struct vt_command vt_commands[VT_COMMAND_COUNT] = {
#define X(id, name, function, takes, arguments, summary)                                                     \
    {name, arguments, summary, VT_TAKES_##takes, function, 1u << VT_COMMAND_##id},
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

/* A command that takes options of the table: all but its own work. */
static int run_parsed(const struct vt_command *command, int argc, char **argv)
{
    struct vt_arguments arguments;
    struct vt_output output = {.stream = stdout};
    int status = vt_parse_arguments(command, argc, argv, &arguments);

    if (status)
        return status;
    if (arguments.help) {
        vt_print_command_help(command, stdout);
        return vt_output_end(command, &output, 0);
    }
    status = vt_find_traces(command, &arguments);
    if (!status) {
        status = vt_output_begin(command, arguments.output, &output);
        if (!status)
            status = command->run(command, &arguments, &output);
        status = vt_output_end(command, &output, status);
    }
    free(arguments.found_path);
    return status;
}

static int run_command(const struct vt_command *command, int argc, char **argv)
{
    struct vt_arguments words = {.operands = argv + 1, .operand_count = argc - 1};
    struct vt_output output = {.stream = stdout};

    if (command->run == vt_command_run) /* signals as they are: what is traced inherits them */
        return command->run(command, &words, &output);
    signal(SIGPIPE, SIG_IGN); /* a write gives an error instead */
    signal(SIGXFSZ, SIG_IGN);
    return command->takes == VT_TAKES_WORDS ? command->run(command, &words, &output)
                                            : run_parsed(command, argc, argv);
}

int main(int argc, char **argv)
{
    const char *name = argc > 1 ? argv[1] : "";
    const struct vt_command *command = vt_find_command(name);
    struct vt_output output = {.stream = stdout};

    setlocale(LC_CTYPE, ""); /* numbers stay as they are in C: JSON is made of them */
    if (command)
        return run_command(command, argc - 1, argv + 1);
    if (!strcmp(name, "--version") || !strcmp(name, "-V")) {
        printf("vramtrace %s (trace format %u)\n", VRAMTRACE_VERSION, VT_FORMAT_VERSION);
        return vt_output_end(NULL, &output, 0);
    }
    if (!strcmp(name, "--help") || !strcmp(name, "-h")) {
        vt_print_help(stdout);
        return vt_output_end(NULL, &output, 0);
    }
    if (argc < 2)
        return vt_wrong_use(NULL, "which command? vramtrace help lists them");
    if (name[0] == '-')
        return vt_wrong_use(NULL, "unknown option '%s'; a command comes first: vramtrace COMMAND [OPTIONS]",
                            name);
    return unknown_command(name);
}
