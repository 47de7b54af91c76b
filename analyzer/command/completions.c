/* completions: scripts that complete the command line in bash, zsh and fish, from the tables of commands and
 * options. */
#include "command/dryrun.h"
#include "command/output.h"
#include "command/run.h"

#include <string.h>

/* How the value of an option is completed, by the word that stands for it in --help. A word that ends in ':'
 * or '#' goes on. What is not here has no completion. */
static const struct value_kind {
    const char *value, *words;
    enum { WORDS, FILES, TRACES } files;
} value_kinds[] = {
    {"FILE", "", FILES},
    {"TRACE", "", TRACES},
    {"MOMENT", "peak reserved end oom oom# mark: step: event:", WORDS},
    {"WHICH", "oom# mark: step: event:", WORDS},
};

static const struct value_kind *kind_of(const struct vt_option_text *option)
{
    const char *value = strcmp(option->name, "--out") ? option->value : "FILE";

    for (size_t i = 0; i < sizeof value_kinds / sizeof *value_kinds; i++)
        if (!strcmp(value_kinds[i].value, value))
            return &value_kinds[i];
    return NULL;
}

/* A switch of run takes the next word only if that is 0 or 1. */
static bool needs_value(const struct vt_option_text *option)
{
    return option->value[0] && strcmp(option->value, "SWITCH") != 0;
}

static bool takes_words(const struct vt_option_text *option)
{
    const struct value_kind *kind = kind_of(option);
    return option->words || (kind && kind->files == WORDS);
}

/* Help texts come from tables of this program: no shell's special character but these is in them. */
static void put_escaped(const char *text, const char *specials, const char *escape, FILE *out)
{
    for (; *text; text++) {
        if (*text == '\'')
            fputs("'\\''", out);
        else if (strchr(specials, *text))
            fprintf(out, "%s%c", escape, *text);
        else
            fputc(*text, out);
    }
}

static void put_words(const struct vt_option_text *option, const char *specials, FILE *out)
{
    const struct value_kind *kind = kind_of(option);
    for (unsigned i = 0; i < option->words; i++)
        fprintf(out, "%s%s", i ? " " : "", option->word(i));
    if (!option->words && kind)
        put_escaped(kind->words, specials, "\\", out);
}

static void put_names(FILE *out)
{
    for (int i = 0; i < VT_COMMAND_COUNT; i++)
        fprintf(out, "%s%s", i ? " " : "", vt_commands[i].name);
}

static bool is_command(const struct vt_command *command, enum vt_command_id id)
{
    return command->bit == 1u << id;
}

static bool option_at(const struct vt_command *command, size_t index, struct vt_option_text *text)
{
    return is_command(command, VT_COMMAND_RUN)      ? vt_run_option_at(index, text)
           : is_command(command, VT_COMMAND_DRYRUN) ? vt_dryrun_option_at(index, text)
                                                    : vt_option_at(command, index, text);
}

/* What files follow the options: NULL = none, "" = any, ".vrt" = traces. */
static const char *files_of(const struct vt_command *command)
{
    if (strstr(command->arguments, "[FILE]"))
        return "";
    return command->takes == VT_TAKES_TWO || strstr(command->arguments, "TRACE") ? ".vrt" : NULL;
}

/* Its operand is another command. */
static bool runs_another(const struct vt_command *command)
{
    return is_command(command, VT_COMMAND_RUN) || is_command(command, VT_COMMAND_DRYRUN);
}

/* Options of run whose value is the next word. */
static void put_valued(const struct vt_command *command, FILE *out)
{
    struct vt_option_text option;

    for (size_t i = 0; option_at(command, i, &option); i++)
        if (needs_value(&option))
            fprintf(out, " %s", option.name);
}

/* ---- bash ---- */

/* bash cuts words at '=' and ':'. _command_offset is bash-completion's. */
static const char bash_begin[] =
    "# Completion of vramtrace for bash: vramtrace completions bash\n"
    "_vramtrace_words() {\n"
    "    COMPREPLY=($(compgen -W \"$1\" -- \"$word\"))\n"
    "    [[ ${#COMPREPLY[@]} -ne 1 || ${COMPREPLY[0]} != *[:#] ]] || compopt -o nospace 2>/dev/null\n"
    "}\n"
    "_vramtrace_files() {\n"
    "    local IFS=$'\\n'\n"
    "    compopt -o filenames 2>/dev/null\n"
    "    COMPREPLY=($(compgen -f -X \"!*$1\" -- \"$word\"; [[ -z $1 ]] || compgen -d -- \"$word\"))\n"
    "}\n"
    "_vramtrace_run() {\n"
    "    local i\n"
    "    for ((i = 2; i < COMP_CWORD; i++)); do\n"
    "        case ${COMP_WORDS[i]} in\n"
    "        --) ((i++)); break ;;\n"
    "        -*) if [[ ${COMP_WORDS[i + 1]} == = ]]; then ((i += 2))\n"
    "            elif [[ \" $1 \" == *\" ${COMP_WORDS[i]} \"* ]]; then ((i++)); fi ;;\n"
    "        *) break ;;\n"
    "        esac\n"
    "    done\n"
    "    [[ $i -lt $COMP_CWORD || ($i -eq $COMP_CWORD && $word != -*) ]] || return 1\n"
    "    if declare -F _command_offset >/dev/null; then _command_offset \"$i\"\n"
    "    elif [[ $i -lt $COMP_CWORD ]]; then _vramtrace_files ''\n"
    "    else COMPREPLY=($(compgen -c -- \"$word\")); fi\n"
    "}\n"
    "_vramtrace() {\n"
    "    local word=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]}\n"
    "    COMPREPLY=()\n"
    "    if [[ $word == = ]]; then word=\n"
    "    elif [[ $previous == = ]]; then previous=${COMP_WORDS[COMP_CWORD - 2]}; fi\n"
    "    if [[ $COMP_CWORD -eq 1 ]]; then _vramtrace_words \"";

