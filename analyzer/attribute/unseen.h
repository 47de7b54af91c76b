/* Finds what inspections should have seen and did not. */
#ifndef VT_ATTRIBUTE_UNSEEN_H
#define VT_ATTRIBUTE_UNSEEN_H

#include <stdint.h>

struct vt_label;
struct vt_phases;
struct vt_placed;
struct vt_replay;

/* Adds VT_LIFE(UNSEEN) to the bits in `lives`, by allocation. `labels` are those of rules and
 * owners. */
void vt_unseen_find(const struct vt_replay *replay, const struct vt_phases *phases,
                    const struct vt_label *labels, const struct vt_placed *placed, uint64_t *lives);

#endif
