/* One table of options for all commands that read traces: parsing and help come from it. */
#include "command/command.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#define REPORT (1u << VT_COMMAND_REPORT)
#define TIMELINE (1u << VT_COMMAND_TIMELINE)
#define LEAKS (1u << VT_COMMAND_LEAKS)
#define OOM (1u << VT_COMMAND_OOM)
#define FRAG (1u << VT_COMMAND_FRAG)
#define SECTIONS (LEAKS | OOM | FRAG) /* of the report, as commands */
#define INFO (1u << VT_COMMAND_INFO)
#define STEPS (1u << VT_COMMAND_STEPS)
#define DIFF (1u << VT_COMMAND_DIFF)
#define CHECK (1u << VT_COMMAND_CHECK)
#define LIB (1u << VT_COMMAND_LIB)
#define EVERY (~0u)

enum option_id {
    ALL,
    ALLOW_LOST,
    AT,
    BASELINE,
    BY,
    COLOUR,
    DEPTH,
    DEVICE,
    EVENTS,
    EXPLAIN,
    HELP,
    JSON,
    MAX_CACHED,
    MAX_LEAK,
    MAX_PEAK,
    MAX_UNKNOWN,
    OUT,
    RULES,
    STACKS,
    TOLERANCE,
    TOP,
    VERIFY,
    WIDTH
};

static const struct option {
    const char *name;
    const char *value; /* NULL = takes none; -o is --out, -h is --help */
    enum option_id id;
    unsigned commands;
    const char *help;
} options[] = {
    {"--at", "MOMENT", AT, REPORT | TIMELINE | FRAG,
     "a moment beside the peak: peak, end, oom, oom#2, mark:NAME, mark:NAME#2, step:N, or a time such as "
     "3.2s, "
     "150ms"},
    {"--at", "WHICH", AT, OOM,
     "another time than the last that memory ran out: oom#2, step:N (the last in it), mark:NAME (the first "
     "after "
     "it), or a time such as 3.2s (the nearest)"},
    {"--all", NULL, ALL, STEPS, "each step in a row of its own; without it, runs of like steps share one"},
    {"--by", "WHAT", BY, REPORT | DIFF,
     "one table instead of the usual ones: category, module, kind, owner, line, stack, op, block"},
    {"--explain", "WHAT", EXPLAIN, REPORT,
     "why a category, FILE:LINE, module or owner holds what it does: rules, looks, stacks"},
    {"--depth", "N", DEPTH, REPORT | DIFF,
     "modules to N levels of their names; what is below counts with its ancestor"},
    {"--top", "N", TOP, REPORT | SECTIONS | DIFF,
     "rows of each table (with --json: of each list; all without it)"},
    {"--max-peak", "SIZE", MAX_PEAK, CHECK,
     "bytes in use at the peak, as the report's first line has them: without the cache and the context"},
    {"--max-leak", "SIZE[/step]", MAX_LEAK, CHECK,
     "bytes of device memory that leaks hold when the last step begins, or what they take per step"},
    {"--max-unknown", "SIZE|%", MAX_UNKNOWN, CHECK,
     "bytes of unknown category at the peak; % of the framework's blocks then"},
    {"--max-cached", "SIZE|%", MAX_CACHED, CHECK,
     "bytes that the framework held unused at the peak; % of what the driver gave beside the context"},
    {"--baseline", "TRACE", BASELINE, CHECK,
     "a trace to compare with: the peak of each device, and of each category what it held at the peak"},
    {"--tolerance", "SIZE|%", TOLERANCE, CHECK,
     "how much more than the baseline each of them may be; % of the baseline's peak; else 2%"},
    {"--allow-lost", NULL, ALLOW_LOST, CHECK,
     "check a trace that lost events or has no end, which else is a breach itself"},
    {"--device", "N", DEVICE, REPORT | TIMELINE | SECTIONS | STEPS | DIFF | CHECK, "this GPU only"},
    {"--rules", "FILE", RULES, REPORT | TIMELINE | SECTIONS | STEPS | DIFF | CHECK | INFO,
     "rules that come before the built-in ones"},
    {"--json", NULL, JSON, REPORT | TIMELINE | SECTIONS | STEPS | DIFF | CHECK | INFO,
     "JSON instead of text"},
    {"--out", "FILE", OUT, REPORT | TIMELINE | SECTIONS | STEPS | DIFF | CHECK | INFO | LIB,
     "write to FILE, which is replaced when all is written; - is the standard output; -o FILE is the same"},
    {"--events", NULL, EVENTS, INFO, "every event, one on a line"},
    {"--stacks", NULL, STACKS, INFO, "with --events: all frames of each"},
    {"--verify", NULL, VERIFY, INFO, "check after every event that the categories sum to the driver's bytes"},
    {"--color", "WHEN", COLOUR, REPORT | TIMELINE | SECTIONS | STEPS | DIFF,
     "auto (on a terminal, without NO_COLOR), always, never"},
    {"--width", "N", WIDTH, REPORT | TIMELINE | SECTIONS | STEPS | DIFF,
     "columns of the text; the terminal's, else 80"},
    {"--help", NULL, HELP, EVERY, "this help"},
};
#define OPTION_COUNT (sizeof options / sizeof *options)

