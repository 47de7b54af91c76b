/* report and oom: of a folder or of several traces merged, as those of a job; of one trace by report.c. */
#include "command/command.h"
#include "job/job.h"
#include "view/json/json.h"
#include "view/text/views.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/index.h"
#include "base/progress.h"
#include "base/task.h"
#include "diagnose/diagnose.h"
#include "vramtrace/format.h"

#define FOLDER_DEPTH 8 /* of folders in folders; links to folders are not followed */

/* ---- Which files ---- */

struct file {
    char *path; /* owned */
    dev_t device;
    ino_t inode;
};
struct files {
    struct file *items;
    size_t count, capacity;
    bool once; /* each file, however often it is named */
    bool failed;
};

static void add_file(struct files *files, const char *path, const struct stat *status)
{
    struct file file = {.device = status->st_dev, .inode = status->st_ino};

    for (size_t i = 0; files->once && status->st_ino && i < files->count; i++)
        if (files->items[i].device == file.device && files->items[i].inode == file.inode)
            return;
    file.path = strdup(path);
    if (!file.path || VT_APPEND(files->items, files->count, files->capacity, file)) {
        free(file.path);
        files->failed = true;
    }
}

static bool has_trace_name(const char *name)
{
    size_t length = strlen(name);

    return length > 4 && !strcmp(name + length - 4, ".vrt");
}

/* One by its first bytes, of a file that is not called one. */
static bool looks_like_trace(int folder, const char *name)
{
    char magic[sizeof(((struct vt_file_header *)0)->magic)] = "";
    int file;

    file = openat(folder, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (file < 0)
        return false;
    if (read(file, magic, sizeof magic) < 0)
        magic[0] = '\0';
    close(file);
    return !memcmp(magic, VT_MAGIC, sizeof magic);
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

/* 0 or an errno. */
static int add_folder(struct files *files, const char *path, int depth)
{
    struct dirent **entries;
    int count = scandir(path, &entries, NULL, by_name),
        folder = count < 0 ? -1 : open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (count < 0)
        return errno;
    for (int i = 0; i < count; i++) {
        const char *name = entries[i]->d_name;
        struct stat status;
        char *inner;

        if (name[0] != '.' && !fstatat(folder, name, &status, AT_SYMLINK_NOFOLLOW)) {
            if (asprintf(&inner, "%s%s%s", path, path[strlen(path) - 1] == '/' ? "" : "/", name) < 0) {
                files->failed = true;
            } else {
                bool is_link = S_ISLNK(status.st_mode) && !fstatat(folder, name, &status, 0);

                if (S_ISDIR(status.st_mode) && !is_link && depth < FOLDER_DEPTH)
                    add_folder(files, inner, depth + 1);
                else if (!S_ISDIR(status.st_mode) &&
                         (has_trace_name(name) ||
                          (S_ISREG(status.st_mode) && looks_like_trace(folder, name))))
                    add_file(files, inner, &status);
                free(inner);
            }
        }
        free(entries[i]);
    }
    free(entries);
    if (folder >= 0)
        close(folder);
    return 0;
}

static void free_files(struct files *files)
{
    for (size_t i = 0; i < files->count; i++)
        free(files->items[i].path);
    free(files->items);
}

static int find_files(const struct vt_command *command, const struct vt_arguments *arguments,
                      struct files *files)
{
    for (int i = 0; i < arguments->operand_count; i++) {
        const char *path = arguments->operands[i];
        size_t before = files->count;
        struct stat status = {0};
        int error;

        if (stat(path, &status) || !S_ISDIR(status.st_mode)) {
            add_file(files, path, &status); /* what is wrong with it, reading it tells */
            continue;
        }
        error = add_folder(files, path, 0);
        if (error || files->count == before) {
            vt_say(command, "%s: %s", path, error ? strerror(error) : "no trace is in this folder");
            return VT_EXIT_UNREADABLE;
        }
    }
    if (!files->failed)
        return 0;
    vt_say(command, "out of memory");
    return VT_EXIT_UNREADABLE;
}

/* ---- Reading ---- */

#define ERROR_BYTES (2 * PATH_MAX)

/* What the threads share. */
struct reading {
    const struct vt_arguments *arguments;
    bool thinned; /* long traces */
    struct vt_report_options options;
    unsigned findings;
    const struct files *files;
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

    for (int i = 0; i < arguments->operand_count; i++) {
        struct stat status;

        any |= !stat(arguments->operands[i], &status) && S_ISDIR(status.st_mode);
    }
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

/* Each file of the operands by itself. */
static int report_each(const struct vt_command *command, struct vt_arguments *arguments,
                       struct vt_output *output, const struct files *files)
{
    char **paths = calloc(files->count + 1, sizeof *paths);
    int status;

    if (!paths) {
        vt_say(command, "out of memory");
        return VT_EXIT_UNREADABLE;
    }
    for (size_t i = 0; i < files->count; i++)
        paths[i] = files->items[i].path;
    arguments->operands = paths;
    arguments->operand_count = (int)files->count;
    status = vt_command_report(command, arguments, output);
    free(paths);
    return status;
}

static int report_merged(const struct vt_command *command, struct vt_arguments *arguments,
                         struct vt_output *output, const struct files *files)
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
        .findings = VT_FIND_LEAKS | VT_FIND_CARD,
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
    struct files files = {.once = !arguments->each};
    int status;

    if (!is_job(arguments))
        return vt_command_report(command, arguments, output);
    if (option)
        return vt_wrong_use(command,
                            "%s is about one trace: name one, or add --each for a %s of each trace by itself",
                            option, command->name);
    status = find_files(command, arguments, &files);
    if (!status)
        status = (arguments->each ? report_each : report_merged)(command, arguments, output, &files);
    free_files(&files);
    return status;
}
