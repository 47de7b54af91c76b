/* Out of memory somewhere in a job: who ran out first, and who ended because of it. */
#include "job/oom_order.h"

#include "base/allocate.h"
#include "base/index.h"
#include "base/sort.h"
#include "job/gpus.h"
#include "job/job_maker.h"
#include "job/outliers.h"

#include <stdlib.h>
#include <string.h>

/* How long after a rank has failed its launcher may take to end the others. */
#define SOON_NS UINT64_C(120000000000)
/* NVML is queried each second; on a busy GPU less often. */
#define PERIOD_NS UINT64_C(1000000000)
#define LATE_NS (5 * PERIOD_NS)

static int by_time(const void *left, const void *right)
{
    const struct vt_job_fall *a = left, *b = right;

    return 2 * vt_order(a->t_ns, b->t_ns) + vt_order(a->process, b->process);
}

/* The failed request that ended a process's work, else NULL: attempts that it survived do not count. */
static const struct vt_job_refusal *fatal_refusal(const struct vt_job_process *process)
{
    for (size_t i = process->refusal_count; i-- > 0;)
        if (process->refusals[i].ends_run)
            return &process->refusals[i];
    return NULL;
}

static uint64_t refused_ns(const struct vt_job_process *process, const struct vt_job_refusal *refusal)
{
    return process->start_ns + refusal->t_ns;
}

static uint64_t node_and_pid(uint32_t node, uint32_t pid)
{
    return (uint64_t)node << 32 | pid;
}

/* What NVML reported to one process about the others: those that were killed held their memory until NVML
 * stopped reporting it, whenever their own last event was. */
static void hear_of(struct vt_job *job, const struct vt_index *killed, const struct vt_job_process *teller,
                    const struct vt_job_device *device)
{
    for (size_t i = 0; i < device->other_count; i++) {
        const struct vt_job_other *other = &device->others[i];
        const uint32_t at = vt_index_get(killed, node_and_pid(teller->node, other->pid));
        struct vt_job_process *process = at == VT_INDEX_NONE ? NULL : &job->processes[at];
        uint64_t until_ns = teller->end_ns;

        /* one that began later may mean another process of that number */
        if (!process || !other->bytes || process == teller || teller->start_ns > process->end_ns)
            continue;
        for (size_t k = i + 1; k < device->other_count; k++)
            if (device->others[k].pid == other->pid) {
                until_ns = teller->start_ns + device->others[k].t_ns;
                break;
            }
        /* it was there at the query before, not until the next one */
        until_ns = until_ns > PERIOD_NS ? until_ns - PERIOD_NS : 0;
        if (until_ns > process->gone_ns && teller->start_ns + other->t_ns <= process->gone_ns + LATE_NS)
            process->gone_ns = until_ns;
    }
}

/* Until when those that were killed were reported to be there. */
static void hear_of_all(struct vt_job *job)
{
    struct vt_index killed = {0};

    for (uint32_t i = 0; i < job->process_count; i++) {
        const struct vt_job_process *process = &job->processes[i];

        if (!process->ended && process->device_count)
            vt_index_put(&killed, node_and_pid(process->node, process->devices[0].nvml_pid), i);
    }
    for (size_t i = 0; killed.count && i < job->process_count; i++)
        for (size_t k = 0; k < job->processes[i].device_count; k++)
            hear_of(job, &killed, &job->processes[i], &job->processes[i].devices[k]);
    vt_index_free(&killed);
}

/* One that was killed was surely still there when it started a child. */
static void find_last_children(struct vt_job *job)
{
    for (size_t i = 0; i < job->process_count; i++) {
        const struct vt_job_process *child = &job->processes[i];
        struct vt_job_process *parent = child->is_child ? &job->processes[child->parent] : NULL;

        if (parent && !parent->ended && child->start_ns > parent->gone_ns)
            parent->gone_ns = child->start_ns;
    }
}

/* A process that was killed because memory ran out in another of its run had waited for that one, with all
 * that it had. */
void vt_job_find_ends(struct vt_job_maker *maker)
{
    struct vt_job *job = &maker->job;
    uint64_t *first_ns = vt_allocate_zeros(job->run_count + 1, sizeof *first_ns);

    for (size_t i = 0; i < job->run_count; i++)
        first_ns[i] = UINT64_MAX;
    for (size_t i = 0; i < job->process_count; i++) {
        const struct vt_job_process *process = &job->processes[i];
        const struct vt_job_refusal *refusal = fatal_refusal(process);

        if (refusal && refused_ns(process, refusal) < first_ns[process->run])
            first_ns[process->run] = refused_ns(process, refusal);
    }
    for (size_t i = 0; i < job->process_count; i++) {
        struct vt_job_process *process = &job->processes[i];
        uint64_t t_ns = first_ns[process->run];
        bool waited = !process->ended && t_ns != UINT64_MAX && t_ns > process->end_ns &&
                      t_ns - process->end_ns < SOON_NS;

        process->gone_ns = waited ? t_ns : process->end_ns;
    }
    free(first_ns);
    find_last_children(job);
    hear_of_all(job);
}

/* Refusals only, in order. */
static void find_refused(struct vt_job *job)
{
    for (uint32_t i = 0; i < job->process_count; i++) {
        const struct vt_job_process *process = &job->processes[i];
        const struct vt_job_refusal *refusal = fatal_refusal(process);

        if (refusal)
            job->falls[job->fall_count++] =
                (struct vt_job_fall){.process = i, .refusal = refusal, .t_ns = refused_ns(process, refusal)};
    }
    vt_sort(job->falls, job->fall_count, sizeof *job->falls, by_time);
}

