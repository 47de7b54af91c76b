/* The finders of leaks, in the order in which leaks.c calls them. */
#ifndef VT_LEAK_FINDERS_H
#define VT_LEAK_FINDERS_H

#include "diagnose/leaks/finder.h"

/* cycles.c: what was freed only when the collector ran. */
void vt_leak_cycles_find(struct vt_leak_finder *finder);
/* growth.c: which classes grow by what each step keeps. */
void vt_leak_growth_find(struct vt_leak_finder *finder);
/* groups.c: puts classes that grow together into leaks, by the graph that holds them. */
void vt_leak_groups_find(struct vt_leak_finder *finder);
/* growth.c: one tensor that each step makes anew, out of itself and more. */
void vt_leak_rebuilt_find(struct vt_leak_finder *finder);
/* holders.c: which Python name holds each leak. */
void vt_leak_holders_find(struct vt_leak_finder *finder);
/* owners.c: of what has a name of its own (a parameter), the part of the model that keeps it. */
void vt_leak_owners_find(struct vt_leak_finder *finder);
/* lines.c: the lines to look at, once holders are known. */
void vt_leak_lines_find(struct vt_leak_finder *finder);
/* cache.c: growth of what the driver gave, beside that of blocks; and the forecast. */
void vt_leak_cache_find(struct vt_leak_finder *finder);

#endif
