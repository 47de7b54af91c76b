/* Which part of a job a process is: runs are told apart by what all of one run have in common. */
#include "job/parts.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "report/program.h"

static const char *or_empty(const char *text)
{
    return text ? text : "";
}

int vt_job_read_launch(const struct vt_trace *trace, struct vt_arena *arena, struct vt_job_process *process)
{
    struct vt_launch launch;

    vt_launch_read(trace, &launch);
    process->rank = launch.rank;
    process->local_rank = launch.local_rank;
    process->world_size = launch.world_size;
    process->local_world_size = launch.local_world_size;
    process->node_rank = launch.node_rank;
    process->attempt = launch.attempt;
    process->launcher = launch.launcher;
    process->visible_devices = vt_job_copy(arena, launch.visible_devices);
    process->launch_key = "";
    if (launch.visible_devices && !process->visible_devices)
        return -ENOMEM;
    if (!launch.launcher) {
        process->label = vt_job_print(arena, "pid %u", process->pid);
        return process->label ? 0 : -ENOMEM;
    }
    process->launch_name = vt_job_copy(arena, launch.run);
    process->label = vt_job_print(arena, "rank %d", (int)process->rank);
    process->launch_key = vt_job_print(
        arena, "%s\n%s\n%s\n%s\n%s\n%s\n%d\n%d", launch.launcher, or_empty(launch.run),
        or_empty(vt_launch_variable(trace, "SLURM_STEP_ID")),
        or_empty(vt_launch_variable(trace, "SLURM_ARRAY_TASK_ID")),
        or_empty(vt_launch_variable(trace, "MASTER_ADDR")),
        or_empty(vt_launch_variable(trace, "MASTER_PORT")), (int)process->attempt, (int)process->world_size);
    return process->label && process->launch_key && (!launch.run || process->launch_name) ? 0 : -ENOMEM;
}
