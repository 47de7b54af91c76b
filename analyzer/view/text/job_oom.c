/* Out of memory in a job: which process failed first, how it differed from its neighbours, and which failed
 * because of it. */
#include "base/index.h"
#include "view/text/job_parts.h"
#include "view/text/table.h"
#include "view/text/views.h"

#include <stdlib.h>
#include <string.h>

#define ROWS 16u
#define HOLDERS 6u

static void put_refusal(struct vt_print *print, const struct vt_job *job)
{
    const struct vt_job_fall *fall = &job->falls[0];
    const struct vt_job_process *process = &job->processes[fall->process];
    const struct vt_job_refusal *refusal = fall->refusal;
    FILE *out = print->paragraph;

    fprintf(out,
            VT_ALARM "✗ OUT OF MEMORY" VT_RESET " first in " VT_BOLD "%s" VT_RESET " (%s), %s after start",
            process->label, process->path, VT_DURATION(fall->t_ns));
    if (refusal->step)
        fprintf(out, ", at step %u, in %s", refusal->step, vt_phase_name(refusal->phase));
    fputs(": ", out);
    vt_put_clean(refusal->asker, out);
    fprintf(out, " requested " VT_BOLD "%s" VT_RESET, VT_BYTES(refusal->asked_bytes));
    if (refusal->free_known)
        fprintf(out, ", at most %s free", VT_BYTES(refusal->free_bytes));
    fputc('.', out);
    vt_end_paragraph(print, 0, 2);
}

/* "ranks 0, 1, 3" */
static void put_who(FILE *out, const struct vt_job *job)
{
    uint32_t *members = vt_allocate_zeros(job->neighbour_count, sizeof *members);

    for (size_t i = 0; i < job->neighbour_count; i++)
        members[i] = job->neighbours[i].process;
    fputs(VT_JOB_RANKS(job, members, job->neighbour_count), out);
    free(members);
}

static void put_neighbours(struct vt_print *print, const struct vt_job *job)
{
    const struct vt_job_odd *odd = job->first_odd;
    FILE *out = print->paragraph;
    uint64_t apart;

    if (!job->first_odd_count) {
        vt_print_paragraph(print, 0, 2, "No comparable process: no other one did the same work then.");
        return;
    }
    apart = vt_distance(odd->bytes, odd->usual_bytes);
    fprintf(out, "It held %s. At that moment ", VT_BYTES(odd->bytes));
    put_who(out, job);
    fprintf(out, ", with the same work, held %s", VT_BYTES(odd->usual_bytes));
    if (job->neighbour_count > 1)
        fprintf(out, " (median; at their own peaks %s)", VT_BYTES(odd->usual_peak_bytes));
    else
        fprintf(out, " (at its own peak %s)", VT_BYTES(odd->usual_peak_bytes));
    if (apart * 100 < odd->usual_bytes) {
        fputs(": no difference, all were equally close to the limit.", out);
    } else {
        fprintf(out, ". It held ");
        vt_job_put_why(out, odd);
        fputc('.', out);
    }
    vt_end_paragraph(print, 0, 2);
}

/* What else is on its GPU: a process like all others may share it with another. */
static void put_gpu(struct vt_print *print, const struct vt_job *job)
{
    const struct vt_job_card *gpu = job->first_card;
    FILE *out = print->paragraph;
    uint64_t free_bytes;
    size_t holding = 0;

    if (!job->first_card_count)
        return;
    fprintf(out, "GPU %d%s%s then: ", (int)gpu->number, job->node_count > 1 ? " of " : "",
            job->node_count > 1 ? job->nodes[gpu->node].host : "");
    while (holding < gpu->holder_count && gpu->holders[holding].bytes)
        holding++; /* the rest had not begun, or had ended */
    for (size_t i = 0; i < holding && i < HOLDERS; i++)
        fprintf(out, "%s%s of %s", i ? " + " : "", VT_BYTES(gpu->holders[i].bytes), gpu->holders[i].label);
    if (holding > HOLDERS)
        fprintf(out, " + %zu other processes", holding - HOLDERS);
    if (gpu->context_bytes)
        fprintf(out, " + %s of contexts and other", VT_BYTES(gpu->context_bytes));
    if (gpu->total_bytes) {
        free_bytes = gpu->total_bytes > gpu->most_bytes ? gpu->total_bytes - gpu->most_bytes : 0;
        fprintf(out, "; %s%s of %s free", gpu->is_coarse ? "at least " : "", VT_BYTES(free_bytes),
                VT_BYTES(gpu->total_bytes));
    }
    fputc('.', out);
    vt_end_paragraph(print, 0, 2);
}

/* How a process failed later. */
enum kind { REFUSED_THERE, REFUSED, ENDED, KILLED, KINDS };

static enum kind kind_of(const struct vt_job_fall *fall)
{
    return fall->refusal && fall->same_card ? REFUSED_THERE
           : fall->refusal                  ? REFUSED
           : fall->killed                   ? KILLED
                                            : ENDED;
}

static int by_process(const void *left, const void *right)
{
    uint32_t a = *(const uint32_t *)left, b = *(const uint32_t *)right;

    return (a > b) - (a < b);
}

