/* Which part of a job a process is: by the variables that its launcher had set, else by what PyTorch's
 * default group of processes said. */
#include "job/parts.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "trace/trace.h"

/* The first row whose first two variables are there names the launcher: those that were started last come
 * first, since one launcher may start another. NULL = the launcher does not tell. */
static const struct launcher {
    const char *name, *needs, *rank, *local_rank, *size, *local_size, *node, *run, *attempt;
} launchers[] = {
    {"torchrun", "TORCHELASTIC_RUN_ID", "RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "GROUP_RANK",
     "TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT"},
    {"DeepSpeed", "CROSS_RANK", "RANK", "LOCAL_RANK", "WORLD_SIZE", NULL, "CROSS_RANK", NULL, NULL},
    {"Ray", "RAY_JOB_ID", "RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "NODE_RANK", "RAY_JOB_ID",
     NULL},
    {"Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_RANK",
     "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE", NULL, "PMIX_NAMESPACE", NULL},
    /* a batch script that runs in no step has a number too, but is no rank */
    {"Slurm", "SLURM_STEP_ID", "SLURM_PROCID", "SLURM_LOCALID", "SLURM_STEP_NUM_TASKS", NULL, "SLURM_NODEID",
     "SLURM_JOB_ID", "SLURM_RESTART_COUNT"},
    {"MPI", "PMI_RANK", "PMI_RANK", "MPI_LOCALRANKID", "PMI_SIZE", "MPI_LOCALNRANKS", NULL, NULL, NULL},
    {"environment", "RANK", "RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "NODE_RANK", NULL, NULL},
};

static const char *value_of(const struct vt_trace *trace, const char *name)
{
    for (size_t i = 0; name && i < trace->launch_count; i++)
        if (!strcmp(trace->launch[i].name, name))
            return trace->launch[i].value;
    return NULL;
}

/* -1 = not there, or no number. */
static int32_t number_of(const struct vt_trace *trace, const char *name)
{
    const char *text = value_of(trace, name);

    if (!text || !text[0] || strlen(text) > 8 || text[strspn(text, "0123456789")])
        return -1;
    return atoi(text);
}

static const struct launcher *launcher_of(const struct vt_trace *trace)
{
    for (size_t i = 0; i < sizeof launchers / sizeof *launchers; i++)
        if (value_of(trace, launchers[i].needs) && number_of(trace, launchers[i].rank) >= 0)
            return &launchers[i];
    return NULL;
}

static const char *or_empty(const char *text)
{
    return text ? text : "";
}

/* Of a process that learnt its rank after it had begun: Ray's workers, torch.multiprocessing.spawn. Those
 * that met at one place were launched together. */
static int read_group(const struct vt_trace *trace, struct vt_arena *arena, struct vt_job_process *process)
{
    const char *ray = value_of(trace, "RAY_JOB_ID");

    process->rank = trace->group_rank;
    process->world_size = trace->group_size;
    process->launcher = ray ? "Ray" : "torch.distributed";
    process->launch_name = vt_job_copy(arena, ray);
    process->label = vt_job_print(arena, "rank %d", (int)process->rank);
    process->launch_key = vt_job_print(arena, "%s\n%s\n%s\n%d", process->launcher, or_empty(ray),
                                       trace->group_store, (int)process->world_size);
    return process->label && process->launch_key && (!ray || process->launch_name) ? 0 : -ENOMEM;
}

int vt_job_read_launch(const struct vt_trace *trace, struct vt_arena *arena, struct vt_job_process *process)
{
    const struct launcher *launcher = launcher_of(trace);
    const char *visible = value_of(trace, "CUDA_VISIBLE_DEVICES"), *run;

    process->rank = process->local_rank = process->world_size = -1;
    process->local_world_size = process->node_rank = process->attempt = -1;
    process->visible_devices = vt_job_copy(arena, visible);
    process->launch_key = "";
    if (visible && !process->visible_devices)
        return -ENOMEM;
    if (!launcher && trace->group_size > 1)
        return read_group(trace, arena, process);
    if (!launcher) {
        process->label = vt_job_print(arena, "pid %u", process->pid);
        return process->label ? 0 : -ENOMEM;
    }
    process->rank = number_of(trace, launcher->rank);
    process->local_rank = number_of(trace, launcher->local_rank);
    process->world_size = number_of(trace, launcher->size);
    process->local_world_size = number_of(trace, launcher->local_size);
    process->node_rank = number_of(trace, launcher->node);
    process->attempt = number_of(trace, launcher->attempt);
    process->launcher = launcher->name;
    if (launcher == launchers && value_of(trace, "ACCELERATE_MIXED_PRECISION"))
        process->launcher = "accelerate";
    run = value_of(trace, launcher->run);
    if (run && !strcmp(run, "none")) /* what torchrun says if nobody named the run */
        run = NULL;
    process->launch_name = vt_job_copy(arena, run);
    process->label = vt_job_print(arena, "rank %d", (int)process->rank);
    process->launch_key = vt_job_print(
        arena, "%s\n%s\n%s\n%s\n%s\n%s\n%d\n%d", launcher->name, or_empty(run),
        or_empty(value_of(trace, "SLURM_STEP_ID")), or_empty(value_of(trace, "SLURM_ARRAY_TASK_ID")),
        or_empty(value_of(trace, "MASTER_ADDR")), or_empty(value_of(trace, "MASTER_PORT")),
        (int)process->attempt, (int)process->world_size);
    return process->label && process->launch_key && (!run || process->launch_name) ? 0 : -ENOMEM;
}
