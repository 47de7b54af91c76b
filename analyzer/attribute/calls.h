/* Finds arrays that other calls of the same line made too. */
#ifndef VT_ATTRIBUTE_CALLS_H
#define VT_ATTRIBUTE_CALLS_H

struct vt_label;
struct vt_phases;
struct vt_placed;
struct vt_replay;

/* After vt_repeats_find, sets `like` for arrays that no inspection saw, by those that other calls of
 * the same line made, and their categories. */
void vt_calls_judge(const struct vt_replay *replay, const struct vt_phases *phases, struct vt_label *labels,
                    struct vt_placed *placed);

#endif
