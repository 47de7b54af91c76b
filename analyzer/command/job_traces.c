/* Reads the traces of a job, several at a time. */
#include "command/job_traces.h"
#include "command/load.h"
#include "command/output.h"
#include "command/progress.h"

#include "base/allocate.h"
#include "base/progress.h"
#include "base/task.h"
#include "findings/findings.h"
#include "job/job.h"
#include "job/oom_order.h"
#include "job/process.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* What the threads share. */
struct reading {
    const struct vt_job_request *request;
    struct vt_report_options options;
    unsigned findings;
    size_t count;
    const char **paths;
    const uint64_t
        *own_ns; /* by trace: the moment that it shows, since it began; NULL = as the options say */
    struct vt_job_process *processes; /* by trace */
    char **errors;                    /* by trace; NULL = it was read. Owned */
    _Atomic size_t next;
    _Atomic int wrong_use;
    pthread_mutex_t lock; /* of `done` */
    pthread_cond_t one_done;
    size_t done;
};

static void end_reading(struct reading *reading)
{
    for (size_t i = 0; reading->processes && i < reading->count; i++)
        vt_job_process_free(&reading->processes[i]);
    for (size_t i = 0; i < reading->count; i++)
        free(reading->errors[i]);
    free(reading->errors);
    free(reading->processes);
    free(reading->paths);
}

static void begin_reading(struct reading *reading, const struct vt_job_request *request, size_t count)
{
    *reading = (struct reading){.request = request,
                                .options = {.device_index = -1,
                                            .groups = 1u << VT_BY_MODULE | 1u << VT_BY_LINE,
                                            .shown_only = true,
                                            .axis = VT_AXIS_TIME},
                                .count = count,
                                .paths = vt_allocate_zeros(count, sizeof *reading->paths),
                                .processes = vt_allocate_zeros(count, sizeof *reading->processes),
                                .errors = vt_allocate_zeros(count, sizeof *reading->errors),
                                .lock = PTHREAD_MUTEX_INITIALIZER,
                                .one_done = PTHREAD_COND_INITIALIZER};
}

static int read_one(struct reading *reading, size_t index)
{
    const bool *brief = reading->request->brief;
    char **error = &reading->errors[index], at[32];
    struct vt_report_options options = reading->options;
    struct vt_loaded loaded = {.rules = reading->request->rules, .head_only = brief && brief[index]};
    int result = vt_open(reading->paths[index], &loaded, error);

    if (result)
        return result;
    if (reading->own_ns) {
        snprintf(at, sizeof at, "%" PRIu64 "ns", reading->own_ns[index]);
        options.at = at;
        result = vt_reach(&loaded, &options, error);
    }
    if (!result)
        result = vt_try_report(&loaded, &options, reading->findings, &loaded.report, error);
    if (!result && brief)
        vt_job_process_read_brief(loaded.report, brief[index], &reading->processes[index]);
    else if (!result)
        vt_job_process_read(loaded.report, &reading->processes[index]);
    vt_unload(&loaded);
    return result;
}

/* Takes one trace after the other until all are taken. */
static void *read_traces(void *context)
{
    struct reading *reading = context;

    for (size_t i; (i = atomic_fetch_add(&reading->next, 1)) < reading->count;) {
        if (read_one(reading, i) == VT_EXIT_WRONG_USE)
            atomic_store(&reading->wrong_use, 1);
        pthread_mutex_lock(&reading->lock);
        reading->done++;
        pthread_cond_signal(&reading->one_done);
        pthread_mutex_unlock(&reading->lock);
    }
    return NULL;
}

