/* Finds the peak, the end and other moments of a device, and its sums then. */
#ifndef VT_REPORT_INSTANTS_H
#define VT_REPORT_INSTANTS_H

#include "report/report.h"
#include "report/moments.h"

struct vt_sums;

/* The measure of the peak: block bytes if a framework had blocks, else driver bytes that are not cached. */
uint64_t vt_state_measure(const struct vt_state *state, bool has_blocks);
/* Copies an event's sums; vt_state_finish does the rest. */
void vt_state_keep(struct vt_state *state, uint32_t event_index, const struct vt_sums *sums);
/* Finds time, step, phase and the bytes in use of state->event_index. */
void vt_state_finish(const struct vt_report *report, struct vt_state *state);

/* Step and phase of an event; outside the trace, those before its first step. */
struct vt_span;
const struct vt_span *vt_report_span(const struct vt_report *report, uint32_t event_index);

/* Finds peak and end of a device, and with `at` that moment. */
void vt_walk_device(const struct vt_report *report, const struct vt_moment *at,
                    struct vt_device_report *device);

#endif
