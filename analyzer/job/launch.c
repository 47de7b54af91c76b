/* Which part of a job a process is: what all processes that were launched together have in common. */
#include "job/launch.h"

#include "job/job_arena.h"
#include "report/job.h"
#include "report/launch_info.h"
#include "trace/trace.h"

static const char *or_empty(const char *text)
{
    return text ? text : "";
}

/* Those that met at one place were launched together, else those that the same variables were set for. */
static const char *key_of(const struct vt_trace *trace, struct vt_arena *arena,
                          const struct vt_launch *launch)
{
    if (launch->store)
        return vt_job_print(arena, "%s\n%s\n%s\n%d", launch->launcher, or_empty(launch->run), launch->store,
                            (int)launch->world_size);
    return vt_job_print(arena, "%s\n%s\n%s\n%s\n%s\n%s\n%d\n%d", launch->launcher, or_empty(launch->run),
                        or_empty(vt_launch_variable(trace, "SLURM_STEP_ID")),
                        or_empty(vt_launch_variable(trace, "SLURM_ARRAY_TASK_ID")),
                        or_empty(vt_launch_variable(trace, "MASTER_ADDR")),
                        or_empty(vt_launch_variable(trace, "MASTER_PORT")), (int)launch->attempt,
                        (int)launch->world_size);
}

void vt_job_read_launch(const struct vt_trace *trace, struct vt_arena *arena, struct vt_job_process *process)
{
    const struct vt_launch launch = vt_launch_read(trace);

    process->rank = launch.rank;
    process->local_rank = launch.local_rank;
    process->world_size = launch.world_size;
    process->local_world_size = launch.local_world_size;
    process->node_rank = launch.node_rank;
    process->attempt = launch.attempt;
    process->launcher = launch.launcher;
    process->launch_name = vt_job_copy(arena, launch.run);
    process->visible_devices = vt_job_copy(arena, launch.visible_devices);
    process->by_group = launch.store != NULL;
    process->label = launch.rank >= 0 ? vt_job_print(arena, "rank %d", (int)launch.rank)
                                      : vt_job_print(arena, "pid %u", process->pid);
    process->launch_key = launch.rank >= 0 ? key_of(trace, arena, &launch) : "";
}
