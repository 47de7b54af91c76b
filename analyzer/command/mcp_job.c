/* The job that a trace is of: which traces were recorded at its time, and what they are together. */
#include "command/job_traces.h"
#include "command/mcp.h"
#include "job/job.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/index.h"
#include "vramtrace/format.h"

/* Clocks of nodes differ, and ranks begin to use their cards at different times. */
#define SLACK_NS UINT64_C(60000000000)

/* A trace of the job. */
struct member {
    char *path;
    struct stat status;
    uint64_t start_ns, end_ns; /* since 1970 */
    uint64_t apart_ns;         /* of its start and the named trace's */
};

struct vt_mcp_job {
    struct vt_job *job;
    struct member *members; /* by how near they began to the named one */
    size_t count, capacity, left_out, forbidden;
    bool oom, is_over; /* is_over: none of them is recorded any more */
};

static void clear(struct vt_mcp_job *found)
{
    vt_job_free(found->job);
    for (size_t i = 0; i < found->count; i++)
        free(found->members[i].path);
    free(found->members);
    *found = (struct vt_mcp_job){.job = NULL};
}

void vt_mcp_job_free(struct vt_mcp_traces *traces)
{
    if (traces->job)
        clear(traces->job);
    free(traces->job);
    traces->job = NULL;
}

/* When a trace was recorded. Where its end is not known, the file's last change; false = it is no trace. */
static bool read_times(const char *path, struct member *member)
{
    struct vt_file_header header = {.start_realtime_ns = 0};
    int file;

    member->start_ns = vt_trace_start(path, &member->status);
    if (!member->start_ns)
        return false;
    member->end_ns = (uint64_t)member->status.st_mtim.tv_sec * 1000000000u;
    file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (file >= 0 && pread(file, &header, sizeof header, 0) == sizeof header &&
        header.end_monotonic_ns > header.start_monotonic_ns)
        member->end_ns = member->start_ns + (header.end_monotonic_ns - header.start_monotonic_ns);
    if (file >= 0)
        close(file);
    if (member->end_ns < member->start_ns)
        member->end_ns = member->start_ns;
    return true;
}

static bool at_one_time(const struct member *a, const struct member *b)
{
    return a->start_ns <= b->end_ns + SLACK_NS && b->start_ns <= a->end_ns + SLACK_NS;
}

static int by_nearness(const void *left, const void *right)
{
    const struct member *a = left, *b = right;

    return a->apart_ns != b->apart_ns ? vt_order(a->apart_ns, b->apart_ns) : strcmp(a->path, b->path);
}

/* Keeps those that may be read, the nearest first. */
static void limit(struct vt_mcp_job *found)
{
    uint64_t bytes = 0;
    size_t kept = 0;

    if (found->count)
        qsort(found->members, found->count, sizeof *found->members, by_nearness);
    while (kept < found->count) {
        bytes += (uint64_t)found->members[kept].status.st_size;
        if (kept && bytes > VT_MCP_READ_AT_ONCE)
            break;
        kept++;
    }
    found->left_out = found->count - kept;
    while (found->count > kept)
        free(found->members[--found->count].path);
}

/* All traces of the time of the one at `path`. */
static int find_members(const struct vt_mcp_traces *traces, const char *path, struct vt_mcp_job *found)
{
    struct vt_mcp_list list = {.items = NULL};
    struct member named;
    int result = read_times(path, &named) ? vt_mcp_list_make(traces, &list) : -EINVAL;

    for (size_t i = 0; !result && i < list.count; i++) {
        struct member member;

        if (!read_times(list.items[i].path, &member) || !at_one_time(&member, &named))
            continue;
        member.apart_ns = member.start_ns > named.start_ns ? member.start_ns - named.start_ns
                                                           : named.start_ns - member.start_ns;
        member.path = strdup(list.items[i].path);
        result = member.path ? VT_APPEND(found->members, found->count, found->capacity, member) : -ENOMEM;
        if (result)
            free(member.path);
    }
    found->forbidden = list.forbidden;
    vt_mcp_list_free(&list);
    limit(found);
    return result;
}

static bool is_same(const struct vt_mcp_job *a, const struct vt_mcp_job *b)
{
    bool same = a->count == b->count && a->oom == b->oom && a->is_over && a->forbidden == b->forbidden;

    for (size_t i = 0; same && i < a->count; i++)
        same = !strcmp(a->members[i].path, b->members[i].path) &&
               vt_mcp_same_file(&a->members[i].status, &b->members[i].status);
    return same;
}

/* As the server's other answers call the traces. */
static void name_traces(const struct vt_mcp_traces *traces, struct vt_job *job)
{
    for (size_t i = 0; i < job->process_count; i++)
        job->processes[i].path = vt_mcp_name(traces, job->processes[i].path);
    for (size_t i = 0; i < job->unread_count; i++)
        job->unread[i].path = vt_mcp_name(traces, job->unread[i].path);
}

static int read_members(const struct vt_mcp_traces *traces, struct vt_mcp_job *found)
{
    const char **paths = calloc(found->count + 1, sizeof *paths);

    if (!paths)
        return -ENOMEM;
    for (size_t i = 0; i < found->count; i++)
        paths[i] = found->members[i].path;
    vt_job_traces_read(
        &(struct vt_job_request){.paths = paths, .count = found->count, .what = "", .oom = found->oom},
        &found->job);
    free(paths);
    if (!found->job)
        return -ENOMEM;
    found->is_over = true;
    for (size_t i = 0; i < found->job->process_count; i++)
        found->is_over &= found->job->processes[i].ended;
    name_traces(traces, found->job);
    return 0;
}

const struct vt_job *vt_mcp_job_read(struct vt_mcp_traces *traces, const char *name, bool oom,
                                     size_t *left_out, size_t *forbidden, char *error, size_t error_bytes)
{
    char *path = vt_mcp_find(traces, name, error, error_bytes);
    struct vt_mcp_job found = {.oom = oom};
    int result;

    if (!path)
        return NULL;
    snprintf(error, error_bytes, "out of memory");
    traces->job = traces->job ? traces->job : calloc(1, sizeof *traces->job);
    result = traces->job ? find_members(traces, path, &found) : -ENOMEM;
    if (result == -EINVAL)
        snprintf(error, error_bytes, "%s is no trace", vt_mcp_name(traces, path));
    free(path);
    if (!result && !is_same(traces->job, &found)) {
        clear(traces->job);
        result = read_members(traces, &found);
        *traces->job = found;
        found = (struct vt_mcp_job){.job = NULL};
    }
    clear(&found);
    *left_out = result ? 0 : traces->job->left_out;
    *forbidden = result ? 0 : traces->job->forbidden;
    if (result)
        return NULL;
    if (traces->job->job->process_count)
        return traces->job->job;
    snprintf(error, error_bytes, "none of the %zu traces of that time can be read: %s", traces->job->count,
             traces->job->job->unread_count ? traces->job->job->unread[0].why : "there is none");
    return NULL;
}
