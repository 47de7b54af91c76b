/* What the pages of several traces share: the header, ranks in words, differences. */
#include "base/index.h"
#include "view/text/job_parts.h"
#include "view/text/table.h"
#include "view/text/text.h"

#include <stdlib.h>
#include <string.h>

#define FILES 8u
#define ROWS 4u
#define NAME_COLUMNS 24

/* ---- The header ---- */

static void put_count(FILE *out, size_t count, const char *one, const char *many)
{
    fprintf(out, "%zu %s", count, count == 1 ? one : many);
}

void vt_job_header(struct vt_print *print, const struct vt_job *job, const char *command)
{
    FILE *out = print->paragraph;
    size_t not_read = job->unread_count - job->copy_count;

    if (!print->style->brief) {
        fprintf(out, VT_BOLD "vramtrace%s%s" VT_RESET " · ", *command ? " " : "", command);
        vt_put_clean(job->what, out);
        fputs(" · ", out);
    }
    if (not_read)
        fprintf(out, VT_ALARM "%zu FILE%s NOT READ" VT_RESET " · ", not_read, not_read == 1 ? "" : "S");
    if (job->dropped_events)
        fprintf(out, VT_ALARM "%s EVENTS LOST" VT_RESET " · ", VT_COUNT(job->dropped_events));
    if (job->process_count && job->processes[0].simulated)
        fprintf(out, VT_ALARM "simulated: %s" VT_RESET " · ", job->processes[0].simulated);
    put_count(out, job->process_count, "process", "processes");
    fputs(" on ", out);
    put_count(out, job->node_count, "node", "nodes");
    fputs(" · ", out);
    put_count(out, job->card_count, "GPU", "GPUs");
    fprintf(out, " · %s", VT_DURATION(job->duration_ns));
    vt_end_paragraph(print, 0, 2);
    if (*command || print->style->brief)
        fputc('\n', print->stream);
    for (size_t i = 0; i < job->unread_count && i < FILES; i++)
        vt_print_paragraph(print, 0, 2, "%s %s: %s",
                           job->unread[i].is_copy ? "Left out:" : VT_ALARM "Not read:" VT_RESET,
                           job->unread[i].path, job->unread[i].why);
    if (job->unread_count > FILES)
        vt_print_paragraph(print, 0, 2, "… and %zu more", job->unread_count - FILES);
    if (job->unread_count)
        fputc('\n', print->stream);
}

/* ---- Ranks in words ---- */

char *vt_job_numbers(const uint32_t *numbers, size_t count, char *text)
{
    size_t used = 0;

    text[0] = '\0';
    for (size_t i = 0, last; i < count; i = last + 1) {
        char one[40];
        int bytes;

        for (last = i; last + 1 < count && numbers[last + 1] == numbers[last] + 1;)
            last++;
        bytes = last > i ? snprintf(one, sizeof one, "%s%u–%u", i ? ", " : "", numbers[i], numbers[last])
                         : snprintf(one, sizeof one, "%s%u", i ? ", " : "", numbers[i]);
        if (used + (size_t)bytes + 8 > VT_JOB_RANKS_BYTES) {
            strcpy(text + used, ", …");
            break;
        }
        memcpy(text + used, one, (size_t)bytes + 1);
        used += (size_t)bytes;
    }
    return text;
}

/* "run 1 rank 0 and pid 4711": for several runs, or with helpers. */
static void list_labels(const struct vt_job *job, const uint32_t *members, size_t count, char *text)
{
    size_t used = 0;

    for (size_t i = 0; i < count; i++) {
        const char *label = job->processes[members[i]].label;

        if (used + strlen(label) + 16 > VT_JOB_RANKS_BYTES) {
            strcpy(text + used, " and …");
            return;
        }
        used += (size_t)snprintf(text + used, VT_JOB_RANKS_BYTES - used, "%s%s", i ? " and " : "", label);
    }
}

char *vt_job_ranks(const struct vt_job *job, const uint32_t *members, size_t count, char *text)
{
    uint32_t *numbers = vt_allocate_zeros(count, sizeof *numbers);
    const struct vt_job_process *first = count ? &job->processes[members[0]] : NULL;
    const uint32_t run = first ? job->runs[first->run].number : 0;
    bool ranks = first && first->rank >= 0, mixed = false;
    char inner[VT_JOB_RANKS_BYTES], of_run[24] = "";

    text[0] = '\0';
    for (size_t i = 0; i < count; i++) { /* by rank, as processes are */
        const struct vt_job_process *process = &job->processes[members[i]];

        numbers[i] = ranks ? (uint32_t)process->rank : process->pid;
        mixed |= process->is_helper || (process->run != first->run && (run || ranks != (process->rank >= 0)));
    }
    if (run)
        snprintf(of_run, sizeof of_run, " of run %u", run);
    if (mixed)
        list_labels(job, members, count, text);
    else
        snprintf(text, VT_JOB_RANKS_BYTES, "%s%s %.80s%s", ranks ? "rank" : "pid", count == 1 ? "" : "s",
                 vt_job_numbers(numbers, count, inner), of_run);
    free(numbers);
    return text;
}