/* On as many threads as there are processors, one trace per thread; this thread reports the progress. */
static void read_all(struct reading *reading)
{
    pthread_t threads[VT_PROCESSORS_MAXIMUM];
    unsigned started = 0, wanted = vt_processors();
    size_t count = reading->count;

    while (started < wanted && started < count &&
           !vt_thread_begin(&threads[started], read_traces, reading))
        started++;
    if (!started)
        read_traces(reading);
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
static const char *without_path(const char *error, const char *path)
{
    size_t bytes = strlen(path);

    if (strncmp(error, path, bytes) != 0)
        return error;
    return !strncmp(error + bytes, ": ", 2)     ? error + bytes + 2
           : !strncmp(error + bytes, " is ", 4) ? error + bytes + 4
           : error[bytes] == ' '                ? error + bytes + 1
                                                : error;
}

/* If several traces are of one process, such as snapshots, the one with the most events stays; the others get
 * an error. */
static void drop_copies(struct reading *reading, bool *is_copy)
{
    static const uint8_t unknown[sizeof reading->processes->identity];

    for (size_t i = 0; i < reading->count; i++)
        for (size_t k = 0; k < i && reading->processes[i].owner; k++) {
            struct vt_job_process *a = &reading->processes[k], *b = &reading->processes[i];
            bool later = b->event_count > a->event_count;
            size_t dropped = later ? k : i;

            if (!a->owner || memcmp(a->identity, b->identity, sizeof unknown) != 0 ||
                !memcmp(a->identity, unknown, sizeof unknown))
                continue;
            reading->errors[dropped] = vt_print_text(
                "a trace of the same process as %s, which has %s", reading->paths[later ? i : k],
                a->event_count == b->event_count ? "as many events" : "more events");
            is_copy[dropped] = true;
            vt_job_process_free(&reading->processes[dropped]);
        }
}

/* Moves what was read to the front, lists what was not, and makes the job of both. */
static struct vt_job *make_job(struct reading *reading)
{
    size_t read = 0, unread_count = 0;
    struct vt_job_unread *unread = vt_allocate_zeros(reading->count, sizeof *unread);
    bool *is_copy = vt_allocate_zeros(reading->count, sizeof *is_copy);
    struct vt_job *job;

    drop_copies(reading, is_copy);
    for (size_t i = 0; i < reading->count; i++) {
        const char *path = reading->paths[i];

        if (reading->processes[i].owner)
            reading->processes[read++] = reading->processes[i];
        else
            unread[unread_count++] =
                (struct vt_job_unread){path, without_path(reading->errors[i], path), is_copy[i]};
    }
    job = vt_job_make(reading->request->what, reading->processes, read, unread, unread_count,
                      reading->request->brief);
    reading->processes = NULL;
    free(unread);
    free(is_copy);
    return job;
}

/* Reads the neighbours of the first process that ran out of memory again, at that moment: which moment that
 * is was not known before. */
static void read_neighbours(const struct vt_job_request *request, struct vt_job *job)
{
    uint64_t *own_ns = vt_allocate_zeros(job->neighbour_count, sizeof *own_ns);
    struct reading reading;

    begin_reading(&reading, request, job->neighbour_count);
    reading.own_ns = own_ns;
    reading.options.timeline_columns = VT_NO_TIMELINE;
    for (size_t i = 0; i < reading.count; i++) {
        own_ns[i] = job->neighbours[i].own_ns;
        reading.paths[i] = job->processes[job->neighbours[i].process].path;
    }
    read_all(&reading);
    for (size_t i = 0; i < reading.count; i++) {
        job->neighbours[i].then = reading.processes[i];
        reading.processes[i] = (struct vt_job_process){.owner = NULL};
    }
    end_reading(&reading);
    free(own_ns);
    vt_job_compare_first(job);
}

static int say_unread(const struct vt_job *job)
{
    int status = 0;

    for (size_t i = 0; i < job->unread_count; i++)
        if (!job->unread[i].is_copy) {
            vt_say("%s: %s", job->unread[i].path, job->unread[i].why);
            status = VT_EXIT_UNREADABLE;
        }
    return status;
}

int vt_job_traces_read(const struct vt_job_request *request, struct vt_job **job)
{
    struct reading reading;
    int status;

    begin_reading(&reading, request, request->count);
    memcpy(reading.paths, request->paths, request->count * sizeof *reading.paths);
    reading.options.oom = request->oom ? VT_AT_OOM_ONLY : VT_AT_OOM_NEVER;
    reading.options.timeline_columns = request->brief ? VT_NO_TIMELINE : VT_JOB_OWN_COLUMNS;
    reading.options.groups = request->brief ? VT_NO_GROUPS : reading.options.groups;
    reading.findings = request->brief ? 0 : VT_FIND_LEAKS | VT_FIND_CARD;
    read_all(&reading);
    *job = make_job(&reading);
    if (request->oom && (*job)->fall_count)
        read_neighbours(request, *job);
    end_reading(&reading);
    status = say_unread(*job);
    return reading.wrong_use ? VT_EXIT_WRONG_USE : status;
}
