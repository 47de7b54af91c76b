/* What a device held over time: its own memory, its context, and other processes. */
#ifndef VT_JOB_LEVELS_H
#define VT_JOB_LEVELS_H

#include <stddef.h>
#include <stdint.h>

struct vt_arena;
struct vt_job_device;
struct vt_job_other;
struct vt_report;
struct vt_trace;

/* Fills levels and the context of a device. */
void vt_job_read_levels(const struct vt_report *report, struct vt_arena *arena, struct vt_job_device *device);
/* Fills others; context_told is false afterwards where they cannot all be kept. */
void vt_job_read_others(const struct vt_trace *trace, struct vt_arena *arena, struct vt_job_device *device);
/* The place of that process, else one that is free: without bytes, or after the last. */
size_t vt_job_place_of(const struct vt_job_other *others, size_t count, uint32_t pid);

#endif
