/* run: sets the preload and the recorder's settings, and runs the command. lib: where the library is. */
#include "command/output.h"
#include "command/run.h"
#include "command/run_list.h"
#include "command/run_python.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../preload/option_values.h"

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

char *vt_run_find_beside(const char *const *places)
{
    char folder[PATH_MAX], path[PATH_MAX + 64], *real = NULL;

    for (; executable_folder(folder, sizeof folder) && *places && !real; places++) {
        snprintf(path, sizeof path, "%s/%s", folder, *places);
        real = realpath(path, NULL);
    }
    return real;
}

static char *find_library(void)
{
    static const char *const places[] = {"../" VT_PLACE "/" LIBRARY, "../lib/" LIBRARY, "../lib64/" LIBRARY,
                                         "../preload/" LIBRARY, NULL};
    char *path = vt_run_find_beside(places);

    return path ? path : realpath(VT_LIBDIR "/" LIBRARY, NULL);
}

/* The caller frees it; NULL with a line in `error`. */
static char *library_path(char *error, size_t error_bytes)
{
    const char *chosen = getenv("VRAMTRACE_LIBRARY");
    char *path = chosen && chosen[0] ? realpath(chosen, NULL) : find_library();

    if (!path && chosen && chosen[0])
        snprintf(error, error_bytes, "VRAMTRACE_LIBRARY=%s: %s", chosen, strerror(errno));
    else if (!path)
        snprintf(error, error_bytes,
                 LIBRARY " is neither beside this program nor in " VT_LIBDIR
                         "; set VRAMTRACE_LIBRARY to its path");
    else if (access(path, R_OK))
        snprintf(error, error_bytes, "%s cannot be read: %s", path, strerror(errno));
    else if (strpbrk(path, " :")) /* LD_PRELOAD is split there */
        snprintf(error, error_bytes,
                 "%s: LD_PRELOAD takes no path with a space or a colon: install the library elsewhere", path);
    else
        return path;
    free(path);
    return NULL;
}

int vt_command_lib(struct vt_arguments *arguments, struct vt_output *output)
{
    char error[PATH_MAX + 256], *path = library_path(error, sizeof error);

    (void)arguments;
    if (!path)
        return vt_wrong_use("%s", error);
    fprintf(output->stream, "%s\n", path); /* not cleaned: it goes into LD_PRELOAD */
    free(path);
    return vt_written(output, 0);
}

/* The recorder's settings are its own table: each becomes an option here. */
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

void vt_print_settings_help(FILE *out)
{
    fputs("  -o PATH   the same as --out\n"
          "  --help    this help\n\n"
          "Recorder settings; each is also an environment variable (--ring is VRAMTRACE_RING), and a SWITCH\n"
          "without a value is 1:\n\n",
          out);
    for (size_t i = 0; i < SETTING_COUNT; i++) {
        char name[64];
        fprintf(out, "  %s %s (default %s)\n      %s\n", option_name(&settings[i], name, sizeof name),
                settings[i].kind, settings[i].initial, settings[i].help);
    }
}

void vt_print_run_help(FILE *out)
{
    const struct vt_command *run = &vt_commands[VT_COMMAND_RUN];

    fprintf(out, "vramtrace %s %s\n    %s\n\n", run->name, run->arguments, run->summary);
    fputs(
        "COMMAND is a program, a Python script (FILE.py) or -m MODULE. It starts at the first word that is\n"
        "not an option, or after --.\n\n",
        out);
    vt_print_settings_help(out);
}

/* Why nothing can be written there, or NULL. `folder` has room for a name. */
static const char *cannot_write(char *path, bool is_folder, char *reason, size_t bytes)
{
    struct stat status;
    char *slash = strrchr(path, '/');

    if (!is_folder && !stat(path, &status) && !S_ISREG(status.st_mode))
        return "it is neither a folder nor a regular file";
    if (!is_folder)
        slash[slash == path] = '\0';
    if (strchr(path, '%')) /* its parts are known only when the trace is made */
        return NULL;
    if (stat(path, &status) ? errno == ENOENT || errno == ENOTDIR : !S_ISDIR(status.st_mode))
        snprintf(reason, bytes, "there is no folder %s; create it first", path);
    else if (access(path, W_OK | X_OK))
        snprintf(reason, bytes, "cannot write in %s: %s; -o FOLDER/ puts traces elsewhere", path,
                 strerror(errno));
    else
        return NULL;
    return reason;
}

/* With a valid name, setenv() fails only for lack of memory. */
void vt_run_set(const char *name, const char *value, bool overwrite)
{
    if (setenv(name, value, overwrite))
        vt_end_out_of_memory();
}

/* Where traces go, as `who` gave it. It becomes an absolute path, since the command may change its folder.
 * A path that ends with a slash is a folder, which is made; otherwise its folder must exist. */
