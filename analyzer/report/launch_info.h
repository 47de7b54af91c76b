/* Facts of a trace: which program was recorded, and which part of a job it was. */
#ifndef VT_LAUNCH_INFO_H
#define VT_LAUNCH_INFO_H

#include <stdbool.h>
#include <stdint.h>

struct vt_report;
struct vt_trace;
struct vt_trace_facts;

/* By the variables that a launcher had set (rank -1: it gave none), else by PyTorch's default group of
 * processes. Numbers: -1 = not known; text: NULL = not known. Text belongs to the trace. */
struct vt_launch {
    const char *launcher; /* "torchrun", "Slurm", … */
    const char *run;      /* the launcher's name of the run */
    int32_t rank, local_rank, world_size, local_world_size, node_rank, attempt;
    const char *visible_devices;
    const char *store; /* where the default group met; NULL = known from variables */
};
struct vt_launch vt_launch_read(const struct vt_trace *trace);
/* The value of a variable of preload/launch.def; NULL = it was not set. */
const char *vt_launch_variable(const struct vt_trace *trace, const char *name);

/* Everything that distinguishes a trace from others. Text belongs to the report, or to its owner. */
struct vt_trace_row {
    const struct vt_trace_facts *facts;
    struct vt_launch launch;
    const char *label; /* what VRAMTRACE_LABEL said; NULL = it was not set */
    const char *script, *model, *host, *working_folder, *executable; /* NULL = not known */
    const char *recorder_version;
    char python_version[32]; /* "3.11.4"; "" = no Python */
    char recording[40];      /* hexadecimal; "" = not known */
    uint32_t parent_pid, steps;
    uint64_t duration_ns, refusals;
    bool ended_by_refusal;
    const char *loss; /* the worst, in words; NULL = none */
};

void vt_trace_row_make(const struct vt_report *report, struct vt_trace_row *row);

#endif
