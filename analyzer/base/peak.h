/* The most that there is at one time, of amounts that come and go. */
#ifndef VT_PEAK_H
#define VT_PEAK_H

#include <stddef.h>
#include <stdint.h>

struct vt_peak_change;

/* A set of zeros is empty. */
struct vt_peak {
    struct vt_peak_change *changes;
    size_t count, capacity;
};

/* Adds an amount that is there from event `begin` to event `end`; UINT32_MAX = to the last. */
void vt_peak_add(struct vt_peak *peak, uint32_t begin, uint32_t end, uint64_t bytes);
/* The most up to event `last`, and the event that first reaches it; `left`: what is there after `last`. What
 * an event ends is gone before what it begins is there. Empties the set. */
struct vt_peak_found {
    uint64_t bytes, left;
    uint32_t event;
};
struct vt_peak_found vt_peak_find(struct vt_peak *peak, uint32_t last);

#endif
