/* Groups of owners: the named tensors that lie in allocations, and what no inspection named. */
#ifndef VT_OWNER_GROUPS_H
#define VT_OWNER_GROUPS_H

#include "report/group_table.h"

/* Adds an allocation to the groups of its owners, to each its share: all groups together have all bytes. One
 * without an owner goes to a group of its module or line and category ("layers.3.mlp · activation"). 0 or
 * -ENOMEM. */
int vt_add_to_owners(const struct vt_attribution *attribution, struct vt_places *places, uint32_t allocation,
                     struct vt_group_table *table);

#endif
