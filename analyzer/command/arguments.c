#include "command/arguments.h"

#include "command/export.h"
#include "command/output.h"
#include "report/tables.h"
#include "report/top.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const char *table_name(unsigned table)
{
    return vt_table_names[table];
}

static const char *colour_name(unsigned choice)
{
    static const char *const names[VT_COLOUR_CHOICES] = {"auto", "always", "never"};

    return names[choice];
}

static const char *annotate_by_name(unsigned choice)
{
    return choice ? "?" : "phase";
}

static const char *check_format_name(unsigned choice)
{
    static const char *const names[VT_CHECK_FORMATS] = {"text", "json", "github", "junit"};

    return names[choice];
}

/* ---- The table ---- */

enum command_bits {
#define X(id, group, name, function, takes, arguments, summary) id = 1u << VT_COMMAND_##id,
    VT_COMMANDS(X)
#undef X
        EVERY = -1
};

enum type { TYPE_FLAG, TYPE_TEXT, TYPE_WORDS, TYPE_NUMBER, TYPE_CHOICE, TYPE_AMOUNT };
#define FLAG .type = TYPE_FLAG
#define TEXT .type = TYPE_TEXT
#define WORDS .type = TYPE_WORDS /* each is kept */
#define NUMBER(from, to) .type = TYPE_NUMBER, .low = from, .high = to
#define CHOICE(function, count) .type = TYPE_CHOICE, .word = function, .words = count
#define NAMED(function, count)                                                                               \
    .type = TYPE_TEXT, .word = function, .words = count /* the command checks it                             \
                                                         */
#define AMOUNT(of) .type = TYPE_AMOUNT, .forms = of

static const struct option {
    const char *name, *value; /* value "" = takes none */
    size_t offset;            /* in struct vt_arguments */
    unsigned commands;        /* bits */
    const char *help;
    enum type type;
    int low, high;                 /* of a number */
    const char *(*word)(unsigned); /* of a choice: an int */
    unsigned words;
    unsigned forms; /* of an amount: enum vt_amount_form */
} options[] = {
#define X(name, value, type, member, commands, help)                                                         \
    {name, value, offsetof(struct vt_arguments, member), commands, help, type},
#include "command/options.def"
#undef X
};
#define OPTION_COUNT (sizeof options / sizeof *options)

static const struct {
    char letter;
    const char *name;
} letters[] = {
#define X(letter, name) {letter, name},
    VT_LETTERS(X)
#undef X
};
#define LETTER_COUNT (sizeof letters / sizeof *letters)

char vt_option_letter(const char *name)
{
    for (size_t i = 0; i < LETTER_COUNT; i++)
        if (!strcmp(letters[i].name, name))
            return letters[i].letter;
    return 0;
}

static const char *name_of_letter(char letter)
{
    for (size_t i = 0; i < LETTER_COUNT; i++)
        if (letters[i].letter == letter)
            return letters[i].name;
    return NULL;
}

/* Why some commands have no --at. */
static const struct {
    enum vt_command_id command;
    const char *why;
} without_at[] = {
    {VT_COMMAND_LEAKS, "it looks at the whole run; for one moment: vramtrace report "
                       "--at MOMENT"},
    {VT_COMMAND_STEPS, "it lists every step; for one moment: vramtrace report --at step:N"},
    {VT_COMMAND_CHECK,
     "limits apply to the peak of the whole run; for one moment: vramtrace report --at MOMENT"},
    {VT_COMMAND_DIFF, "each side has its own moment: vramtrace diff TRACE@step:2 TRACE@end"},
    {VT_COMMAND_HTML, "the page has every moment"},
    {VT_COMMAND_INFO, "it describes the whole trace; for one moment: vramtrace report --at MOMENT"},
};

/* ---- Parsing ---- */

static int not_an_option(const struct vt_command *command, const struct option *option)
{
    for (size_t i = 0; i < sizeof without_at / sizeof *without_at; i++)
        if (!strcmp(option->name, "--at") && command->bit == 1u << without_at[i].command)
            return vt_wrong_use("--at is not available for this command: %s", without_at[i].why);
    for (int i = 0; i < VT_COMMAND_COUNT; i++)
        if (option->commands & vt_commands[i].bit)
            return vt_wrong_use(
                "%s is an option of `vramtrace %s`, not of `vramtrace %s`; vramtrace help %s lists its "
                "options",
                option->name, vt_commands[i].name, command->name, command->name);
    return VT_EXIT_WRONG_USE;
}

