/* Runs the command again with changes, each in a child, and says what they saved. */
#include "command/dryrun_trials.h"
#include "command/dryrun_changes.h"
#include "command/output.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/format.h"

#define MOST_RUNS 96
#define MOST_NOTES 512
#define NOTE_BYTES 256
#define LOG_BYTES 4096 /* of what a program wrote last */

static struct {
    struct vt_trial *items; /* shared with the children */
    size_t count;
    const struct vt_trials *wanted;
    const struct vt_runner *runner;
    char **words;
    bool is_child;
    bool takes_all; /* a server, whose pool takes what a GPU has: a larger one does not show its need */
} runs;

static volatile sig_atomic_t child_pid, was_stopped;

bool vt_trials_are_wanted(const struct vt_trials *trials)
{
    return trials->changes[0] || trials->advise || trials->fit;
}

int vt_trials_add(struct vt_trials *trials, const char *changes)
{
    const size_t most = sizeof trials->changes / sizeof *trials->changes - 1;
    size_t count = 0;
    int result = vt_check_changes(changes);

    while (trials->changes[count])
        count++;
    if (!result && (count == most || strlen(changes) >= (size_t)VT_CHANGES_BYTES))
        return vt_wrong_use("--try: at most %zu times, of %zu letters each", most,
                            (size_t)VT_CHANGES_BYTES - 1);
    trials->changes[count] = changes;
    return result;
}

/* The program as it is: its output and its answer are shown. */
static bool is_first(void)
{
    return runs.count == 1 && !runs.items[0].changes[0];
}

/* ---- In the child ---- */

/* The lines of a file, without those that are there before: several processes note the same. */
static size_t read_lines(const char *path, char lines[MOST_NOTES][NOTE_BYTES])
{
    FILE *file = fopen(path, "re");
    size_t count = 0;

    while (file && count < MOST_NOTES && fgets(lines[count], NOTE_BYTES, file)) {
        size_t i = 0;

        lines[count][strcspn(lines[count], "\n")] = '\0';
        while (strcmp(lines[i], lines[count]))
            i++;
        count += i == count;
    }
    if (file)
        fclose(file);
    return count;
}

static void add_note(struct vt_trial *run, const char *format, ...)
{
    const size_t used = strlen(run->note);
    va_list arguments;

    va_start(arguments, format);
    if (used + 3 < sizeof run->note) {
        strcpy(run->note + used, used ? "; " : "");
        vsnprintf(run->note + strlen(run->note), sizeof run->note - used - 2, format, arguments);
    }
    va_end(arguments);
}

/* What Python noted: NAME, + or -, and what was changed, or why nothing was. */
static void read_notes(struct vt_trial *run)
{
    static char lines[MOST_NOTES][NOTE_BYTES];
    char *copy = vt_copy_text(getenv("VRAMTRACE_DRYRUN_TRY") ? getenv("VRAMTRACE_DRYRUN_TRY") : "");
    const size_t line_count = read_lines(getenv("VRAMTRACE_DRYRUN_NOTES"), lines);

    for (char *rest = copy, *change; (change = strsep(&rest, ","));) {
        const int bytes = (int)strcspn(change, "=");
        const char *why = "", *what = "";
        unsigned count = 0;

        if (!bytes)
            continue;
        for (size_t i = 0; i < line_count; i++) {
            const char *text = lines[i] + bytes;

            if (strncmp(lines[i], change, (size_t)bytes) || strlen(text) < 3 || *text != '\t')
                continue;
            count += text[1] == '+';
            *(text[1] == '+' ? &what : &why) = text + 3;
        }
        run->count += count;
        if (!count)
            add_note(run, "%.*s: nothing to change%s%s", bytes, change, why[0] ? ": " : "", why);
        else if (strstr(what, ", was "))
            add_note(run, "%.*s: %s", bytes, change, what);
    }
    free(copy);
}

bool vt_trials_say_nothing(void)
{
    return runs.is_child && !is_first();
}

void vt_trials_note(const struct vt_dry_outcome *outcome)
{
    struct vt_trial *run = &runs.items[runs.count - 1];

    if (!runs.is_child)
        return;
    run->outcome = *outcome;
    read_notes(run);
}

