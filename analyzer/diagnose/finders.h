/* The finders that vt_diagnose calls. The report frees what they fill in. */
#ifndef VT_FINDERS_H
#define VT_FINDERS_H

#include "report/report.h"

struct vt_places;
struct vt_replay;

/* Advice on one device: what would have lowered its peak, as far as the trace itself shows it; none under 1 %
 * of the peak.
 *
 * Each piece states which bytes would have been absent, and when. The peak is then computed again over the
 * whole trace, since another moment may become the largest.
 *
 * It is searched while the caller finds leaks. vt_advice_end, once they are in the report, fills in the
 * advice and ends the search. */
struct vt_advice_search;
struct vt_advice_search *vt_advice_begin(const struct vt_report *report, int device_index,
                                         struct vt_advices *advices);
void vt_advice_end(struct vt_advice_search *search);

/* Some block came with its allocator's own total: of all frameworks, PyTorch's do. So without native stacks
 * segments are PyTorch's. */
bool vt_counts_blocks(const struct vt_replay *replay);
/* Code that returns empty segments of the device's framework to the GPU; NULL = none is known. */
const char *vt_cache_release(const struct vt_replay *replay, int device_index);
/* Fragmentation of one device just after an event: its segments, their blocks (index, address and bytes
 * only), and what keeps each from being returned. */
void vt_fragmentation_find(const struct vt_replay *replay, int device_index, uint32_t event_index,
                           struct vt_fragmentation *found);
/* Sets the rest of the blocks, and the pins. */
void vt_fragmentation_describe(const struct vt_report *report, struct vt_fragmentation *found);

/* Leaks of one device: growth that repeats. Page-locked host memory is reported with the lowest device that
 * has any memory. */
void vt_leaks_find(const struct vt_attribution *attribution, struct vt_places *places, int device_index,
                   struct vt_leaks *leaks);

/* The private pools of CUDA graphs of one device just after an event. */
void vt_graph_pools_find(const struct vt_report *report, int device_index, uint32_t event,
                         struct vt_graph_pools *pools);

/* Every byte of the device, at the moment shown and at the last reading. */
void vt_gpu_account(const struct vt_report *report, struct vt_device_report *device);
/* The failed request that is shown counts as context what was in use on the GPU when it was first queried:
 * where NVML reported the process's own part, the rest belongs to other processes. After vt_gpu_account of
 * all devices. */
void vt_gpu_account_oom(struct vt_report *report);

/* What could be done about it, of a table that is complete but for this (gpu_advice.c). */
void vt_gpu_advise(const struct vt_report *report, struct vt_gpu_table *table);

/* Devices with a context but without memory, after the tables of all GPUs. */
void vt_empty_contexts_find(struct vt_report *report);

/* What running out of memory was about, for the failed request that the report shows; all zero unless a
 * device's `at` is that request. */
void vt_shortage_find(const struct vt_report *report, struct vt_shortage *shortage);
/* Its part in causes.c: why memory ran out. The device's leaks are found before. */
void vt_causes_find(const struct vt_report *report, struct vt_shortage *shortage);

/* Requests and caches of keys and values of a device, where nothing went backward. */
void vt_inference_find(const struct vt_report *report, const struct vt_device_report *device,
                       struct vt_inference *inference);

/* What each training step of a device did with its memory, and which steps stand out. */
void vt_steps_make(const struct vt_report *report, int device_index, struct vt_steps *steps);

#endif
