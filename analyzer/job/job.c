/* Puts the processes of a job together. */
#include "job/job.h"

#include "base/allocate.h"
#include "job/clocks.h"
#include "job/gpus.h"
#include "job/job_maker.h"
#include "job/job_timeline.h"
#include "job/oom_order.h"
#include "job/outliers.h"
#include "job/parallelism.h"
#include "job/process.h"
#include "job/runs.h"
#include "job/shared.h"

#include <stdlib.h>
#include <string.h>

/* From each process's own time to the job's. */
static void set_clock(struct vt_job *job)
{
    uint64_t start = UINT64_MAX;

    for (size_t i = 0; i < job->process_count; i++)
        if (job->processes[i].start_realtime_ns < start)
            start = job->processes[i].start_realtime_ns;
    job->start_realtime_ns = job->process_count ? start : 0;
    for (size_t i = 0; i < job->process_count; i++) {
        struct vt_job_process *process = &job->processes[i];
        uint64_t offset = process->start_realtime_ns - start;

        process->start_ns = offset;
        process->end_ns += offset;
        for (size_t k = 0; k < process->device_count; k++)
            process->devices[k].peak_ns = offset + process->devices[k].peak.t_ns;
        if (process->end_ns > job->duration_ns)
            job->duration_ns = process->end_ns;
        job->dropped_events += process->dropped_events;
    }
}

static void copy_unread(struct vt_job_maker *maker, const struct vt_job_unread *unread, size_t count)
{
    maker->job.unread = vt_job_take(&maker->arena, count, sizeof *unread);
    for (size_t i = 0; i < count; i++) {
        struct vt_job_unread *copy = &maker->job.unread[i];

        copy->is_copy = unread[i].is_copy;
        copy->path = vt_job_copy(&maker->arena, unread[i].path);
        copy->why = vt_job_copy(&maker->arena, unread[i].why);
        maker->job.copy_count += copy->is_copy;
    }
    maker->job.unread_count = count;
}

static void make_parts(struct vt_job_maker *maker, bool brief)
{
    static void (*const parts[])(struct vt_job_maker *) = {
        vt_job_find_runs,     vt_job_find_parallelism, vt_job_fit_clocks,
        vt_job_find_ends,     vt_job_find_gpus,        vt_job_find_shared,
        vt_job_find_outliers, vt_job_find_oom_order,   vt_job_make_timeline};

    set_clock(&maker->job);
    for (size_t i = 0; i < (brief ? 1 : sizeof parts / sizeof *parts); i++)
        parts[i](maker);
}

struct vt_job *vt_job_make(const char *what, struct vt_job_process *processes, size_t process_count,
                           const struct vt_job_unread *unread, size_t unread_count, bool brief)
{
    struct vt_job_maker *maker = vt_allocate_zeros(1, sizeof *maker);

    maker->job.processes = processes;
    maker->job.process_count = process_count;
    maker->job.what = vt_job_copy(&maker->arena, what);
    copy_unread(maker, unread, unread_count);
    make_parts(maker, brief);
    return &maker->job;
}

void vt_job_free(struct vt_job *job)
{
    struct vt_job_maker *maker = (struct vt_job_maker *)job;

    if (!job)
        return;
    for (size_t i = 0; i < job->process_count; i++)
        vt_job_process_free(&job->processes[i]);
    for (size_t i = 0; i < job->neighbour_count; i++)
        vt_job_process_free(&job->neighbours[i].then);
    free(job->processes);
    vt_arena_free(&maker->arena);
    free(maker);
}