int vt_wrong_use(const struct vt_command *command, const char *format, ...)
{
    va_list arguments;
    char *text;
    int result;

    va_start(arguments, format);
    result = vasprintf(&text, format, arguments);
    va_end(arguments);
    vt_say(command, "%s", result < 0 ? "out of memory" : text);
    free(result < 0 ? NULL : text);
    return VT_EXIT_WRONG_USE;
}

/* Letters to insert, leave out, change or swap with their neighbour to make `a` from `b`. */
static size_t distance(const char *a, const char *b)
{
    size_t rows[3][48], n = strlen(a), m = strlen(b);
    size_t *before = rows[0], *last = rows[1], *now = rows[2];

    if (n > 40 || m > 40)
        return 100;
    for (size_t j = 0; j <= m; j++)
        last[j] = j;
    for (size_t i = 1; i <= n; i++) {
        size_t *spare = before;
        now[0] = i;
        for (size_t j = 1; j <= m; j++) {
            now[j] = last[j - 1] + (a[i - 1] != b[j - 1]);
            now[j] = last[j] + 1 < now[j] ? last[j] + 1 : now[j];
            now[j] = now[j - 1] + 1 < now[j] ? now[j - 1] + 1 : now[j];
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] && before[j - 2] + 1 < now[j])
                now[j] = before[j - 2] + 1;
        }
        before = last;
        last = now;
        now = spare;
    }
    return last[m];
}

const char *vt_nearest(const char *word, const char *const *candidates)
{
    const char *nearest = NULL;
    size_t least = strlen(word) < 5 ? 2 : 3; /* must be under it */

    for (; *candidates; candidates++) {
        size_t apart = distance(word, *candidates);
        size_t length = strlen(word);
        if (length > 3 && !strncmp(word, *candidates, length)) /* a beginning of it */
            apart = 1;
        if (apart < least) {
            least = apart;
            nearest = *candidates;
        }
    }
    return nearest;
}

/* Options that other commands have, and what takes their place. */
static const struct {
    enum option_id id;
    unsigned commands;
    const char *why;
} missing[] = {
    {AT, LEAKS,
     "growth is judged over all steps, not at one moment; for what was alive then: vramtrace report --at "
     "MOMENT"},
    {AT, STEPS, "it lists every step; for one moment: vramtrace report --at step:N"},
    {AT, CHECK, "limits hold for the peak of the whole run; for one moment: vramtrace report --at MOMENT"},
    {AT, DIFF, "each side has its own moment: vramtrace diff TRACE@step:2 TRACE@end"},
    {AT, INFO, "it tells about the whole trace; for one moment: vramtrace report --at MOMENT"},
};

static int not_an_option(const struct vt_command *command, const struct option *option)
{
    for (size_t i = 0; i < sizeof missing / sizeof *missing; i++)
        if (missing[i].id == option->id && missing[i].commands & command->bit)
            return vt_wrong_use(command, "no %s here: %s", option->name, missing[i].why);
    for (int i = 0; i < VT_COMMAND_COUNT; i++)
        if (option->commands & vt_commands[i].bit)
            return vt_wrong_use(command,
                                "no %s here, it is for vramtrace %s; vramtrace help %s lists its options",
                                option->name, vt_commands[i].name, command->name);
    return VT_EXIT_WRONG_USE;
}