static int unknown_option(const struct vt_command *command, const char *text)
{
    const char *names[OPTION_COUNT + 1] = {0}, *nearest;
    size_t count = 0, length = strcspn(text, "=");
    const char *full = text[1] != '-' ? name_of_letter(text[1]) : NULL;
    char *name = full ? vt_copy_text(full) : vt_copy_bytes(text, length);

    for (size_t i = 0; i < OPTION_COUNT; i++) {
        if (options[i].commands & command->bit)
            names[count++] = options[i].name;
        else if (!strcmp(name, options[i].name)) {
            free(name);
            return not_an_option(command, &options[i]);
        }
    }
    nearest = vt_nearest(name, names);
    if (nearest)
        vt_say("unknown option '%s'; did you mean %s?", name, nearest);
    else
        vt_say("unknown option '%s'; vramtrace help %s lists them", name, command->name);
    free(name);
    return VT_EXIT_WRONG_USE;
}

static int read_number(const struct option *option, const char *text, int *number)
{
    char *end;
    long value;

    errno = 0;
    value = strtol(text, &end, 10);
    if (end == text || *end || errno || value < option->low || value > option->high)
        return vt_wrong_use("%s must be a number from %d to %d, not '%s'", option->name, option->low,
                            option->high, text);
    *number = (int)value;
    return 0;
}

static int read_choice(const struct option *option, const char *text, int *choice)
{
    char words[256] = "";
    size_t used = 0;

    for (unsigned i = 0; i < option->words && used < sizeof words; i++) {
        if (!strcmp(text, option->word(i))) {
            *choice = (int)i;
            return 0;
        }
        used += (size_t)snprintf(words + used, sizeof words - used, "%s%s",
                                 !i                      ? ""
                                 : i + 1 < option->words ? ", "
                                                         : " or ",
                                 option->word(i));
    }
    return vt_wrong_use("%s takes %s, not '%s'", option->name, words, text);
}

static int read_amount(const struct option *option, const char *text, struct vt_amount *amount)
{
    if (vt_amount_parse(text, option->forms, amount))
        return 0;
    return vt_wrong_use("%s takes a size such as 20GiB%s%s, not '%s'", option->name,
                        option->forms & VT_AMOUNT_PER_STEP ? " or 64KiB/step" : "",
                        option->forms & VT_AMOUNT_PERCENT ? " or a percentage such as 2%" : "", text);
}

static void add_word(struct vt_words *words, const char *text)
{
    words->items = vt_resize(words->items, words->count + 1, sizeof *words->items);
    words->items[words->count++] = text;
}

static int set_option(const struct option *option, const char *text, struct vt_arguments *arguments)
{
    void *member = (char *)arguments + option->offset;

    switch (option->type) {
    case TYPE_FLAG:
        *(bool *)member = true;
        return 0;
    case TYPE_TEXT:
        *(const char **)member = text;
        return 0;
    case TYPE_WORDS:
        add_word(member, text);
        return 0;
    case TYPE_NUMBER:
        return read_number(option, text, member);
    case TYPE_CHOICE:
        return read_choice(option, text, member);
    case TYPE_AMOUNT:
        return read_amount(option, text, member);
    }
    return 0;
}

static const struct option *find_option(const struct vt_command *command, const char *name, size_t length)
{
    for (size_t o = 0; o < OPTION_COUNT; o++)
        if (options[o].commands & command->bit && strlen(options[o].name) == length &&
            !memcmp(options[o].name, name, length))
            return &options[o];
    return NULL;
}

/* --name, --name value, --name=value, -h, -o value, -ovalue. */
static int parse_option(int argc, char **argv, int *i, struct vt_arguments *arguments)
{
    const struct vt_command *command = arguments->command;
    const char *text = argv[*i], *value = NULL;
    const char *full = text[1] != '-' ? name_of_letter(text[1]) : NULL;
    size_t length = strcspn(text, "=");
    const struct option *option =
        full ? find_option(command, full, strlen(full)) : find_option(command, text, length);

    if (full)
        value = text[2] ? text + 2 : NULL;
    else
        value = text[length] ? text + length + 1 : NULL;
    if (!option)
        return unknown_option(command, text);
    if (!option->value[0] && value)
        return vt_wrong_use("%s takes no value", option->name);
    if (option->value[0] && !value && *i + 1 >= argc)
        return vt_wrong_use("%s needs a value: %s %s", text, text, option->value);
    if (option->value[0] && !value)
        value = argv[++*i];
    return set_option(option, value, arguments);
}

