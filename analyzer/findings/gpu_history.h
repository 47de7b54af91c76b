/* A GPU over time: when its bytes in use were reported, what this process held then, and which report says
 * most about a moment. */
#ifndef VT_GPU_HISTORY_H
#define VT_GPU_HISTORY_H

#include <stdbool.h>
#include <stdint.h>

#include "findings/driver_overhead.h"
#include "findings/nvml_self.h"
#include "report/gpu_readings.h"

struct vt_context_levels;
struct vt_report;
struct vt_state;

struct vt_gpu_history {
    const struct vt_report *report;
    int device_index;
    struct vt_gpu_readings readings;
    struct vt_silent_events silent_events;
    struct vt_nvml_self own;
};

/* A device just after an event, and the reading that it is measured by. */
struct vt_measured_moment {
    const struct vt_state *state;
    uint64_t spare_bytes;                 /* free parts of pools */
    uint32_t era;                         /* contexts of an earlier one are gone */
    const struct vt_gpu_reading *reading; /* NULL = none */
    bool own_known;                       /* the reading has this process apart from others */
};

struct vt_gpu_history vt_gpu_history_read(const struct vt_report *report, int device_index);
void vt_gpu_history_free(struct vt_gpu_history *history);

/* Chooses the best reading: the nearest in time, or the `last` of equally good ones. */
struct vt_measured_moment vt_gpu_measure_moment(const struct vt_gpu_history *history,
                                                const struct vt_state *state, bool last);

/* The moment or its reading is from before the process used the device, or from after it had ended its
 * contexts there, and the other one is not. */
bool vt_gpu_contexts_differ(const struct vt_measured_moment *moment);
/* The reading shows the same state as the moment, by everything that this process's own events show. */
bool vt_gpu_same_own(const struct vt_measured_moment *moment);
/* What this process had beside its own memory at the moment, but for calls that are rows of their own. */
uint64_t vt_gpu_context_at(const struct vt_gpu_history *history, const struct vt_measured_moment *moment);
/* What pools had returned to the device by the reading, as NVML reports: they do so when the program waits
 * for the device, and events show it only with their next use. */
uint64_t vt_gpu_returned_bytes(const struct vt_gpu_history *history, const struct vt_measured_moment *moment);
/* What NVML charged this process with on the device beyond its own memory (contexts, code and the like, and
 * memory that was not seen), from change to change. None where no steady reading reported it. */
struct vt_context_levels vt_gpu_context_levels(const struct vt_gpu_history *history);
/* Calls of an era up to an event. The caller frees the items. */
struct vt_silents vt_gpu_silents(const struct vt_gpu_history *history, uint32_t era, uint32_t event_index);

#endif
