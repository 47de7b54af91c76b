/* The table of changes. Most are applied by Python inside the program. */
#include "command/dryrun_changes.h"
#include "command/output.h"
#include "command/run.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum kind { ALLOCATOR, ARGUMENT, ENVIRONMENT, PYTHON };
static const struct change {
    const char *name;
    enum kind kind;
    const char *values, *cost, *help;
} changes_known[] = {
#define X(name, kind, values, cost, help) {name, kind, values, cost, help},
#include "command/dryrun_changes.def"
#undef X
};
static const char *const allocator_variables[] = {
#define VT_ALLOCATOR(name) name,
#include "command/dryrun_environment.def"
};
#define BATCH_SIZE "batch_size" /* what an argument's name ends with; '-' is '_' */
#define CHANGE_COUNT (sizeof changes_known / sizeof *changes_known)

static size_t name_bytes(const char *change)
{
    return strcspn(change, "=:,");
}

static const struct change *find(const char *change)
{
    for (size_t i = 0; i < CHANGE_COUNT; i++)
        if (strlen(changes_known[i].name) == name_bytes(change) &&
            !strncmp(changes_known[i].name, change, name_bytes(change)))
            return &changes_known[i];
    return NULL;
}

/* "on|off": one of these; "NAME": any. */
static bool is_allowed(const char *values, const char *value)
{
    const size_t bytes = strlen(value);

    if (values[0] >= 'A' && values[0] <= 'Z')
        return bytes > 0;
    for (const char *at = values; *at; at += strcspn(at, "|"), at += *at == '|')
        if (strcspn(at, "|") == bytes && !strncmp(at, value, bytes))
            return true;
    return !values[0] && !bytes;
}

static bool is_batch(const char *value)
{
    const char *digits = value + (value[0] == '/');

    return digits[0] && strlen(digits) < 8 && !digits[strspn(digits, "0123456789")] && atoi(digits) > 0;
}

static int check(const char *change)
{
    const char *names[CHANGE_COUNT + 1] = {NULL}, *nearest, *value;
    const struct change *known = find(change);
    char name[64];

    for (size_t i = 0; i < CHANGE_COUNT; i++)
        names[i] = changes_known[i].name;
    snprintf(name, sizeof name, "%.*s", (int)name_bytes(change), change);
    nearest = vt_nearest(name, names);
    if (!known)
        return vt_wrong_use("--try: no change '%s' is known%s%s; --try help lists them", name,
                            nearest ? "; did you mean " : "", nearest ? nearest : "");
    value = change + name_bytes(change);
    value += *value != '\0';
    if (!is_allowed(known->values, value) || (!strcmp(known->name, "batch") && !is_batch(value)) ||
        ((known->kind == ARGUMENT || known->kind == ENVIRONMENT) && !strchr(value + 1, '=')))
        return vt_wrong_use("--try: '%s' is not a change: %s%s%s; --try help lists them", change, known->name,
                            !known->values[0]       ? ""
                            : known->kind == PYTHON ? "="
                                                    : ":",
                            known->values);
    return 0;
}

/* Calls it for each; ends with the first that is not 0. */
static int each(const char *changes, int (*act)(const char *change))
{
    char *copy = vt_copy_text(changes), *rest = copy, *change;
    int result = changes[0] ? 0 : act("");

    while (!result && (change = strsep(&rest, ",")))
        result = act(change);
    free(copy);
    return result;
}

int vt_check_changes(const char *changes)
{
    return each(changes, check);
}

/* ---- Applying ---- */

static char **command;

static void add_to_list(const char *variable, const char *item)
{
    const char *before = getenv(variable);
    char *text = vt_print_text("%s%s%s", before ? before : "", before && before[0] ? "," : "", item);

    vt_run_set(variable, text, true);
    free(text);
}

static bool is_same_name(const char *word, const char *name, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        if (word[i] != name[i] && !(word[i] == '-' && name[i] == '_') && !(word[i] == '_' && name[i] == '-'))
            return false;
    return !word[bytes] || word[bytes] == '=';
}

char **vt_find_argument(char **words, const char *name)
{
    const size_t bytes = strcspn(name, "=");

    for (; *words; words++) {
        const char *word = *words + strspn(*words, "-");

        if (is_same_name(word, name, bytes) && (word != *words || word[bytes] == '='))
            return words;
    }
    return NULL;
}

/* "--per-device-batch_size=8" is. */
static bool names_batch(const char *name)
{
    const size_t bytes = strcspn(name, "="), wanted = strlen(BATCH_SIZE);

    return bytes >= wanted && is_same_name(name + bytes - wanted, BATCH_SIZE, wanted) &&
           !strstr(name, "eval");
}

char *vt_batch_argument(char **words, unsigned part)
{
    for (char **at = words; *at; at++) {
        const char *name = *at + strspn(*at, "-"), *value = strchr(name, '=');
        char *end;
        long size;

        if (name == *at || !names_batch(name) || !(value = value ? value + 1 : at[1]))
            continue;
        size = strtol(value, &end, 10);
        if (size >= (long)part && !*end)
            return vt_print_text("arg:%.*s=%ld", (int)strcspn(name, "="), name, size / (long)part);
    }
    return NULL;
}

/* --name=value, --name value, name=value; else it is added. */
static void set_argument(const char *name_and_value)
{
    char **at = vt_find_argument(command, name_and_value);
    const char *value = strchr(name_and_value, '=') + 1;
    size_t count = 0;

    while (command[count])
        count++;
    if (!at) {
        command = vt_resize(command, count + 2, sizeof *command);
        command[count] = vt_print_text("--%s", name_and_value);
        command[count + 1] = NULL;
    } else if (strchr(*at, '='))
        *at = vt_print_text("%.*s=%s", (int)strcspn(*at, "="), *at, value);
    else if (at[1])
        at[1] = vt_copy_text(value);
}

static int apply(const char *change)
{
    const struct change *known = find(change);
    const char *value = change + name_bytes(change);
    char *name;

    value += *value != '\0';
    switch (known->kind) {
    case ALLOCATOR:
        name = strchr(value, '=') ? vt_copy_text(value) : vt_print_text("%s=True", value);
        *strchr(name, '=') = ':';
        add_to_list(allocator_variables[0], name);
        if (getenv(allocator_variables[1]))
            add_to_list(allocator_variables[1], name);
        free(name);
        break;
    case ENVIRONMENT:
        name = vt_copy_bytes(value, strcspn(value, "="));
        vt_run_set(name, strchr(value, '=') + 1, true);
        free(name);
        break;
    case ARGUMENT:
        set_argument(value);
        break;
    case PYTHON:
        add_to_list("VRAMTRACE_DRYRUN_TRY", change);
        break;
    }
    return 0;
}

char **vt_apply_changes(const char *changes, char **words)
{
    size_t count = 0;

    while (words[count])
        count++;
    command = vt_allocate_zeros(count + 1, sizeof *command);
    memcpy(command, words, count * sizeof *command);
    if (changes[0])
        each(changes, apply);
    return command;
}

const char *vt_cost_of_change(const char *change)
{
    const struct change *known = find(names_batch(change) ? "batch" : change);

    return known ? known->cost : "";
}

void vt_print_changes(FILE *out)
{
    for (size_t i = 0; i < CHANGE_COUNT; i++) {
        const struct change *change = &changes_known[i];

        fprintf(out, "  %s%s%s\n      %s\n", change->name,
                !change->values[0]       ? ""
                : change->kind == PYTHON ? "="
                                         : ":",
                change->values, change->help);
    }
}
