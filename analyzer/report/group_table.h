/* Groups while they are made: found by a hash, or by module. */
#ifndef VT_GROUP_TABLE_H
#define VT_GROUP_TABLE_H

#include "base/index.h"
#include "report/instant.h"

struct vt_attribution;

/* Over `groups`, which stay when the index is freed. */
struct vt_group_table {
    struct vt_groups *groups;
    struct vt_index index; /* hash → item */
    size_t capacity;
};
/* The group with this hash; made with the first `bytes` of `name` if it is new. Pointers are valid until the
 * next group is made. */
struct vt_group *vt_group_in(struct vt_group_table *table, uint64_t hash, const char *name, size_t bytes);
/* By the hash of its name, the first `bytes` of `name`. */
struct vt_group *vt_group_named(struct vt_group_table *table, const char *name, size_t bytes);

/* The group of a module (NULL = outside any module) by name, cut to `depth` levels (0 = all), or by class. */
struct vt_group *vt_group_of_module(const struct vt_attribution *attribution, unsigned depth,
                                    struct vt_group_table *table, enum vt_by by, const char *module);

/* Makes groups whose `bytes` are the most that their modules had at once of temporaries, and of workspaces
 * that they gave back. */
void vt_find_temporary_peaks(const struct vt_attribution *attribution, unsigned depth, int device_index,
                             enum vt_by by, struct vt_groups *peaks);

void vt_groups_free(struct vt_groups *groups);

#endif
