/* Puts classes that grow together into leaks, by the graph that holds them. */
#ifndef VT_FINDINGS_LEAKS_GROUPS_H
#define VT_FINDINGS_LEAKS_GROUPS_H

struct vt_leak_finder;

void vt_leak_groups_find(struct vt_leak_finder *finder);

#endif