/* Checks what no option can check by itself. */
static int check_together(const struct vt_arguments *arguments)
{
    const struct vt_command *command = arguments->command;
    const struct vt_limits *limits = &arguments->limits;

    if (arguments->stacks && !arguments->events)
        return vt_wrong_use("--stacks needs --events");
    if (arguments->verify && (arguments->events || arguments->json))
        return vt_wrong_use("--verify has no %s: its exit status is the result",
                            arguments->json ? "--json" : "--events");
    if ((arguments->tries.count || arguments->advise) && (arguments->json || arguments->output))
        return vt_wrong_use("%s has no %s: vramtrace dryrun --like TRACE --json FILE writes what was found",
                            arguments->advise ? "--advise" : "--try", arguments->json ? "--json" : "--out");
    if ((arguments->tries.count || arguments->advise) &&
        (arguments->at || arguments->device >= 0 || arguments->redact))
        return vt_wrong_use("%s plays the whole program again: it has no %s",
                            arguments->advise ? "--advise" : "--try",
                            arguments->at            ? "--at"
                            : arguments->device >= 0 ? "--device"
                                                     : "--redact");
    if (command->takes == VT_TAKES_NOTHING && arguments->operand_count)
        return vt_wrong_use("unexpected argument '%s'", arguments->operands[0]);
    if (command->takes == VT_TAKES_TWO && (arguments->operand_count < 1 || arguments->operand_count > 2))
        return vt_wrong_use("expected two traces, or two moments of one: vramtrace diff A B, vramtrace diff "
                            "TRACE@step:2 TRACE@step:9; without B, it is the newest trace here");
    if (command->takes == VT_TAKES_FILE && arguments->operand_count > 2)
        return vt_wrong_use("expected a trace and a source file; unexpected argument '%s'",
                            arguments->operands[2]);
    if (command->bit == DIFF && arguments->by >= VT_BY_COUNT)
        return vt_wrong_use("blocks cannot be matched between runs; choose another --by");
    if (command->bit != CHECK)
        return 0;
    if (arguments->json && arguments->check_format > VT_CHECK_JSON)
        return vt_wrong_use("--json is --format json: give one format");
    if (limits->tolerance.given && !arguments->baseline)
        return vt_wrong_use("--tolerance needs --baseline TRACE");
    if (!arguments->baseline && !limits->max_peak.given && !limits->max_unknown.given &&
        !limits->max_cached.given && !limits->max_leak.given)
        return vt_wrong_use("nothing to check: give a limit such as --max-peak 20GiB; vramtrace help "
                            "check lists them");
    return 0;
}

int vt_parse_arguments(const struct vt_command *command, int argc, char **argv,
                       struct vt_arguments *arguments)
{
    bool operands_only = false;

    *arguments = (struct vt_arguments){
        .command = command, .device = -1, .by = -1, .axis = -1, .table = -1, .sort = -1, .operands = argv};
    for (int i = 1; i < argc; i++) {
        int result = 0;

        if (!operands_only && !strcmp(argv[i], "--"))
            operands_only = true;
        else if (!operands_only && argv[i][0] == '-' && argv[i][1])
            result = parse_option(argc, argv, &i, arguments);
        else
            argv[arguments->operand_count++] = argv[i]; /* never ahead of i */
        if (result || arguments->help)
            return result;
    }
    return check_together(arguments);
}

/* ---- Help ---- */

bool vt_option_at(const struct vt_command *command, size_t index, struct vt_option_text *text)
{
    for (size_t o = 0, seen = 0; o < OPTION_COUNT; o++) {
        if (!(options[o].commands & command->bit) || seen++ != index)
            continue;
        *text = (struct vt_option_text){.value = options[o].value,
                                        .help = options[o].help,
                                        .word = options[o].word,
                                        .words = options[o].words,
                                        .letter = vt_option_letter(options[o].name)};
        snprintf(text->name, sizeof text->name, "%s", options[o].name);
        return true;
    }
    return false;
}

/* Words from `column` on; further lines are indented to it. */
static void put_wrapped(const char *text, int column, int width, FILE *out)
{
    int at = column;

    for (size_t length; *text; text += length + strspn(text + length, " ")) {
        length = strcspn(text, " ");
        if (at > column && at + 1 + (int)length > width) {
            fprintf(out, "\n%*s", column, "");
            at = column;
        } else if (at > column) {
            fputc(' ', out);
            at++;
        }
        fwrite(text, 1, length, out);
        at += (int)length;
    }
    fputc('\n', out);
}

void vt_print_command_help(const struct vt_command *command, FILE *out)
{
    size_t width = 16;
    int columns = vt_columns(out);

    fprintf(out, "vramtrace %s %s\n    %s\n\n", command->name, command->arguments, command->summary);
    for (int printing = 0; printing < 2; printing++) {
        for (size_t i = 0; i < OPTION_COUNT; i++) {
            const struct option *option = &options[i];
            const char letter = vt_option_letter(option->name);
            size_t length = strlen(option->name) + 1 + strlen(option->value);

            if (!(option->commands & command->bit))
                continue;
            width = length > width ? length : width;
            if (!printing)
                continue;
            fprintf(out, letter ? "  -%c, " : "      ", letter);
            fprintf(out, "%s %s%*s  ", option->name, option->value, (int)(width - length), "");
            put_wrapped(option->help, (int)width + 8, columns, out);
        }
    }
}
