/* Finds the command and runs it: options, the traces meant, -o and the exit status of writing. */
#include "base/format.h"
#include "base/heap.h"
#include "command/arguments.h"
#include "command/dryrun.h"
#include "command/pager.h"
#include "command/run.h"
#include "command/traces.h"
#include "report/sources.h"
#include "trace/redact.h"

#include <locale.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "vramtrace/format.h"

static int (*const functions[VT_COMMAND_COUNT])(struct vt_arguments *, struct vt_output *) = {
#define X(id, group, name, function, takes, arguments, summary) function,
    VT_COMMANDS(X)
#undef X
};

static const char rank_option_hint[] =
#define VT_RANK_OPTION(hint) hint
#include "trace/frameworks.def"
    ;

static int unknown_command(const char *name)
{
    const char *names[VT_COMMAND_COUNT + 3] = {"--version", "--help"}, *nearest;
    const char *kind = name[0] == '-' ? "option" : "command";

    for (int i = 0; i < VT_COMMAND_COUNT; i++)
        names[i + 2] = vt_commands[i].name;
    nearest = vt_nearest(name, names);
    if (nearest)
        return vt_wrong_use("unknown %s '%s'; did you mean vramtrace %s?", kind, name, nearest);
    if (name[vt_stem_bytes(name)])
        return vt_wrong_use("'%s' is not a command; did you mean vramtrace report %s?", name, name);
    return vt_wrong_use(name[0] == '-' ? "unknown %s '%s'; a command comes first: vramtrace COMMAND [OPTIONS]"
                                       : "unknown %s '%s'; vramtrace help lists them",
                        kind, name);
}

int vt_command_help(struct vt_arguments *arguments, struct vt_output *output)
{
    const char *name = arguments->operands[0];
    bool named = arguments->operand_count && name[0] != '-';
    const struct vt_command *about = named ? vt_find_command(name) : NULL;

    if (named && !about)
        return unknown_command(name);
    if (!about)
        vt_print_help(output->stream);
    else if (about->bit == 1u << VT_COMMAND_RUN)
        vt_print_run_help(output->stream);
    else if (about->bit == 1u << VT_COMMAND_DRYRUN)
        vt_print_dryrun_help(output->stream);
    else
        vt_print_command_help(about, output->stream);
    return vt_written(output, 0);
}

/* A command whose options are in options.def: everything but its own work. */
static int run_parsed(const struct vt_command *command, int argc, char **argv)
{
    struct vt_arguments arguments;
    struct vt_output output = {.stream = stdout};
    struct vt_files files = {0};
    int status = vt_parse_arguments(command, argc, argv, &arguments);

    if (status)
        return status;
    if (arguments.help) {
        vt_print_command_help(command, stdout);
        return vt_output_end(&output, 0);
    }
    if (arguments.no_source || arguments.redact)
        vt_sources_hide();
    if (arguments.redact)
        vt_redact_begin();
    status = vt_find_traces(&arguments);
    if (!status && command->takes == VT_TAKES_TRACES)
        status = vt_files_to_operands(&arguments, &files);
    if (!status) {
        status = vt_output_begin(arguments.output, &output);
        if (!status)
            status = functions[command - vt_commands](&arguments, &output);
        status = vt_output_end(&output, status);
        status = vt_pager_end(&output, status);
    }
    vt_files_free(&files);
    free(arguments.found_path);
    return status;
}

static int run_command(const struct vt_command *command, int argc, char **argv)
{
    struct vt_arguments words = {.command = command, .operands = argv + 1, .operand_count = argc - 1};
    struct vt_output output = {.stream = stdout};

    vt_say_as(command);
    if (!(command->bit & (1u << VT_COMMAND_RUN |
                          1u << VT_COMMAND_DRYRUN))) { /* the traced command inherits signals unchanged */
        vt_heap_prepare();
        signal(SIGPIPE, SIG_IGN); /* a write gives an error instead */
        signal(SIGXFSZ, SIG_IGN);
    }
    if (command->takes != VT_TAKES_WORDS)
        return run_parsed(command, argc, argv);
    return functions[command - vt_commands](&words, &output);
}

int main(int argc, char **argv)
{
    const char *name = argc > 1 ? argv[1] : "";
    const struct vt_command *command = vt_find_command(name);
    struct vt_output output = {.stream = stdout};

    setlocale(LC_CTYPE, ""); /* LC_NUMERIC stays "C": JSON needs it */
    if (command)
        return run_command(command, argc - 1, argv + 1);
    if (!strcmp(name, "--version") || !strcmp(name, "-V")) {
        printf("vramtrace %s (trace format %u)\n", VRAMTRACE_VERSION, VT_FORMAT_VERSION);
        return vt_output_end(&output, 0);
    }
    if (!strcmp(name, "--help") || !strcmp(name, "-h")) {
        vt_print_help(stdout);
        return vt_output_end(&output, 0);
    }
    if (argc < 2) {
        vt_print_help(stderr);
        return VT_EXIT_WRONG_USE;
    }
    if (!strncmp(name, "--local_rank", 12) || !strncmp(name, "--local-rank", 12))
        return vt_wrong_use("the launcher put %s before the command: %s", name, rank_option_hint);
    return unknown_command(name);
}
