/* Landmarks of a digest, so that steps remain recognisable: first blocks of backward passes, and of calls of
 * a model; and its totals and peaks. Private to digests. */
#ifndef VT_DIGEST_LANDMARKS_H
#define VT_DIGEST_LANDMARKS_H

#include "record/digest.h"

/* What the thread of a block did just before it was made. */
struct vt_before {
    uint64_t sequence;
    uint32_t node_stack;
};

/* A node was made without a block. */
void vt_landmarks_node(struct vt_digest *digest, const struct vt_event *event);
/* A framework's block is made, or was (VT_EVENT_RAN). `models` as in vt_digest_take. */
struct vt_before vt_landmarks_block(struct vt_digest *digest, const struct vt_event *event,
                                    const struct vt_models *models);
/* A block that is neither of forward nor of backward stays: the last forward, which may come before a pass,
 * is shown before it. */
void vt_landmarks_show_forward(struct vt_digest *digest, uint64_t t_ns);
/* The run ends: each device's most since its latest landmark. */
void vt_landmarks_show_most(struct vt_digest *digest);
/* And what the next block of each thread is compared with. */
void vt_landmarks_show_threads(struct vt_digest *digest);
static inline bool vt_makes_node(const struct vt_event *event, struct vt_before before)
{
    return event->sequence % 2 == 0 && (event->sequence > before.sequence || before.node_stack);
}
static inline bool vt_is_of_pass(const struct vt_event *block)
{
    return block->sequence % 2;
}
/* A block is made, or such a block of a pass is freed. */
void vt_landmarks_make_gradient(struct vt_digest *digest, const struct vt_event *event);
void vt_landmarks_free_gradient(struct vt_digest *digest, const struct vt_event *event);
/* The stack of the node that made this block in a backward pass, where the node itself was made; 0 = not
 * known. */
uint32_t vt_landmarks_forward(const struct vt_digest *digest, const struct vt_event *event);
/* A landmark of an earlier digest. */
void vt_landmarks_pass_on(struct vt_digest *digest, const struct vt_event *event);
/* Totals: of blocks, by the framework's own count; of the driver's memory; of events. */
void vt_landmarks_bytes(struct vt_digest *digest, const struct vt_event *event);
void vt_landmarks_driver(struct vt_digest *digest, const struct vt_event *event);
void vt_landmarks_count(struct vt_digest *digest, const struct vt_event *event);
/* Passes over blocks that go again before the digest ends, and their frees, from events[first] up to the
 * first event that is neither. Returns its index. */
size_t vt_landmarks_pass_over(struct vt_digest *digest, const struct vt_event *const *events, size_t first,
                              size_t count, uint32_t *pairs, const struct vt_models *models);

#endif
