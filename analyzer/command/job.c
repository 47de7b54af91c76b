/* report and oom: of a folder or of several traces merged, as those of a job; of one trace by report.c. */
#include "command/command.h"
#include "command/files.h"
#include "job/job.h"
#include "view/json/json.h"
#include "view/text/views.h"

#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/progress.h"
#include "base/task.h"
#include "diagnose/diagnose.h"
#include "vramtrace/format.h"

/* ---- Reading ---- */

#define ERROR_BYTES (2 * PATH_MAX)

/* What the threads share. */
struct reading {
    const struct vt_arguments *arguments;
    bool thinned; /* long traces */
    struct vt_report_options options;
    unsigned findings;
    const struct vt_files *files;
    struct vt_job_process *processes; /* by file */
    char **errors;                    /* by file; NULL = it was read. Owned */
    _Atomic size_t next;
    _Atomic int wrong_use;
    pthread_mutex_t lock; /* of `done` */
    pthread_cond_t one_done;
    size_t done;
};

static int read_one(struct reading *reading, size_t index, char *error)
{
    struct vt_loaded loaded;
    int result = vt_open(reading->files->items[index].path, reading->arguments->rules, reading->thinned,
                         &loaded, error, ERROR_BYTES);

    if (result)
        return result;
    result = vt_try_report(&loaded, &reading->options, reading->findings, &loaded.report, error, ERROR_BYTES);
    if (!result && vt_job_process_read(loaded.report, &reading->processes[index])) {
        snprintf(error, ERROR_BYTES, "out of memory");
        result = VT_EXIT_UNREADABLE;
    }
    vt_unload(&loaded);
    return result;
}

/* Takes one file after the other until all are taken. */
static void *read_files(void *context)
{
    struct reading *reading = context;
    char *error = malloc(ERROR_BYTES);

    for (size_t i; (i = atomic_fetch_add(&reading->next, 1)) < reading->files->count;) {
        int result = error ? read_one(reading, i, error) : VT_EXIT_UNREADABLE;

        if (result == VT_EXIT_WRONG_USE)
            atomic_store(&reading->wrong_use, 1);
        if (result)
            reading->errors[i] = strdup(error ? error : "out of memory");
        pthread_mutex_lock(&reading->lock);
        reading->done++;
        pthread_cond_signal(&reading->one_done);
        pthread_mutex_unlock(&reading->lock);
    }
    free(error);
    return NULL;
}

/* On as many threads as there are processors, each with a trace of its own; this one says how far they are.
 */
static void read_all(struct reading *reading)
{
    pthread_t threads[VT_PROCESSORS_MAXIMUM];
    unsigned started = 0, wanted = vt_processors();
    size_t count = reading->files->count;

    while (started < wanted && started < count &&
           !pthread_create(&threads[started], NULL, read_files, reading))
        started++;
    if (!started)
        read_files(reading);
    vt_progress_begin(true);
    pthread_mutex_lock(&reading->lock);
    while (reading->done < count) {
        vt_progress_tell(VT_WORK_TRACES, reading->done, count);
        pthread_cond_wait(&reading->one_done, &reading->lock);
    }
    pthread_mutex_unlock(&reading->lock);
    vt_progress_end();
    while (started > 0)
        pthread_join(threads[--started], NULL);
}

/* Without the path that it begins with. */
static const char *reason(const char *error, const char *path)
{
    size_t bytes = strlen(path);

    if (strncmp(error, path, bytes) != 0)
        return error;
    return !strncmp(error + bytes, ": ", 2) ? error + bytes + 2
           : error[bytes] == ' '            ? error + bytes + 1
                                            : error;
}

/* Of several traces of one process, such as snapshots, the one with the most events stays; the others get an
 * error. */
static void drop_copies(struct reading *reading, bool *is_copy)
{
    static const uint8_t unknown[sizeof reading->processes->identity];

    for (size_t i = 0; i < reading->files->count; i++)
        for (size_t k = 0; k < i && reading->processes[i].owner; k++) {
            struct vt_job_process *a = &reading->processes[k], *b = &reading->processes[i];
            bool later = b->event_count > a->event_count;
            size_t dropped = later ? k : i;

            if (!a->owner || memcmp(a->identity, b->identity, sizeof unknown) != 0 ||
                !memcmp(a->identity, unknown, sizeof unknown))
                continue;
            if (asprintf(&reading->errors[dropped], "of the same process as %s, which has %s",
                         reading->files->items[later ? i : k].path,
                         a->event_count == b->event_count ? "the same" : "more") < 0)
                reading->errors[dropped] = NULL;
            is_copy[dropped] = true;
            vt_job_process_free(&reading->processes[dropped]);
        }
}

/* What was named, for people, and the job. */
static int make_job(const struct vt_arguments *arguments, struct vt_job_process *processes, size_t count,
                    const struct vt_job_unread *unread, size_t unread_count, struct vt_job **job)
{
    const char *first = arguments->operands[0];
    bool one = arguments->operand_count == 1;
    char *what = NULL;
    int result;

    if (!one && asprintf(&what, "%s and %d more", first, arguments->operand_count - 1) < 0)
        what = NULL;
    result = vt_job_make(what ? what : first, processes, count, unread, unread_count, job);
    if (!result && one)
        (*job)->operand = first;
    free(what);
    return result;
}

