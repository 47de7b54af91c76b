/* When the GPU's bytes in use were reported, and what this process held then. */
#ifndef VT_REPORT_GPU_READINGS_H
#define VT_REPORT_GPU_READINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct vt_report;
struct vt_trace;
struct vt_trace_gpu_use;
struct vt_allocation;
struct vt_event;

/* As NVML reported, else the driver; for this process just after `event_index`. *_bytes are without the
 * context, which has its own. */
struct vt_gpu_reading {
    const struct vt_trace_gpu_use *use; /* NULL: the driver's */
    uint32_t event_index;
    uint32_t era;              /* contexts of an earlier one are gone */
    uint64_t begin_ns, end_ns; /* since recording began */
    uint64_t held_ns;          /* and until when the report stayed the same: equal answers are left out */
    uint64_t used_bytes, total_bytes;
    uint64_t own_bytes, context_bytes; /* context: as replay has it, with modules and the like */
    uint64_t
        spare_bytes; /* of own_bytes: free parts of pools, which may have gone back to the device unseen */
    bool steady;     /* no driver memory of this process changed near it */
};
struct vt_gpu_readings {
    struct vt_gpu_reading *items; /* in order; NVML's if there are any */
    size_t count;
    uint32_t *era_starts; /* events; of era 0 the first */
    size_t era_count;
};
struct vt_gpu_readings vt_gpu_readings_find(const struct vt_report *report, int device_index);
void vt_gpu_readings_free(struct vt_gpu_readings *readings);
/* The event is a report of the driver for the whole GPU. */
bool vt_reports_gpu(const struct vt_event *event, int device_index);
/* What an allocation adds to the free parts of pools. */
int64_t vt_spare_change(const struct vt_allocation *allocation);
/* The event of the last one; false if none is among the events examined. */
bool vt_last_reading_event(const struct vt_trace *trace, int device_index, uint32_t *event_index);

#endif
