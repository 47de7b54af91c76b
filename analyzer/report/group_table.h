/* Finds groups by a hash while they are made. */
#ifndef VT_GROUP_TABLE_H
#define VT_GROUP_TABLE_H

#include "base/hash.h"
#include "report/parts.h"

/* Over `groups`, which stay when the table is freed. */
struct vt_group_table {
    struct vt_groups *groups;
    uint64_t *hashes; /* of items */
    uint32_t *slots;  /* index + 1, 0 = free */
    size_t capacity, slot_count;
};
/* The group with this hash, made with `name` if there is none; NULL without memory. Pointers hold until the
 * next group is made. */
struct vt_group *vt_group_in(struct vt_group_table *table, uint64_t hash, const char *name);
/* By the hash of its name. */
struct vt_group *vt_group_named(struct vt_group_table *table, const char *name);
void vt_group_table_free(struct vt_group_table *table);

#endif