/* Its own words and environment; a trial's output goes to `log`, its traces to `place` or away. */
static int be_the_run(const struct vt_trial *run, bool ample, const char *place, int log)
{
    char **words;
    int result = runs.wanted->begin(ample);

    if (result)
        return result;
    words = vt_apply_changes(run->changes, runs.words);
    if (!is_first()) {
        char *away = vt_print_text("%s/", getenv("VRAMTRACE_STANDIN_ROOMS"));

        vt_run_set("VRAMTRACE_OUT", place ? place : away, true);
        free(away);
        dup2(log, 1);
        dup2(log, 2);
    }
    return vt_run_start(runs.runner, words);
}

/* ---- Runs ---- */

/* The command passes on what it gets itself. */
static void pass_on(int number)
{
    was_stopped = number;
    if (child_pid > 0 && number != SIGINT) /* the terminal sends that to all */
        kill(child_pid, number);
}

static void read_last_line(int log, char *line, size_t bytes)
{
    char text[LOG_BYTES + 1];
    const off_t length = lseek(log, 0, SEEK_END);
    const off_t from = length > LOG_BYTES ? length - LOG_BYTES : 0;
    const ssize_t count = pread(log, text, LOG_BYTES, from);
    const char *found = "";

    text[count > 0 ? count : 0] = '\0';
    for (char *rest = text, *one; (one = strsep(&rest, "\n"));)
        if (one[0] && one[0] != ' ' && strncmp(one, "vramtrace", 9))
            found = one;
    snprintf(line, bytes, "%s", found);
}

/* The folder of a trial's traces and output, in that of the first run: kept of a trial's runs is the first.
 * The caller frees it; NULL: there is none. */
static char *make_place(const struct vt_trial *run, bool ample)
{
    const char *out = getenv("VRAMTRACE_OUT");
    const size_t bytes = out ? strlen(out) : 0;
    char *place;

    if (!run->changes[0] || !(runs.wanted->fit || ample == runs.items[0].outcome.ran_out) || !bytes ||
        out[bytes - 1] != '/')
        return NULL;
    place = vt_print_text("%s%s/", out, run->changes);
    for (char *at = place + bytes; *at && at[1]; at++)
        *at = *at == '/' ? '_' : *at;
    if (mkdir(place, 0777) && errno != EEXIST)
        vt_say("%s: %s", place, strerror(errno));
    return place;
}

static int open_log(const char *place)
{
    char *path = place ? vt_print_text("%soutput.txt", place) : NULL;
    const int file = path ? open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0666) : -1;

    free(path);
    return file < 0 ? memfd_create("output", MFD_CLOEXEC) : file;
}

static int run_in_child(struct vt_trial *run, bool ample)
{
    char *place = make_place(run, ample);
    const int log = open_log(place);

    child_pid = fork();
    if (child_pid < 0)
        return vt_wrong_use("cannot start a process: %s", strerror(errno));
    if (!child_pid) {
        runs.is_child = true;
        _exit(be_the_run(run, ample, place, log));
    }
    free(place);
    while (waitpid(child_pid, &run->status, 0) < 0 && errno == EINTR)
        ;
    child_pid = 0;
    if (vt_trial_failed(run) && !is_first())
        read_last_line(log, run->last_line, sizeof run->last_line);
    close(log);
    return 0;
}

/* The next one, whose changes are these. */
static struct vt_trial *run_next(const char *changes, bool ample)
{
    struct vt_trial *trial = &runs.items[runs.count++];

    *trial = (struct vt_trial){.count = 0};
    snprintf(trial->changes, sizeof trial->changes, "%s", changes);
    if (run_in_child(trial, ample))
        trial->outcome.told = false;
    trial->need_known = trial->outcome.told && !trial->outcome.ran_out;
    trial->used_bytes = trial->outcome.used_bytes;
    trial->needed_bytes = trial->outcome.needed_bytes;
    return trial;
}

/* Where the GPU is too small, again on a larger one: what it would need, what is proposed and what was
 * changed later than where it ran out. */
static void learn_need(struct vt_trial *trial)
{
    const struct vt_dry_outcome ran_out = trial->outcome;
    const int status = trial->status;

    vt_say("run %zu%s%s, on a larger GPU, to learn how much it needs", runs.count,
           trial->changes[0] ? ": " : "", trial->changes);
    *trial = *run_next(trial->changes, true);
    runs.count--;
    runs.takes_all = trial->outcome.pool_tokens > 0;
    if (runs.takes_all) {
        trial->outcome = ran_out;
        trial->status = status;
        trial->need_known = false;
        return;
    }
    trial->outcome.ran_out = true;
    trial->outcome.total_bytes = ran_out.total_bytes;
    if (!trial->outcome.proposals[0][0])
        memcpy(trial->outcome.proposals, ran_out.proposals, sizeof ran_out.proposals);
}

