/* Joins what backward made with the forward operator whose node made it. */
#ifndef VT_ATTRIBUTE_JOIN_H
#define VT_ATTRIBUTE_JOIN_H

struct vt_label;
struct vt_phases;
struct vt_replay;
struct vt_traits_by_stack;

/* Sets forward_stack_id of what backward made, by autograd's node numbers. */
void vt_join_backward(const struct vt_replay *replay, const struct vt_traits_by_stack *sites,
                      struct vt_label *labels);
/* Sets it of the rest that no Python frame shows: the call of backward that the script made. Call it last: nothing
 * else may take it for a forward operator. */
void vt_join_callers(const struct vt_replay *replay, const struct vt_traits_by_stack *sites,
                     const struct vt_phases *phases, struct vt_label *labels);

#endif
