/* The report of several traces: verdict, processes, what differs, one timeline, GPUs. */
#include "view/text/job_parts.h"
#include "view/text/job_verdict.h"
#include "view/text/table.h"
#include "view/text/text.h"
#include "view/text/views.h"

#include <stdlib.h>
#include <string.h>

#define PROCESS_ROWS 40u
#define SCREEN_ROWS 8u /* without --full */
#define GPU_ROWS 16u
#define LABEL_COLUMNS 12
#define UUID_COLUMNS 12 /* GPU-73746172 */

/* One process without a rank: its command tells it from others. */
static bool is_alone(const struct vt_job_run *run)
{
    return !run->has_ranks && run->member_count < 2;
}

static void alone_line(struct vt_print *print, const struct vt_job_process *process)
{
    int columns = print->style->width - vt_text_columns(process->label) - 2;
    char *command = vt_shorten(process->command, columns > 20 ? columns : 20, VT_CUT_MIDDLE);

    fprintf(print->stream, VT_BOLD "%s" VT_RESET ": ", process->label);
    vt_put_clean(command, print->stream);
    fputc('\n', print->stream);
    free(command);
}

static void alone_lines(struct vt_print *print, const struct vt_job *job)
{
    size_t told = 0, alone = 0;

    for (size_t i = 0; i < job->run_count; i++) {
        if (!is_alone(&job->runs[i]))
            continue;
        alone++;
        if (told < GPU_ROWS) {
            alone_line(print, &job->processes[job->runs[i].members[0]]);
            told++;
        }
    }
    if (alone > told)
        fprintf(print->stream, VT_DIM "… %zu more" VT_RESET "\n", alone - told);
    if (alone)
        fputc('\n', print->stream);
}

/* What was checked in all processes and found good. */
static void print_status(struct vt_print *print, const struct vt_job *job)
{
    size_t leaking = 0, unjudged = 0, incomplete = 0;
    FILE *out = print->paragraph;

    for (size_t i = 0; i < job->process_count; i++) {
        const struct vt_job_process *process = &job->processes[i];

        incomplete += !process->complete;
        for (size_t k = 0; k < process->device_count; k++) {
            leaking += process->devices[k].leaks > 0;
            unjudged += !process->devices[k].leaks_judged;
        }
    }
    if (!leaking && !unjudged)
        fputs("✓ no leak · ", out);
    else if (!leaking)
        fprintf(out, "– leaks not judged in %zu process%s · ", unjudged, unjudged == 1 ? "" : "es");
    if (!job->fall_count)
        fputs("✓ no out-of-memory error · ", out);
    if (!job->dropped_events && !incomplete)
        fputs("✓ nothing lost", out);
    else if (incomplete)
        fprintf(out, VT_ALARM "✗ %zu incomplete trace%s" VT_RESET, incomplete, incomplete == 1 ? "" : "s");
    else
        fputs(VT_ALARM "✗ events lost" VT_RESET, out);
    vt_end_paragraph(print, 0, 2);
    fputc('\n', print->stream);
}

/* Memory ran out, and things that grow. */
static void print_alarms(struct vt_print *print, const struct vt_job *job)
{
    size_t leaking = 0;
    const struct vt_job_process *most = NULL;
    const struct vt_job_device *leak = NULL;

    if (job->fall_count && job->falls[0].refusal) {
        const struct vt_job_process *process = &job->processes[job->falls[0].process];

        vt_print_paragraph(print, 0, 2,
                           VT_ALARM "✗ OUT OF MEMORY" VT_RESET " first in %s, %s after start. Details: %s%s",
                           process->label, VT_DURATION(job->falls[0].t_ns),
                           print->style->brief ? "`job` with oom=true" : "vramtrace oom ",
                           print->style->brief ? ""
                           : job->operand      ? job->operand
                                               : "…");
        fputc('\n', print->stream);
    }
    for (size_t i = 0; i < job->process_count; i++)
        for (size_t k = 0; k < job->processes[i].device_count; k++) {
            const struct vt_job_device *device = &job->processes[i].devices[k];

            leaking += device->leaks > 0;
            if (device->leaks && (!leak || device->leak_bytes_per_step > leak->leak_bytes_per_step)) {
                leak = device;
                most = &job->processes[i];
            }
        }
    if (!leak)
        return;
    vt_print_paragraph(print, 0, 2,
                       VT_ALARM "✗ LEAK" VT_RESET
                                " in %zu of %zu processes, largest in %s: %s per step%s%s. Details: %s %s",
                       leaking, job->process_count, most->label, VT_BYTES(leak->leak_bytes_per_step),
                       leak->leak_line[0] ? ", at " : "", leak->leak_line,
                       print->style->brief ? "`leaks` of" : "vramtrace leaks", most->path);
    fputc('\n', print->stream);
}

