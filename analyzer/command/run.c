/* run: sets the preload and the shim's settings, then becomes the command. lib: where the library is. */
#include "command/command.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#define LIBRARY "libvramtrace.so"

#define EXIT_CANNOT_RUN 126 /* as in shells and env(1) */
#define EXIT_NOT_FOUND 127

#ifndef VT_LIBDIR
#define VT_LIBDIR "/usr/local/lib"
#endif
#ifndef VT_PLACE
#define VT_PLACE "lib"
#endif

static bool executable_folder(char *folder, size_t bytes)
{
    ssize_t length = readlink("/proc/self/exe", folder, bytes - 1);
    char *slash;

    if (length <= 0)
        return false;
    folder[length] = '\0';
    slash = strrchr(folder, '/');
    if (slash)
        *slash = '\0';
    return slash != NULL;
}

static char *find_beside(void)
{
    static const char *const places[] = {"../" VT_PLACE "/" LIBRARY, "../lib/" LIBRARY, "../lib64/" LIBRARY,
                                         "../preload/" LIBRARY};
    char folder[PATH_MAX], path[PATH_MAX + 64];

    if (executable_folder(folder, sizeof folder)) {
        for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
            char *real;
            snprintf(path, sizeof path, "%s/%s", folder, places[i]);
            real = realpath(path, NULL);
            if (real)
                return real;
        }
    }
    return realpath(VT_LIBDIR "/" LIBRARY, NULL);
}

/* The caller frees it; NULL with a line in `error`. */
static char *library_path(char *error, size_t error_bytes)
{
    const char *chosen = getenv("VRAMTRACE_LIBRARY");
    char *path = chosen && chosen[0] ? realpath(chosen, NULL) : find_beside();

    if (!path && chosen && chosen[0])
        snprintf(error, error_bytes, "VRAMTRACE_LIBRARY names %s: %s", chosen, strerror(errno));
    else if (!path)
        snprintf(error, error_bytes,
                 LIBRARY " is neither beside this program nor in " VT_LIBDIR
                         "; set VRAMTRACE_LIBRARY to its path");
    else if (access(path, R_OK))
        snprintf(error, error_bytes, "%s cannot be read: %s", path, strerror(errno));
    else if (strpbrk(path, " :")) /* LD_PRELOAD is split there */
        snprintf(error, error_bytes,
                 "%s: a path with a space or a colon cannot be preloaded; link it elsewhere", path);
    else
        return path;
    free(path);
    return NULL;
}

int vt_command_lib(const struct vt_command *command, struct vt_arguments *arguments, struct vt_output *output)
{
    char error[PATH_MAX + 256], *path = library_path(error, sizeof error);

    (void)arguments;
    if (!path)
        return vt_wrong_use(command, "%s", error);
    fprintf(output->stream, "%s\n", path); /* not cleaned: it goes into LD_PRELOAD */
    free(path);
    return vt_written(command, output, 0);
}

/* The shim's settings are its own table: each becomes an option here. */
static const struct setting {
    const char *name, *kind, *initial, *help;
} settings[] = {
#define X(name, kind, field, initial, help) {#name, #kind, initial, help},
#include "../preload/options.def"
#undef X
};
#define SETTING_COUNT (sizeof settings / sizeof *settings)

/* MODE → --mode, RING_MIB → --ring-mib */
static char *option_name(const struct setting *setting, char *text, size_t bytes)
{
    size_t length = (size_t)snprintf(text, bytes, "--%s", setting->name);

    for (size_t i = 2; i < length && i < bytes; i++)
        text[i] = text[i] == '_' ? '-' : (char)tolower((unsigned char)text[i]);
    return text;
}

bool vt_run_option_at(size_t index, struct vt_option_text *text)
{
    if (index >= SETTING_COUNT)
        return false;
    *text = (struct vt_option_text){.value = settings[index].kind, .help = settings[index].help};
    option_name(&settings[index], text->name, sizeof text->name);
    text->letter = vt_option_letter(text->name);
    return true;
}

