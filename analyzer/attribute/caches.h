/* Finds caches: blocks that outlive the calls that made them. */
#ifndef VT_ATTRIBUTE_CACHES_H
#define VT_ATTRIBUTE_CACHES_H

#include <stdint.h>

struct vt_phases;
struct vt_replay;
struct vt_traits_by_stack;

/* Adds the life bits outlives-call and grown; counts calls of models at one time, and the threads that made
 * them. */
void vt_caches_find(const struct vt_replay *replay, const struct vt_traits_by_stack *sites,
                    const struct vt_phases *phases, uint64_t *lives, uint32_t *concurrent, uint32_t *threads);

#endif
