/* Finds what repeats a block that an inspection saw. */
#ifndef VT_ATTRIBUTE_REPEATS_H
#define VT_ATTRIBUTE_REPEATS_H

#include <stdint.h>

struct vt_label;
struct vt_module_tree;
struct vt_phases;
struct vt_placed;
struct vt_replay;

/* Sets `like` for gradients, optimizer state, and parameters and buffers that steps replace, where
 * no inspection saw them, and corrects categories that rules only guessed. */
void vt_repeats_find(const struct vt_replay *replay, const struct vt_phases *phases,
                     struct vt_module_tree *modules, struct vt_label *labels, struct vt_placed *placed);

#endif