void vt_print_run_help(const struct vt_command *command, FILE *out)
{
    fprintf(out, "vramtrace %s %s\n    %s\n\n", command->name, command->arguments, command->summary);
    fputs(
        "  -o PATH   the same as --out\n"
        "  --help    this help\n\n"
        "The command starts at the first word that is not an option, or after --.\n"
        "Settings of the recorder, as options or as environment variables (a SWITCH without a value is 1):\n",
        out);
    for (size_t i = 0; i < SETTING_COUNT; i++) {
        char name[64];
        fprintf(out, "  %s %s, VRAMTRACE_%s (%s)\n      %s\n", option_name(&settings[i], name, sizeof name),
                settings[i].kind, settings[i].name, settings[i].initial, settings[i].help);
    }
}

/* Stores an absolute path, since the command may change its folder. What ends with a slash is a folder, which
 * is made; else its folder must exist. */
static int set_output(const struct vt_command *command, const char *path)
{
    char full[PATH_MAX * 2], folder[PATH_MAX], *slash;
    struct stat status;

    if (!path[0])
        return vt_wrong_use(command, "-o needs a file name or a folder");
    if (path[0] != '/' && !getcwd(folder, sizeof folder))
        return vt_wrong_use(command, "-o %s: %s", path, strerror(errno));
    snprintf(full, sizeof full, "%s%s%s", path[0] == '/' ? "" : folder, path[0] == '/' ? "" : "/", path);
    if (setenv("VRAMTRACE_OUT", full, 1))
        return vt_wrong_use(command, "-o %s: %s", path, strerror(errno));
    if (full[strlen(full) - 1] == '/' && !strchr(full, '%'))
        mkdir(full, 0777); /* several ranks may; what it failed for is said below */
    if (stat(full, &status) || !S_ISDIR(status.st_mode)) {
        slash = strrchr(full, '/');
        *slash = '\0';
        if (strchr(full, '%'))
            return 0; /* its parts are known only when the trace is made */
    }
    if (full[0] && (stat(full, &status) || !S_ISDIR(status.st_mode)))
        vt_say(command, "-o %s: there is no folder %s; create it first", path, full);
    else if (full[0] && access(full, W_OK | X_OK))
        vt_say(command, "-o %s: cannot write in %s: %s", path, full, strerror(errno));
    else
        return 0;
    return VT_EXIT_NOT_WRITTEN;
}

static int set_setting(const struct vt_command *command, const struct setting *setting, const char *value)
{
    char variable[96];

    if (!strcmp(setting->name, "OUT"))
        return set_output(command, value);
    snprintf(variable, sizeof variable, "VRAMTRACE_%s", setting->name);
    if (setenv(variable, value, 1))
        return vt_wrong_use(command, "cannot set %s: %s", variable, strerror(errno));
    return 0;
}

static int unknown_option(const struct vt_command *command, const char *text)
{
    static char names[SETTING_COUNT][64];
    const char *candidates[SETTING_COUNT + 2] = {"--help"}, *nearest;
    int length = (int)strcspn(text, "=");
    char word[64];

    for (size_t i = 0; i < SETTING_COUNT; i++)
        candidates[i + 1] = option_name(&settings[i], names[i], sizeof names[i]);
    snprintf(word, sizeof word, "%.*s", length, text);
    nearest = vt_nearest(word, candidates);
    if (nearest)
        return vt_wrong_use(command, "unknown option '%s'; did you mean %s?", word, nearest);
    return vt_wrong_use(command, "unknown option '%s'; vramtrace help run lists them", word);
}

/* Values that the recorder understands (preload/options.c). */
static bool is_switch_value(const char *word)
{
    static const char *const words[] = {"0", "1", "no", "yes", "off", "on", "false", "true"};

    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (!strcasecmp(word, words[i]))
            return true;
    return false;
}