static int unknown_option(const struct vt_command *command, const char *text)
{
    const char *names[OPTION_COUNT + 1] = {0}, *nearest;
    size_t count = 0, length = strcspn(text, "=");
    char *name = strndup(text, length);

    for (size_t i = 0; i < OPTION_COUNT; i++) {
        if (options[i].commands & command->bit)
            names[count++] = options[i].name;
        else if (name && !strcmp(name, options[i].name)) {
            free(name);
            return not_an_option(command, &options[i]);
        }
    }
    nearest = name ? vt_nearest(name, names) : NULL;
    if (nearest)
        vt_wrong_use(command, "unknown option '%s'; did you mean %s?", name, nearest);
    else
        vt_wrong_use(command, "unknown option '%s'; vramtrace help %s lists them", name ? name : text,
                     command->name);
    free(name);
    return VT_EXIT_WRONG_USE;
}

static int read_number(const struct vt_command *command, const char *name, const char *text, int low,
                       int high, int *number)
{
    char *end;
    long value;

    errno = 0;
    value = strtol(text, &end, 10);
    if (end == text || *end || errno || value < low || value > high)
        return vt_wrong_use(command, "%s takes a number from %d to %d, not '%s'", name, low, high, text);
    *number = (int)value;
    return 0;
}

static int read_by(const struct vt_command *command, const char *text, int *by)
{
    for (int i = 0; i < VT_BY_CHOICES; i++) {
        if (strcmp(text, vt_by_name((enum vt_by)i)))
            continue;
        *by = i;
        return 0;
    }
    return vt_wrong_use(command,
                        "--by takes category, module, kind, owner, line, stack, op or block, not '%s'", text);
}

static int read_colour(const struct vt_command *command, const char *text, enum vt_colour_choice *colour)
{
    static const char *const names[] = {"auto", "always", "never"};

    for (int i = 0; i < 3; i++) {
        if (strcmp(text, names[i]))
            continue;
        *colour = (enum vt_colour_choice)i;
        return 0;
    }
    return vt_wrong_use(command, "--color takes auto, always or never, not '%s'", text);
}

static int read_amount(const struct vt_command *command, const char *name, const char *text, unsigned forms,
                       struct vt_amount *amount)
{
    if (vt_amount_parse(text, forms, amount))
        return 0;
    return vt_wrong_use(command, "%s takes a size such as 20GiB%s%s, not '%s'", name,
                        forms & VT_AMOUNT_PER_STEP ? " or 64KiB/step" : "",
                        forms & VT_AMOUNT_PERCENT ? " or a part such as 2%" : "", text);
}

