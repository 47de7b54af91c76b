/* The paragraphs about each run of a job: its ranks, how they share the work, which traces end early, which
 * rank stands out. */
#include "view/text/job_verdict.h"

#include "view/text/job_parts.h"

#include <stdlib.h>
#include <string.h>

#define ODD_TOLD 3u

/* "data-parallel " */
static const char *layout_word(unsigned layout)
{
    static const char *const words[VT_LAYOUTS] = {
        "", "", "data-parallel ", "sharded data-parallel ", "tensor-parallel ", "pipeline "};

    return layout < VT_LAYOUTS ? words[layout] : "";
}

static void run_line(struct vt_print *print, const struct vt_job_run *run)
{
    FILE *out = print->paragraph;

    if (run->number)
        fprintf(out, VT_BOLD "Run %u" VT_RESET ", ", run->number);
    fprintf(out, VT_BOLD "%s%s%zu %s%s" VT_RESET, run->launcher ? run->launcher : "",
            run->launcher ? ": " : "", run->member_count, run->has_ranks ? "rank" : "process",
            run->member_count == 1 ? ""
            : run->has_ranks       ? "s"
                                   : "es");
    if (run->world_size > 0 && run->missing_count)
        fprintf(out, " of %d", (int)run->world_size);
    if (run->name) {
        fputs(", run ", out);
        vt_put_clean(run->name, out);
    }
    if (run->attempt > 0)
        fprintf(out, ", restarted %d time%s", (int)run->attempt, run->attempt > 1 ? "s" : "");
    if (!run->has_ranks && run->basis[0])
        fprintf(out, " (%s)", run->basis);
    fputc('.', out);
    if (run->imbalance > 1.005)
        fprintf(out, " Imbalance: %.2f (highest peak / median).", run->imbalance);
    if (run->missing_count) {
        char text[VT_JOB_RANKS_BYTES];

        fprintf(out, " " VT_ALARM "Missing: no trace of rank%s %s." VT_RESET,
                run->missing_count > 1 ? "s" : "", vt_job_numbers(run->missing, run->missing_count, text));
    }
    vt_end_paragraph(print, 0, 2);
}

static void layout_line(struct vt_print *print, const struct vt_job *job, const struct vt_job_run *run)
{
    FILE *out = print->paragraph;

    if (run->member_count < 2)
        return;
    if (run->layout != VT_LAYOUT_PIPELINE) {
        if (run->layout == VT_LAYOUT_UNKNOWN && !run->most_bytes)
            return;
        if (run->layout == VT_LAYOUT_UNKNOWN)
            vt_print_paragraph(print, 0, 2, "Parallelism could not be determined: %s.", run->basis_of_layout);
        else
            vt_print_paragraph(print, 0, 2, "%s: %s.",
                               run->layout == VT_LAYOUT_DATA      ? "Data parallel"
                               : run->layout == VT_LAYOUT_SHARDED ? "Sharded data parallel"
                                                                  : "Tensor parallel",
                               run->basis_of_layout);
        return;
    }
    fprintf(out, "Pipeline stages: %s. ", run->basis_of_layout);
    for (size_t g = 0; g < run->group_count; g++) {
        const struct vt_job_group *group = &run->groups[g];

        fprintf(out, "%s%s: ", g ? "; " : "", VT_JOB_RANKS(job, group->members, group->member_count));
        vt_put_clean(*group->modules ? group->modules : "not known, no inspection saw its parameters", out);
        if (*group->modules && group->member_count > 1)
            fprintf(out, " (%stogether)", layout_word(group->layout));
    }
    fputc('.', out);
    vt_end_paragraph(print, 0, 2);
}

static const struct vt_state *shown_of(const struct vt_job_process *process)
{
    const struct vt_state *most = NULL;

    for (size_t i = 0; i < process->device_count; i++)
        if (!most || process->devices[i].shown.used_bytes > most->used_bytes)
            most = &process->devices[i].shown;
    return most;
}

static const char *article_of(uint8_t phase)
{
    return phase == VT_PHASE_OPTIMIZER ? "the " : "";
}

/* "; its peak is in the optimizer, those of the others in backward": at other moments of a step. */
static void put_phase(FILE *out, const struct vt_job *job, const struct vt_job_group *group,
                      const struct vt_job_odd *odd)
{
    const struct vt_state *own = shown_of(&job->processes[odd->process]);
    int usual = -1;

    for (size_t i = 0; own && i < group->member_count; i++) {
        const struct vt_state *other = shown_of(&job->processes[group->members[i]]);

        if (group->members[i] == odd->process || !other)
            continue;
        if (other->phase == own->phase || (usual >= 0 && other->phase != usual))
            return; /* nothing sets it apart */
        usual = other->phase;
    }
    if (usual >= 0)
        fprintf(out, "; its peak is in %s%s, %s in %s%s", article_of(own->phase), vt_phase_name(own->phase),
                group->member_count == 2 ? "the other's" : "those of the others", article_of((uint8_t)usual),
                vt_phase_name((uint8_t)usual));
}

