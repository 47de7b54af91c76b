/* Categories of arrays that programs hold in trees. */
#ifndef VT_ATTRIBUTE_TREES_H
#define VT_ATTRIBUTE_TREES_H

#include <stddef.h>

struct vt_label;
struct vt_sighting;

/* By the trees' names and structures. */
void vt_trees_judge(const struct vt_sighting *sightings, size_t count, struct vt_label *labels);

#endif
