/* Groups of modules by their names (base/module_names.h). */
#ifndef VT_MODULE_GROUPS_H
#define VT_MODULE_GROUPS_H

#include "base/module_names.h"
#include "report/group_table.h"

#define VT_MODULE_NAME_BYTES 1024u

/* The group of a module (NULL = of none) by name, cut to `depth` levels (0 = all), or by class. NULL without
 * memory. */
struct vt_group *vt_group_of_module(const struct vt_attribution *attribution, unsigned depth,
                                    struct vt_group_table *table, enum vt_by by, const char *module);

/* Makes groups whose `bytes` are the most that their modules had of temporaries, and of workspaces that they
 * gave back, at once over the trace. */
int vt_find_temporary_peaks(const struct vt_attribution *attribution, unsigned depth, int device_index,
                            enum vt_by by, struct vt_groups *peaks);

#endif