static int set_option(const struct vt_command *command, const struct option *option, const char *value,
                      struct vt_arguments *arguments)
{
    switch (option->id) {
    case ALL:
        arguments->all = true;
        return 0;
    case ALLOW_LOST:
        arguments->limits.allow_lost = true;
        return 0;
    case BASELINE:
        arguments->baseline = value;
        return 0;
    case MAX_PEAK:
        return read_amount(command, option->name, value, 0, &arguments->limits.max_peak);
    case MAX_LEAK:
        return read_amount(command, option->name, value, VT_AMOUNT_PER_STEP, &arguments->limits.max_leak);
    case MAX_UNKNOWN:
        return read_amount(command, option->name, value, VT_AMOUNT_PERCENT, &arguments->limits.max_unknown);
    case MAX_CACHED:
        return read_amount(command, option->name, value, VT_AMOUNT_PERCENT, &arguments->limits.max_cached);
    case TOLERANCE:
        return read_amount(command, option->name, value, VT_AMOUNT_PERCENT, &arguments->limits.tolerance);
    case AT:
        arguments->at = value;
        return 0;
    case EXPLAIN:
        arguments->explain = value;
        return 0;
    case OUT:
        arguments->output = value;
        return 0;
    case RULES:
        arguments->rules = value;
        return 0;
    case BY:
        return read_by(command, value, &arguments->by);
    case COLOUR:
        return read_colour(command, value, &arguments->colour);
    case DEVICE:
        return read_number(command, option->name, value, 0, (int)VT_MAX_DEVICES - 1, &arguments->device);
    case DEPTH:
        return read_number(command, option->name, value, 1, 100, &arguments->depth);
    case TOP:
        return read_number(command, option->name, value, 1, 1000000, &arguments->top);
    case WIDTH:
        return read_number(command, option->name, value, 40, 1000, &arguments->width);
    case JSON:
        arguments->json = true;
        return 0;
    case EVENTS:
        arguments->events = true;
        return 0;
    case STACKS:
        arguments->stacks = true;
        return 0;
    case VERIFY:
        arguments->verify = true;
        return 0;
    case HELP:
        arguments->help = true;
        return 0;
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
static int parse_option(const struct vt_command *command, int argc, char **argv, int *i,
                        struct vt_arguments *arguments)
{
    const char *text = argv[*i], *value = NULL;
    size_t length = strcspn(text, "=");
    const struct option *option;

    if (text[1] == 'o') {
        option = find_option(command, "--out", 5);
        value = text[2] ? text + 2 : NULL;
    } else if (!strcmp(text, "-h")) {
        option = find_option(command, "--help", 6);
    } else {
        option = find_option(command, text, length);
        value = text[length] ? text + length + 1 : NULL;
    }
    if (!option)
        return unknown_option(command, text);
    if (!option->value && value)
        return vt_wrong_use(command, "%s takes no value", option->name);
    if (option->value && !value && *i + 1 >= argc)
        return vt_wrong_use(command, "%s needs a value: %s %s", text, text, option->value);
    if (option->value && !value)
        value = argv[++*i];
    return set_option(command, option, value, arguments);
}

/* What no option tells by itself. */
static int check_together(const struct vt_command *command, const struct vt_arguments *arguments)
{
    const struct vt_limits *limits = &arguments->limits;

    if (arguments->stacks && !arguments->events)
        return vt_wrong_use(command, "--stacks belongs to --events");
    if (arguments->verify && (arguments->events || arguments->json))
        return vt_wrong_use(command, "--verify has no %s: its exit status says what it found",
                            arguments->json ? "--json" : "--events");
    if (command->takes == VT_TAKES_NOTHING && arguments->operand_count)
        return vt_wrong_use(command, "it takes no arguments, but got '%s'", arguments->operands[0]);
    if (command->takes == VT_TAKES_TWO && (arguments->operand_count < 1 || arguments->operand_count > 2))
        return vt_wrong_use(command,
                            "it takes two traces, or two moments of one: vramtrace diff A B, vramtrace "
                            "diff TRACE@step:2 TRACE@step:9; with A alone, B is the newest trace here");
    if (command->bit == DIFF && arguments->by >= VT_BY_COUNT)
        return vt_wrong_use(command, "blocks of two runs have no common names: use another --by");
    if (command->bit != CHECK)
        return 0;
    if (limits->tolerance.given && !arguments->baseline)
        return vt_wrong_use(command, "--tolerance goes with --baseline TRACE");
    if (!arguments->baseline && !limits->max_peak.given && !limits->max_unknown.given &&
        !limits->max_cached.given && !limits->max_leak.given)
        return vt_wrong_use(command,
                            "nothing to check: give a limit such as --max-peak 20GiB; vramtrace help "
                            "check lists them");
    return 0;
}

int vt_parse_arguments(const struct vt_command *command, int argc, char **argv,
                       struct vt_arguments *arguments)
{
    bool operands_only = false;

    *arguments = (struct vt_arguments){.device = -1, .by = -1, .operands = argv};
    for (int i = 1; i < argc; i++) {
        int result = 0;

        if (!operands_only && !strcmp(argv[i], "--"))
            operands_only = true;
        else if (!operands_only && argv[i][0] == '-' && argv[i][1])
            result = parse_option(command, argc, argv, &i, arguments);
        else
            argv[arguments->operand_count++] = argv[i]; /* never ahead of i */
        if (result || arguments->help)
            return result;
    }
    return check_together(command, arguments);
}

/* Words from `column` on, further lines indented as far. */
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
            size_t length = strlen(option->name) + (option->value ? 1 + strlen(option->value) : 0);

            if (!(option->commands & command->bit))
                continue;
            width = length > width ? length : width;
            if (!printing)
                continue;
            fprintf(out, "  %s%s%s%*s  ", option->name, option->value ? " " : "",
                    option->value ? option->value : "", (int)(width - length), "");
            put_wrapped(option->help, (int)width + 4, columns, out);
        }
    }
}

void vt_print_help(FILE *out)
{
    fputs("vramtrace: what a process does with GPU memory, recorded and explained\n\n", out);
    for (int i = 0; i < VT_COMMAND_COUNT; i++) {
        fprintf(out, "  vramtrace %-8s  ", vt_commands[i].name);
        put_wrapped(vt_commands[i].summary, 22, vt_columns(out), out);
    }
    fputs("\nTo begin:  vramtrace run python train.py  &&  vramtrace report\n"
          "vramtrace help COMMAND lists its options. Where no trace is named, the newest\n"
          "vramtrace.*.vrt of the folder is read. Exit status: 0 good, 1 a check failed,\n"
          "2 wrong use, 3 unreadable trace, 4 could not write.\n",
          out);
}
