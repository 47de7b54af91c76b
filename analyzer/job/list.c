/* From a brief job to one row for each of its runs. */
#include "job/list.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/allocate.h"
#include "base/index.h"
#include "base/memory_stream.h"
#include "base/sort.h"
#include "job/job.h"
#include "report/list.h"

/* What is worth mentioning in a run. */
struct verdict {
    const struct vt_job_process *fell; /* memory ran out, and ended it; NULL = in none */
    const struct vt_job_refusal *last; /* of that one, else of one that continued; NULL = none */
    const struct vt_job_process *odd;  /* the first whose trace is not complete; NULL = all are */
};

static void judge_process(const struct vt_job_process *process, struct verdict *verdict)
{
    const struct vt_job_refusal *last =
        !process->head_only && process->refusal_count ? &process->refusals[process->refusal_count - 1] : NULL;

    if (last && last->ends_run && !verdict->fell)
        verdict->fell = process;
    if (last && (!verdict->last || verdict->fell == process))
        verdict->last = last;
    if (!process->complete && !verdict->odd)
        verdict->odd = process;
}

static const char *without_incomplete(const char *outcome)
{
    static const char prefix[] = "incomplete: ";

    return strncmp(outcome, prefix, sizeof prefix - 1) ? outcome : outcome + sizeof prefix - 1;
}

static void put_where(FILE *out, const char *before, const struct vt_job_process *process, bool alone)
{
    if (!alone && process->rank >= 0)
        fprintf(out, "%srank %d", before, process->rank);
    else if (!alone)
        fprintf(out, "%spid %u", before, process->pid);
}

/* In words; the caller frees it. */
static char *outcome_of(const struct vt_list_row *row, const struct verdict *verdict)
{
    const bool alone = row->trace_count == 1;
    const char *odd = verdict->odd ? without_incomplete(verdict->odd->outcome) : "complete";
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = vt_memory_stream(&text, &bytes);

    if (verdict->fell && verdict->last->step)
        fprintf(out, "OUT OF MEMORY at step %u", verdict->last->step);
    else if (verdict->fell)
        fputs("OUT OF MEMORY", out);
    else
        fputs(odd, out);
    if (verdict->fell)
        put_where(out, ", ", verdict->fell, alone);
    else if (verdict->odd)
        put_where(out, ": ", verdict->odd, alone);
    if (!verdict->fell && verdict->last)
        fputs(", ran out of memory but continued", out);
    if (row->missing)
        fprintf(out, ", %zu rank%s missing", row->missing, row->missing == 1 ? "" : "s");
    if (!row->examined)
        fputs(", not examined", out);
    fclose(out);
    return text;
}

static void add_trace(struct vt_list_row *row, const struct vt_job_process *process, struct verdict *verdict)
{
    struct vt_list_trace *trace = &row->traces[row->trace_count++];
    const uint64_t end_ns = process->end_ns + process->start_realtime_ns - process->start_ns;

    *trace = (struct vt_list_trace){.path = process->path,
                                    .host = process->host,
                                    .outcome = without_incomplete(process->outcome),
                                    .pid = process->pid,
                                    .rank = process->rank,
                                    .examined = !process->head_only,
                                    .event_count = process->event_count,
                                    .refusals = process->refusals,
                                    .refusal_count = process->refusal_count};
    for (size_t i = 0; i < process->device_count; i++) {
        if (!row->gpu[0])
            row->gpu = process->devices[i].name;
        if (process->devices[i].peak.used_bytes > trace->peak_bytes)
            trace->peak_bytes = process->devices[i].peak.used_bytes;
    }
    row->peak_bytes = trace->peak_bytes > row->peak_bytes ? trace->peak_bytes : row->peak_bytes;
    row->examined &= trace->examined;
    if (process->start_realtime_ns < row->start_realtime_ns)
        row->start_realtime_ns = process->start_realtime_ns;
    if (end_ns > row->start_realtime_ns + row->duration_ns)
        row->duration_ns = end_ns - row->start_realtime_ns;
    judge_process(process, verdict);
}

/* Bytes of the path up to its last slash, with it. */
static size_t folder_bytes(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash ? (size_t)(slash + 1 - path) : 0;
}

/* Whether all traces of the run lie in the folder of its first one, which has no others. */
static bool has_own_folder(const struct vt_job *job, const struct vt_list_row *row, uint32_t run)
{
    const char *first = row->traces[0].path;
    size_t bytes = folder_bytes(first);

    for (size_t i = 0; i < job->process_count; i++) {
        const struct vt_job_process *process = &job->processes[i];
        const bool inside = !strncmp(process->path, first, bytes);

        if (inside != (process->run == run))
            return false;
    }
    return bytes > 0;
}

static char *name_of(const struct vt_job *job, const struct vt_list_row *row, uint32_t run)
{
    const char *first = row->traces[0].path;

    if (row->trace_count == 1)
        return vt_copy_text(first);
    if (has_own_folder(job, row, run))
        return vt_copy_bytes(first, folder_bytes(first));
    return vt_print_text("%s +%zu", first, row->trace_count - 1);
}

static void make_row(const struct vt_job *job, size_t first, size_t end, size_t missing,
                     struct vt_list_row *row)
{
    struct verdict verdict = {NULL, NULL, NULL};
    const struct vt_job_process *process = &job->processes[first];

    row->command = process->command;
    row->gpu = "";
    row->start_realtime_ns = process->start_realtime_ns;
    row->missing = missing;
    row->examined = true;
    for (size_t i = first; i < end; i++)
        add_trace(row, &job->processes[i], &verdict);
    row->out_of_memory = verdict.fell != NULL;
    row->outcome = outcome_of(row, &verdict);
    row->name = name_of(job, row, process->run);
}

static int newest_first(const void *left, const void *right)
{
    const struct vt_list_row *a = left, *b = right;
    int order = vt_order(b->start_realtime_ns, a->start_realtime_ns);

    return order ? order : strcmp(a->traces[0].path, b->traces[0].path);
}

void vt_list_make(const struct vt_job *job, struct vt_list *list)
{
    *list = (struct vt_list){.rows = vt_allocate_zeros(job->run_count + 1, sizeof *list->rows),
                             .traces = vt_allocate_zeros(job->process_count + 1, sizeof *list->traces),
                             .copies = job->copy_count};
    for (size_t i = 0, end; i < job->process_count; i = end) {
        struct vt_list_row *row = &list->rows[list->row_count];
        const size_t missing = job->runs[list->row_count].missing_count;

        for (end = i; end < job->process_count && job->processes[end].run == job->processes[i].run;)
            end++;
        row->traces = list->traces + i;
        make_row(job, i, end, missing, row);
        list->row_count++;
        list->unexamined += !row->examined;
    }
    vt_sort(list->rows, list->row_count, sizeof *list->rows, newest_first);
}

void vt_list_free(struct vt_list *list)
{
    for (size_t i = 0; i < list->row_count; i++) {
        free(list->rows[i].name);
        free(list->rows[i].outcome);
    }
    free(list->rows);
    free(list->traces);
    *list = (struct vt_list){.rows = NULL};
}
