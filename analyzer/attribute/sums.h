/* The bytes of each category after every event. */
#ifndef VT_SUMS_H
#define VT_SUMS_H

#include "attribute/attribute.h"

/* One device after one event. */
struct vt_sums {
    struct vt_counts counts;
    uint64_t categories[VT_CATEGORY_COUNT]; /* sum to driver_bytes, without host_pinned */
    uint64_t gathered_bytes;                /* of the parameters: whole copies of sharded ones */
    uint64_t half_copy_bytes;               /* of the activations: weights in half precision */
    uint64_t rounding_bytes;                /* of the categories: more than requested, where that is known */
};

/* Non-zero ends the walk. `sums` is valid for the call. */
typedef int (*vt_category_visit)(void *context, uint32_t event_index, const struct vt_sums *sums);

/* Walks all events in order for one device and visits those that touch it. Returns what the last visit
 * returned. */
int vt_category_walk(const struct vt_attribution *attribution, int device_index, vt_category_visit visit,
                     void *context);

/* The caller sets `breach` and `context`; calls add to the counts. */
struct vt_category_check {
    void (*breach)(void *context, uint32_t event_index, const char *what); /* may be NULL */
    void *context;
    uint64_t events, breaches;
};

/* Checks after every event of the device that the categories sum to the driver's bytes, that no more is
 * cached than segments hold, and that page-locked memory agrees. Returns 0, or -EINVAL if there was a breach.
 */
int vt_category_verify(const struct vt_attribution *attribution, int device_index,
                       struct vt_category_check *check);

#endif
