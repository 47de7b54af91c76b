/* Which processes belong together: nodes, parents and children, and those that were launched together. */
#include "job/runs.h"

#include "base/index.h"
#include "base/sort.h"
#include "job/job_maker.h"

#include <stdlib.h>
#include <string.h>

/* Clocks of nodes differ, and ranks begin to use their GPUs at different times. */
#define SLACK_NS UINT64_C(60000000000)

/* A run while it is filled. */
struct filling {
    const char *key;
    uint64_t start_ns, end_ns;
    uint32_t first; /* process */
};

static bool overlaps(const struct filling *run, const struct vt_job_process *process)
{
    return process->start_ns <= run->end_ns + SLACK_NS && run->start_ns <= process->end_ns + SLACK_NS;
}

static bool same_host(const struct vt_job_process *a, const struct vt_job_process *b)
{
    return a->node == b->node && a->pid_namespace == b->pid_namespace;
}

static bool at_one_time(const struct vt_job_process *a, const struct vt_job_process *b)
{
    return a->start_ns <= b->end_ns && b->start_ns <= a->end_ns;
}

/* For a process that was killed only the last event is known: it may have waited for its children long
 * after. */
static bool is_parent(const struct vt_job_process *parent, const struct vt_job_process *child)
{
    return child->parent_pid == parent->pid && same_host(parent, child) &&
           parent->start_ns <= child->end_ns && (!parent->ended || child->start_ns <= parent->end_ns);
}

static void find_nodes(struct vt_job_maker *maker)
{
    struct vt_job *job = &maker->job;

    job->nodes = vt_job_take(&maker->arena, job->process_count, sizeof *job->nodes);
    for (size_t i = 0; i < job->process_count; i++) {
        struct vt_job_process *process = &job->processes[i];
        size_t node = 0;

        while (node < job->node_count &&
               (strcmp(job->nodes[node].host, process->host) != 0 ||
                memcmp(job->nodes[node].boot_id, process->boot_id, sizeof process->boot_id)))
            node++;
        if (node == job->node_count) {
            job->nodes[node].host = process->host;
            memcpy(job->nodes[node].boot_id, process->boot_id, sizeof process->boot_id);
            job->node_count++;
        }
        process->node = (uint32_t)node;
        job->nodes[node].process_count++;
    }
}

/* A process of one launch that uses the number of another: a helper that inherited its variables. */
static bool is_helper_of(const struct vt_job_process *process, const struct vt_job_process *other)
{
    return is_parent(other, process) || is_parent(process, other) ||
           (process->parent_pid == other->parent_pid && same_host(process, other) &&
            at_one_time(process, other));
}

/* But for numbers: "--local-rank 3", a child's descriptor. */
static bool same_command(const char *a, const char *b)
{
    static const char digits[] = "0123456789";

    for (;; a++, b++) {
        a += strspn(a, digits);
        b += strspn(b, digits);
        if (*a != *b || !*a)
            return *a == *b;
    }
}

enum fit { FITS, FITS_NOT, IS_HELPER };

static uint64_t rank_key(uint32_t run, int32_t rank)
{
    return (uint64_t)run << 32 | (uint32_t)rank;
}

/* `ranks`: the process of each rank of each run. */
static enum fit fit_of(const struct vt_job *job, const struct vt_index *ranks, const struct filling *run,
                       uint32_t run_index, const struct vt_job_process *process)
{
    const struct vt_job_process *first = &job->processes[run->first];
    uint32_t other;

    if (!overlaps(run, process) || strcmp(run->key, process->launch_key) != 0)
        return FITS_NOT;
    if (!process->launch_key[0]) /* several processes that one parent started, with one command */
        return process->parent_pid > 1 && same_host(first, process) && at_one_time(first, process) &&
                       first->parent_pid == process->parent_pid &&
                       same_command(first->command, process->command)
                   ? FITS
                   : FITS_NOT;
    other = vt_index_get(ranks, rank_key(run_index, process->rank));
    return other == VT_INDEX_NONE                          ? FITS
           : is_helper_of(process, &job->processes[other]) ? IS_HELPER
                                                           : FITS_NOT;
}

static void name_helper(struct vt_job_maker *maker, struct vt_job_process *process)
{
    process->is_helper = true;
    process->label = vt_job_print(&maker->arena, "rank %d, pid %u", (int)process->rank, process->pid);
}

/* Sets `run` of each process, which are by start. */
static size_t assign_runs(struct vt_job_maker *maker)
{
    struct vt_job *job = &maker->job;
    struct filling *runs = vt_job_take(&maker->arena, job->process_count, sizeof *runs);
    struct vt_index ranks = {0};
    size_t run_count = 0;

    for (uint32_t i = 0; i < job->process_count; i++) {
        struct vt_job_process *process = &job->processes[i];
        enum fit fit = FITS_NOT;
        uint32_t run = 0;

        while (run < run_count && (fit = fit_of(job, &ranks, &runs[run], run, process)) == FITS_NOT)
            run++;
        if (run == run_count)
            runs[run_count++] = (struct filling){process->launch_key, process->start_ns, process->end_ns, i};
        process->run = run;
        if (process->end_ns > runs[run].end_ns)
            runs[run].end_ns = process->end_ns;
        if (fit == IS_HELPER)
            name_helper(maker, process);
        else
            vt_index_put(&ranks, rank_key(run, process->rank), i);
    }
    vt_index_free(&ranks);
    return run_count;
}

