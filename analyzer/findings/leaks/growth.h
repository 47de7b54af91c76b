/* Growth that repeats, in series of bytes by step. */
#ifndef VT_LEAK_GROWTH_H
#define VT_LEAK_GROWTH_H

#include "findings/leaks/finder.h"

/* A run of growth: the steps in which a series exceeds all that it was before. */
struct vt_growth {
    uint32_t first_step, last_step, records;
    uint64_t bytes_per_step; /* the slope of the line through them */
};

/* Whether a series grows repeatedly from one step to the other, up to the end. `at_once`: steps that run at
 * one time at most, so that some keep nothing and others more. */
bool vt_growth_repeats(const struct vt_leak_change *series, size_t count, uint32_t from, uint32_t to,
                       uint32_t at_once, struct vt_growth *growth);

/* Which classes grow by what each step keeps. */
void vt_leak_growth_find(struct vt_leak_finder *finder);
/* One tensor that each step makes anew, out of itself and more. */
void vt_leak_rebuilt_find(struct vt_leak_finder *finder);

#endif
