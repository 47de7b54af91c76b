/* What each training step of a device did with its memory, and which steps stand out. */
#ifndef VT_STEPS_H
#define VT_STEPS_H

#include "report/report.h"

#define VT_STEP_SPREADS 6

/* The state just after an event. */
struct vt_step_state {
    bool present;
    uint32_t event_index;
    uint64_t used_bytes; /* as the report's peak: without the cache and the context */
    struct vt_sums sums;
};

struct vt_step {
    uint32_t step; /* 0 = all before the first */
    uint32_t first_event, last_event;
    uint64_t t_ns, duration_ns; /* to the next step's begin; of the last one, to its last event */
    struct vt_step_state peak;  /* as `report --at step:N` */
    struct vt_step_state end;
    uint64_t before_bytes; /* in use at the end of the step before */
    bool large, slow;      /* stands out */
};

struct vt_steps {
    struct vt_step *items; /* in order */
    size_t count;
    /* Of the steps from 1 on; 0 where there are too few to tell which stand out. */
    uint64_t median_peak_bytes, median_ns;
};

int vt_steps_make(const struct vt_report *report, const struct vt_device_report *device,
                  struct vt_steps *steps);
void vt_steps_free(struct vt_steps *steps);

#endif