static int by_start(const void *left, const void *right)
{
    const struct vt_job_process *a = left, *b = right;

    return a->start_ns != b->start_ns ? vt_order(a->start_ns, b->start_ns) : strcmp(a->path, b->path);
}

static int by_run(const void *left, const void *right)
{
    const struct vt_job_process *a = left, *b = right;
    int order = 4 * vt_order(a->run, b->run) + 2 * vt_order_signed(a->rank, b->rank) +
                vt_order(a->is_helper, b->is_helper);

    return order ? order : by_start(left, right);
}

static void find_parents(struct vt_job *job)
{
    for (size_t i = 0; i < job->process_count; i++) {
        struct vt_job_process *child = &job->processes[i];

        for (size_t k = 0; k < job->process_count && !child->is_child; k++) {
            const struct vt_job_process *other = &job->processes[k];

            if (k != i && is_parent(other, child)) {
                child->parent = (uint32_t)k;
                child->is_child = true;
            }
        }
    }
}

/* Ranks that the launcher counted and no trace has. */
static void find_missing(struct vt_job_maker *maker, struct vt_job_run *run)
{
    const struct vt_job *job = &maker->job;
    size_t at = 0;

    if (run->world_size <= 0 || (size_t)run->world_size <= run->member_count)
        return;
    run->missing = vt_job_take(&maker->arena, (size_t)run->world_size, sizeof *run->missing);
    for (int32_t rank = 0; rank < run->world_size; rank++) {
        while (at < run->member_count && job->processes[run->members[at]].rank < rank)
            at++;
        if (at == run->member_count || job->processes[run->members[at]].rank != rank)
            run->missing[run->missing_count++] = (uint32_t)rank;
    }
}

static const char *basis_of(struct vt_job_maker *maker, const struct vt_job_process *first, size_t count)
{
    if (first->by_group)
        return "PyTorch's default process group, as inspections saw it";
    if (first->rank >= 0)
        return vt_job_print(&maker->arena, "the variables that %s set",
                            !strcmp(first->launcher, "environment") ? "the environment had"
                                                                    : first->launcher);
    if (count > 1)
        return vt_job_print(&maker->arena,
                            "process %u started them, with commands that differ only in numbers",
                            first->parent_pid);
    return "";
}

static void fill_runs(struct vt_job_maker *maker, size_t run_count)
{
    struct vt_job *job = &maker->job;

    job->runs = vt_job_take(&maker->arena, run_count, sizeof *job->runs);
    for (size_t i = 0, end; i < job->process_count; i = end) {
        const struct vt_job_process *first = &job->processes[i];
        struct vt_job_run *run = &job->runs[job->run_count++];

        for (end = i; end < job->process_count && job->processes[end].run == first->run;)
            end++;
        *run = (struct vt_job_run){.has_ranks = first->rank >= 0,
                                   .launcher = first->launcher,
                                   .name = first->launch_name,
                                   .world_size = first->world_size,
                                   .attempt = first->attempt,
                                   .members = vt_job_take(&maker->arena, end - i, sizeof *run->members)};
        for (size_t k = i; k < end; k++)
            if (!job->processes[k].is_helper)
                run->members[run->member_count++] = (uint32_t)k;
        run->basis = basis_of(maker, first, run->member_count);
        find_missing(maker, run);
    }
}

/* Where several runs have a rank 3, its run is in its name. */
static void number_runs(struct vt_job_maker *maker)
{
    struct vt_job *job = &maker->job;
    uint32_t count = 0;

    for (size_t i = 0; i < job->run_count; i++)
        count += job->runs[i].has_ranks;
    if (count < 2)
        return;
    count = 0;
    for (size_t i = 0; i < job->run_count; i++)
        if (job->runs[i].has_ranks)
            job->runs[i].number = ++count;
    for (size_t i = 0; i < job->process_count; i++) {
        struct vt_job_process *process = &job->processes[i];
        uint32_t number = job->runs[process->run].number;

        if (number)
            process->label = vt_job_print(&maker->arena, "run %u %s", number, process->label);
    }
}

void vt_job_find_runs(struct vt_job_maker *maker)
{
    struct vt_job *job = &maker->job;
    size_t run_count;

    vt_sort(job->processes, job->process_count, sizeof *job->processes, by_start);
    find_nodes(maker);
    run_count = assign_runs(maker);
    vt_sort(job->processes, job->process_count, sizeof *job->processes, by_run);
    find_parents(job);
    fill_runs(maker, run_count);
    number_runs(maker);
}
