/* Private to attribution: passes that prepare graphs, before the work begins. */
#ifndef VT_ATTRIBUTE_WARM_UP_H
#define VT_ATTRIBUTE_WARM_UP_H

#include <stdint.h>

struct vt_finder;
struct vt_model_calls;

/* Takes away calls that a graph captures, and those that warm up for captures. Returns the event of the first
 * that is left if any was taken, else 0. */
uint32_t vt_warm_up_drop(const struct vt_finder *finder, struct vt_model_calls *calls);

#endif
