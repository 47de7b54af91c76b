/* dryrun: puts the simulated CUDA (simulate/) in front of the program's own libraries and runs it as `run`
 * does. */
#include "command/dryrun.h"
#include "command/dryrun_answer.h"
#include "command/dryrun_changes.h"
#include "command/dryrun_like.h"
#include "command/dryrun_search.h"
#include "command/dryrun_trials.h"
#include "command/dryrun_world.h"
#include "command/output.h"
#include "command/rooms.h"
#include "command/run.h"
#include "command/temporary.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/amount.h"
#include "base/format.h"

#ifndef VT_LIBDIR
#define VT_LIBDIR "/usr/local/lib"
#endif
#ifndef VT_PLACE
#define VT_PLACE "lib"
#endif
#define AUDIT "libvramtrace_simulation.so"
#define MOST_GPUS 16
#define AMPLE_BYTES "1099511627776" /* more than any program asks for */

static const struct vt_gpu gpus[] = {
#define X(key, name, memory_mib, context_mib, ...) {#key, name, memory_mib, context_mib},
#include "../simulate/gpus.def"
#undef X
};
#define GPU_COUNT (sizeof gpus / sizeof *gpus)

enum kind { GPU, WORLD, RANKS, SIZE, NUMBER, TIME, SWITCH, FLAG, LIKE, TRY, ADVISE, FIT, JSON };
static const struct option {
    const char *name, *value;
    enum kind kind;
    const char *variable, *initial, *help;
} options[] = {
#define X(name, value, kind, variable, initial, help) {name, value, kind, variable, initial, help},
#include "command/dryrun.def"
#undef X
};
#define OPTION_COUNT (sizeof options / sizeof *options)

static struct {
    const struct vt_gpu *gpu;
    int gpu_count; /* 0 = not given */
    unsigned limit_s;
    bool given[OPTION_COUNT], is_like;
    struct vt_like like;
    char rooms[64]; /* a folder of this run: what its processes share */
} chosen;

static struct vt_runner runner;
static int begin_trial(bool ample);
static int start_trials(char **words);
static struct vt_trials trials = {.begin = begin_trial};

/* ---- Options ---- */

bool vt_dryrun_option_at(size_t index, struct vt_option_text *text)
{
    if (index >= OPTION_COUNT)
        return vt_run_option_at(index - OPTION_COUNT, text);
    *text = (struct vt_option_text){.value = options[index].value, .help = options[index].help};
    snprintf(text->name, sizeof text->name, "%s", options[index].name);
    return true;
}

static void print_gpus(FILE *out)
{
    char bytes[32];

    for (size_t i = 1; i < GPU_COUNT; i++)
        fprintf(out, "  %-12s %s, %s\n", gpus[i].key, gpus[i].name,
                vt_format_bytes((uint64_t)gpus[i].memory_mib << 20, bytes));
}

void vt_print_dryrun_help(FILE *out)
{
    const struct vt_command *command = &vt_commands[VT_COMMAND_DRYRUN];

    fprintf(out, "vramtrace %s %s\n    %s\n\n", command->name, command->arguments, command->summary);
    fputs("The command runs unchanged, with the real PyTorch, on simulated GPUs: every allocation is made, "
          "kernels\n"
          "compute nothing. No GPU is needed, and none is used. It says whether the program would fit, at "
          "which peak,\n"
          "what holds the memory and what would help; its trace is an ordinary one, marked as simulated.\n\n",
          out);
    for (size_t i = 0; i < OPTION_COUNT; i++)
        fprintf(out, "  %s%s%s%s%s%s\n      %s\n", options[i].name, options[i].value[0] ? " " : "",
                options[i].value, options[i].initial[0] ? " (default " : "", options[i].initial,
                options[i].initial[0] ? ")" : "", options[i].help);
    fputs("\nGPUs:\n", out);
    print_gpus(out);
    fputc('\n', out);
    vt_print_settings_help(out);
}