const char *vt_job_usual(const struct vt_job *job, const uint32_t *members, size_t count, uint32_t process,
                         char *text)
{
    if (count != 2)
        return "median";
    snprintf(text, 64, "%.60s", job->processes[members[process == members[0]]].label);
    return text;
}

const char *vt_job_outcome(const struct vt_job_process *process)
{
    static const char prefix[] = "incomplete: ";
    size_t bytes = sizeof prefix - 1;

    return strncmp(process->outcome, prefix, bytes) ? process->outcome : process->outcome + bytes;
}

char *vt_job_change(uint64_t bytes, uint64_t usual, char *text)
{
    double part = usual ? (double)bytes / (double)usual : 0;

    if (part >= 10)
        snprintf(text, 32, "%.0f times", part);
    else
        snprintf(text, 32, "%s%.1f %%", bytes < usual ? "−" : "+", 100 * (part < 1 ? 1 - part : part - 1));
    return text;
}

/* ---- Differences ---- */

/* The largest that goes in the direction of the whole; NULL = none does, or none is a tenth of the whole. */
static const struct vt_job_difference *leading_difference(const struct vt_job_differences *differences,
                                                          const struct vt_job_odd *odd)
{
    const bool more = odd->bytes > odd->usual_bytes;
    const uint64_t least = vt_distance(odd->bytes, odd->usual_bytes) / 10;

    for (size_t i = 0; i < differences->count; i++) {
        const struct vt_job_difference *one = &differences->items[i];

        if ((one->bytes > one->usual_bytes) == more && one->name[0])
            return vt_distance(one->bytes, one->usual_bytes) < least ? NULL : one;
    }
    return NULL;
}

void vt_job_put_why(FILE *out, const struct vt_job_odd *odd)
{
    const char *word = odd->bytes > odd->usual_bytes ? "more" : "less", *join = "";
    const struct vt_job_difference *category = leading_difference(&odd->categories, odd),
                                   *line = leading_difference(&odd->lines, odd),
                                   *module = leading_difference(&odd->modules, odd);

    if (category) {
        fprintf(out, "%s%s %s of %s", join, VT_BYTES(vt_distance(category->bytes, category->usual_bytes)),
                word, vt_category_many(category->category));
        join = ", ";
    }
    if (line) {
        fprintf(out, "%s%s %s at " VT_BOLD, join, VT_BYTES(vt_distance(line->bytes, line->usual_bytes)),
                word);
        vt_put_clean(line->name, out);
        fputs(VT_RESET, out);
        join = ", ";
    }
    if (module) {
        fprintf(out, "%s%s %s in ", join, VT_BYTES(vt_distance(module->bytes, module->usual_bytes)), word);
        vt_put_clean(module->name, out);
    }
    if (!category && !line && !module)
        fprintf(out, "spread over many categories, lines and modules");
}

static void difference_row(struct vt_table *table, const char *kind,
                           const struct vt_job_difference *difference)
{
    uint64_t bytes = difference->bytes, usual = difference->usual_bytes;

    vt_table_cells(table,
                   difference->name[0]       ? difference->name
                   : !strcmp(kind, "module") ? "outside any module"
                                             : "(not known)",
                   kind);
    vt_table_cells(table, bytes ? VT_BYTES(bytes) : "–", usual ? VT_BYTES(usual) : "–",
                   VT_CHANGE(usual, bytes));
}

static void difference_rows(struct vt_table *table, const struct vt_job_differences *differences, size_t rows,
                            const char *kind)
{
    uint64_t least = differences->count
                         ? vt_distance(differences->items[0].bytes, differences->items[0].usual_bytes) / 100
                         : 0;

    for (size_t i = 0; i < differences->count && i < rows; i++) {
        const struct vt_job_difference *difference = &differences->items[i];

        if (vt_distance(difference->bytes, difference->usual_bytes) < least)
            break; /* a hundredth of the largest explains nothing */
        difference_row(table, kind ? kind : vt_phase_name(difference->phase), difference);
    }
}

void vt_job_differences(struct vt_print *print, const struct vt_job *job, const struct vt_job_odd *odd,
                        const char *usual)
{
    char title[96];
    const struct vt_print_column columns[] = {{.title = title, .cut = VT_CUT_PARTS, .minimum = NAME_COLUMNS},
                                              {"", .drop = 1},
                                              {.title = job->processes[odd->process].label, .right = true},
                                              {.title = usual, .right = true},
                                              {"difference", .right = true}};
    size_t rows = vt_text_rows(print, ROWS, ROWS);
    struct vt_table table;

    snprintf(title, sizeof title, "Why %.60s differs", job->processes[odd->process].label);
    vt_table_begin(&table, columns, 5);
    difference_rows(&table, &odd->categories, rows, "category");
    difference_rows(&table, &odd->modules, rows, "module");
    difference_rows(&table, &odd->lines, rows, NULL);
    vt_table_print(&table, print);
    fputc('\n', print->stream);
}
