/* Finds where steps begin. */
#ifndef VT_ATTRIBUTE_STEPS_H
#define VT_ATTRIBUTE_STEPS_H

#include <stdint.h>

struct vt_finder;

/* Sets `begins_step` (by event) where a step after the first begins. Returns the event before which there is
 * no step, 0 = the first phase that is none of the start begins it. */
uint32_t vt_steps_find(struct vt_finder *finder, uint32_t *begins_step);

#endif
