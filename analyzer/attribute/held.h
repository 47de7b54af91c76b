/* What Python names hold. */
#ifndef VT_ATTRIBUTE_HELD_H
#define VT_ATTRIBUTE_HELD_H

#include <stdint.h>

struct vt_arena;
struct vt_attribution;
struct vt_inspection_holder;
struct vt_label;
struct vt_phases;
struct vt_traits_by_stack;

struct vt_held_table {
    const struct vt_inspection_holder **of_stack; /* by stack: what holds its blocks, NULL = none was seen */
};
/* Sets `held` of the attribution. The table lives in the arena. */
void vt_held_find(struct vt_attribution *attribution, const struct vt_phases *phases, struct vt_arena *arena,
                  struct vt_held_table *table);
/* As vt_holder_of. */
const struct vt_inspection_holder *vt_held_get(const struct vt_attribution *attribution,
                                               const struct vt_held_table *table, uint32_t allocation);
/* What a program calls a cache of keys and values, and keeps from call to call, is one. */
void vt_held_name_caches(const struct vt_attribution *attribution, const uint64_t *lives,
                         struct vt_label *labels, uint32_t *inspection_of);
/* What a variable holds, gets a gradient and is no parameter is data, though autograd made it: an attack on
 * the inputs computes the next one from the one before. */
void vt_held_find_leaves(const struct vt_attribution *attribution, const struct vt_held_table *table,
                         const struct vt_traits_by_stack *sites, const uint64_t *lives,
                         struct vt_label *labels);

#endif