/* If the program as it is ran out, a larger GPU says at once what it needs. Between what its tensors need and
 * what is reserved for them, the allocator may do with less: only then is the given GPU tried. */
static struct vt_trial *try_ample(const char *changes)
{
    const uint64_t total_bytes = runs.items[0].outcome.total_bytes;
    struct vt_trial *trial = run_next(changes, true), *given;
    bool changed;

    trial->outcome.total_bytes = total_bytes;
    trial->outcome.ran_out = trial->outcome.told && trial->needed_bytes > total_bytes;
    changed = trial->count || !trial->note[0];
    if (!trial->outcome.ran_out || !changed || trial->used_bytes >= total_bytes || vt_trial_failed(trial) ||
        was_stopped)
        return trial;
    vt_say("run %zu: %s, on the given GPU", runs.count, changes);
    given = run_next(changes, false);
    if (vt_trial_fits(given))
        *trial = *given;
    runs.count--;
    return trial;
}

const struct vt_trial *vt_trial_with(const char *changes)
{
    struct vt_trial *trial;

    if (runs.count == MOST_RUNS || was_stopped)
        return NULL;
    if (changes[0])
        vt_say("run %zu: %s", runs.count + 1, changes);
    if (runs.count && runs.items[0].outcome.ran_out && !runs.wanted->fit && !runs.takes_all)
        return try_ample(changes);
    trial = run_next(changes, false);
    if (trial->outcome.ran_out && !runs.wanted->fit && !runs.takes_all && !was_stopped)
        learn_need(trial);
    return trial;
}

/* ---- All ---- */

/* Of those that fit: what needs least, or of a server, whose pool takes what is there, what has room for
 * most. */
static const struct vt_trial *find_best(void)
{
    const struct vt_trial *best = NULL;

    for (size_t i = 0; i < runs.count; i++) {
        const struct vt_trial *run = &runs.items[i];

        if (vt_trial_fits(run) && (!best || run->outcome.pool_tokens > best->outcome.pool_tokens ||
                                   (run->outcome.pool_tokens == best->outcome.pool_tokens &&
                                    run->needed_bytes < best->needed_bytes)))
            best = run;
    }
    return best;
}

static void write_json(const char *path, const struct vt_trial *best)
{
    FILE *file = fopen(path, "we");
    const int result = file ? vt_put_trials_json(runs.items, runs.count, best, file) : -errno;

    if (result || fclose(file))
        vt_say("--json %s: %s", path, strerror(result ? -result : errno));
}

static int exit_status(const struct vt_trial *trial)
{
    return WIFEXITED(trial->status) ? WEXITSTATUS(trial->status) : 128 + WTERMSIG(trial->status);
}

int vt_trials_run(const struct vt_trials *trials, const struct vt_runner *runner, char **words)
{
    const struct sigaction action = {.sa_handler = pass_on};
    const struct vt_trial *best, *first;

    runs.wanted = trials;
    runs.runner = runner;
    runs.words = words;
    runs.items = mmap(NULL, (MOST_RUNS + 2) * sizeof *runs.items, PROT_READ | PROT_WRITE,
                      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (runs.items == MAP_FAILED)
        vt_end_out_of_memory();
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    if (trials->fit)
        return trials->search(trials->fit, words, stderr);
    first = vt_trial_with("");
    if (!first)
        return 128 + was_stopped;
    if (vt_trial_failed(first)) {
        vt_say("as it is, %s: nothing was tried", vt_trial_failure(&runs.items[0]));
        return exit_status(first);
    }
    for (size_t i = 0; trials->changes[i]; i++)
        vt_trial_with(trials->changes[i]);
    best = trials->advise ? trials->advise(first, words) : NULL;
    best = best ? best : find_best();
    fputc('\n', stderr);
    vt_put_trials(runs.items, runs.count, best, !trials->advise || trials->changes[0], stderr);
    if (trials->json_path)
        write_json(trials->json_path, best);
    if (was_stopped)
        return 128 + was_stopped;
    return exit_status(first);
}