/* --name=value, --name value, -o value. The word after a switch may be the command. */
static int parse_option(const struct vt_command *command, char **words, int count, int *i)
{
    const char *text = words[*i], *next = *i + 1 < count ? words[*i + 1] : NULL;
    size_t length = strcspn(text, "=");
    char name[64];

    for (size_t s = 0; s < SETTING_COUNT; s++) {
        bool is_short = !strncmp(text, "-o", 2) && !strcmp(settings[s].name, "OUT");

        option_name(&settings[s], name, sizeof name);
        if (is_short && text[2])
            return set_setting(command, &settings[s], text + 2);
        if (!is_short && (strlen(name) != length || memcmp(name, text, length)))
            continue;
        if (!is_short && text[length])
            return set_setting(command, &settings[s], text + length + 1);
        if (!strcmp(settings[s].kind, "SWITCH") && !(next && is_switch_value(next)))
            return set_setting(command, &settings[s], "1");
        if (!next || !strcmp(next, "--"))
            return vt_wrong_use(command, "%s needs a value: %s %s", text, text, settings[s].kind);
        return set_setting(command, &settings[s], words[++*i]);
    }
    return unknown_option(command, text);
}

static int set_preload(const struct vt_command *command)
{
    char error[PATH_MAX + 256], *library = library_path(error, sizeof error), *preload = NULL;
    const char *before = getenv("LD_PRELOAD");
    int failed;

    if (!library)
        return vt_wrong_use(command, "%s", error);
    failed =
        before && before[0] ? asprintf(&preload, "%s:%s", library, before) < 0 : !(preload = strdup(library));
    if (!failed)
        failed = setenv("LD_PRELOAD", preload, 1) || setenv("NVTX_INJECTION64_PATH", library, 0);
    free(preload);
    free(library);
    return failed ? vt_wrong_use(command, "cannot set the environment: %s", strerror(errno)) : 0;
}

static int become(const struct vt_command *command, char **argv)
{
    int reason;

    execvp(argv[0], argv);
    reason = errno;
    if (reason == ENOENT && !strchr(argv[0], '/')) {
        vt_say(command, "%s: command not found", argv[0]);
        return EXIT_NOT_FOUND;
    }
    vt_say(command, "cannot run %s: %s", argv[0], strerror(reason));
    return reason == ENOENT ? EXIT_NOT_FOUND : EXIT_CANNOT_RUN;
}

/* `python -m vramtrace run train.py`: that Python runs the script. It takes the place of the word before it,
 * which is an option or the command's own name. Not for the child: it is no setting. */
static char **with_interpreter(char **argv)
{
    char *interpreter = getenv("VRAMTRACE_INTERPRETER");
    size_t length = strlen(argv[0]);

    if (interpreter && interpreter[0] && length > 3 && !strcmp(argv[0] + length - 3, ".py"))
        *--argv = strdup(interpreter);
    unsetenv("VRAMTRACE_INTERPRETER");
    return argv;
}

int vt_command_run(const struct vt_command *command, struct vt_arguments *arguments, struct vt_output *output)
{
    char **words = arguments->operands;
    int count = arguments->operand_count, i = 0, result;

    for (; i < count && words[i][0] == '-' && words[i][1]; i++) {
        if (!strcmp(words[i], "--")) {
            i++;
            break;
        }
        if (!strcmp(words[i], "--help") || !strcmp(words[i], "-h")) {
            vt_print_run_help(command, output->stream);
            return vt_written(command, output, 0);
        }
        result = parse_option(command, words, count, &i);
        if (result)
            return result;
    }
    if (i >= count)
        return vt_wrong_use(command, "which command? vramtrace run [OPTIONS] COMMAND...");
    result = set_preload(command);
    words = with_interpreter(words + i);
    if (!result && !words[0])
        return vt_wrong_use(command, "out of memory");
    return result ? result : become(command, words);
}