/* Moves what was read to the front, says what was not, and makes the job of both. An exit status. */
static int merge(const struct vt_command *command, struct reading *reading, struct vt_job **job)
{
    size_t read = 0, unread_count = 0, count = reading->files->count;
    struct vt_job_unread *unread = calloc(count + 1, sizeof *unread);
    bool *is_copy = calloc(count + 1, sizeof *is_copy);
    int result = -ENOMEM, status = 0;

    if (unread && is_copy)
        drop_copies(reading, is_copy);
    for (size_t i = 0; unread && is_copy && i < count; i++) {
        const char *path = reading->files->items[i].path, *error = reading->errors[i];

        if (reading->processes[i].owner) {
            reading->processes[read++] = reading->processes[i];
            continue;
        }
        unread[unread_count] =
            (struct vt_job_unread){path, error ? reason(error, path) : "out of memory", is_copy[i]};
        if (!is_copy[i]) {
            vt_say(command, "%s: %s", path, unread[unread_count].why);
            status = VT_EXIT_UNREADABLE;
        }
        unread_count++;
    }
    if (unread && is_copy) {
        result = make_job(reading->arguments, reading->processes, read, unread, unread_count, job);
        reading->processes = NULL;
    }
    free(unread);
    free(is_copy);
    if (result) {
        vt_say(command, "out of memory");
        return VT_EXIT_UNREADABLE;
    }
    return reading->wrong_use ? VT_EXIT_WRONG_USE : status;
}

/* ---- Printing ---- */

/* The page of the trace that memory ran out in first. */
static int print_first(const struct vt_command *command, const struct vt_arguments *arguments,
                       const struct vt_job *job, struct vt_output *output)
{
    const struct vt_view_style style = vt_style(arguments, output);
    struct vt_loaded loaded;
    char error[512];
    int result;

    if (!job->fall_count)
        return 0;
    result = vt_open(job->processes[job->falls[0].process].path, arguments->rules, !arguments->all_events,
                     &loaded, error, sizeof error);
    if (result)
        return result;
    result = vt_report_page(command, arguments, &loaded, &style, output->stream, NULL, error, sizeof error);
    vt_unload(&loaded);
    return result;
}

static int print(const struct vt_command *command, const struct vt_arguments *arguments,
                 const struct vt_job *job, struct vt_output *output)
{
    bool oom = command->bit == 1u << VT_COMMAND_OOM;
    const struct vt_view_style style = vt_style(arguments, output);
    int result;

    if (arguments->json) {
        result = vt_json_write(oom ? &vt_job_oom_document : &vt_job_document, job,
                               &(struct vt_json_style){.top = arguments->top}, output->stream);
        return vt_written(command, output, result);
    }
    vt_pager_begin(command, arguments, output);
    result = vt_written(command, output, (oom ? vt_text_job_oom : vt_text_job)(job, &style, output->stream));
    return !result && oom ? print_first(command, arguments, job, output) : result;
}

/* ---- The command ---- */

static bool is_job(const struct vt_arguments *arguments)
{
    bool any = arguments->operand_count > 1;

    for (int i = 0; i < arguments->operand_count; i++)
        any |= vt_is_folder(arguments->operands[i]);
    return any;
}

/* Options that mean something for one trace only. */
static const char *option_of_one(const struct vt_arguments *arguments)
{
    return arguments->at            ? "--at"
           : arguments->explain     ? "--explain"
           : arguments->by >= 0     ? "--by"
           : arguments->device >= 0 ? "--device"
           : arguments->depth       ? "--depth"
           : arguments->axis >= 0   ? "--axis"
           : arguments->from        ? "--from"
           : arguments->to          ? "--to"
                                    : NULL;
}

static int report_merged(const struct vt_command *command, struct vt_arguments *arguments,
                         struct vt_output *output, const struct vt_files *files)
{
    bool oom = command->bit == 1u << VT_COMMAND_OOM;
    struct reading reading = {
        .arguments = arguments,
        .thinned = !arguments->all_events,
        .options = {.device_index = -1,
                    .groups = 1u << VT_BY_MODULE | 1u << VT_BY_LINE,
                    .shown_only = true,
                    .oom = oom ? VT_AT_OOM_ONLY : VT_AT_OOM_NEVER,
                    .timeline_columns = VT_JOB_OWN_COLUMNS,
                    .axis = VT_AXIS_TIME},
        .findings = VT_FIND_LEAKS,
        .files = files,
        .processes = calloc(files->count + 1, sizeof *reading.processes),
        .errors = calloc(files->count + 1, sizeof *reading.errors),
        .lock = PTHREAD_MUTEX_INITIALIZER,
        .one_done = PTHREAD_COND_INITIALIZER,
    };
    struct vt_job *job = NULL;
    int status = VT_EXIT_UNREADABLE;

    if (reading.processes && reading.errors) {
        read_all(&reading);
        status = merge(command, &reading, &job);
    } else {
        vt_say(command, "out of memory");
    }
    if (job && job->process_count) {
        int printed = print(command, arguments, job, output);

        status = printed > status ? printed : status;
    }
    for (size_t i = 0; reading.errors && i < files->count; i++)
        free(reading.errors[i]);
    free(reading.errors);
    free(reading.processes);
    vt_job_free(job);
    return status;
}

int vt_command_job(const struct vt_command *command, struct vt_arguments *arguments, struct vt_output *output)
{
    const char *option = arguments->each ? NULL : option_of_one(arguments);
    struct vt_files files = {.once = true};
    int status;

    if (!is_job(arguments))
        return vt_command_report(command, arguments, output);
    if (option)
        return vt_wrong_use(command,
                            "%s is about one trace: name one, or add --each for a %s of each trace by itself",
                            option, command->name);
    if (arguments->each) {
        files.once = false;
        status = vt_files_to_operands(command, arguments, &files);
        if (!status)
            status = vt_command_report(command, arguments, output);
    } else {
        status = vt_files_find(command, arguments, &files);
        if (!status)
            status = report_merged(command, arguments, output, &files);
    }
    vt_files_free(&files);
    return status;
}