static int set_output(const char *who, const char *path)
{
    char full[PATH_MAX * 2], folder[PATH_MAX] = "", reason[PATH_MAX * 2 + 128];
    const char *trouble = NULL;
    struct stat status;
    bool is_folder;

    if (path[0] != '/' && !getcwd(folder, sizeof folder))
        return vt_wrong_use("%s%s: %s", who, path, strerror(errno));
    snprintf(full, sizeof full, "%s%s%s", folder, folder[0] ? "/" : "", path);
    if (strlen(full) >= PATH_MAX)
        return vt_wrong_use("%s%s: the path is longer than %d bytes", who, path, PATH_MAX - 1);
    if (path[0])
        vt_run_set("VRAMTRACE_OUT", full, true);
    is_folder = full[strlen(full) - 1] == '/';
    if (is_folder && !strchr(full, '%') && mkdir(full, 0777) && errno != EEXIST && errno != ENOENT) {
        snprintf(reason, sizeof reason, "cannot make it: %s; -o FOLDER/ puts traces elsewhere",
                 strerror(errno));
        trouble = reason;
    }
    is_folder |= !stat(full, &status) && S_ISDIR(status.st_mode);
    if (!trouble)
        trouble = cannot_write(full, is_folder, reason, sizeof reason);
    if (!trouble)
        return 0;
    vt_say("%s%s%s%s", who, path, path[0] ? ": " : "", trouble);
    return VT_EXIT_NOT_WRITTEN;
}

static int set_setting(const struct setting *setting, const char *option, const char *value)
{
    const char *allowed = vt_value_refused(setting->name, value);
    char variable[96];

    if (!value[0])
        return vt_wrong_use("%s needs a value: %s %s", option, option, setting->kind);
    if (allowed)
        return vt_wrong_use("%s takes %s, not '%s'", option, allowed, value);
    snprintf(variable, sizeof variable, "VRAMTRACE_%s", setting->name);
    vt_run_set(variable, value, true);
    return 0;
}

/* What the recorder will read, whoever set it. */
static int check_settings(void)
{
    for (size_t i = 0; i < SETTING_COUNT; i++) {
        const char *allowed, *value;
        char variable[96];

        snprintf(variable, sizeof variable, "VRAMTRACE_%s", settings[i].name);
        value = getenv(variable);
        allowed = value && value[0] ? vt_value_refused(settings[i].name, value) : NULL;
        if (allowed)
            return vt_wrong_use("%s takes %s, not '%s'", variable, allowed, value);
    }
    return 0;
}

static int unknown_option(const struct vt_runner *runner, const char *text)
{
    static char names[SETTING_COUNT][64];
    const char *candidates[SETTING_COUNT + 32] = {"--help"}, *nearest;
    int length = (int)strcspn(text, "=");
    char word[64];

    for (size_t i = 0; i < SETTING_COUNT; i++)
        candidates[i + 1] = option_name(&settings[i], names[i], sizeof names[i]);
    for (size_t i = 0; runner->options && runner->options[i]; i++)
        candidates[SETTING_COUNT + 1 + i] = runner->options[i];
    snprintf(word, sizeof word, "%.*s", length, text);
    nearest = vt_nearest(word, candidates);
    if (nearest)
        return vt_wrong_use("unknown option '%s'; did you mean %s?", word, nearest);
    return vt_wrong_use("unknown option '%s'; vramtrace help %s lists them", word, runner->command->name);
}

/* --name=value, --name value, -o value. The word after a switch may be the command. */
static int parse_option(const struct vt_runner *runner, char **words, int count, int *i)
{
    const char *text = words[*i], *next = *i + 1 < count ? words[*i + 1] : NULL;
    size_t length = strcspn(text, "=");
    int result = 0;
    char name[64];

    if (runner->option && runner->option(words, count, i, &result))
        return result;
    for (size_t s = 0; s < SETTING_COUNT; s++) {
        bool is_short = !strncmp(text, "-o", 2) && !strcmp(settings[s].name, "OUT");

        option_name(&settings[s], name, sizeof name);
        if (is_short && text[2])
            return set_setting(&settings[s], "-o", text + 2);
        if (!is_short && (strlen(name) != length || memcmp(name, text, length)))
            continue;
        if (!is_short && text[length])
            return set_setting(&settings[s], name, text + length + 1);
        if (!strcmp(settings[s].kind, "SWITCH") && !(next && !vt_value_refused(settings[s].name, next)))
            return set_setting(&settings[s], name, "1");
        if (!next || !strcmp(next, "--"))
            return vt_wrong_use("%s needs a value: %s %s", text, text, settings[s].kind);
        return set_setting(&settings[s], text, words[++*i]);
    }
    return unknown_option(runner, text);
}

