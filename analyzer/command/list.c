/* list: the traces here, one row for each run. */
#include "command/job_traces.h"
#include "command/load.h"
#include "command/pager.h"
#include "command/traces.h"
#include "job/job.h"
#include "job/list.h"
#include "view/json/json.h"
#include "view/text/views.h"

#include <stdlib.h>
#include <string.h>

/* The newest traces are read that have no more than that many times vt_budget_events() events together, which
 * takes some seconds; of the others, who was recorded. */
#define TRACES_READ 5

struct found {
    const char *path;
    uint64_t start_ns, events;
};

/* What a damaged header says cannot be in the file. */
static struct found look_at(const char *path)
{
    struct vt_file_header header;
    struct stat status = {.st_size = 0};
    struct found found = {.path = path + (!strncmp(path, "./", 2) ? 2 : 0)};

    found.start_ns = vt_read_start(path, &status, &header);
    found.events = header.counters.events;
    if (found.events / VT_EVENTS_PER_BYTE > (uint64_t)status.st_size)
        found.events = (uint64_t)status.st_size * VT_EVENTS_PER_BYTE;
    return found;
}

static int newest_first(const void *left, const void *right)
{
    const struct found *a = left, *b = right;

    if (a->start_ns != b->start_ns)
        return a->start_ns > b->start_ns ? -1 : 1;
    return strcmp(a->path, b->path);
}

/* A brief job of all these traces. */
static int read_traces(const struct vt_files *files, struct vt_job **job)
{
    struct found *found = vt_allocate_zeros(files->count, sizeof *found);
    const char **paths = vt_allocate_zeros(files->count, sizeof *paths);
    bool *head_only = vt_allocate_zeros(files->count, sizeof *head_only);
    int status;
    uint64_t left = TRACES_READ * vt_budget_events();

    for (size_t i = 0; i < files->count; i++)
        found[i] = look_at(files->items[i].path);
    qsort(found, files->count, sizeof *found, newest_first);
    for (size_t i = 0; i < files->count; i++) {
        paths[i] = found[i].path;
        head_only[i] = found[i].events > left;
        left -= head_only[i] ? 0 : found[i].events;
    }
    status = vt_job_traces_read(
        &(struct vt_job_request){.paths = paths, .count = files->count, .what = "", .brief = head_only}, job);
    free(found);
    free(paths);
    free(head_only);
    return status;
}

static int print_list(const struct vt_arguments *arguments, const struct vt_list *list,
                      struct vt_output *output)
{
    const struct vt_view_style style = vt_style(arguments, output);
    const struct vt_json_style json = {.top = arguments->top};

    vt_pager_begin(arguments, output);
    if (arguments->json)
        vt_json_write(&vt_list_document, list, &json, output->stream);
    else
        vt_text_list(list, &style, output->stream);
    return vt_written(output, 0);
}

static int list_traces(const struct vt_arguments *arguments, const struct vt_files *files,
                       struct vt_output *output)
{
    struct vt_job *job;
    struct vt_list list;
    int unread = read_traces(files, &job), status = 0;

    vt_list_make(job, &list);
    if (list.row_count || arguments->json)
        status = print_list(arguments, &list, output);
    vt_list_free(&list);
    vt_job_free(job);
    return status > unread ? status : unread;
}

int vt_command_list(struct vt_arguments *arguments, struct vt_output *output)
{
    static char *here[] = {".", NULL};
    struct vt_files files = {.once = true, .by_name = !arguments->operand_count};
    int status;

    if (!arguments->operand_count) {
        arguments->operands = here;
        arguments->operand_count = 1;
    }
    status = vt_files_find(arguments, &files);
    if (!status)
        status = list_traces(arguments, &files, output);
    vt_files_free(&files);
    return status;
}
