/* One timeline for all devices of all processes. */
#include "job/job_timeline.h"

#include "job/job_maker.h"

#include <string.h>

/* The column of the job in which a time lies. */
static size_t column_of(const struct vt_job *job, uint64_t t_ns)
{
    long double part = job->duration_ns ? (long double)t_ns / (long double)job->duration_ns : 0;
    size_t column = (size_t)(part * (long double)job->columns);

    return column < job->columns ? column : job->columns - 1;
}

/* A column of the job shows the largest of the process's columns that overlap it. */
static void fill_row(const struct vt_job *job, const struct vt_job_process *process,
                     const struct vt_job_device *device, struct vt_job_row *row)
{
    for (size_t i = 0; i < device->column_count; i++) {
        uint64_t from_ns = device->column_ns[i], to_ns = i + 1 < device->column_count
                                                             ? device->column_ns[i + 1]
                                                             : process->end_ns - process->start_ns;
        size_t first = column_of(job, process->start_ns + from_ns), last;

        to_ns = to_ns > from_ns ? to_ns - 1 : from_ns;
        last = column_of(job, process->start_ns + to_ns);
        for (size_t k = first; k <= last; k++)
            if (device->used_bytes[i] > row->used_bytes[k])
                row->used_bytes[k] = device->used_bytes[i];
    }
}

void vt_job_make_timeline(struct vt_job_maker *maker)
{
    struct vt_job *job = &maker->job;
    size_t devices = 0;

    for (size_t i = 0; i < job->process_count; i++)
        devices += job->processes[i].device_count;
    job->columns = VT_JOB_COLUMNS;
    job->t_ns = vt_job_take(&maker->arena, job->columns, sizeof *job->t_ns);
    job->rows = vt_job_take(&maker->arena, devices, sizeof *job->rows);
    for (size_t i = 0; i < job->columns; i++)
        job->t_ns[i] = (uint64_t)((long double)job->duration_ns * (long double)i / (long double)job->columns);
    for (uint32_t i = 0; i < job->process_count; i++)
        for (size_t k = 0; k < job->processes[i].device_count; k++) {
            struct vt_job_row *row = &job->rows[job->row_count++];

            *row = (struct vt_job_row){.process = i,
                                       .device_index = job->processes[i].devices[k].index,
                                       .label = job->processes[i].label,
                                       .columns = job->columns,
                                       .used_bytes =
                                           vt_job_take(&maker->arena, job->columns, sizeof *row->used_bytes)};
            fill_row(job, &job->processes[i], &job->processes[i].devices[k], row);
        }
}
