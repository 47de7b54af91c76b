/* Leaks: growth that repeats. Bytes alive at the start of step after step, by the stack that made them.
 *
 * What a step made is kept if it is alive when the last step begins. It is a leak if keeping repeats: in at
 * least VT_LEAK_BIRTHS steps, up to the end, and with growing total bytes. That excludes memory taken once,
 * buffers that fill and stop, values that the next step replaces, and varying sizes. The last step itself is
 * left out: a program that ends frees what it kept. */
#ifndef VT_LEAKS_H
#define VT_LEAKS_H

#include "attribute/attribute.h"
#include "report/findings.h"

/* Of one device. Page-locked host memory is reported with the lowest device that has any memory. -ENOMEM. */
int vt_leaks_find(const struct vt_attribution *attribution, struct vt_places *places, int device_index,
                  struct vt_leaks *leaks);

#endif