static void put_bash_value(const struct vt_option_text *option, FILE *out)
{
    const struct value_kind *kind = kind_of(option);
    fprintf(out, "        %s", option->name);
    if (option->letter)
        fprintf(out, " | -%c", option->letter);
    fputs(") ", out);
    if (takes_words(option)) {
        fputs("_vramtrace_words '", out);
        put_words(option, "", out);
        fputs("'; return ;;\n", out);
    } else if (kind) {
        fprintf(out, "_vramtrace_files '%s'; return ;;\n", kind->files == TRACES ? ".vrt" : "");
    } else {
        fputs("return ;;\n", out);
    }
}

static void put_bash_command(const struct vt_command *command, FILE *out)
{
    struct vt_option_text option;

    fprintf(out, "    %s)\n", command->name);
    if (runs_another(command)) {
        fputs("        ! _vramtrace_run '-o", out);
        put_valued(command, out);
        fputs("' || return\n", out);
    }
    fputs("        case $previous in\n", out);
    for (size_t i = 0; option_at(command, i, &option); i++)
        if (needs_value(&option))
            put_bash_value(&option, out);
    fputs("        esac\n", out);
    fputs("        if [[ $word == -* ]]; then _vramtrace_words '", out);
    for (size_t i = 0; option_at(command, i, &option); i++)
        fprintf(out, "%s%s", i ? " " : "", option.name);
    fputs("'\n        ", out);
    if (files_of(command))
        fprintf(out, "else _vramtrace_files '%s'; fi ;;\n", files_of(command));
    else if (is_command(command, VT_COMMAND_HELP))
        fputs("elif [[ $COMP_CWORD -eq 2 ]]; then _vramtrace_words \"$commands\"; fi ;;\n", out);
    else if (is_command(command, VT_COMMAND_COMPLETIONS))
        fputs("else _vramtrace_words 'bash zsh fish'; fi ;;\n", out);
    else
        fputs("fi ;;\n", out);
}

static void put_bash(FILE *out)
{
    fputs(bash_begin, out);
    put_names(out);
    fputs(" --help --version\"; return; fi\n    local commands='", out);
    put_names(out);
    fputs("'\n    case ${COMP_WORDS[1]} in\n", out);
    for (int i = 0; i < VT_COMMAND_COUNT; i++)
        put_bash_command(&vt_commands[i], out);
    fputs("    esac\n}\ncomplete -F _vramtrace vramtrace\n", out);
}

/* ---- zsh ---- */

static void put_zsh_value(const struct vt_option_text *option, FILE *out)
{
    const struct value_kind *kind = kind_of(option);
    fprintf(out, ":%s:", option->value);
    if (takes_words(option)) {
        fputc('(', out);
        put_words(option, ":#", out);
        fputc(')', out);
    } else if (kind) {
        fputs(kind->files == TRACES ? "_files -g \"*.vrt(-.)\"" : "_files", out);
    } else {
        fputc(' ', out);
    }
}

static void put_zsh_option(const struct vt_option_text *option, const char *name, FILE *out)
{
    fprintf(out, " \\\n            '%s%s[", name, !needs_value(option) ? "" : name[1] == '-' ? "=" : "+");
    put_escaped(option->help, "[]\\", "\\", out);
    fputc(']', out);
    if (needs_value(option))
        put_zsh_value(option, out);
    fputc('\'', out);
}

static void put_zsh_command(const struct vt_command *command, FILE *out)
{
    struct vt_option_text option;

    fprintf(out, "    %s)\n        _arguments -S", command->name);
    for (size_t i = 0; option_at(command, i, &option); i++) {
        put_zsh_option(&option, option.name, out);
        if (option.letter)
            put_zsh_option(&option, (const char[]){'-', option.letter, '\0'}, out);
    }
    if (files_of(command))
        fprintf(out, " \\\n            '*:trace:_files%s'", files_of(command)[0] ? " -g \"*.vrt(-.)\"" : "");
    else if (runs_another(command))
        fputs(" \\\n            '(-):command: _command_names -e' '*::arguments:_normal'", out);
    else if (is_command(command, VT_COMMAND_HELP))
        fputs(" \\\n            '1:command:{_describe command subcommands}'", out);
    else if (is_command(command, VT_COMMAND_COMPLETIONS))
        fputs(" \\\n            '1:shell:(bash zsh fish)'", out);
    fputs(" ;;\n", out);
}

