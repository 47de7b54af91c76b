/* Out of memory somewhere in a job: who was refused first, and who ended because of it. */
#include "job/parts.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* How long after a rank has failed its launcher may take to end the others. */
#define SOON_NS UINT64_C(120000000000)

static int by_time(const void *left, const void *right)
{
    const struct vt_job_fall *a = left, *b = right;

    return a->t_ns != b->t_ns ? (a->t_ns > b->t_ns) - (a->t_ns < b->t_ns)
                              : (a->process > b->process) - (a->process < b->process);
}

/* The refusal that ended a process's work, else NULL: attempts that it survived are none. */
static const struct vt_job_refusal *fatal_refusal(const struct vt_job_process *process)
{
    for (size_t i = process->refusal_count; i-- > 0;)
        if (process->refusals[i].ends_run)
            return &process->refusals[i];
    return NULL;
}

/* Refusals only, in order. */
static void find_refused(struct vt_job *job)
{
    for (uint32_t i = 0; i < job->process_count; i++) {
        const struct vt_job_process *process = &job->processes[i];
        const struct vt_job_refusal *refusal = fatal_refusal(process);

        if (refusal)
            job->falls[job->fall_count++] = (struct vt_job_fall){
                .process = i, .refusal = refusal, .t_ns = process->start_ns + refusal->t_ns};
    }
    if (job->fall_count)
        qsort(job->falls, job->fall_count, sizeof *job->falls, by_time);
}

/* Of a killed process only the last event is known, which may be long before: it waited for the others. */
static bool ended_because(const struct vt_job_process *process, uint64_t first_ns)
{
    uint64_t apart = process->end_ns > first_ns ? process->end_ns - first_ns : first_ns - process->end_ns;

    return apart < SOON_NS && (!process->ended || process->end_ns >= first_ns);
}

/* Of the first one's run: those that ended soon after it, and were not refused themselves. */
static void find_ended(struct vt_job *job)
{
    const struct vt_job_fall first = job->falls[0];
    const struct vt_job_process *fell = &job->processes[first.process];
    size_t refused = job->fall_count;

    for (uint32_t i = 0; i < job->process_count; i++) {
        const struct vt_job_process *process = &job->processes[i];

        if (i != first.process && process->run == fell->run && !fatal_refusal(process) &&
            ended_because(process, first.t_ns))
            job->falls[job->fall_count++] =
                (struct vt_job_fall){.process = i, .killed = !process->ended, .t_ns = process->end_ns};
    }
    if (job->fall_count > refused)
        qsort(job->falls + 1, job->fall_count - 1, sizeof *job->falls, by_time);
    for (size_t i = 0; i < job->fall_count; i++)
        job->falls[i].after_ns = (int64_t)(job->falls[i].t_ns - first.t_ns);
}

/* Those that do the same work as the first that fell, without itself. */
static size_t find_neighbours(const struct vt_job *job, uint32_t process, uint32_t *neighbours)
{
    const struct vt_job_run *run = &job->runs[job->processes[process].run];
    size_t count = 0;

    for (size_t g = 0; g < run->group_count; g++) {
        const struct vt_job_group *group = &run->groups[g];
        bool has = false;

        for (size_t i = 0; i < group->member_count; i++)
            has |= group->members[i] == process;
        for (size_t i = 0; has && i < group->member_count; i++)
            if (group->members[i] != process)
                neighbours[count++] = group->members[i];
    }
    return count;
}

int vt_job_find_falls(struct vt_job_maker *maker)
{
    struct vt_job *job = &maker->job;
    uint32_t *neighbours = vt_job_take(&maker->arena, job->process_count, sizeof *neighbours);
    size_t count;

    job->falls = vt_job_take(&maker->arena, job->process_count, sizeof *job->falls);
    if (!job->falls || !neighbours)
        return -ENOMEM;
    find_refused(job);
    if (!job->fall_count)
        return 0;
    find_ended(job);
    count = find_neighbours(job, job->falls[0].process, neighbours);
    if (!count || !vt_job_main_device(&job->processes[job->falls[0].process]))
        return 0;
    job->first_odd = vt_job_take(&maker->arena, 1, sizeof *job->first_odd);
    if (!job->first_odd)
        return -ENOMEM;
    job->first_odd_count = 1;
    return vt_job_compare(maker, job->falls[0].process, neighbours, count, job->first_odd);
}
