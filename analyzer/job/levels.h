/* What a device held over time: its own memory, its context, and other processes. */
#ifndef VT_JOB_LEVELS_H
#define VT_JOB_LEVELS_H

struct vt_arena;
struct vt_job_device;
struct vt_report;
struct vt_trace;

/* Fills levels and the context of a device. */
void vt_job_read_levels(const struct vt_report *report, struct vt_arena *arena, struct vt_job_device *device);
/* Fills others; context_told is false afterwards where they cannot all be kept. */
void vt_job_read_others(const struct vt_trace *trace, struct vt_arena *arena, struct vt_job_device *device);

#endif
