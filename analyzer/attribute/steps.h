/* Finds where steps begin. */
#ifndef VT_ATTRIBUTE_STEPS_H
#define VT_ATTRIBUTE_STEPS_H

#include <stdint.h>

struct vt_finder;

/* Sets `begins_step` (by event) where a step after the first begins. */
void vt_steps_find(struct vt_finder *finder, uint32_t *begins_step);

#endif
