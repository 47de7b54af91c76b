/* What else would fit the GPU, by a simulation of PyTorch's allocator (allocator.h). */
#ifndef VT_CAPACITY_H
#define VT_CAPACITY_H

#include "attribute/attribute.h"
#include "report/report.h"

struct vt_capacity {
    bool known; /* false: the memory is not of such an allocator, or the calls are too few or too different */
    bool ended; /* the search was stopped there: more may fit */
    size_t count;                  /* that fit before the driver has no more */
    uint64_t cache_bytes_per_call; /* without what blocks have beyond their requests; 0 = not known */
};

/* More calls of a model after these, which are steps in order, with growth as in them. free_bytes: what the
 * driver has left after the last of them. */
struct vt_capacity vt_capacity_calls(const struct vt_attribution *attribution, int device_index,
                                     const struct vt_step *steps, size_t calls, uint64_t free_bytes);
/* More sets of blocks of these sizes. free_bytes: just after the event. */
struct vt_capacity vt_capacity_copies(const struct vt_replay *replay, int device_index, uint32_t event_index,
                                      const uint64_t *bytes, size_t count, uint64_t free_bytes);

#endif
