/* Groups of owners: the named tensors that lie in allocations, and what no look knows by name. */
#ifndef VT_OWNER_GROUPS_H
#define VT_OWNER_GROUPS_H

#include "report/group_table.h"
#include "report/stack_names.h"

/* Adds an allocation to the groups of its owners, to each its share: all groups together have all bytes. One
 * without an owner goes to a group of its module or line and category ("layers.3.mlp · activation"). 0 or
 * -ENOMEM. */
int vt_add_to_owners(const struct vt_attribution *attribution, struct vt_stack_namer *namer,
                     uint32_t allocation, struct vt_group_table *table);

#endif