/* For a killed process only the last event is known, which may be long before: it waited for the others. */
static bool ended_because(const struct vt_job_process *process, uint64_t first_ns)
{
    uint64_t apart = vt_distance(process->end_ns, first_ns);

    return apart < SOON_NS && (!process->ended || process->end_ns >= first_ns);
}

/* In the first one's run: those that ended soon after it, and did not run out of memory themselves. */
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
        vt_sort(job->falls + 1, job->fall_count - 1, sizeof *job->falls, by_time);
    for (size_t i = 0; i < job->fall_count; i++)
        job->falls[i].after_ns = (int64_t)(job->falls[i].t_ns - first.t_ns);
}

static const struct vt_job_device *device_of(const struct vt_job_process *process, int32_t index)
{
    for (size_t i = 0; i < process->device_count; i++)
        if (process->devices[i].index == index)
            return &process->devices[i];
    return NULL;
}

/* The device on which a process ran out of memory; if that is not known, the one that it used most. */
static const struct vt_job_device *refused_device(const struct vt_job *job, const struct vt_job_fall *fall)
{
    const struct vt_job_process *process = &job->processes[fall->process];
    const struct vt_job_device *device = device_of(process, fall->refusal->device_index);

    return device ? device : vt_job_main_device(process);
}

static void find_same_gpu(struct vt_job *job)
{
    const struct vt_job_device *first = refused_device(job, &job->falls[0]);

    for (size_t i = 1; first && i < job->fall_count; i++) {
        const struct vt_job_device *device =
            job->falls[i].refusal ? refused_device(job, &job->falls[i]) : NULL;

        job->falls[i].same_card = device && device->card == first->card;
    }
}

/* Those that do the same work as the first that failed, and were running. */
static void find_neighbours(struct vt_job_maker *maker)
{
    struct vt_job *job = &maker->job;
    const struct vt_job_fall *first = &job->falls[0];
    const struct vt_job_run *run = &job->runs[job->processes[first->process].run];
    const struct vt_job_group *group = NULL;

    for (size_t g = 0; g < run->group_count; g++)
        for (size_t i = 0; i < run->groups[g].member_count; i++)
            if (run->groups[g].members[i] == first->process)
                group = &run->groups[g];
    if (!group)
        return;
    job->neighbours = vt_job_take(&maker->arena, group->member_count, sizeof *job->neighbours);
    for (size_t i = 0; i < group->member_count; i++) {
        const struct vt_job_process *process = &job->processes[group->members[i]];
        uint64_t end_ns = process->end_ns < first->t_ns ? process->end_ns : first->t_ns;

        if (group->members[i] != first->process && process->start_ns <= first->t_ns &&
            first->t_ns <= process->gone_ns)
            job->neighbours[job->neighbour_count++] =
                (struct vt_job_neighbour){.process = group->members[i], .own_ns = end_ns - process->start_ns};
    }
}

void vt_job_find_oom_order(struct vt_job_maker *maker)
{
    struct vt_job *job = &maker->job;
    const struct vt_job_device *device;

    job->falls = vt_job_take(&maker->arena, job->process_count, sizeof *job->falls);
    find_refused(job);
    if (!job->fall_count)
        return;
    find_ended(job);
    find_same_gpu(job);
    device = refused_device(job, &job->falls[0]);
    if (device) {
        job->first_card = vt_job_take(&maker->arena, 1, sizeof *job->first_card);
        vt_job_gpu_at(maker, device->card, job->falls[0].t_ns, job->first_card);
        job->first_card_count = 1;
    }
    find_neighbours(maker);
}

static void drop_unread(struct vt_job *job)
{
    size_t kept = 0;

    for (size_t i = 0; i < job->neighbour_count; i++)
        if (job->neighbours[i].then.owner)
            job->neighbours[kept++] = job->neighbours[i];
    job->neighbour_count = kept;
}

/* The median of what those that are compared had at their own peaks. */
static uint64_t usual_peak(const struct vt_job *job)
{
    uint64_t *values = vt_allocate_zeros(job->neighbour_count + 1, sizeof *values);
    size_t count = 0;
    uint64_t median;

    for (size_t i = 0; i < job->neighbour_count; i++) {
        const struct vt_job_process *process = &job->processes[job->neighbours[i].process];
        uint64_t most = 0;

        for (size_t k = 0; k < process->device_count; k++)
            if (process->devices[k].peak.used_bytes > most)
                most = process->devices[k].peak.used_bytes;
        values[count++] = most;
    }
    median = vt_median(values, count);
    free(values);
    return median;
}

void vt_job_compare_first(struct vt_job *job)
{
    struct vt_job_maker *maker = (struct vt_job_maker *)job;
    const struct vt_job_device *first = job->fall_count ? refused_device(job, &job->falls[0]) : NULL,
                               **others;
    size_t count = 0;

    drop_unread(job);
    others = vt_allocate_zeros(job->neighbour_count + 1, sizeof *others);
    job->first_odd = vt_job_take(&maker->arena, 1, sizeof *job->first_odd);
    for (size_t i = 0; i < job->neighbour_count; i++) {
        struct vt_job_process *then = &job->neighbours[i].then;
        const struct vt_job_device *device =
            first && then->device_count > 1 ? device_of(then, first->index) : NULL;

        device = device ? device : vt_job_main_device(then);
        if (device)
            others[count++] = device;
        for (size_t k = 0; k < then->device_count; k++) {
            const struct vt_job_device *same =
                device_of(&job->processes[job->neighbours[i].process], then->devices[k].index);

            then->devices[k].card = same ? same->card : VT_JOB_NONE;
        }
    }
    if (first && count) {
        job->first_odd_count = 1;
        vt_job_compare(maker, job->falls[0].process, first, others, count, job->first_odd);
        job->first_odd->usual_peak_bytes = usual_peak(job);
    }
    free(others);
}