/* ---- Processes ---- */

static void process_cells(struct vt_table *table, const struct vt_job *job,
                          const struct vt_job_process *process, const struct vt_job_device *device)
{
    const struct vt_job_run *run = &job->runs[process->run];
    uint64_t usual = 0;

    for (size_t g = 0; g < run->group_count; g++)
        for (size_t i = 0; i < run->groups[g].member_count; i++)
            if (&job->processes[run->groups[g].members[i]] == process && run->groups[g].member_count > 1)
                usual = run->groups[g].median_bytes;
    vt_table_cells(table, process->label, process->host);
    vt_table_cell(table, "%d", (int)job->cards[device->card].number);
    vt_table_cells(table, VT_BYTES(device->peak.used_bytes), VT_DURATION(device->peak_ns));
    if (device->peak.step)
        vt_table_cell(table, "%u %s", device->peak.step, vt_phase_name(device->peak.phase));
    else
        vt_table_cells(table, vt_phase_name(device->peak.phase));
    if (usual)
        vt_table_cells(table, VT_JOB_CHANGE(device->peak.used_bytes, usual));
    else
        vt_table_cells(table, "");
    vt_table_cells(table, VT_BYTES(device->reserved_peak_bytes));
    if (process->is_child)
        vt_table_cell(table, "%s%schild of %u", process->complete ? "" : vt_job_outcome(process),
                      process->complete ? "" : ", ", process->parent_pid);
    else
        vt_table_cells(table, process->complete ? "" : vt_job_outcome(process));
    vt_table_cells(table, process->path);
}

static void no_device_line(struct vt_print *print, const struct vt_job_process *process)
{
    if (process->complete)
        vt_print_paragraph(print, 2, 2, "%s used no GPU memory (%s).", process->label, process->path);
    else
        vt_print_paragraph(print, 2, 2, "%s: incomplete trace, no GPU memory recorded: %s (%s).",
                           process->label, vt_job_outcome(process), process->path);
}

static void process_table(struct vt_print *print, const struct vt_job *job)
{
    static const struct vt_print_column columns[] = {
        {.title = "Process"},
        {.title = "node", .cut = VT_CUT_MIDDLE, .minimum = 8, .drop = 3},
        {"GPU", .right = true},
        {"peak", .right = true},
        {"at", .right = true, .drop = 2},
        {.title = "step"},
        {"vs median", .right = true},
        {"reserved", .right = true},
        {.title = "", .cut = VT_CUT_END, .minimum = 10, .drop = 1},
        {.title = "trace", .cut = VT_CUT_PARTS, .minimum = 20, .drop = 4}};
    size_t limit = vt_text_rows(print, SCREEN_ROWS, PROCESS_ROWS), rows = 0;
    struct vt_table table;

    vt_table_begin(&table, columns, 10);
    for (size_t i = 0; i < job->process_count; i++)
        for (size_t k = 0; k < job->processes[i].device_count; k++)
            if (rows++ < limit)
                process_cells(&table, job, &job->processes[i], &job->processes[i].devices[k]);
    vt_table_more(&table, 0, rows, limit);
    vt_table_print(&table, print);
    for (size_t i = 0; i < job->process_count; i++)
        if (!job->processes[i].device_count)
            no_device_line(print, &job->processes[i]);
    fputc('\n', print->stream);
}