static int choose_gpu(const char *text)
{
    const char *names[GPU_COUNT] = {NULL}, *nearest, *colon = strchr(text, ':');
    char key[64], *rest = NULL;

    snprintf(key, sizeof key, "%.*s", colon ? (int)(colon - text) : 63, text);
    chosen.gpu = NULL;
    for (size_t i = 1; i < GPU_COUNT; i++) {
        names[i - 1] = gpus[i].key;
        if (!strcmp(gpus[i].key, key))
            chosen.gpu = &gpus[i];
    }
    if (!strcmp(text, "help")) {
        print_gpus(stdout);
        exit(0);
    }
    nearest = vt_nearest(key, names);
    if (!chosen.gpu)
        return vt_wrong_use(
            "--gpu: no GPU '%s' is known; %s%s%s--gpu help lists them, and --gpu-memory 24GiB sets any size",
            key, nearest ? "did you mean " : "", nearest ? nearest : "", nearest ? "? " : "");
    chosen.gpu_count = colon ? (int)strtol(colon + 1, &rest, 10) : 0;
    if (colon && (rest == colon + 1 || *rest || chosen.gpu_count < 1 || chosen.gpu_count > MOST_GPUS))
        return vt_wrong_use("--gpu: '%s' is not a number of GPUs from 1 to %d", colon + 1, MOST_GPUS);
    vt_run_set("VRAMTRACE_STANDIN_GPU", chosen.gpu->key, true);
    return 0;
}

/* The recorded GPU if it is known, with the memory that it had. */
static int choose_gpu_alike(void)
{
    char text[64];

    snprintf(text, sizeof text, "%llu", (unsigned long long)chosen.like.total_bytes);
    if (chosen.like.total_bytes)
        vt_run_set("VRAMTRACE_STANDIN_MEMORY", text, false);
    for (size_t i = 1; i < GPU_COUNT; i++)
        if (!strcmp(gpus[i].name, chosen.like.gpu_name))
            return choose_gpu(gpus[i].key);
    return 0;
}

/* The command runs in the recorded folder; what it leaves comes here, as ever. */
static int keep_traces_here(void)
{
    const char *out = getenv("VRAMTRACE_OUT");
    char folder[PATH_MAX + 1];

    if (out && out[0])
        return 0;
    if (!getcwd(folder, sizeof folder - 1))
        return vt_wrong_use("cannot tell the current folder: %s", strerror(errno));
    vt_run_set("VRAMTRACE_OUT", strcat(folder, "/"), true);
    return 0;
}

/* The recorded process's part of its job. */
static int play_alike(void)
{
    char text[16];
    int result;

    snprintf(text, sizeof text, "%d", chosen.like.world);
    result = vt_world_set_size(text);
    snprintf(text, sizeof text, "%d", chosen.like.rank);
    return result ? result : vt_world_set_ranks(text);
}

/* "90s", "10m", "1h", "90": seconds, 0 = not one. */
static unsigned seconds_of(const char *text)
{
    static const struct {
        const char *unit;
        unsigned seconds;
    } units[] = {{"", 1}, {"s", 1}, {"m", 60}, {"min", 60}, {"h", 3600}};
    char *end;
    const double value = strtod(text, &end);

    for (size_t i = 0; i < sizeof units / sizeof *units; i++)
        if (end != text && !strcmp(end, units[i].unit) && value > 0 && value * units[i].seconds < 1e8)
            return (unsigned)(value * units[i].seconds + 0.999);
    return 0;
}

static bool is_number(const char *text)
{
    return text[0] && strlen(text) < 10 && !text[strspn(text, "0123456789")];
}