static int set_preload(void)
{
    char error[PATH_MAX + 256], *library = library_path(error, sizeof error), *preload;
    const char *before = getenv("LD_PRELOAD");

    if (!library)
        return vt_wrong_use("%s", error);
    preload = vt_print_text("%s%s%s", library, before && before[0] ? ":" : "", before ? before : "");
    vt_run_set("LD_PRELOAD", preload, true);
    vt_run_set("NVTX_INJECTION64_PATH", library, false);
    free(preload);
    free(library);
    return 0;
}

int vt_run_become(char **argv)
{
    int reason;

    execvp(argv[0], argv);
    reason = errno;
    if (reason == ENOENT && !strchr(argv[0], '/')) {
        vt_say("%s: command not found", argv[0]);
        return EXIT_NOT_FOUND;
    }
    vt_say("cannot run %s: %s", argv[0], strerror(reason));
    return reason == ENOENT ? EXIT_NOT_FOUND : EXIT_CANNOT_RUN;
}

static bool is_on(const char *variable, bool initial)
{
    const char *value = getenv(variable);
    bool on = initial;

    if (value && value[0])
        vt_value_SWITCH(value, &on);
    return on;
}

static struct vt_run_end end;

static void end_alike(void)
{
    _exit(vt_run_end_alike(&end));
}

/* Stays to print the last line; if none is wanted, becomes the command. */
int vt_run_start(const struct vt_runner *runner, char **words)
{
    const bool records = is_on("VRAMTRACE_ENABLE", true);
    const bool silent = !runner->say && (!records || is_on("VRAMTRACE_QUIET", false) || vt_run_is_inner());
    int list = silent ? -1 : vt_run_make_list(), result;

    if (list < 0)
        return vt_run_become(words);
    end.limit_s = runner->limit_s;
    result = vt_run_wait(list, &end);
    if (result) /* no process more is allowed */
        return vt_run_become(words);
    if (!end.pid) {
        if (runner->folder && chdir(runner->folder))
            vt_say("cannot go to %s: %s; the command starts here", runner->folder, strerror(errno));
        if (runner->play)
            return runner->play(words);
        result = vt_run_become(words);
        vt_run_not_started(list);
        return result;
    }
    vt_undo_out_of_memory(end_alike); /* the command's status counts, with the last line or without */
    vt_run_say(list, &end, runner->say);
    if (runner->end)
        runner->end();
    return vt_run_end_alike(&end);
}

static int run_words(const struct vt_runner *runner, bool out_given, char **words)
{
    char *variable = getenv("VRAMTRACE_OUT"), *out = variable ? vt_copy_text(variable) : NULL;
    const bool records = is_on("VRAMTRACE_ENABLE", true);
    int result = check_settings();

    if (!result && records)
        result = set_output(out_given ? "-o " : out && out[0] ? "VRAMTRACE_OUT=" : "", out ? out : "");
    free(out);
    if (!result)
        result = set_preload();
    if (result)
        return result;
    words = vt_run_with_python(words);
    if (!words) {
        vt_say("neither python nor python3 is in PATH");
        return EXIT_NOT_FOUND;
    }
    result = runner->prepare ? runner->prepare(words) : 0;
    return result ? result : runner->start ? runner->start(words) : vt_run_start(runner, words);
}

int vt_run_command(const struct vt_runner *runner, struct vt_arguments *arguments, struct vt_output *output)
{
    char **words = arguments->operands;
    int count = arguments->operand_count, i = 0, result;
    bool out_given = false;

    for (; i < count && words[i][0] == '-' && words[i][1] && strcmp(words[i], "-m"); i++) {
        if (!strcmp(words[i], "--")) {
            i++;
            break;
        }
        if (!strcmp(words[i], "--help") || !strcmp(words[i], "-h")) {
            runner->print_help(output->stream);
            return vt_written(output, 0);
        }
        out_given |= !strncmp(words[i], "-o", 2) || !strncmp(words[i], "--out", 5);
        result = parse_option(runner, words, count, &i);
        if (result)
            return result;
    }
    if (i >= count && !runner->words)
        return vt_wrong_use("which command? vramtrace %s [OPTIONS] COMMAND...", runner->command->name);
    if (i < count && !strcmp(words[i], "-m") && i + 1 == count)
        return vt_wrong_use("-m needs a value: -m MODULE");
    return run_words(runner, out_given, i < count ? words + i : runner->words);
}

int vt_command_run(struct vt_arguments *arguments, struct vt_output *output)
{
    static const struct vt_runner runner = {.command = &vt_commands[VT_COMMAND_RUN],
                                            .print_help = vt_print_run_help};

    return vt_run_command(&runner, arguments, output);
}
