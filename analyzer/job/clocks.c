/* Nodes whose clocks differ, by the steps of ranks that wait for each other in each step: none of them can be
 * a whole step ahead of another. */
#include "job/clocks.h"

#include "base/allocate.h"
#include "base/format.h"
#include "base/index.h"
#include "base/sort.h"
#include "job/job_maker.h"

#include <stdlib.h>

/* At least this many steps, which both ranks have in full. */
#define LEAST_STEPS 3u

/* Two ranks: how far one's clock seems to be ahead of the other's, how long a step takes, and how far their
 * steps differ from that. */
struct apart {
    int64_t ahead_ns;
    uint64_t step_ns, spread_ns;
};

static uint64_t step_at(const struct vt_job_process *process, size_t step)
{
    return process->start_ns + process->step_ns[step];
}

static uint64_t size_of(int64_t value)
{
    return value < 0 ? (uint64_t)-value : (uint64_t)value;
}

static int compare_signed(const void *left, const void *right)
{
    return vt_order_signed(*(const int64_t *)left, *(const int64_t *)right);
}

/* `differences` and `sizes` have space for one of each step. */
static struct apart measure_apart(const struct vt_job_process *one, const struct vt_job_process *other,
                                  int64_t *differences, uint64_t *sizes)
{
    struct apart apart;
    size_t count = one->step_start_count;

    for (size_t i = 0; i < count; i++)
        differences[i] = (int64_t)(step_at(other, i) - step_at(one, i));
    vt_sort(differences, count, sizeof *differences, compare_signed);
    apart.ahead_ns = differences[(count - 1) / 2];
    for (size_t i = 0; i < count; i++)
        sizes[i] = size_of(differences[i] - apart.ahead_ns);
    apart.spread_ns = vt_median(sizes, count);
    for (size_t i = 0; i + 1 < count; i++)
        sizes[i] = one->step_ns[i + 1] - one->step_ns[i];
    apart.step_ns = vt_median(sizes, count - 1);
    return apart;
}

static bool waits_in_each_step(const struct vt_job_group *group)
{
    return group->layout == VT_LAYOUT_DATA || group->layout == VT_LAYOUT_SHARDED ||
           group->layout == VT_LAYOUT_TENSOR;
}

/* A group's first rank against those on other nodes; the first one that shows a difference decides. */
static void compare_group(struct vt_job *job, const struct vt_job_group *group)
{
    const struct vt_job_process *first = &job->processes[group->members[0]];
    int64_t *differences = vt_allocate_zeros(first->step_start_count + 1, sizeof *differences);
    uint64_t *sizes = vt_allocate_zeros(first->step_start_count + 1, sizeof *sizes);

    for (size_t i = 1; i < group->member_count; i++) {
        const struct vt_job_process *other = &job->processes[group->members[i]];
        struct vt_job_node *node = &job->nodes[other->node];
        struct apart apart;

        if (other->node == first->node || node->clock_ahead_ns || first->step_start_count < LEAST_STEPS ||
            other->step_count != first->step_count || other->step_start_count != first->step_start_count)
            continue;
        apart = measure_apart(first, other, differences, sizes);
        if (apart.spread_ns <= apart.step_ns / 2 &&
            size_of(apart.ahead_ns) > apart.step_ns + 2 * apart.spread_ns) {
            node->clock_ahead_ns = apart.ahead_ns;
            node->clock_within_ns = apart.step_ns;
        }
    }
    free(sizes);
    free(differences);
}

/* All times as if the clocks had agreed; the job's own begins with the first process. */
static void correct_times(struct vt_job *job)
{
    int64_t least_ns = INT64_MAX;

    for (size_t i = 0; i < job->process_count; i++) {
        const struct vt_job_process *process = &job->processes[i];
        int64_t start_ns = (int64_t)process->start_ns - job->nodes[process->node].clock_ahead_ns;

        least_ns = start_ns < least_ns ? start_ns : least_ns;
    }
    job->duration_ns = 0;
    job->start_realtime_ns += (uint64_t)least_ns;
    for (size_t i = 0; i < job->process_count; i++) {
        struct vt_job_process *process = &job->processes[i];
        uint64_t earlier_ns = (uint64_t)(job->nodes[process->node].clock_ahead_ns + least_ns);

        process->start_ns -= earlier_ns;
        process->end_ns -= earlier_ns;
        for (size_t k = 0; k < process->device_count; k++)
            process->devices[k].peak_ns -= earlier_ns;
        if (process->end_ns > job->duration_ns)
            job->duration_ns = process->end_ns;
    }
}

/* "each node's own clock …; b's was 12.5 s ahead" */
static const char *describe_clock(struct vt_job_maker *maker)
{
    const struct vt_job *job = &maker->job;
    const char *text = NULL;
    char ahead[32], within[32];

    if (job->node_count < 2)
        return "the clock of the node";
    for (size_t i = 0; i < job->node_count; i++) {
        const struct vt_job_node *node = &job->nodes[i];

        if (!node->clock_ahead_ns)
            continue;
        text = vt_job_print(
            &maker->arena, "%s%s%s's was %s %s, within %s",
            text ? text : "each node's wall clock, aligned by step starts", text ? ", " : ": ", node->host,
            vt_format_duration(size_of(node->clock_ahead_ns), ahead),
            node->clock_ahead_ns > 0 ? "ahead" : "behind", vt_format_duration(node->clock_within_ns, within));
    }
    return text ? text : "each node's wall clock: those of different nodes may differ";
}

void vt_job_fit_clocks(struct vt_job_maker *maker)
{
    struct vt_job *job = &maker->job;
    bool any = false;

    for (size_t r = 0; job->node_count > 1 && r < job->run_count; r++)
        for (size_t g = 0; g < job->runs[r].group_count; g++)
            if (waits_in_each_step(&job->runs[r].groups[g]))
                compare_group(job, &job->runs[r].groups[g]);
    for (size_t i = 0; i < job->node_count; i++)
        any |= job->nodes[i].clock_ahead_ns != 0;
    if (any)
        correct_times(job);
    job->clock = describe_clock(maker);
    job->clock_corrected = any;
}