static void put_others(struct vt_print *print, const struct vt_job *job)
{
    static const char *const words[KINDS] = {
        [REFUSED_THERE] = "%s also ran out of memory, later, on the same GPU.",
        [REFUSED] = "%s also ran out of memory, later, on another GPU.",
        [ENDED] = "%s exited afterwards, with no failed allocation.",
        [KILLED] = "%s %s killed afterwards, with no failed allocation%s."};
    const struct vt_job_process *first = &job->processes[job->falls[0].process];
    uint32_t *members = vt_allocate_zeros(job->fall_count, sizeof *members);

    for (unsigned kind = 0; kind < KINDS; kind++) {
        size_t count = 0;
        const char *who;

        for (size_t i = 1; i < job->fall_count; i++)
            if (kind_of(&job->falls[i]) == kind)
                members[count++] = job->falls[i].process;
        if (!count)
            continue;
        qsort(members, count, sizeof *members, by_process);
        who = VT_JOB_RANKS(job, members, count);
        if (kind == KILLED)
            vt_print_paragraph(print, 0, 2, words[KILLED], who, count == 1 ? "was" : "were",
                               first->rank >= 0 ? ": launchers stop all ranks when one fails" : "");
        else
            vt_print_paragraph(print, 0, 2, words[kind], who);
    }
    fputc('\n', print->stream);
    free(members);
}

/* "0.20 s", "0.30 s before" */
static void after_cell(struct vt_table *table, const struct vt_job_fall *fall)
{
    if (fall->after_ns < 0)
        vt_table_cell(table, "−%s", VT_DURATION((uint64_t)-fall->after_ns));
    else
        vt_table_cells(table, VT_DURATION((uint64_t)fall->after_ns));
}

/* The GPU's number as in the other tables: a process may number its GPUs differently. */
static void gpu_cell(struct vt_table *table, const struct vt_job *job, const struct vt_job_process *process,
                     int32_t index)
{
    for (size_t i = 0; i < process->device_count; i++)
        if (process->devices[i].index == index)
            index = job->cards[process->devices[i].card].number;
    if (index >= 0)
        vt_table_cell(table, "%d", (int)index);
    else
        vt_table_cells(table, "");
}

static void fall_table(struct vt_print *print, const struct vt_job *job)
{
    static const struct vt_print_column columns[] = {
        {.title = "In order"},
        {"after", .right = true},
        {"GPU", .right = true},
        {"requested", .right = true},
        {.title = "at", .cut = VT_CUT_PARTS, .minimum = 16},
        {.title = "recording", .cut = VT_CUT_END, .minimum = 10, .drop = 1}};
    size_t limit = print->style->top ? (size_t)print->style->top : ROWS;
    struct vt_table table;

    vt_table_begin(&table, columns, 6);
    for (size_t i = 0; i < job->fall_count && i < limit; i++) {
        const struct vt_job_fall *fall = &job->falls[i];
        const struct vt_job_process *process = &job->processes[fall->process];

        vt_table_cells(&table, process->label);
        if (i)
            after_cell(&table, fall);
        else
            vt_table_cells(&table, "first");
        if (fall->refusal) {
            gpu_cell(&table, job, process, fall->refusal->device_index);
            vt_table_cells(&table, VT_BYTES(fall->refusal->asked_bytes),
                           fall->refusal->line[0] ? fall->refusal->line : "(not known)");
        } else {
            vt_table_cells(&table, "", "–", fall->killed ? "killed; its last event" : "ended");
        }
        vt_table_cells(&table, vt_job_outcome(process));
    }
    vt_table_more(&table, 0, job->fall_count, limit);
    vt_table_print(&table, print);
    fputc('\n', print->stream);
}

static void print_nothing(struct vt_print *print, const struct vt_job *job)
{
    size_t survived = 0, incomplete = job->unread_count - job->copy_count;

    for (size_t i = 0; i < job->process_count; i++) {
        survived += job->processes[i].refusal_count > 0;
        incomplete += !job->processes[i].complete;
    }
    vt_print_paragraph(print, 0, 2, "No process ran out of memory%s.",
                       incomplete ? " (some traces are incomplete)" : "");
    if (survived)
        vt_print_paragraph(print, 0, 2, "%zu had failed requests and went on: %s shows them.", survived,
                           print->style->brief ? "`oom` of its trace" : "vramtrace oom TRACE");
}

void vt_text_job_oom(const struct vt_job *job, const struct vt_view_style *style, FILE *out)
{
    struct vt_print print;

    vt_print_begin(&print, style, NULL);
    vt_job_header(&print, job, "oom");
    if (!job->fall_count) {
        print_nothing(&print, job);
        vt_print_finish(&print, out);
        return;
    }
    put_refusal(&print, job);
    put_neighbours(&print, job);
    put_gpu(&print, job);
    put_others(&print, job);
    fall_table(&print, job);
    if (job->first_odd_count)
        vt_job_differences(&print, job, job->first_odd,
                           job->neighbour_count == 1 ? job->processes[job->neighbours[0].process].label
                                                     : "median");
    vt_print_finish(&print, out);
}