static int set_option(const struct option *option, const char *value)
{
    struct vt_amount amount;
    char bytes[32];
    int result;

    chosen.given[option - options] = true;
    switch (option->kind) {
    case GPU:
        return choose_gpu(value);
    case WORLD:
        return vt_world_set_size(value);
    case RANKS:
        return vt_world_set_ranks(value);
    case SIZE:
        if (!vt_amount_parse(value, VT_AMOUNT_SIZE, &amount) || amount.bytes < 1 << 20)
            return vt_wrong_use("%s: '%s' is not a size of at least 1 MiB, such as 24GiB", option->name,
                                value);
        snprintf(bytes, sizeof bytes, "%llu", (unsigned long long)amount.bytes);
        value = bytes;
        break;
    case NUMBER:
        if (!is_number(value))
            return vt_wrong_use("%s: '%s' is not a number", option->name, value);
        break;
    case TIME:
        chosen.limit_s = seconds_of(value);
        return chosen.limit_s
                   ? 0
                   : vt_wrong_use("%s: '%s' is not a time, such as 90s, 10m or 1h", option->name, value);
    case SWITCH:
        if (strcmp(value, "on") && strcmp(value, "off"))
            return vt_wrong_use("%s takes on or off, not '%s'", option->name, value);
        break;
    case LIKE:
        chosen.is_like = true;
        result = vt_like_read(value, &chosen.like);
        runner.words = chosen.like.words;
        runner.folder = chosen.like.folder;
        return result;
    case TRY:
        if (!strcmp(value, "help")) {
            vt_print_changes(stdout);
            exit(0);
        }
        return vt_trials_add(&trials, value);
    case ADVISE:
        trials.advise = vt_search_advice;
        return 0;
    case FIT:
        trials.fit = value;
        trials.search = vt_search_largest;
        return value[0] ? 0 : vt_wrong_use("%s needs a name, such as batch_size", option->name);
    case JSON:
        trials.json_path = value;
        return 0;
    case FLAG:
        break;
    }
    vt_run_set(option->variable, value, true);
    return 0;
}

static bool parse_option(char **words, int count, int *i, int *result)
{
    const size_t length = strcspn(words[*i], "=");

    for (size_t k = 0; k < OPTION_COUNT; k++) {
        const struct option *option = &options[k];

        if (strlen(option->name) != length || memcmp(option->name, words[*i], length))
            continue;
        if (!option->value[0])
            *result =
                words[*i][length] ? vt_wrong_use("%s takes no value", option->name) : set_option(option, "1");
        else if (words[*i][length])
            *result = set_option(option, words[*i] + length + 1);
        else if (*i + 1 < count)
            *result = set_option(option, words[++*i]);
        else
            *result = vt_wrong_use("%s needs a value: %s %s", option->name, option->name, option->value);
        return true;
    }
    return false;
}

/* ---- The environment ---- */

static void prepend(const char *variable, const char *value)
{
    const char *before = getenv(variable);
    char *text = vt_print_text("%s%s%s", value, before && before[0] ? ":" : "", before ? before : "");

    vt_run_set(variable, text, true);
    free(text);
}

/* The folder of the simulated libraries, or NULL. The caller frees it. */
static char *find_simulation(void)
{
    static const char *const places[] = {"../" VT_PLACE "/vramtrace-simulation/" AUDIT,
                                         "../lib/vramtrace-simulation/" AUDIT,
                                         "../lib64/vramtrace-simulation/" AUDIT, "../simulate/" AUDIT, NULL};
    char *path = vt_run_find_beside(places);

    path = path ? path : realpath(VT_LIBDIR "/vramtrace-simulation/" AUDIT, NULL);
    if (path)
        *strrchr(path, '/') = '\0';
    return path;
}

/* Ranks of one job meet in it: NCCL's messages, and what each process has of a GPU. */
static int make_rooms(void)
{
    char *shared, *notes;

    if (!vt_rooms_make(chosen.rooms, sizeof chosen.rooms))
        return vt_wrong_use("cannot make a folder in /dev/shm or /tmp: %s", strerror(errno));
    shared = vt_print_text("%s/gpus", chosen.rooms);
    vt_run_set("VRAMTRACE_STANDIN_ROOMS", chosen.rooms, true);
    vt_run_set("VRAMTRACE_STANDIN_SHARED", shared, true);
    free(shared);
    notes = vt_print_text("%s/changed", chosen.rooms);
    vt_run_set("VRAMTRACE_DRYRUN_NOTES", notes, true); /* also of ranks, which have rooms of their own */
    free(notes);
    return 0;
}

