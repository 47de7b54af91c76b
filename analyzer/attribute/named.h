/* Categories by the names that inspections found. */
#ifndef VT_ATTRIBUTE_NAMED_H
#define VT_ATTRIBUTE_NAMED_H

#include <stdint.h>

struct vt_attribution;
struct vt_label;
struct vt_phases;
struct vt_placed;

/* Only where rules guess and the name tells what it is. */
void vt_named_judge(const struct vt_attribution *attribution, const struct vt_phases *phases,
                    const uint64_t *lives, struct vt_label *labels, struct vt_placed *placed);

#endif