/* ---- One timeline ---- */

static void put_level(FILE *out, bool unicode, uint64_t bytes, uint64_t most)
{
    static const char *const levels[] = {" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
    static const char ascii[] = " .:-=+*#@";
    unsigned level = !bytes || !most ? 0 : 1 + (unsigned)((double)bytes / (double)most * 7.999);

    if (unicode)
        fputs(levels[level < 8 ? level : 8], out);
    else
        fputc(ascii[level < 8 ? level : 8], out);
}

static void draw_row(struct vt_print *print, const struct vt_job_row *row, int cells, uint64_t most)
{
    for (int cell = 0; cell < cells; cell++) {
        size_t first = (size_t)cell * row->columns / (size_t)cells,
               end = ((size_t)cell + 1) * row->columns / (size_t)cells;
        uint64_t largest = 0;

        for (size_t i = first; i < (end > first ? end : first + 1); i++)
            largest = row->used_bytes[i] > largest ? row->used_bytes[i] : largest;
        put_level(print->stream, print->style->unicode, largest, most);
    }
}

static uint64_t most_of(const struct vt_job_row *row)
{
    uint64_t most = 0;

    for (size_t i = 0; i < row->columns; i++)
        most = row->used_bytes[i] > most ? row->used_bytes[i] : most;
    return most;
}

static void print_timeline(struct vt_print *print, const struct vt_job *job)
{
    size_t limit = vt_text_rows(print, SCREEN_ROWS / 2, PROCESS_ROWS);
    int cells = print->style->width - LABEL_COLUMNS - 4 - 12;
    uint64_t most = 0;

    if (!job->row_count)
        return;
    cells = cells < 20 ? 20 : cells > (int)job->columns ? (int)job->columns : cells;
    for (size_t i = 0; i < job->row_count; i++)
        most = most_of(&job->rows[i]) > most ? most_of(&job->rows[i]) : most;
    fprintf(print->stream, VT_BOLD "In use over time" VT_RESET VT_DIM ", 0 to %s; by %s" VT_RESET "\n",
            VT_DURATION(job->duration_ns), job->node_count > 1 ? "each node's clock" : "the node's clock");
    if (job->clock_corrected)
        vt_print_paragraph(print, 0, 2, "(%s)", job->clock);
    else if (job->node_count > 1)
        fprintf(print->stream, VT_DIM "(the clocks of the nodes may differ)" VT_RESET "\n");
    for (size_t i = 0; i < job->row_count && i < limit; i++) {
        const struct vt_job_row *row = &job->rows[i];
        char *label = vt_shorten(row->label, LABEL_COLUMNS, VT_CUT_END);

        fprintf(print->stream, "  %s%*s ", label, LABEL_COLUMNS - vt_text_columns(label), "");
        free(label);
        draw_row(print, row, cells, most);
        fprintf(print->stream, "  %11s\n", VT_BYTES(most_of(row)));
    }
    if (job->row_count > limit)
        fprintf(print->stream, VT_DIM "  … %zu more" VT_RESET "\n", job->row_count - limit);
    fputc('\n', print->stream);
}

/* ---- Cards ---- */

/* True if another GPU of the node has the same number, because a process did not report which GPUs it may
 * use.
 */
static bool is_ambiguous(const struct vt_job *job, const struct vt_job_card *gpu)
{
    for (size_t i = 0; i < job->card_count; i++)
        if (&job->cards[i] != gpu && job->cards[i].node == gpu->node && job->cards[i].number == gpu->number)
            return gpu->by_uuid;
    return false;
}

static void gpu_row(struct vt_table *table, const struct vt_job *job, const struct vt_job_card *gpu)
{
    const struct vt_job_holder *only = gpu->holder_count == 1 ? &gpu->holders[0] : NULL;

    vt_table_cell(table, VT_BOLD "GPU %d" VT_RESET "%s%.*s%s%s%s%s", (int)gpu->number,
                  is_ambiguous(job, gpu) ? " " : "", is_ambiguous(job, gpu) ? UUID_COLUMNS : 0, gpu->uuid,
                  job->node_count > 1 ? " of " : "", job->node_count > 1 ? job->nodes[gpu->node].host : "",
                  only ? ": " : "", only ? only->label : "");
    vt_table_cell(table, "%s%s", gpu->is_coarse ? "≤ " : "", VT_BYTES(gpu->most_bytes));
    vt_table_cells(table, VT_PERCENT(gpu->most_bytes, gpu->total_bytes), VT_DURATION(gpu->most_ns),
                   VT_BYTES(gpu->context_bytes));
    vt_table_cells(table, gpu->name);
}

static void holder_row(struct vt_table *table, const struct vt_job *job, const struct vt_job_card *gpu,
                       const struct vt_job_holder *holder)
{
    vt_table_cell(table, "  %s", holder->label);
    vt_table_cells(table, VT_BYTES(holder->bytes), VT_PERCENT(holder->bytes, gpu->total_bytes), "", "",
                   job->processes[holder->process].command);
}

static void bare_context_row(struct vt_table *table, const struct vt_job_bare_context *context)
{
    vt_table_cell(table, "  %s: only a CUDA context", context->label);
    vt_table_cells(table, "", "", VT_DURATION(context->t_ns),
                   context->bytes_known ? VT_BYTES(context->bytes) : "unknown", context->line);
}

static bool all_by_uuid(const struct vt_job *job)
{
    bool all = true;

    for (size_t i = 0; i < job->card_count; i++)
        all &= job->cards[i].by_uuid;
    return all;
}

/* True if the table of processes does not say all of it. */
static bool has_shared_gpu(const struct vt_job *job)
{
    bool shared = false;

    for (size_t i = 0; i < job->card_count; i++) {
        size_t at_once = 0;

        for (size_t k = 0; k < job->cards[i].holder_count; k++)
            at_once += job->cards[i].holders[k].bytes > 0;
        shared |= at_once > 1 || job->cards[i].bare_context_count;
    }
    return shared;
}

/* When the processes of a GPU together had the most of it, and what each had then. */
static void gpu_table(struct vt_print *print, const struct vt_job *job)
{
    static const struct vt_print_column columns[] = {
        {.title = "Driver memory by GPU"},  {"most", .right = true},
        {"of GPU", .right = true},          {"at", .right = true},
        {"contexts, other", .right = true}, {.title = "", .cut = VT_CUT_END, .minimum = 12, .drop = 1}};
    size_t limit = vt_text_rows(print, SCREEN_ROWS / 2, GPU_ROWS);
    struct vt_table table;

    if (!job->card_count)
        return;
    vt_table_begin(&table, columns, 6);
    for (size_t i = 0; i < job->card_count && i < PROCESS_ROWS; i++) {
        const struct vt_job_card *gpu = &job->cards[i];

        gpu_row(&table, job, gpu);
        for (size_t k = 0; k < gpu->holder_count && k < limit && gpu->holder_count > 1; k++)
            holder_row(&table, job, gpu, &gpu->holders[k]);
        vt_table_more(&table, 2, gpu->holder_count, limit);
        for (size_t k = 0; k < gpu->bare_context_count && k < limit; k++)
            bare_context_row(&table, &gpu->bare_contexts[k]);
        vt_table_more(&table, 2, gpu->bare_context_count, limit);
    }
    vt_table_more(&table, 0, job->card_count, PROCESS_ROWS);
    vt_table_print(&table, print);
    if (!all_by_uuid(job))
        vt_print_paragraph(print, 2, 2, "GPUs are matched by number: some traces lack GPU UUIDs.");
    fputc('\n', print->stream);
}

/* ---- Shared memory ---- */

static void shared_row(struct vt_table *table, const struct vt_job *job, const struct vt_job_shared *shared)
{
    vt_table_cells(table, shared->has_owner ? job->processes[shared->owner].label : "no trace");
    vt_table_cells(table, shared->bytes ? VT_BYTES(shared->bytes) : "",
                   VT_JOB_RANKS(job, shared->users, shared->user_count));
    vt_table_cell(table, "%s%s", shared->has_owner || !shared->line[0] ? "" : "imported at ", shared->line);
}

static void shared_table(struct vt_print *print, const struct vt_job *job)
{
    static const struct vt_print_column columns[] = {
        {.title = "Shared memory of"},
        {.title = "", .right = true},
        {.title = "also in"},
        {.title = "allocated at", .cut = VT_CUT_PARTS, .minimum = 12}};
    size_t limit = vt_text_rows(print, SCREEN_ROWS / 2, GPU_ROWS);
    struct vt_table table;

    if (!job->shared_count)
        return;
    vt_table_begin(&table, columns, 4);
    for (size_t i = 0; i < job->shared_count && i < limit; i++)
        shared_row(&table, job, &job->shared[i]);
    vt_table_more(&table, 0, job->shared_count, limit);
    vt_table_print(&table, print);
    vt_print_paragraph(print, 2, 2, "Shared allocations count once, in the process that made them.");
    fputc('\n', print->stream);
}

/* ---- The page ---- */

static void print_differences(struct vt_print *print, const struct vt_job *job)
{
    for (size_t r = 0; r < job->run_count; r++)
        for (size_t g = 0; g < job->runs[r].group_count; g++) {
            const struct vt_job_group *group = &job->runs[r].groups[g];

            for (size_t i = 0; i < group->odd_count && i < 1; i++)
                vt_job_differences(print, job, &group->odd[i],
                                   vt_job_usual(job, group->members, group->member_count,
                                                group->odd[i].process, (char[64]){0}));
        }
}

/* The first that ran out of memory, else that stands out, else the one with the highest peak of the first
 * run.
 */
static uint32_t most_telling(const struct vt_job *job)
{
    if (job->fall_count)
        return job->falls[0].process;
    for (size_t r = 0; r < job->run_count; r++)
        for (size_t g = 0; g < job->runs[r].group_count; g++)
            if (job->runs[r].groups[g].odd_count)
                return job->runs[r].groups[g].odd[0].process;
    return job->run_count ? job->runs[0].most_process : 0;
}

static void more_commands(struct vt_print *print, const struct vt_job *job)
{
    const struct vt_job_process *process = &job->processes[most_telling(job)];

    fputs(VT_DIM "More: vramtrace report ", print->paragraph);
    vt_put_word(process->path, print->paragraph);
    fprintf(print->paragraph, " (%s)", process->label);
    for (int i = 0; job->operand && i < 2; i++) {
        fprintf(print->paragraph, " · report %s ", i ? "--each" : "--full");
        vt_put_word(job->operand, print->paragraph);
    }
    fputs(VT_RESET, print->paragraph);
    vt_end_paragraph(print, 0, 2);
}

static void print_verdict(struct vt_print *print, const struct vt_job *job)
{
    print_status(print, job);
    print_alarms(print, job);
    for (size_t i = 0; i < job->run_count; i++)
        if (!is_alone(&job->runs[i]))
            vt_job_verdict(print, job, &job->runs[i]);
}

void vt_text_job_paragraphs(const struct vt_job *job, FILE *out)
{
    struct vt_print print;

    vt_print_begin(&print, &vt_plain_style, NULL);
    print_verdict(&print, job);
    vt_print_finish(&print, out);
}

void vt_text_job(const struct vt_job *job, const struct vt_view_style *style, FILE *out)
{
    struct vt_print print;

    vt_print_begin(&print, style, NULL);
    vt_job_header(&print, job, "");
    print_verdict(&print, job);
    alone_lines(&print, job);
    process_table(&print, job);
    if (style->full || style->brief || style->top)
        print_differences(&print, job);
    if (!style->brief)
        print_timeline(&print, job);
    if (style->full || style->brief || has_shared_gpu(job))
        gpu_table(&print, job);
    shared_table(&print, job);
    if (!style->brief)
        more_commands(&print, job);
    vt_print_finish(&print, out);
}
