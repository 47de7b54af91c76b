/* One table of options for all commands that read traces: parsing and help come from it. */
#include "command.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#define REPORT (1u << VT_COMMAND_REPORT)
#define TIMELINE (1u << VT_COMMAND_TIMELINE)
#define INFO (1u << VT_COMMAND_INFO)
#define EVERY (~0u)

enum option_id { AT, BY, COLOUR, DEVICE, EVENTS, HELP, JSON, RULES, STACKS, TOP, VERIFY, WIDTH };

static const struct option {
    const char *name;
    const char *value; /* NULL = takes none */
    enum option_id id;
    unsigned commands;
    const char *help;
} options[] = {
    {"--at", "MOMENT", AT, REPORT | TIMELINE,
     "a moment beside the peak: peak, end, oom, mark:NAME, mark:NAME#2, step:N, or a time such as 3.2s, "
     "150ms"},
    {"--by", "WHAT", BY, REPORT,
     "one table instead of the usual ones: category, module, owner, line, stack, op"},
    {"--top", "N", TOP, REPORT, "rows of each table (with --json: of each list; all without it)"},
    {"--device", "N", DEVICE, REPORT | TIMELINE, "this GPU only"},
    {"--rules", "FILE", RULES, REPORT | TIMELINE | INFO, "rules that come before the built-in ones"},
    {"--json", NULL, JSON, REPORT | INFO, "JSON instead of text"},
    {"--events", NULL, EVENTS, INFO, "every event, one on a line"},
    {"--stacks", NULL, STACKS, INFO, "with --events: all frames of each"},
    {"--verify", NULL, VERIFY, INFO, "check after every event that the categories sum to the driver's bytes"},
    {"--color", "WHEN", COLOUR, REPORT | TIMELINE, "auto (on a terminal, without NO_COLOR), always, never"},
    {"--width", "N", WIDTH, REPORT | TIMELINE, "columns of the text; the terminal's, else 80"},
    {"--help", NULL, HELP, EVERY, "this help"},
};
#define OPTION_COUNT (sizeof options / sizeof *options)

int vt_wrong_use(const struct vt_command *command, const char *format, ...)
{
    va_list arguments;

    fprintf(stderr, command ? "vramtrace %s: " : "vramtrace: ", command ? command->name : "");
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputc('\n', stderr);
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

static int unknown_option(const struct vt_command *command, const char *text)
{
    const char *names[OPTION_COUNT + 1] = {0}, *nearest;
    size_t count = 0, length = strcspn(text, "=");
    char *name = strndup(text, length);

    for (size_t i = 0; i < OPTION_COUNT; i++)
        if (options[i].commands & command->bit)
            names[count++] = options[i].name;
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
    for (int i = 0; i < VT_BY_COUNT; i++) {
        if (strcmp(text, vt_by_name((enum vt_by)i)))
            continue;
        *by = i;
        return 0;
    }
    return vt_wrong_use(command, "--by takes category, module, owner, line, stack or op, not '%s'", text);
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

static int set_option(const struct vt_command *command, const struct option *option, const char *value,
                      struct vt_arguments *arguments)
{
    switch (option->id) {
    case AT:
        arguments->at = value;
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

static int parse_option(const struct vt_command *command, int argc, char **argv, int *i,
                        struct vt_arguments *arguments)
{
    const char *text = argv[*i];
    size_t length = strcspn(text, "=");

    if (!strcmp(text, "-h"))
        text = "--help", length = 6;
    for (size_t o = 0; o < OPTION_COUNT; o++) {
        const struct option *option = &options[o];
        if (!(option->commands & command->bit) || strlen(option->name) != length ||
            memcmp(option->name, text, length))
            continue;
        if (!option->value && text[length])
            return vt_wrong_use(command, "%s takes no value", option->name);
        if (!option->value)
            return set_option(command, option, NULL, arguments);
        if (text[length])
            return set_option(command, option, text + length + 1, arguments);
        if (*i + 1 >= argc)
            return vt_wrong_use(command, "%s needs a value: %s %s", option->name, option->name,
                                option->value);
        return set_option(command, option, argv[++*i], arguments);
    }
    return unknown_option(command, text);
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
    return 0;
}

void vt_print_command_help(const struct vt_command *command, FILE *out)
{
    fprintf(out, "vramtrace %s %s\n    %s\n\n", command->name, command->arguments, command->summary);
    for (size_t i = 0; i < OPTION_COUNT; i++) {
        char name[32];

        if (!(options[i].commands & command->bit))
            continue;
        snprintf(name, sizeof name, "%s%s%s", options[i].name, options[i].value ? " " : "",
                 options[i].value ? options[i].value : "");
        fprintf(out, "  %-16s  %s\n", name, options[i].help);
    }
}

void vt_print_help(FILE *out)
{
    fputs("vramtrace: what a process does with GPU memory, recorded and explained\n\n", out);
    for (int i = 0; i < VT_COMMAND_COUNT; i++) {
        char use[64];

        snprintf(use, sizeof use, "%s %s", vt_commands[i].name, vt_commands[i].arguments);
        fprintf(out, "  vramtrace %-27s  %s\n", use, vt_commands[i].summary);
    }
    fputs("\nTo begin:  vramtrace run -- python train.py  &&  vramtrace report vramtrace.*.vrt\n"
          "vramtrace help COMMAND tells its options. Exit status: 0 good, 1 a check failed, 2 wrong use,\n"
          "3 unreadable trace.\n",
          out);
}