static void odd_line(struct vt_print *print, const struct vt_job *job, const struct vt_job_group *group,
                     const struct vt_job_odd *odd)
{
    FILE *out = print->paragraph;
    const char *label = job->processes[odd->process].label,
               *change = VT_JOB_CHANGE(odd->bytes, odd->usual_bytes),
               *against = strchr(change, '%') ? "against " : "";

    fprintf(out, VT_ALARM "%c%s" VT_RESET " peaks at " VT_BOLD "%s" VT_RESET ", %s ",
            label[0] >= 'a' && label[0] <= 'z' ? label[0] - 'a' + 'A' : label[0], label + 1,
            VT_BYTES(odd->bytes), change);
    if (group->member_count == 2)
        fprintf(out, "%s%s", against,
                job->processes[group->members[odd->process == group->members[0]]].label);
    else
        fprintf(out, "%sthe median of these %zu %sprocesses", against, group->member_count,
                layout_word(group->layout));
    fprintf(out, " (%s): ", VT_BYTES(odd->usual_bytes));
    vt_job_put_why(out, odd);
    put_phase(out, job, group, odd);
    if (odd->bytes < odd->usual_bytes && !job->processes[odd->process].complete)
        fprintf(out, "; its trace is incomplete (%s), so that it may have had more",
                vt_job_outcome(&job->processes[odd->process]));
    fputc('.', out);
    vt_end_paragraph(print, 0, 2);
}

/* The least and the most of a group, where none stands out. */
static void even_line(struct vt_print *print, const struct vt_job *job, const struct vt_job_group *group)
{
    uint64_t least = UINT64_MAX;
    const char *who = VT_JOB_RANKS(job, group->members, group->member_count);

    for (size_t i = 0; i < group->member_count; i++) {
        const struct vt_state *shown = shown_of(&job->processes[group->members[i]]);
        const uint64_t bytes = shown ? shown->used_bytes : 0;

        least = bytes < least ? bytes : least;
    }
    if (!group->most_bytes)
        vt_print_paragraph(print, 0, 2, "No GPU memory is in the traces of %s.", who);
    else if (least == group->most_bytes)
        vt_print_paragraph(print, 0, 2, "None of %s stands out: each peaks at " VT_BOLD "%s" VT_RESET ".",
                           who, VT_BYTES(least));
    else
        vt_print_paragraph(print, 0, 2,
                           "None of %s stands out: they peak at %s to " VT_BOLD "%s" VT_RESET ".", who,
                           VT_BYTES(least), VT_BYTES(group->most_bytes));
}

static void group_lines(struct vt_print *print, const struct vt_job *job, const struct vt_job_group *group)
{
    for (size_t i = 0; i < group->odd_count && i < ODD_TOLD; i++)
        odd_line(print, job, group, &group->odd[i]);
    if (group->odd_count > ODD_TOLD)
        vt_print_paragraph(print, 0, 2, "%zu more stand out.", group->odd_count - ODD_TOLD);
    if (!group->odd_count && group->member_count > 1)
        even_line(print, job, group);
}

/* "Incomplete traces: ranks 0–2 (killed, or left by _exit), rank 5 (file damaged).": helpers included. */
static void incomplete_line(struct vt_print *print, const struct vt_job *job, const struct vt_job_run *run)
{
    const uint32_t index = (uint32_t)(run - job->runs);
    uint32_t *members = vt_allocate_zeros(job->process_count, sizeof *members);
    const char *join = VT_ALARM "Incomplete traces:" VT_RESET " ";
    bool any = false;

    for (uint32_t i = 0; i < job->process_count; i++) {
        const struct vt_job_process *first = &job->processes[i];
        size_t count = 0;

        for (uint32_t k = 0; !first->complete && first->run == index && k < job->process_count; k++) {
            const struct vt_job_process *other = &job->processes[k];

            if (other->run != index || other->complete || strcmp(other->outcome, first->outcome) != 0)
                continue;
            if (k < i)
                break; /* it was listed with that one */
            members[count++] = k;
        }
        if (!count)
            continue;
        fprintf(print->paragraph, "%s%s (%s)", join, VT_JOB_RANKS(job, members, count),
                vt_job_outcome(first));
        join = ", ";
        any = true;
    }
    if (any) {
        fputc('.', print->paragraph);
        vt_end_paragraph(print, 0, 2);
    }
    free(members);
}

void vt_job_verdict(struct vt_print *print, const struct vt_job *job, const struct vt_job_run *run)
{
    run_line(print, run);
    incomplete_line(print, job, run);
    layout_line(print, job, run);
    for (size_t g = 0; g < run->group_count; g++)
        group_lines(print, job, &run->groups[g]);
    if (run->layout == VT_LAYOUT_PIPELINE && run->imbalance > 0)
        vt_print_paragraph(print, 0, 2, "Of the stages, that of %s peaks highest: " VT_BOLD "%s" VT_RESET ".",
                           job->processes[run->most_process].label, VT_BYTES(run->most_bytes));
    fputc('\n', print->stream);
}
