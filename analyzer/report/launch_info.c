/* Reads the variables of launchers, the command line, and the models that inspections saw. */
#include "report/launch_info.h"

#include "base/allocate.h"
#include "report/report.h"
#include "trace/trace.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Launchers ---- */

/* The first row whose first two variables are set names the launcher: those that are started last come
 * first, since one launcher may start another. NULL = the launcher does not say. */
static const struct launcher {
    const char *name, *needs, *rank, *local_rank, *size, *local_size, *node, *run, *attempt;
} launchers[] = {
    {"torchrun", "TORCHELASTIC_RUN_ID", "RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "GROUP_RANK",
     "TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT"},
    {"DeepSpeed", "CROSS_RANK", "RANK", "LOCAL_RANK", "WORLD_SIZE", NULL, "CROSS_RANK", NULL, NULL},
    /* without a name: RAY_JOB_ID is each cluster's own count, and of workers that wait for a job none */
    {"Ray", "RAY_JOB_ID", "RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "NODE_RANK", NULL, NULL},
    {"Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_RANK",
     "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE", NULL, "PMIX_NAMESPACE", NULL},
    /* a batch script outside any step has a number too, but is not a rank */
    {"Slurm", "SLURM_STEP_ID", "SLURM_PROCID", "SLURM_LOCALID", "SLURM_STEP_NUM_TASKS", NULL, "SLURM_NODEID",
     "SLURM_JOB_ID", "SLURM_RESTART_COUNT"},
    {"MPI", "PMI_RANK", "PMI_RANK", "MPI_LOCALRANKID", "PMI_SIZE", "MPI_LOCALNRANKS", NULL, NULL, NULL},
    {"environment", "WORLD_SIZE", "RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "NODE_RANK", NULL,
     NULL},
};

const char *vt_launch_variable(const struct vt_trace *trace, const char *name)
{
    for (size_t i = 0; name && i < trace->launch_count; i++)
        if (!strcmp(trace->launch[i].name, name))
            return trace->launch[i].value;
    return NULL;
}

/* -1 = not there, or no number. */
static int32_t number_of(const struct vt_trace *trace, const char *name)
{
    const char *text = vt_launch_variable(trace, name);

    if (!text || !text[0] || strlen(text) > 8 || text[strspn(text, "0123456789")])
        return -1;
    return atoi(text);
}

static const struct launcher *launcher_of(const struct vt_trace *trace)
{
    for (size_t i = 0; i < sizeof launchers / sizeof *launchers; i++)
        if (vt_launch_variable(trace, launchers[i].needs) && number_of(trace, launchers[i].rank) >= 0)
            return &launchers[i];
    return NULL;
}

static const char group_module[] =
#define VT_GROUPS(module) module
#include "trace/frameworks.def"
    ;

/* For a process whose rank is in no variable: torch.multiprocessing.spawn. */
static void read_group(const struct vt_trace *trace, struct vt_launch *launch)
{
    if (!launch->launcher)
        launch->launcher = group_module;
    launch->rank = trace->group_rank;
    launch->world_size = trace->group_size;
    launch->store = trace->group_store;
}

struct vt_launch vt_launch_read(const struct vt_trace *trace)
{
    const struct launcher *launcher = launcher_of(trace);
    struct vt_launch launch = {.rank = -1,
                               .local_rank = -1,
                               .world_size = -1,
                               .local_world_size = -1,
                               .node_rank = -1,
                               .attempt = -1,
                               .visible_devices = vt_launch_variable(trace, "CUDA_VISIBLE_DEVICES")};
    /* Ray's tasks and actors are no ranks unless they make themselves some. */
    if (!launcher && vt_launch_variable(trace, "RAY_JOB_ID"))
        launch.launcher = "Ray";
    if (!launcher && trace->group_size > 1)
        read_group(trace, &launch);
    if (!launcher)
        return launch;
    launch.rank = number_of(trace, launcher->rank);
    launch.local_rank = number_of(trace, launcher->local_rank);
    launch.world_size = number_of(trace, launcher->size);
    launch.local_world_size = number_of(trace, launcher->local_size);
    launch.node_rank = number_of(trace, launcher->node);
    launch.attempt = number_of(trace, launcher->attempt);
    launch.launcher = launcher->name;
    if (launcher == launchers && vt_launch_variable(trace, "ACCELERATE_MIXED_PRECISION"))
        launch.launcher = "accelerate";
    launch.run = vt_launch_variable(trace, launcher->run);
    if (launch.run && !strcmp(launch.run, "none")) /* what torchrun says if nobody named the run */
        launch.run = NULL;
    return launch;
}

/* ---- The program ---- */

/* What Python runs: a path, with `is_module` what -m names, "-c"; else the executable. NULL = not known. */
static const char *find_script(const struct vt_trace *trace, bool *is_module)
{
    *is_module = false;
    for (int i = 1; trace->python_version && i < trace->argument_count; i++) {
        const char *argument = trace->arguments[i];

        if (*is_module || argument[0] != '-' || !strcmp(argument, "-c"))
            return argument;
        *is_module = !strcmp(argument, "-m");
        i += !strcmp(argument, "-X") || !strcmp(argument, "-W");
    }
    *is_module = false;
    return trace->executable && trace->executable[0] ? trace->executable : NULL;
}

/* The root that inspections saw most bytes of parameters of; `root_count` = none. */
static size_t main_root(const struct vt_trace *trace, uint64_t *bytes)
{
    size_t most = trace->root_count;

    for (size_t i = 0; i < trace->inspection_count; i++)
        for (size_t k = 0; k < trace->inspections[i].tensor_count; k++) {
            const struct vt_inspection_tensor *tensor = &trace->inspections[i].tensors[k];

            if (tensor->kind == VT_INSPECTION_PARAMETER && tensor->root >= 0)
                bytes[tensor->root] += tensor->bytes;
        }
    for (size_t root = 0; root < trace->root_count; root++)
        if (bytes[root] && (most == trace->root_count || bytes[root] > bytes[most]))
            most = root;
    return most;
}

/* The class of the model with most bytes of parameters, without wrappers such as DistributedDataParallel;
 * NULL = no inspection saw one. */
static const char *find_model(const struct vt_trace *trace)
{
    uint64_t *bytes = vt_allocate_zeros(trace->root_count + 1, sizeof *bytes);
    const size_t root = main_root(trace, bytes);
    const char *model = NULL;

    free(bytes);
    /* The last with the root's own path is what transparent wrappers hold. */
    for (size_t i = 0; i < trace->inspection_count && root < trace->root_count; i++)
        for (size_t k = 0; k < trace->inspections[i].module_count; k++) {
            const struct vt_inspection_module *module = &trace->inspections[i].modules[k];

            if (module->root == root && !module->path[0])
                model = module->class_name;
        }
    return model;
}

/* "-m NAME", or a path; NULL = not known. */
static const char *script_of(const struct vt_report *report)
{
    const struct vt_trace *trace = report->trace;
    bool is_module;
    const char *script = find_script(trace, &is_module);
    char path[2 * PATH_MAX];

    if (!script)
        return NULL;
    if (is_module)
        snprintf(path, sizeof path, "-m %s", script);
    else if (script[0] == '/' || script[0] == '-' || !trace->working_folder)
        return script;
    else
        snprintf(path, sizeof path, "%s/%s", trace->working_folder, script);
    return vt_places_text(report->places, path);
}

static void put_hexadecimal(const uint8_t *bytes, size_t count, char *text)
{
    bool known = false;

    for (size_t i = 0; i < count; i++)
        known |= bytes[i] != 0;
    for (size_t i = 0; known && i < count; i++)
        sprintf(text + 2 * i, "%02x", bytes[i]);
}

void vt_trace_row_make(const struct vt_report *report, struct vt_trace_row *row)
{
    const struct vt_trace *trace = report->trace;
    const struct vt_file_header *header = &trace->header;
    const struct vt_loss *loss = vt_worst_loss(&report->facts);

    *row = (struct vt_trace_row){.facts = &report->facts,
                                 .label = vt_launch_variable(trace, "VRAMTRACE_LABEL"),
                                 .script = script_of(report),
                                 .host = header->host,
                                 .working_folder = trace->working_folder,
                                 .executable = trace->executable,
                                 .recorder_version = header->program_version,
                                 .parent_pid = header->parent_pid,
                                 .steps = report->step_count,
                                 .duration_ns = report->duration_ns,
                                 .refusals = report->refusal_count,
                                 .loss = loss ? loss->text : NULL};
    row->launch = vt_launch_read(trace);
    if (trace->python_version)
        snprintf(row->python_version, sizeof row->python_version, "%u.%u.%u", trace->python_version >> 24,
                 trace->python_version >> 16 & 0xff, trace->python_version >> 8 & 0xff);
    put_hexadecimal(header->identity, sizeof header->identity, row->recording);
    for (size_t i = 0; i < report->refusal_count; i++)
        row->ended_by_refusal |= report->refusals[i].ends_run;
    row->model = find_model(trace);
}