static void remove_rooms(void)
{
    vt_world_remove();
    vt_remove(chosen.rooms);
}

static int prepare(char **words)
{
    char *folder = find_simulation(), *text, count[16];
    const bool gpu_is_given = chosen.given[0];
    int result = 0;

    (void)words;
    if (!folder)
        return vt_wrong_use("the simulated CUDA (" AUDIT
                            ") is not installed beside this program; the wheel has it, and a build with "
                            "-Dsimulated_cuda=true");
    for (size_t i = 0; i < OPTION_COUNT && !result; i++)
        if (!chosen.given[i] && options[i].initial[0] &&
            !(options[i].kind != GPU && options[i].variable[0] && getenv(options[i].variable)))
            result = set_option(&options[i], options[i].initial);
    if (!result && chosen.is_like && !gpu_is_given)
        result = choose_gpu_alike();
    if (!result && chosen.is_like)
        result = keep_traces_here();
    if (!result && chosen.is_like && chosen.like.world > 1 && !vt_world_is_given())
        result = play_alike();
    if (vt_trials_are_wanted(&trials))
        runner.start = start_trials;
    else
        result = result ? result : make_rooms();
    if (result)
        return result;
    result = vt_world_prepare(chosen.rooms, &chosen.gpu_count);
    if (result)
        return result;
    runner.limit_s = chosen.limit_s;
    runner.play = vt_world_is_given() ? vt_world_play : NULL;
    snprintf(count, sizeof count, "%d", chosen.gpu_count);
    vt_run_set("VRAMTRACE_STANDIN_DEVICES", count, true);
    text = vt_print_text("%s:%s/runtime12", folder, folder);
    vt_run_set("VRAMTRACE_SIMULATION", text, true);
    prepend("LD_LIBRARY_PATH", text); /* triton looks there for libcuda */
    free(text);
    text = vt_print_text("%s/" AUDIT, folder);
    prepend("LD_AUDIT", text);
    free(text);
    text = vt_print_text("%s/python", folder);
    prepend("PYTHONPATH", text);
    free(text);
    text = vt_print_text("simulated: %s, values off", chosen.gpu->key); /* "on" once PyTorch's are computed */
    vt_run_set("VRAMTRACE_STANDIN_MARK", text, true);
    free(text);
#define VT_GROWS(name, value) vt_run_set(name, value, false);
#include "command/dryrun_environment.def"
    vt_run_set("VRAMTRACE_STANDIN_COPY", "1MiB",
               false); /* as what is computed, so that large models take no memory */
    free(folder);
    return 0;
}

static void answer(const struct vt_run_trace *traces, size_t count, const struct vt_run_end *end)
{
    const struct vt_dry_outcome outcome =
        vt_dryrun_answer(chosen.gpu, traces, count, end, vt_trials_say_nothing() ? NULL : stderr);

    if (chosen.is_like && outcome.told && !vt_trials_say_nothing())
        vt_like_compare(&chosen.like, outcome.used_bytes, stderr);
    vt_trials_note(&outcome);
}

static int begin_trial(bool ample)
{
    int result = make_rooms();

    if (ample)
        vt_run_set("VRAMTRACE_STANDIN_MEMORY", AMPLE_BYTES, true);
    return result ? result : vt_world_prepare(chosen.rooms, &chosen.gpu_count);
}

static int start_trials(char **words)
{
    return vt_trials_run(&trials, &runner, words);
}

int vt_command_dryrun(struct vt_arguments *arguments, struct vt_output *output)
{
    static const char *names[OPTION_COUNT + 1];

    for (size_t i = 0; i < OPTION_COUNT; i++)
        names[i] = options[i].name;
    runner = (struct vt_runner){.command = &vt_commands[VT_COMMAND_DRYRUN],
                                .option = parse_option,
                                .options = names,
                                .prepare = prepare,
                                .say = answer,
                                .end = remove_rooms,
                                .print_help = vt_print_dryrun_help};
    return vt_run_command(&runner, arguments, output);
}