static void put_zsh(FILE *out)
{
    fputs("#compdef vramtrace\n# Completion of vramtrace for zsh: vramtrace completions zsh\n"
          "_vramtrace() {\n    local -a subcommands=(\n",
          out);
    for (int i = 0; i < VT_COMMAND_COUNT; i++) {
        fprintf(out, "        '%s:", vt_commands[i].name);
        put_escaped(vt_commands[i].summary, ":\\", "\\", out);
        fputs("'\n", out);
    }
    fputs("    )\n    if ((CURRENT == 2)); then\n        _describe command subcommands\n        return\n    "
          "fi\n"
          "    shift words\n    ((CURRENT--))\n    case $words[1] in\n",
          out);
    for (int i = 0; i < VT_COMMAND_COUNT; i++)
        put_zsh_command(&vt_commands[i], out);
    /* loaded by its name, or by source */
    fputs("    esac\n}\nif [[ $zsh_eval_context[-1] == loadautofunc ]]; then\n    _vramtrace \"$@\"\nelse\n"
          "    compdef _vramtrace vramtrace\nfi\n",
          out);
}

/* ---- fish ---- */

static void put_fish_text(const char *text, FILE *out)
{
    fputs(" '", out);
    for (; *text; text++)
        fprintf(out, "%s%c", *text == '\'' || *text == '\\' ? "\\" : "", *text);
    fputc('\'', out);
}

static void put_fish_option(const struct vt_command *command, const struct vt_option_text *option, FILE *out)
{
    const struct value_kind *kind = kind_of(option);

    fprintf(out, "complete -c vramtrace -n '__vramtrace_command %s' -l %s", command->name, option->name + 2);
    if (option->letter)
        fprintf(out, " -s %c", option->letter);
    if (needs_value(option)) {
        if (takes_words(option)) {
            fputs(" -x -a '", out);
            put_words(option, "", out);
            fputc('\'', out);
        } else if (kind && kind->files == TRACES) {
            fputs(" -x -a '(__vramtrace_traces)'", out);
        } else {
            fputs(kind ? " -r -F" : " -x", out);
        }
    }
    fputs(" -d", out);
    put_fish_text(option->help, out);
    fputc('\n', out);
}

static void put_fish(FILE *out)
{
    struct vt_option_text option;

    fputs("# Completion of vramtrace for fish: vramtrace completions fish\n"
          "function __vramtrace_command\n    set -l words (commandline -opc)\n"
          "    test (count $words) -ge 2; and contains -- $words[2] $argv\nend\n"
          "function __vramtrace_first\n    test (count (commandline -opc)) -eq 1\nend\n"
          "function __vramtrace_traces\n    set -l word (string replace -r '^--[a-z-]+=' '' -- (commandline "
          "-ct))\n"
          "    __fish_complete_path $word | string replace -rf '^([^\\t]*(/|\\.vrt))(\\t.*)?$' '$1'\nend\n"
          "complete -c vramtrace -f\n",
          out);
    for (int i = 0; i < VT_COMMAND_COUNT; i++) {
        const struct vt_command *command = &vt_commands[i];
        fprintf(out, "complete -c vramtrace -n __vramtrace_first -a %s -d", command->name);
        put_fish_text(command->summary, out);
        fputc('\n', out);
        for (size_t k = 0; option_at(command, k, &option); k++)
            put_fish_option(command, &option, out);
        fprintf(out, "complete -c vramtrace -n '__vramtrace_command %s' ", command->name);
        if (files_of(command)) {
            fputs(files_of(command)[0] ? "-a '(__vramtrace_traces)'\n" : "-F\n", out);
        } else if (runs_another(command)) {
            fputs("-a '(__fish_complete_subcommand --fcs-skip=2 -o", out);
            put_valued(command, out);
            fputs(")'\n", out);
        } else {
            fputs("-a '", out);
            if (is_command(command, VT_COMMAND_HELP))
                put_names(out);
            fputs(is_command(command, VT_COMMAND_COMPLETIONS) ? "bash zsh fish'\n" : "'\n", out);
        }
    }
}

int vt_command_completions(struct vt_arguments *arguments, struct vt_output *output)
{
    static const struct {
        const char *name;
        void (*put)(FILE *out);
    } shells[] = {{"bash", put_bash}, {"zsh", put_zsh}, {"fish", put_fish}};
    const char *name = arguments->operand_count == 1 ? arguments->operands[0] : "";

    if (!strcmp(name, "--help") || !strcmp(name, "-h")) {
        vt_print_command_help(arguments->command, output->stream);
        return vt_written(output, 0);
    }
    for (size_t i = 0; i < sizeof shells / sizeof *shells; i++) {
        if (strcmp(name, shells[i].name) != 0)
            continue;
        shells[i].put(output->stream);
        return vt_written(output, 0);
    }
    return vt_wrong_use("which shell? vramtrace completions bash, zsh or fish");
}
