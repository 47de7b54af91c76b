/* Finds phases, steps and backward passes. */
#ifndef VT_ATTRIBUTE_FIND_PHASES_H
#define VT_ATTRIBUTE_FIND_PHASES_H

struct vt_phases;
struct vt_replay;
struct vt_traits_by_stack;

/* Finds them all, and adds the trait `backward` to all stacks of the engine's threads. The caller frees the
 * phases. */
void vt_phases_find(const struct vt_replay *replay, struct vt_traits_by_stack *traits,
                    struct vt_phases *phases);

#endif
