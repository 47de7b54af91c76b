/* How a process was launched, from its launcher's variables. */
#ifndef VT_JOB_LAUNCH_H
#define VT_JOB_LAUNCH_H

struct vt_arena;
struct vt_job_process;
struct vt_trace;

/* Reads rank, sizes, launcher and run from the variables of a trace. */
void vt_job_read_launch(const struct vt_trace *trace, struct vt_arena *arena, struct vt_job_process *process);

#endif
