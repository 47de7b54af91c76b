/* Finds the allocation that each tensor of an inspection lay in. */
#ifndef VT_ATTRIBUTE_SIGHTINGS_H
#define VT_ATTRIBUTE_SIGHTINGS_H

#include <stdbool.h>
#include <stddef.h>

struct vt_inspection_counts;
struct vt_phases;
struct vt_replay;
struct vt_sighting;

/* For named tensors or for the census. Sorted by
 * allocation, address, then latest inspection first; the caller frees them. */
void vt_sightings_find(const struct vt_replay *replay, const struct vt_phases *phases, bool census,
                       struct vt_inspection_counts *counts, struct vt_sighting **sightings, size_t *count);

#endif
